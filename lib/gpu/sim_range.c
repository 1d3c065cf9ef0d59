/* SPDX-License-Identifier: MIT */
/* sim_range.c - the address range of one pool: its division into segments, which of them have memory, and how the pool grows and shrinks in
   steps. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/sim_machine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Segments ----------------------------------------------------------------------------------------------------------------------------- */

bool sim_segment_split(struct sim_pool *pool, struct sim_segment *segment, uint64_t size)
{
    struct sim_segment *rest = malloc(sizeof(*rest));
    if (!rest)
        return false;
    *rest = *segment;
    rest->offset += size;
    rest->size -= size;
    rest->prev = segment;
    if (rest->next)
        rest->next->prev = rest;
    segment->next = rest;
    segment->size = size;
    sim_index_list(pool, rest);
    return true;
}

void sim_segment_absorb(struct sim_pool *pool, struct sim_segment *segment)
{
    struct sim_segment *next = segment->next;
    sim_index_unlist(pool, next);
    segment->size += next->size;
    segment->next = next->next;
    if (next->next)
        next->next->prev = segment;
    free(next);
}

/* Returns whether two neighbours can become one segment with no visible difference. */
static bool is_alike(const struct sim_segment *a, const struct sim_segment *b)
{
    if (a->state != b->state || a->state == SIM_SEGMENT_LIVE || a->exported != b->exported || a->hidden != b->hidden)
        return false;
    if (a->state == SIM_SEGMENT_ABSENT || (a->observed && b->observed))
        return true;
    if (a->observed || b->observed || a->freed_by != b->freed_by)
        return false;
    return a->done_at == b->done_at || (a->done_at <= sim.now && b->done_at <= sim.now);
}

static void merge_next(struct sim_pool *pool, struct sim_segment *segment)
{
    struct sim_segment *next = segment->next;
    if (segment->state == SIM_SEGMENT_FREE && !segment->observed) {
        if (segment->sequence < next->sequence)
            segment->sequence = next->sequence;
        if (segment->done_at < next->done_at)
            segment->done_at = next->done_at;
    }
    sim_segment_absorb(pool, segment);
}

struct sim_segment *sim_segment_merge(struct sim_pool *pool, struct sim_segment *segment)
{
    while (segment->next && is_alike(segment, segment->next))
        merge_next(pool, segment);
    while (segment->prev && is_alike(segment->prev, segment)) {
        segment = segment->prev;
        merge_next(pool, segment);
    }
    return segment;
}

/* The address range -------------------------------------------------------------------------------------------------------------------- */

/* Makes a part of the range accessible. The rest stays inaccessible, so that a stray access of the host is caught, and leak checkers do not
   read gigabytes of holes. Pages of host memory come into being when touched, and go when the range becomes inaccessible. */
