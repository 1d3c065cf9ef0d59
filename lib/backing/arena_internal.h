/* SPDX-License-Identifier: MIT */
/*
 * arena_internal.h - what the files of an arena know of it and of each other.
 *
 * Two locks, and the GPU is waited for under none of them: `growing`, of the thread that maps or unmaps; `lock`, a spin lock that guards
 * extents, a leaf below `growing` and below the lock of a debt. The driver's calls on pages are made without `lock`.
 */
#ifndef WEIR_LIB_BACKING_ARENA_INTERNAL_H
#define WEIR_LIB_BACKING_ARENA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/backing/arena.h"
#include "lib/backing/arena/arena.h"
#include "lib/base/spin.h"

#define WEIR__MAPPED_PATIENCE (UINT64_C(1000) * 1000) /* nanoseconds that idle streams may take to come to their last frees */

/* What the driver is doing to one page, call by call, so that the recorder has it as one event. */
struct weir__mapped_turn {
    uint64_t begun;   /* gpu->now() */
    uint64_t created; /* bytes of a page that was made and is not mapped yet; 0: there is none */
};

/* A page that the driver did not take back when it was released. */
struct weir__mapped_left {
    struct weir__mapped_left *next;
    gpu_page handle;
    uint64_t bytes;
    bool was_mapped; /* and is so for the recorder */
};

struct weir__mapped {
    struct weir__backing backing;
    struct weir__backing *captures; /* CUDA's pool beside it, until the arena is closed */
    void *range;                    /* fixed, as the next */
    uint64_t range_bytes;
    _Atomic uint64_t max_size; /* bytes that may be mapped; 0: no bound. Written under the pool's lock, as the next */
    atomic_bool waits;         /* a stream may be made to wait for another one's free */

    pthread_mutex_t growing;
    int devices[GPU_PAGE_DEVICES_MAX]; /* that have access: its own first. Guarded by growing, like the next four */
    size_t device_count;
    struct weir__recorder *recorder; /* of its weir, until that is closed */
    unsigned record;                 /* its pool's number there */
    struct weir__mapped_turn turn;
    struct weir__mapped_left *left; /* each is released again at the next trim, and before the arena ends */

    weir__spin lock; /* guards the rest */
    struct weir__arena arena;
    uint64_t mapped_high;
    uint64_t left_bytes; /* of the pages in `left`; the figures have them as mapped and in use by nobody */
    struct weir__mapped *next_listed; /* of the list of open arenas, or of closed ones; guarded by the lock of arena.c */
};

static inline struct weir__mapped *weir__mapped_of(struct weir__backing *backing)
{
    return (struct weir__mapped *)backing;
}

/* The whole (arena.c) ------------------------------------------------------------------------------------------------------------------ */

/* All that is pending in it. */
static inline struct weir__scope weir__mapped_scope(const struct weir__mapped *mapped)
{
    return (struct weir__scope){.fences = mapped->backing.debts.fences, .debts = &mapped->backing.debts};
}

/* The extents of a debt, or NULL. */
static inline struct weir__arena_stream *weir__mapped_freed(struct weir__debt *debt)
{
    return debt ? (struct weir__arena_stream *)debt->room : NULL;
}

/* The arena's debt on the line of the user's stream, or NULL where host memory lacks. */
static inline struct weir__debt *weir__mapped_debt(struct weir__mapped *mapped, const struct weir__user *user)
{
    return user->debt || !user->line ? user->debt : weir__debt_of(&mapped->backing.debts, user->line);
}

/* Unmaps what is complete and idle until `keep` bytes are mapped. patience: nanoseconds that idle streams may take to come to their last
   frees. Returns the bytes. Call it in relaxed capture mode. */
uint64_t weir__mapped_trim(struct weir__mapped *mapped, uint64_t keep, uint64_t patience);

/* mapped: with what the driver did not take back. */
struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped);

/* Bytes of all pages, and of those that the driver did not take back. Called with mapped->lock. */
static inline uint64_t weir__mapped_bytes(const struct weir__mapped *mapped)
{
    return mapped->arena.small.mapped_bytes + mapped->arena.large.mapped_bytes + mapped->left_bytes;
}

/* Requests and pages (arena_serve.c) --------------------------------------------------------------------------------------------------- */

/* As of the table. */
int weir__mapped_serve(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block);
int weir__mapped_extend(struct weir__backing *backing, uint64_t bytes);
int weir__mapped_give(struct weir__backing *backing, void *block, struct weir__extent *extent, struct weir__user *user);

/* Of its debts. */
extern const struct weir__tracker weir__mapped_tracker __attribute__((visibility("hidden")));

/* Called with mapped->growing, and but for the second with mapped->lock, which is let go of during the driver's calls. */
extern const struct weir__page_driver weir__mapped_pages __attribute__((visibility("hidden")));

/* Releases again what the driver did not take back. */
void weir__mapped_release_left(struct weir__mapped *mapped);

#endif
