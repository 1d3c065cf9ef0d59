/* SPDX-License-Identifier: MIT */
#include "lib/gpu/sim_index.h"

#include <stdlib.h>

#include "lib/gpu/sim_internal.h"

#define BLOCKS_MIN 64

/* Gaps and pending frees --------------------------------------------------------------------------------------------------------------- */

static void push(struct sim_segment **list, struct sim_segment *segment)
{
    segment->earlier = NULL;
    segment->later = *list;
    if (*list)
        (*list)->earlier = segment;
    *list = segment;
}

static void drop(struct sim_segment **list, struct sim_segment *segment)
{
    if (segment->earlier)
        segment->earlier->later = segment->later;
    else
        *list = segment->later;
    if (segment->later)
        segment->later->earlier = segment->earlier;
}

static struct sim_segment **list_of(struct sim_index *index, const struct sim_segment *segment)
{
    if (segment->state == SIM_SEGMENT_ABSENT)
        return &index->gaps;
    return segment->state == SIM_SEGMENT_FREE && !segment->observed ? &index->pending : NULL;
}

void sim_index_list(struct sim_pool *pool, struct sim_segment *segment)
{
    struct sim_segment **list = list_of(&pool->index, segment);
    if (!list)
        return;
    push(list, segment);
    pool->unobserved += list == &pool->index.pending;
}

void sim_index_unlist(struct sim_pool *pool, struct sim_segment *segment)
{
    struct sim_segment **list = list_of(&pool->index, segment);
    if (!list)
        return;
    drop(list, segment);
    pool->unobserved -= list == &pool->index.pending;
}

/* Live segments ------------------------------------------------------------------------------------------------------------------------ */

static struct sim_segment **place_of(const struct sim_index *index, uint64_t offset)
{
    uint64_t mixed = offset / SIM_ALIGNMENT * UINT64_C(0x9E3779B97F4A7C15);
    return &index->blocks[(mixed >> 32) & (index->block_room - 1)];
}

static void put_block(const struct sim_index *index, struct sim_segment *segment)
{
    struct sim_segment **place = place_of(index, segment->offset);
    segment->other = *place;
    *place = segment;
}

/* If the table cannot grow, it only becomes slower. */
bool sim_index_reserve(struct sim_pool *pool)
{
    struct sim_index *index = &pool->index;
    if (pool->blocks < index->block_room)
        return true;
    struct sim_index more = { .block_room = index->block_room ? index->block_room * 2 : BLOCKS_MIN };
    more.blocks = calloc(more.block_room, sizeof(*more.blocks));
    if (!more.blocks)
        return index->blocks;
    for (size_t i = 0; i < index->block_room; i++)
        for (struct sim_segment *segment = index->blocks[i], *other; segment; segment = other) {
            other = segment->other;
            put_block(&more, segment);
        }
    free(index->blocks);
    index->blocks = more.blocks;
    index->block_room = more.block_room;
    return true;
}

void sim_index_add_block(struct sim_pool *pool, struct sim_segment *segment)
{
    put_block(&pool->index, segment);
}

void sim_index_remove_block(struct sim_pool *pool, struct sim_segment *segment)
{
    struct sim_segment **place = place_of(&pool->index, segment->offset);
    while (*place != segment)
        place = &(*place)->other;
    *place = segment->other;
}

struct sim_segment *sim_index_block(const struct sim_pool *pool, uint64_t offset)
{
    struct sim_segment *segment = pool->index.block_room ? *place_of(&pool->index, offset) : NULL;
    while (segment && segment->offset != offset)
        segment = segment->other;
    return segment;
}

/* The tree of runs --------------------------------------------------------------------------------------------------------------------- */

/* Mixes the offset into a rank. Offsets are multiples of large numbers; ranks that followed their order would turn the tree into a list. */
static uint32_t rank_of(uint64_t offset)
{
    uint64_t mixed = offset / SIM_ALIGNMENT * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= mixed >> 32;
    return (uint32_t)((mixed * UINT64_C(0xD6E8FEB86659FD93)) >> 32);
}

static bool is_before(const struct sim_segment *run, uint64_t owner, uint64_t bytes, uint64_t offset)
{
    if (run->owner != owner)
        return run->owner < owner;
    return run->run != bytes ? run->run < bytes : run->offset < offset;
}