static bool map(const struct sim_pool *pool, uint64_t begin, uint64_t size)
{
    int flags = MAP_FIXED | MAP_NORESERVE | (pool->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    return mmap(pool->base + begin, size, PROT_READ | PROT_WRITE, flags, pool->fd, pool->fd < 0 ? 0 : (off_t)begin) != MAP_FAILED;
}

static int open_range(struct sim_pool *pool, uint64_t span)
{
    struct sim_segment *segment = calloc(1, sizeof(*segment));
    void *base = segment ? sim_map_nothing(NULL, span) : NULL;
    if (!base) {
        free(segment);
        return GPU_OUT_OF_MEMORY;
    }
    segment->size = span;
    pool->segments = segment;
    sim_index_list(pool, segment);
    pool->base = base;
    pool->span = span;
    return 0;
}

int sim_memory_open(struct sim_pool *pool, uint64_t span, bool exportable)
{
    int fd = exportable ? memfd_create("weir-sim-pool", MFD_CLOEXEC) : -1;
    int code = exportable && (fd < 0 || ftruncate(fd, (off_t)span)) ? GPU_OUT_OF_MEMORY : open_range(pool, span);
    if (code && fd >= 0)
        close(fd);
    pool->fd = code ? -1 : fd;
    /* Another process maps a block in units of pages. */
    pool->alignment = exportable ? (uint64_t)sysconf(_SC_PAGESIZE) : SIM_ALIGNMENT;
    return code;
}

int sim_memory_open_imported(struct sim_pool *pool, uint64_t span, int fd)
{
    int code = open_range(pool, span);
    if (!code)
        pool->fd = fd;
    pool->alignment = (uint64_t)sysconf(_SC_PAGESIZE);
    return code;
}

static bool is_on_device(const struct sim_pool *pool)
{
    return pool->location == GPU_LOCATION_DEVICE && !pool->imported;
}

static void set_reserved(struct sim_pool *pool, uint64_t bytes)
{
    pool->reserved = bytes;
    sim_note_change();
    if (pool->reserved_high < bytes)
        pool->reserved_high = bytes;
}

bool sim_range_take(struct sim_pool *pool, uint64_t bytes)
{
    if (!sim_ledger_charge(pool, pool->held + bytes))
        return false;
    pool->held += bytes;
    set_reserved(pool, pool->reserved + bytes);
    return true;
}

static void give_memory(struct sim_pool *pool, uint64_t bytes)
{
    sim_ledger_charge(pool, pool->held - bytes);
    pool->held -= bytes;
    set_reserved(pool, pool->reserved - bytes);
}

/* If other processes share the pool, sim_pool_leave() gives its memory back instead. */
void sim_memory_close(struct sim_pool *pool)
{
    if (pool->shared < 0)
        sim_ledger_charge(pool, 0);
    while (pool->segments) {
        struct sim_segment *segment = pool->segments;
        pool->segments = segment->next;
        free(segment);
    }
    sim_index_clear(&pool->index);
    sim_waits_clear(&pool->freed);
    munmap(pool->base, pool->span);
    if (pool->fd >= 0)
        close(pool->fd);
}

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

/* Finds the part of a free segment that can go back to the device: whole steps; and at the edge of the pool's memory also a part of a step,
   left by a growth that had no room for a whole one. In an imported pool it is the whole segment, which is one mapping. */
static void releasable(const struct sim_pool *pool, const struct sim_segment *segment, uint64_t *begin, uint64_t *end)
{
    bool first = pool->imported || !segment->prev || segment->prev->state == SIM_SEGMENT_ABSENT;
    bool last = pool->imported || !segment->next || segment->next->state == SIM_SEGMENT_ABSENT;
    *begin = first ? segment->offset : sim_round_up(segment->offset, SIM_STEP);
    *end = segment->offset + segment->size;
    if (!last)
        *end = sim_round_down(*end, SIM_STEP);
}

/* Turns [begin, end) of a free segment into absent memory, and adds its bytes to *taken, for which the caller accounts. Does nothing if
   host memory runs out. Returns the segment, or the one that it has become part of. */
static struct sim_segment *make_absent(struct sim_pool *pool, struct sim_segment *segment, uint64_t begin, uint64_t end, uint64_t *taken)
{
    sim_run_leave(pool, segment);
    bool is_cut = begin == segment->offset || sim_segment_split(pool, segment, begin - segment->offset);
    segment = is_cut && begin > segment->offset ? segment->next : segment;
    if (!is_cut || (end < segment->offset + segment->size && !sim_segment_split(pool, segment, end - begin))) {
        segment = sim_segment_merge(pool, segment);
        sim_run_enter(pool, segment);
        return segment;
    }
    segment->state = SIM_SEGMENT_ABSENT;
    sim_index_list(pool, segment);
    *taken += end - begin;
    if (pool->fd >= 0 && !pool->imported)
        fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin, (off_t)(end - begin));
    sim_map_nothing(pool->base + begin, end - begin);
    /* Enter the runs on both sides now: the merge below may reach segments whose runs are still in the index. */
    sim_run_enter(pool, segment->prev);
    sim_run_enter(pool, segment->next);
    return sim_segment_merge(pool, segment);
}

