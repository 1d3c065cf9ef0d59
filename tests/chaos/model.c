/* SPDX-License-Identifier: MIT */
#include "tests/chaos/model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LIVE UINT64_MAX

struct model *model_make(void)
{
    void *memory = mmap(NULL, sizeof(struct model), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void model_destroy(struct model *model)
{
    munmap(model, sizeof *model);
}

/* Recording ------------------------------------------------------------------------------------------------------------------------------- */

size_t model_served(struct model *model, uint64_t begin, size_t pool, uint64_t size)
{
    size_t at = atomic_fetch_add(&model->block_count, 1);
    if (at >= MODEL_BLOCKS_MAX)
        abort();
    model->blocks[at] = (struct model_block){ .begin = begin, .end = LIVE, .size = size, .pool = pool };
    return at;
}

void model_freed(struct model *model, size_t block, const void *stream)
{
    model->blocks[block].stream = stream;
    atomic_store(&model->blocks[block].end, model_tick(model));
}

void model_freed_unseen(struct model *model, size_t block, const void *stream)
{
    atomic_store(&model->blocks[block].unseen, LIVE);
    model_freed(model, block, stream);
}

void model_see(struct model *model, size_t block)
{
    atomic_store(&model->blocks[block].unseen, model_tick(model));
}

static void look_at_streams(struct model *model, model_due_fn due)
{
    for (size_t i = 0; i < atomic_load(&model->block_count); i++) {
        struct model_block *block = &model->blocks[i];
        uint64_t time = atomic_load(&block->end) != LIVE && block->stream ? due(block->stream) : 0;
        if (atomic_load(&block->due) < time)
            atomic_store(&block->due, time);
    }
}

void model_refused(struct model *model, const struct model_refusal *refusal, model_due_fn due)
{
    if (due)
        look_at_streams(model, due);
    size_t at = atomic_fetch_add(&model->refusal_count, 1);
    if (at >= MODEL_REFUSALS_MAX)
        abort();
    model->refusals[at] = *refusal;
}

size_t model_veil(struct model *model)
{
    size_t at = atomic_fetch_add(&model->veil_count, 1);
    if (at >= MODEL_VEILS_MAX)
        abort();
    model->veils[at] = (struct model_veil){ .begin = model_tick(model), .end = LIVE };
    return at;
}

void model_unveil(struct model *model, size_t veil)
{
    atomic_store(&model->veils[veil].end, model_tick(model));
}

uint64_t model_live(const struct model *model, size_t pool, uint64_t *blocks)
{
    uint64_t bytes = 0;
    *blocks = 0;
    for (size_t i = 0; i < atomic_load(&model->block_count); i++) {
        bool counts = model->blocks[i].pool == pool && atomic_load(&model->blocks[i].end) == LIVE;
        bytes += counts ? model->blocks[i].size : 0;
        *blocks += counts;
    }
    return bytes;
}

/* The most at any instant ---------------------------------------------------------------------------------------------------------------- */

/* At this number so many bytes come, or go. */
struct change {
    uint64_t at;
    int64_t bytes;
};

/* What comes at a number counts before what goes at it. */
static int compare(const void *a, const void *b)
{
    const struct change *first = a, *second = b;
    if (first->at != second->at)
        return first->at < second->at ? -1 : 1;
    return (first->bytes < second->bytes) - (first->bytes > second->bytes);
}

static uint64_t in_whole_steps(uint64_t size)
{
    return (size + MODEL_STEP - 1) / MODEL_STEP * MODEL_STEP;
}

/* What a block keeps from being used by others. */
static uint64_t weight(const struct model *model, size_t pool, uint64_t size)
{
    if (model->pools[pool].is_arena)
        return size + 2 * MODEL_PAGE;
    return model->is_whole ? size : in_whole_steps(size) + MODEL_STEP;
}

/* Which blocks, and when. */
struct question {
    uint64_t begin, end;
    uint64_t patience; /* what comes free later than this was not there in time */
    size_t pool;       /* of this one, */
    int device;        /* or, unless it is -1, of all on this device */
    bool by_weight;
};

static bool is_asked_for(const struct model *model, const struct question *question, const struct model_block *block)
{
    if (question->device >= 0)
        return model->pools[block->pool].device == question->device;
    return block->pool == question->pool;
}

/* The number from which the block counts no more. */
static uint64_t end_of(const struct question *question, const struct model_block *block)
{
    uint64_t end = atomic_load(&block->end), unseen = atomic_load(&block->unseen);
    if (atomic_load(&block->due) > question->patience)
        return LIVE;
    return question->by_weight && unseen > end ? unseen : end;
}

static uint64_t most(const struct model *model, const struct question *question)
{
    size_t all = atomic_load(&model->block_count), count = 0;
    struct change *changes = calloc(2 * all + 1, sizeof *changes);
    for (size_t i = 0; i < all && changes; i++) {
        const struct model_block *block = &model->blocks[i];
        uint64_t end = end_of(question, block);
        if (!block->begin || !is_asked_for(model, question, block) || block->begin > question->end || end < question->begin)
            continue;
        uint64_t bytes = question->by_weight ? weight(model, block->pool, block->size) : block->size;
        changes[count++] = (struct change){ .at = block->begin, .bytes = (int64_t)bytes };
        if (end <= question->end)
            changes[count++] = (struct change){ .at = end, .bytes = -(int64_t)bytes };
    }
    if (!changes)
        abort();
    qsort(changes, count, sizeof *changes, compare);
    /* Nothing of this has ended before the question's begin: there is no more at any time before it than at it. */
    int64_t sum = 0, highest = 0;
    for (size_t i = 0; i < count; i++) {
        sum += changes[i].bytes;
        if (sum > highest)
            highest = sum;
    }
    free(changes);
    return (uint64_t)highest;
}

/* Judging -------------------------------------------------------------------------------------------------------------------------------- */

static bool is_veiled(const struct model *model, const struct model_refusal *refusal)
{
    for (size_t i = 0; i < atomic_load(&model->veil_count); i++)
        if (model->veils[i].begin <= refusal->end && atomic_load(&model->veils[i].end) >= refusal->begin)
            return true;
    return false;
}

static bool is_right(const struct model *model, const struct model_refusal *refusal, struct model_verdict *verdict)
{
    const struct model_pool *pool = &model->pools[refusal->pool];
    uint64_t need = model->is_whole ? refusal->size : in_whole_steps(refusal->size);
    struct question question = { refusal->begin, refusal->end, refusal->patience, refusal->pool, -1, true };
    verdict->most_in_pool = most(model, &question);
    question.device = pool->device;
    verdict->most_on_device = most(model, &question);
    return (pool->cap && verdict->most_in_pool + need > pool->cap) ||
           verdict->most_on_device + refusal->undone + refusal->out_of_reach + need > model->memory;
}

struct model_verdict model_judge(struct model *model)
{
    struct model_verdict verdict = { 0 };
    for (size_t i = 0; i < atomic_load(&model->refusal_count) && !verdict.wrong; i++) {
        const struct model_refusal *refusal = &model->refusals[i];
        model->pools[refusal->pool].refusals++;
        if (refusal->is_doubtful || is_veiled(model, refusal))
            verdict.doubtful++;
        else if (is_right(model, refusal, &verdict))
            verdict.right++;
        else
            verdict.wrong = refusal;
    }
    return verdict;
}

static void raise_peaks(struct model *model)
{
    for (size_t pool = 0; pool < model->pool_count; pool++) {
        uint64_t peak = most(model, &(struct question){ .end = LIVE - 1, .patience = LIVE, .pool = pool, .device = -1 });
        if (model->pools[pool].peak < peak)
            model->pools[pool].peak = peak;
    }
}

void model_forget(struct model *model, size_t *renumbered)
{
    size_t count = 0, all = atomic_load(&model->block_count);
    raise_peaks(model);
    for (size_t i = 0; i < all; i++) {
        struct model_block *block = &model->blocks[i];
        if (atomic_load(&block->end) != LIVE)
            continue;
        renumbered[i] = count;
        struct model_block *place = &model->blocks[count++];
        *place = (struct model_block){ .begin = block->begin, .end = LIVE, .size = block->size, .pool = block->pool };
    }
    for (size_t i = count; i < all; i++)
        model->blocks[i] = (struct model_block){ 0 };
    atomic_store(&model->block_count, count);
    atomic_store(&model->refusal_count, 0);
    atomic_store(&model->veil_count, 0);
}