static void add(struct sim_index *index, struct sim_segment *added)
{
    struct sim_segment **place = &index->runs;
    added->rank = rank_of(added->offset);
    while (*place && (*place)->rank >= added->rank)
        place = is_before(*place, added->owner, added->run, added->offset) ? &(*place)->right : &(*place)->left;
    /* Split the subtree at this place into the runs before the added one and those behind it. */
    struct sim_segment *rest = *place, **before = &added->left, **behind = &added->right;
    *place = added;
    while (rest) {
        if (is_before(rest, added->owner, added->run, added->offset)) {
            *before = rest;
            before = &rest->right;
            rest = rest->right;
        } else {
            *behind = rest;
            behind = &rest->left;
            rest = rest->left;
        }
    }
    *before = *behind = NULL;
    index->owned += added->owner != 0;
}

static void take_out(struct sim_index *index, struct sim_segment *run)
{
    struct sim_segment **place = &index->runs, *left = run->left, *right = run->right;
    while (*place != run)
        place = is_before(*place, run->owner, run->run, run->offset) ? &(*place)->right : &(*place)->left;
    while (left && right) {
        bool is_left = left->rank >= right->rank;
        *place = is_left ? left : right;
        place = is_left ? &left->right : &right->left;
        if (is_left)
            left = *place;
        else
            right = *place;
    }
    *place = left ? left : right;
    index->owned -= run->owner != 0;
}

struct sim_segment *sim_run_from(const struct sim_pool *pool, uint64_t owner, uint64_t bytes, uint64_t offset)
{
    struct sim_segment *found = NULL;
    for (struct sim_segment *run = pool->index.runs; run;) {
        if (is_before(run, owner, bytes, offset)) {
            run = run->right;
        } else {
            found = run;
            run = run->left;
        }
    }
    return found;
}

/* Runs --------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t owner_of(const struct sim_pool *pool, const struct sim_segment *segment)
{
    bool opportunistic = pool->reuse[GPU_POOL_REUSE_OPPORTUNISTIC - GPU_POOL_REUSE_EVENT_DEPENDENCIES];
    return segment->observed || (opportunistic && segment->done_at <= sim.now) ? 0 : segment->freed_by;
}

static uint64_t join_owners(uint64_t a, uint64_t b)
{
    return a == b || !b ? a : !a ? b : SIM_RUN_MIXED;
}

static void put(struct sim_pool *pool, struct sim_segment *head, struct sim_segment *tail, uint64_t bytes, uint64_t owner)
{
    head->tail = tail;
    tail->head = head;
    head->run = bytes;
    head->owner = owner;
    add(&pool->index, head);
}

static struct sim_segment *first_of(struct sim_segment *segment)
{
    while (sim_segment_is_in_run(segment->prev))
        segment = segment->prev;
    return segment;
}

void sim_run_leave(struct sim_pool *pool, struct sim_segment *segment)
{
    if (sim_segment_is_in_run(segment))
        take_out(&pool->index, first_of(segment));
}

void sim_run_enter(struct sim_pool *pool, struct sim_segment *segment)
{
    if (!sim_segment_is_in_run(segment))
        return;
    struct sim_segment *head = first_of(segment), *tail = head;
    uint64_t owner = owner_of(pool, head), bytes = head->size;
    for (; sim_segment_is_in_run(tail->next); tail = tail->next) {
        bytes += tail->next->size;
        owner = join_owners(owner, owner_of(pool, tail->next));
    }
    put(pool, head, tail, bytes, owner);
}

void sim_run_join(struct sim_pool *pool, struct sim_segment *segment)
{
    struct sim_segment *before = sim_segment_is_in_run(segment->prev) ? segment->prev->head : NULL;
    struct sim_segment *behind = sim_segment_is_in_run(segment->next) ? segment->next : NULL;
    struct sim_segment *head = segment, *tail = segment;
    uint64_t bytes = segment->size, owner = owner_of(pool, segment);
    if (before) {
        take_out(&pool->index, before);
        head = before;
        bytes += before->run;
        owner = join_owners(owner, before->owner);
    }
    if (behind) {
        take_out(&pool->index, behind);
        tail = behind->tail;
        bytes += behind->run;
        owner = join_owners(owner, behind->owner);
    }
    segment = sim_segment_merge(pool, segment);
    put(pool, head, sim_segment_is_in_run(segment->next) ? tail : segment, bytes, owner);
}

bool sim_run_cut(struct sim_pool *pool, struct sim_segment *head, struct sim_segment *segment, uint64_t size)
{
    struct sim_segment *last = segment, *tail = head->tail;
    uint64_t left = segment->offset - head->offset, bytes = segment->size;
    for (; bytes < size; bytes += last->size)
        last = last->next;
    if (bytes > size) {
        if (!sim_segment_split(pool, last, last->size - (bytes - size)))
            return false;
        tail = last == tail ? last->next : tail;
    }
    take_out(&pool->index, head);
    uint64_t right = head->run - left - size, owner = head->owner;
    if (left)
        put(pool, head, segment->prev, left, owner);
    if (right)
        put(pool, last->next, tail, right, owner);
    return true;
}

void sim_runs_reconsider(struct sim_pool *pool)
{
    pool->index.runs = NULL;
    pool->index.owned = 0;
    for (struct sim_segment *segment = pool->segments; segment; segment = segment->next)
        if (sim_segment_is_in_run(segment) && !sim_segment_is_in_run(segment->prev))
            sim_run_enter(pool, segment);
}

/* Finding ------------------------------------------------------------------------------------------------------------------------------ */