/* Hides an exported free segment. As measured: the pool's reserved bytes fall, but the device gets nothing, and the pool does not use the
   memory again. */
static struct sim_segment *hide(struct sim_pool *pool, struct sim_segment *segment, uint64_t *bytes)
{
    if (segment->hidden)
        return segment;
    sim_run_leave(pool, segment);
    segment->hidden = true;
    *bytes += segment->size;
    set_reserved(pool, pool->reserved - segment->size);
    /* Enter the runs on both sides now: the merge below may reach segments whose runs are still in the index. */
    sim_run_enter(pool, segment->prev);
    sim_run_enter(pool, segment->next);
    return sim_segment_merge(pool, segment);
}

/* Finds the part [begin, end) of the segment that can go back. A part of more than `want` bytes is cut to at most `want`, so that it begins
   at a multiple of `unit`. Returns false if there is no such part. */
static bool can_release(const struct sim_pool *pool, const struct sim_segment *segment, uint64_t want, uint64_t unit, uint64_t *begin,
                        uint64_t *end)
{
    if (segment->state != SIM_SEGMENT_FREE || !segment->observed)
        return false;
    releasable(pool, segment, begin, end);
    if (*end > *begin && *end - *begin > want)
        *begin = sim_round_up(*end - want, unit);
    return *end > *begin;
}

/* Releases at most want - *released bytes of the segment, and adds them to *released. Returns the segment, or the one that it has become
   part of. */
static struct sim_segment *release_from(struct sim_pool *pool, struct sim_segment *segment, uint64_t want, uint64_t *released)
{
    uint64_t begin, end, taken = 0;
    if (segment->state == SIM_SEGMENT_FREE && segment->observed && segment->exported)
        return hide(pool, segment, released);
    if (!can_release(pool, segment, want - *released, SIM_STEP, &begin, &end))
        return segment;
    segment = make_absent(pool, segment, begin, end, &taken);
    give_memory(pool, taken);
    *released += taken;
    return segment;
}

/* Returns the first run of at least one step that is not before these three values in the order of the index, or NULL. */
static struct sim_segment *large_run(const struct sim_pool *pool, uint64_t owner, uint64_t bytes, uint64_t offset)
{
    struct sim_segment *run = sim_run_from(pool, owner, bytes, offset);
    while (run && run->run < SIM_STEP)
        run = sim_run_from(pool, run->owner, SIM_STEP, 0);
    return run;
}

/* Returns whether a walk over all segments could release anything: a segment with a whole step, or one beside a gap or at the end of the
   range. */
static bool may_release(const struct sim_pool *pool)
{
    uint64_t begin, end;
    bool has_end = false;
    if (pool->exported || pool->imported)
        return true;
    for (const struct sim_segment *gap = pool->index.gaps; gap; gap = gap->later) {
        has_end = has_end || !gap->next;
        if ((gap->prev && can_release(pool, gap->prev, UINT64_MAX, SIM_STEP, &begin, &end)) ||
            (gap->next && can_release(pool, gap->next, UINT64_MAX, SIM_STEP, &begin, &end)))
            return true;
    }
    for (const struct sim_segment *run = large_run(pool, 0, SIM_STEP, 0); run;
         run = large_run(pool, run->owner, run->run, run->offset + 1))
        for (const struct sim_segment *segment = run; sim_segment_is_in_run(segment); segment = segment->next)
            if (segment->size >= SIM_STEP && can_release(pool, segment, UINT64_MAX, SIM_STEP, &begin, &end))
                return true;
    return !has_end;
}

