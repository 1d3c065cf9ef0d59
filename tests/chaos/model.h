/* SPDX-License-Identifier: MIT */
/*
 * model.h - what is live, when, and whether a refusal was right.
 *
 * Every call takes a number before it begins and one after it ended, from one counter. A block counts as live from the number before the
 * call that got it to the number after the one that freed it, or, where its stream had work left, for as long as no recovery could have waited
 * for that. So the model has never less than what was live. A refusal is right if at some instant of its call what was live and the
 * request together were above the cap of the pool, or above the memory of the device. What it calls wrong is wrong for certain.
 *
 * A small block that was freed on a stream which nobody opened keeps its place until the caller says that recovery must know of it.
 *
 * Where all sizes are whole steps of a pool's growth (32 MiB; `is_whole`), blocks lie on whole steps, and the bounds are exact. Else a
 * block can keep one step more than its size from being used, which each is taken to do. In an arena it can keep the rest of the pages that
 * it begins and ends on.
 *
 * Lies in memory that processes share. Any thread and process may record at any time; judging wants all of them to be quiet.
 */
#ifndef WEIR_TESTS_CHAOS_MODEL_H
#define WEIR_TESTS_CHAOS_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_STEP (UINT64_C(32) << 20)
#define MODEL_PAGE (UINT64_C(64) << 20) /* the largest of an arena */
#define MODEL_POOLS_MAX 16
#define MODEL_BLOCKS_MAX 65536
#define MODEL_REFUSALS_MAX 16384
#define MODEL_VEILS_MAX 4096

struct model_pool {
    uint64_t cap; /* 0: none */
    int device;
    bool is_arena;
    uint64_t peak; /* the most that can have been live at any time so far */
    uint64_t refusals;
};

struct model_block {
    uint64_t begin;
    atomic_uint_fast64_t end; /* UINT64_MAX: it is live */
    uint64_t size;
    const void *stream; /* that it was freed on; NULL: none that can be busy for long */
    atomic_uint_fast64_t due; /* when that stream had nothing more to do, as far as is known, by the clock of the refusals */
    atomic_uint_fast64_t unseen; /* 0: it was seen to be free as it was; UINT64_MAX: it is not; else the number at which it was seen */
    size_t pool;
};

struct model_refusal {
    uint64_t begin, end;
    uint64_t size;
    uint64_t patience; /* memory that comes free by then could have been waited for */
    size_t pool;
    uint64_t undone; /* bytes on the device that went back since they were above a cap, and were not there at the begin or the end */
    uint64_t out_of_reach; /* bytes on the device that the pool cannot get, though nobody uses them */
    bool is_doubtful; /* it cannot be judged */
    char report[900];
};

/* From one number to another one nothing is judged. */
struct model_veil {
    uint64_t begin;
    atomic_uint_fast64_t end;
};

struct model {
    uint64_t memory; /* of each device */
    bool is_whole;
    size_t pool_count;
    struct model_pool pools[MODEL_POOLS_MAX];
    atomic_uint_fast64_t clock;
    atomic_size_t block_count, refusal_count, veil_count;
    struct model_block blocks[MODEL_BLOCKS_MAX];
    struct model_refusal refusals[MODEL_REFUSALS_MAX];
    struct model_veil veils[MODEL_VEILS_MAX];
};

/* A model that children share, empty. NULL: no memory. */
struct model *model_make(void);
void model_destroy(struct model *model);

static inline uint64_t model_tick(struct model *model)
{
    return atomic_fetch_add(&model->clock, 1) + 1;
}

/* Whether a program had better record no more for now: what does not fit ends it. */
static inline bool model_is_nearly_full(struct model *model)
{
    return atomic_load(&model->block_count) > MODEL_BLOCKS_MAX - 1024 || atomic_load(&model->refusal_count) > MODEL_REFUSALS_MAX - 1024;
}

/* The number of a block that was got in the call which took the number `begin` first. */
size_t model_served(struct model *model, uint64_t begin, size_t pool, uint64_t size);
/* Memory that was freed on a stream is seen to be free once the stream has nothing more to do, since an event can only be recorded behind all
   of it: due() says when that is. Asked for all such streams at each refusal. */
void model_freed(struct model *model, size_t block, const void *stream);
/* Recovery need not see that it is free before model_see(). */
void model_freed_unseen(struct model *model, size_t block, const void *stream);
void model_see(struct model *model, size_t block);
typedef uint64_t (*model_due_fn)(const void *stream);
void model_refused(struct model *model, const struct model_refusal *refusal, model_due_fn due);
/* Nothing is judged from now on until the veil is lifted. */
size_t model_veil(struct model *model);
void model_unveil(struct model *model, size_t veil);

/* What is live in the pool while nobody calls. */
uint64_t model_live(const struct model *model, size_t pool, uint64_t *blocks);

/* How many refusals were right and how many were not judged; the first wrong one, or NULL. */
struct model_verdict {
    uint64_t right, doubtful;
    const struct model_refusal *wrong;
    uint64_t most_in_pool, most_on_device; /* that were live during the wrong one */
};
struct model_verdict model_judge(struct model *model);

/* Forgets all that has ended, after the judgement. Numbers of live blocks change: *renumbered[old] is the new one. Brings peaks up to date. */
void model_forget(struct model *model, size_t *renumbered);

#endif