struct fit {
    struct sim_segment *head, *begin;
    uint64_t bytes;
};

static void consider(struct fit *best, struct sim_segment *head, struct sim_segment *begin, uint64_t bytes)
{
    bool is_better = !best->begin || bytes < best->bytes || (bytes == best->bytes && begin && begin->offset < best->begin->offset);
    if (begin && is_better)
        *best = (struct fit){ head, begin, bytes };
}

/* Looks for rows of at least `size` bytes within a run that the stream may use only in part, and updates the run's owner. */
static void look_into(struct sim_pool *pool, struct sim_segment *head, uint64_t size, const struct sim_stream *stream, sim_fits_fn fits,
                      struct fit *best)
{
    struct sim_segment *begin = NULL;
    uint64_t bytes = 0, owner = 0;
    for (struct sim_segment *segment = head; sim_segment_is_in_run(segment); segment = segment->next) {
        owner = join_owners(owner, owner_of(pool, segment));
        if (fits(pool, segment, stream)) {
            begin = bytes ? begin : segment;
            bytes += segment->size;
            continue;
        }
        if (bytes >= size)
            consider(best, head, begin, bytes);
        bytes = 0;
    }
    if (bytes >= size)
        consider(best, head, begin, bytes);
    if (owner != head->owner) {
        take_out(&pool->index, head);
        put(pool, head, head->tail, head->run, owner);
    }
}

struct sim_segment *sim_index_best_fit(struct sim_pool *pool, uint64_t size, const struct sim_stream *stream, sim_fits_fn fits,
                                       struct sim_segment **head)
{
    struct fit best = { .bytes = UINT64_MAX };
    struct sim_segment *run = sim_run_from(pool, 0, size, 0);
    if (run && !run->owner)
        consider(&best, run, run, run->run);
    /* Then the runs with an owner, one owner after the other. look_into() may move a run to a lower owner, which has been searched
       already. */
    uint64_t owner = 0;
    while (pool->index.owned && owner != SIM_RUN_MIXED && (run = sim_run_from(pool, owner + 1, 0, 0))) {
        owner = run->owner;
        run = sim_run_from(pool, owner, size, 0);
        if (owner == stream->id && run && run->owner == owner)
            consider(&best, run, run, run->run);
        while (owner != stream->id && run && run->owner == owner) {
            uint64_t bytes = run->run, offset = run->offset;
            look_into(pool, run, size, stream, fits, &best);
            run = sim_run_from(pool, owner, bytes, offset + 1);
        }
    }
    *head = best.head;
    return best.begin;
}

/* Observing ---------------------------------------------------------------------------------------------------------------------------- */