uint64_t sim_memory_release(struct sim_pool *pool, uint64_t want)
{
    uint64_t released = 0;
    struct sim_segment *segment = may_release(pool) ? pool->segments : NULL;
    while (segment && released < want) {
        uint64_t resume = segment->offset + segment->size;
        segment = release_from(pool, segment, want, &released);
        /* The segment may have been cut, or merged with neighbours: go on after its former end. */
        while (segment && segment->offset < resume)
            segment = segment->next;
    }
    sim_advance_by(gpu_cost_of((struct gpu_cost){ .gib = sim.settings.trim }, released));
    return released;
}

/* Growing ------------------------------------------------------------------------------------------------------------------------------ */

/* Returns whether a part of the segment can move. As measured, a growth first uses idle memory of the pool itself: the driver moves whole
   idle steps, wherever they lie, to the new addresses, and takes only the missing bytes from the device. A step with a live block or with a
   free that is not observed stays where it is. Exported memory stays too, since other processes may have it mapped. */
static bool can_move(const struct sim_pool *pool, const struct sim_segment *segment, uint64_t want, uint64_t *begin, uint64_t *end)
{
    return !segment->exported && can_release(pool, segment, want, SIM_PAGE, begin, end);
}

/* Returns the bytes that could be moved, at most `want`. */
static uint64_t movable(const struct sim_pool *pool, uint64_t want)
{
    uint64_t bytes = 0, begin, end;
    for (const struct sim_segment *run = large_run(pool, 0, SIM_STEP, 0); run && bytes < want;
         run = large_run(pool, run->owner, run->run, run->offset + 1))
        for (const struct sim_segment *segment = run; sim_segment_is_in_run(segment) && bytes < want; segment = segment->next)
            if (can_move(pool, segment, want - bytes, &begin, &end))
                bytes += end - begin;
    return bytes;
}

/* Makes that many bytes absent at their old addresses; they still count as the pool's. Returns how many it took, fewer if host memory runs
   out. */
static uint64_t move(struct sim_pool *pool, uint64_t want)
{
    uint64_t taken = 0, begin, end;
    for (struct sim_segment *run = large_run(pool, 0, SIM_STEP, 0); run && taken < want;) {
        /* After a part of the run has gone, the rest has another place in the index. */
        uint64_t owner = run->owner, bytes = run->run, offset = run->offset;
        for (struct sim_segment *segment = run; segment && segment->offset < offset + bytes && taken < want; segment = segment->next)
            if (can_move(pool, segment, want - taken, &begin, &end))
                segment = make_absent(pool, segment, begin, end, &taken);
        run = large_run(pool, owner, bytes, offset + 1);
    }
    return taken;
}

/* Does what the driver does before a growth fails: gives back idle memory of all other pools on the device. */
static void rescue(const struct sim_pool *growing, uint64_t want)
{
    for (struct sim_pool *pool = sim.pools; pool && want; pool = pool->next) {
        if (pool == growing || pool->device != growing->device || !is_on_device(pool))
            continue;
        uint64_t before = pool->held;
        sim_memory_release(pool, sim_round_up(want, SIM_STEP));
        want -= before - pool->held < want ? before - pool->held : want;
    }
}

/* Returns the bytes by which the pool could grow now. */
static uint64_t room(const struct sim_pool *pool)
{
    uint64_t bytes = pool->span - pool->held;
    if (pool->max_size && pool->max_size - pool->reserved < bytes)
        bytes = pool->max_size - pool->reserved;
    if (is_on_device(pool)) {
        uint64_t free_bytes = sim_ledger_free(pool->device);
        if (free_bytes < bytes)
            bytes = free_bytes;
    }
    return sim_round_down(bytes, SIM_PAGE);
}

/* Returns the lowest gap with at least `bytes` bytes, so that the pool's memory stays together. */
static struct sim_segment *find_gap(const struct sim_pool *pool, uint64_t bytes)
{
    struct sim_segment *first = NULL;
    for (struct sim_segment *gap = pool->index.gaps; gap; gap = gap->later)
        if (gap->size >= bytes && (!first || gap->offset < first->offset))
            first = gap;
    return first;
}

struct sim_segment *sim_range_take_gap(struct sim_pool *pool, uint64_t bytes)
{
    struct sim_segment *gap = find_gap(pool, bytes);
    return gap && (gap->size == bytes || sim_segment_split(pool, gap, bytes)) ? gap : NULL;
}

static void pass_growth(struct sim_pool *pool, uint64_t bytes)
{
    const struct sim_settings *costs = &sim.settings;
    bool is_on_host = !is_on_device(pool);
    struct gpu_cost cost = { .call = is_on_host ? 0 : costs->grow_each, .gib = is_on_host ? costs->grow_host : costs->grow };
    cost.call += (pool->has_grown ? 0 : costs->first) + (sim.has_grown ? 0 : costs->first_of_all);
    sim_advance_by(gpu_cost_of(cost, bytes));
    pool->has_grown = sim.has_grown = true;
}

/* Puts memory behind `bytes` bytes of a gap: first the `moved` bytes of the pool itself, then new ones of the device. Returns 0 or
   GPU_OUT_OF_MEMORY. */
static int fill_gap(struct sim_pool *pool, uint64_t bytes, uint64_t moved)
{
    uint64_t taken = move(pool, moved);
    struct sim_segment *gap = sim_range_take_gap(pool, bytes);
    /* Another process may have taken the memory since room() was called. */
    if (taken < moved || !gap || !map(pool, gap->offset, bytes) || !sim_range_take(pool, bytes - moved)) {
        if (gap) {
            sim_map_nothing(pool->base + gap->offset, bytes);
            sim_segment_merge(pool, gap);
        }
        give_memory(pool, taken);
        return GPU_OUT_OF_MEMORY;
    }
    sim_index_unlist(pool, gap);
    gap->state = SIM_SEGMENT_FREE;
    gap->observed = true;
    sim_run_join(pool, gap);
    pass_growth(pool, bytes - moved);
    return 0;
}

int sim_range_grow(struct sim_pool *pool, uint64_t size)
{
    uint64_t need = sim_round_up(size, SIM_PAGE), bytes = sim_round_up(size, SIM_STEP);
    if (need > pool->span || (pool->max_size && need > pool->max_size))
        return GPU_OUT_OF_MEMORY;
    if (is_on_device(pool) && need > sim.settings.memory)
        return GPU_OUT_OF_MEMORY;
    uint64_t moved = movable(pool, bytes), missing = bytes - moved;
    if (room(pool) < missing && is_on_device(pool))
        rescue(pool, missing - room(pool));
    if (room(pool) + moved < need) {
        /* Give idle memory of this pool back too: parts of steps and exported memory cannot be moved. */
        sim_memory_release(pool, sim_round_up(need - room(pool), SIM_STEP));
        moved = movable(pool, bytes);
        missing = bytes - moved;
    }
    if (room(pool) + moved < need) {
        /* The pool that could not grow enough keeps the device's free memory, up to its threshold (measured). */
        uint64_t rest = sim_round_down(room(pool), SIM_STEP);
        uint64_t kept = pool->release_threshold > pool->reserved ? sim_round_down(pool->release_threshold - pool->reserved, SIM_STEP) : 0;
        if (rest > kept)
            rest = kept;
        if (rest && is_on_device(pool) && !pool->max_size)
            fill_gap(pool, rest, 0);
        /* The driver also gives back the memory of graphs, so the next request can have it (measured). */
        if (is_on_device(pool) && !pool->max_size)
            sim_graph_trim(pool->device);
        return GPU_OUT_OF_MEMORY;
    }
    if (room(pool) < missing) {
        bytes = need;
        moved = moved < need ? moved : need;
    }
    return fill_gap(pool, bytes, moved);
}