void sim_index_observe(struct sim_pool *pool, struct sim_segment *segment)
{
    sim_index_unlist(pool, segment);
    segment->observed = segment->is_fresh = true;
    push(&pool->index.fresh, segment);
}

static void make_known(struct sim_pool *pool, struct sim_segment *segment)
{
    if (segment->is_fresh)
        drop(&pool->index.fresh, segment);
    segment->is_fresh = false;
}

/* Merges neighbours in a run that are both observed, one of them just now. The run is not in the index. */
static void merge_observed(struct sim_pool *pool, struct sim_segment *head)
{
    for (struct sim_segment *segment = head; sim_segment_is_in_run(segment); segment = segment->next) {
        make_known(pool, segment);
        while (segment->observed && sim_segment_is_in_run(segment->next) && segment->next->observed &&
               segment->exported == segment->next->exported) {
            make_known(pool, segment->next);
            sim_segment_absorb(pool, segment);
        }
    }
}

void sim_index_settle(struct sim_pool *pool)
{
    while (pool->index.fresh) {
        struct sim_segment *head = first_of(pool->index.fresh);
        take_out(&pool->index, head);
        merge_observed(pool, head);
        sim_run_enter(pool, head);
    }
}

void sim_index_clear(struct sim_index *index)
{
    free(index->blocks);
    *index = (struct sim_index){ 0 };
}

/* Validity ----------------------------------------------------------------------------------------------------------------------------- */

static bool has(const struct sim_segment *list, const struct sim_segment *segment)
{
    while (list && list != segment)
        list = list->later;
    return list;
}

static size_t count(const struct sim_segment *list)
{
    size_t number = 0;
    for (; list; list = list->later)
        number++;
    return number;
}

static bool is_ordered(const struct sim_segment *run, size_t *runs, size_t *owned)
{
    if (!run)
        return true;
    const struct sim_segment *left = run->left, *right = run->right;
    *runs += 1;
    *owned += run->owner != 0;
    return (!left || (left->rank <= run->rank && is_before(left, run->owner, run->run, run->offset))) &&
           (!right || (right->rank <= run->rank && is_before(run, right->owner, right->run, right->offset))) &&
           is_ordered(left, runs, owned) && is_ordered(right, runs, owned);
}

/* Returns whether the run that begins here is in the tree, with the right length, end and owner. */
static bool is_run_valid(const struct sim_pool *pool, const struct sim_segment *head)
{
    const struct sim_segment *tail = head;
    uint64_t bytes = 0, owner = 0;
    for (const struct sim_segment *segment = head; sim_segment_is_in_run(segment); tail = segment, segment = segment->next) {
        bytes += segment->size;
        owner = join_owners(owner, owner_of(pool, segment));
    }
    return sim_run_from(pool, head->owner, head->run, head->offset) == head && head->run == bytes && head->tail == tail &&
           tail->head == head && join_owners(head->owner, owner) == head->owner;
}

bool sim_index_is_valid(const struct sim_pool *pool)
{
    const struct sim_index *index = &pool->index;
    size_t runs = 0, owned = 0, gaps = 0, pending = 0, listed = 0;
    uint64_t offset = 0;
    for (const struct sim_segment *segment = pool->segments; segment; offset += segment->size, segment = segment->next) {
        bool is_gap = segment->state == SIM_SEGMENT_ABSENT, is_pending = segment->state == SIM_SEGMENT_FREE && !segment->observed;
        gaps += is_gap;
        pending += is_pending;
        if (segment->offset != offset || !segment->size || (segment->next && segment->next->prev != segment))
            return false;
        if ((is_gap && !has(index->gaps, segment)) || (is_pending && !has(index->pending, segment)))
            return false;
        if ((sim_index_block(pool, segment->offset) == segment) != (segment->state == SIM_SEGMENT_LIVE))
            return false;
        if (!sim_segment_is_in_run(segment) || sim_segment_is_in_run(segment->prev))
            continue;
        runs++;
        if (!is_run_valid(pool, segment))
            return false;
    }
    return offset == pool->span && gaps == count(index->gaps) && pending == count(index->pending) && pending == pool->unobserved &&
           !index->fresh && is_ordered(index->runs, &listed, &owned) && listed == runs && owned == index->owned;
}
