/* SPDX-License-Identifier: MIT */
/*
 * sim_memory.c - the memory of one pool: an address range cut into segments, which blocks are taken from and freed to, and which grows
 * and shrinks in steps. What a stream may take of memory that another one freed is decided here (is_usable, can_wait_for).
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/sim_machine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint64_t round_down(uint64_t value, uint64_t unit)
{
    return value / unit * unit;
}

/* Segments ----------------------------------------------------------------------------------------------------------------------------- */

/* Cuts `size` bytes off the front; the rest becomes `rest`, a segment of the same kind. */
static void split(struct sim_segment *segment, uint64_t size, struct sim_segment *rest)
{
    *rest = *segment;
    rest->offset += size;
    rest->size -= size;
    rest->prev = segment;
    if (rest->next)
        rest->next->prev = rest;
    segment->next = rest;
    segment->size = size;
}

static void absorb_next(struct sim_segment *segment)
{
    struct sim_segment *next = segment->next;
    segment->size += next->size;
    segment->next = next->next;
    if (next->next)
        next->next->prev = segment;
    free(next);
}

/* Whether two neighbours can be one segment without anybody seeing a difference. */
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
        pool->unobserved--;
        if (segment->sequence < next->sequence)
            segment->sequence = next->sequence;
        if (segment->done_at < next->done_at)
            segment->done_at = next->done_at;
    }
    absorb_next(segment);
}

static struct sim_segment *merge_around(struct sim_pool *pool, struct sim_segment *segment)
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

/*
 * Accessible only where there is memory, so that a stray access of the host is caught, and leak checkers do not read gigabytes of holes.
 * Pages exist once they are touched, and go when the range becomes inaccessible.
 */
static bool map(const struct sim_pool *pool, uint64_t begin, uint64_t size, int protection)
{
    int flags = MAP_FIXED | MAP_NORESERVE | (pool->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    return mmap(pool->base + begin, size, protection, flags, pool->fd, pool->fd < 0 ? 0 : (off_t)begin) != MAP_FAILED;
}

/* What is not mapped of an imported pool. */
static bool map_nothing(const struct sim_pool *pool, uint64_t begin, uint64_t size)
{
    int flags = MAP_FIXED | MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS;
    return mmap(pool->base + begin, size, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

static int open_range(struct sim_pool *pool, uint64_t span)
{
    struct sim_segment *segment = calloc(1, sizeof(*segment));
    void *base = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!segment || base == MAP_FAILED) {
        if (base != MAP_FAILED)
            munmap(base, span);
        free(segment);
        return GPU_OUT_OF_MEMORY;
    }
    segment->size = span;
    pool->segments = segment;
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
    /* Another process maps a block by its pages. */
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
    if (pool->reserved_high < bytes)
        pool->reserved_high = bytes;
}

/* The pool takes memory from its device; false if that has not so much. */
static bool take_memory(struct sim_pool *pool, uint64_t bytes)
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

/* What the device lacks for a pool that others may have stays with them: see sim_pool_leave(). */
void sim_memory_close(struct sim_pool *pool)
{
    if (pool->shared < 0)
        sim_ledger_charge(pool, 0);
    while (pool->segments) {
        struct sim_segment *segment = pool->segments;
        pool->segments = segment->next;
        free(segment);
    }
    munmap(pool->base, pool->span);
    if (pool->fd >= 0)
        close(pool->fd);
}

/* Giving back -------------------------------------------------------------------------------------------------------------------------- */

/* Whole steps only; at the edge of what the pool holds also the part of a step that a growth was cut to. Of an imported pool, mappings. */
static void releasable(const struct sim_pool *pool, const struct sim_segment *segment, uint64_t *begin, uint64_t *end)
{
    bool first = pool->imported || !segment->prev || segment->prev->state == SIM_SEGMENT_ABSENT;
    bool last = pool->imported || !segment->next || segment->next->state == SIM_SEGMENT_ABSENT;
    *begin = first ? segment->offset : round_up(segment->offset, SIM_STEP);
    *end = segment->offset + segment->size;
    if (!last)
        *end = round_down(*end, SIM_STEP);
}

/* Turns [begin, end) of a free segment into absent memory. False if there is no host memory for the bookkeeping. */
static bool make_absent(struct sim_pool *pool, struct sim_segment *segment, uint64_t begin, uint64_t end)
{
    struct sim_segment *head_rest = NULL, *tail = NULL;
    if (begin > segment->offset && !(head_rest = malloc(sizeof(*head_rest))))
        return false;
    if (end < segment->offset + segment->size && !(tail = malloc(sizeof(*tail)))) {
        free(head_rest);
        return false;
    }
    if (head_rest) {
        split(segment, begin - segment->offset, head_rest);
        segment = head_rest;
    }
    if (tail)
        split(segment, end - begin, tail);
    segment->state = SIM_SEGMENT_ABSENT;
    give_memory(pool, end - begin);
    if (pool->imported) {
        map_nothing(pool, begin, end - begin);
    } else {
        if (pool->fd >= 0)
            fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin, (off_t)(end - begin));
        map(pool, begin, end - begin, PROT_NONE);
    }
    merge_around(pool, segment);
    return true;
}

/* Measured: the figure falls, the device gets nothing, and the pool does not use the memory again. */
static uint64_t hide(struct sim_pool *pool, struct sim_segment *segment)
{
    uint64_t bytes = segment->hidden ? 0 : segment->size;
    segment->hidden = true;
    set_reserved(pool, pool->reserved - bytes);
    merge_around(pool, segment);
    return bytes;
}

static uint64_t release_from(struct sim_pool *pool, struct sim_segment *segment, uint64_t want)
{
    uint64_t begin, end;
    if (segment->state != SIM_SEGMENT_FREE || !segment->observed)
        return 0;
    if (segment->exported)
        return hide(pool, segment);
    releasable(pool, segment, &begin, &end);
    if (end <= begin)
        return 0;
    if (end - begin > want)
        begin = round_up(end - want, SIM_STEP);
    if (end <= begin || !make_absent(pool, segment, begin, end))
        return 0;
    return end - begin;
}

uint64_t sim_memory_release(struct sim_pool *pool, uint64_t want)
{
    uint64_t released = 0;
    struct sim_segment *segment = pool->segments;
    while (segment && released < want) {
        uint64_t resume = segment->offset + segment->size;
        released += release_from(pool, segment, want - released);
        /* The segment may have been merged away: go on from its end. */
        for (segment = pool->segments; segment && segment->offset < resume; segment = segment->next)
            ;
    }
    sim_advance_by((uint64_t)((double)released / (1 << 30) * (double)sim.settings.trim));
    return released;
}

/* Growing ------------------------------------------------------------------------------------------------------------------------------ */

/* The driver's own rescue: idle memory of every pool on the device goes back before a growth fails. */
static void rescue(int device, uint64_t want)
{
    for (struct sim_pool *pool = sim.pools; pool && want; pool = pool->next) {
        if (pool->device != device || !is_on_device(pool))
            continue;
        uint64_t before = pool->held;
        sim_memory_release(pool, round_up(want, SIM_STEP));
        want -= before - pool->held < want ? before - pool->held : want;
    }
}

/* Bytes by which the pool could grow now. */
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
    return round_down(bytes, SIM_PAGE);
}

/* The first gap that has so many bytes, so that memory stays together. */
static struct sim_segment *find_gap(const struct sim_pool *pool, uint64_t bytes)
{
    struct sim_segment *segment = pool->segments;
    while (segment && (segment->state != SIM_SEGMENT_ABSENT || segment->size < bytes))
        segment = segment->next;
    return segment;
}

/* So many bytes of a gap as a segment of their own, still absent; NULL if there is none or no host memory. */
static struct sim_segment *take_gap(struct sim_pool *pool, uint64_t bytes)
{
    struct sim_segment *gap = find_gap(pool, bytes);
    if (!gap || gap->size == bytes)
        return gap;
    struct sim_segment *rest = malloc(sizeof(*rest));
    if (!rest)
        return NULL;
    split(gap, bytes, rest);
    return gap;
}

static int fill_gap(struct sim_pool *pool, uint64_t bytes)
{
    struct sim_segment *gap = take_gap(pool, bytes);
    if (!gap)
        return GPU_OUT_OF_MEMORY;
    /* Another process may have taken the memory since the room was looked at. */
    if (!map(pool, gap->offset, bytes, PROT_READ | PROT_WRITE) || !take_memory(pool, bytes)) {
        merge_around(pool, gap);
        return GPU_OUT_OF_MEMORY;
    }
    gap->state = SIM_SEGMENT_FREE;
    gap->observed = true;
    merge_around(pool, gap);
    sim_advance_by((uint64_t)((double)bytes / (1 << 30) * (double)sim.settings.grow));
    return 0;
}

static int grow(struct sim_pool *pool, uint64_t size)
{
    uint64_t need = round_up(size, SIM_PAGE), bytes = round_up(size, SIM_STEP);
    if (need > pool->span || (pool->max_size && need > pool->max_size))
        return GPU_OUT_OF_MEMORY;
    if (is_on_device(pool) && need > sim.settings.memory)
        return GPU_OUT_OF_MEMORY;
    if (room(pool) < bytes && pool->max_size)
        sim_memory_release(pool, bytes - room(pool));
    if (room(pool) < bytes && is_on_device(pool))
        rescue(pool->device, bytes - room(pool));
    if (room(pool) < need) {
        /* What the device still had stays with the pool that could not grow enough, up to its threshold (measured). */
        uint64_t rest = round_down(room(pool), SIM_STEP);
        uint64_t kept = pool->release_threshold > pool->reserved ? round_down(pool->release_threshold - pool->reserved, SIM_STEP) : 0;
        if (rest > kept)
            rest = kept;
        if (rest && is_on_device(pool) && !pool->max_size)
            fill_gap(pool, rest);
        return GPU_OUT_OF_MEMORY;
    }
    return fill_gap(pool, room(pool) < bytes ? need : bytes);
}

/* Taking and freeing ------------------------------------------------------------------------------------------------------------------- */

static bool is_allowed(const struct sim_pool *pool, enum gpu_pool_attribute reuse)
{
    return pool->reuse[reuse - GPU_POOL_REUSE_EVENT_DEPENDENCIES];
}

/* Whether the stream may have the memory as it is. */
static bool is_usable(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream)
{
    if (segment->state != SIM_SEGMENT_FREE || segment->hidden)
        return false;
    if (segment->observed || segment->freed_by == stream->id)
        return true;
    if (is_allowed(pool, GPU_POOL_REUSE_OPPORTUNISTIC) && segment->done_at <= sim.now)
        return true;
    return is_allowed(pool, GPU_POOL_REUSE_EVENT_DEPENDENCIES) && sim_stream_waited(stream, segment->freed_by) >= segment->sequence;
}

/* Whether the stream may have it once it waits for the free. CUDA calls a wait that it inserts by itself an internal dependency. */
static bool can_wait_for(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream)
{
    bool is_orderable = segment->state == SIM_SEGMENT_FREE && !segment->hidden && segment->device == stream->device;
    return is_usable(pool, segment, stream) || (is_orderable && is_allowed(pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES));
}

typedef bool (*fits_fn)(const struct sim_pool *pool, const struct sim_segment *segment, const struct sim_stream *stream);

/* The smallest run of neighbours that fit and have so many bytes. */
static struct sim_segment *best_fit(const struct sim_pool *pool, uint64_t size, const struct sim_stream *stream, fits_fn fits)
{
    struct sim_segment *best = NULL, *begin = NULL;
    uint64_t best_size = UINT64_MAX, run = 0;
    for (struct sim_segment *segment = pool->segments;; segment = segment->next) {
        if (segment && fits(pool, segment, stream)) {
            begin = run ? begin : segment;
            run += segment->size;
            continue;
        }
        if (run >= size && run < best_size) {
            best = begin;
            best_size = run;
        }
        if (!segment)
            return best;
        run = 0;
    }
}

/* Makes the stream wait for those frees in the first `size` bytes of a run that it could not do without. */
static int wait_for_run(const struct sim_pool *pool, const struct sim_segment *segment, uint64_t size, struct sim_stream *stream)
{
    int code = 0;
    uint64_t end = segment->offset + size;
    for (; segment && segment->offset < end && !code; segment = segment->next)
        if (!is_usable(pool, segment, stream))
            code = sim_stream_wait_for(stream, segment->freed_by, segment->sequence, segment->done_at);
    return code;
}

/* What the pool has, else what it can grow by, else (measured: only then) what is there once the stream waits for it. */
static int find_run(struct sim_pool *pool, uint64_t size, struct sim_stream *stream, struct sim_segment **segment)
{
    *segment = best_fit(pool, size, stream, is_usable);
    if (*segment)
        return 0;
    int code = grow(pool, size);
    *segment = best_fit(pool, size, stream, code ? can_wait_for : is_usable);
    if (!*segment)
        return GPU_OUT_OF_MEMORY;
    return wait_for_run(pool, *segment, size, stream);
}

/* Makes `size` bytes of a run of free segments one live segment. What was exported once makes all of it stay with the pool. */
static void absorb_run(struct sim_pool *pool, struct sim_segment *segment, uint64_t size)
{
    bool exported = segment->exported;
    pool->unobserved -= !segment->observed;
    pool->exported -= segment->exported ? segment->size : 0;
    while (segment->size < size) {
        const struct sim_segment *next = segment->next;
        pool->unobserved -= !next->observed;
        exported = exported || next->exported;
        pool->exported -= next->exported ? next->size : 0;
        absorb_next(segment);
    }
    segment->state = SIM_SEGMENT_LIVE;
    segment->exported = false;
    if (exported)
        sim_memory_export(pool, segment);
}

/* Makes the first `size` bytes of a run of free segments one live segment. */
static int make_live(struct sim_pool *pool, struct sim_segment *segment, uint64_t size)
{
    struct sim_segment *last = segment;
    uint64_t total = segment->size;
    for (; total < size; total += last->size)
        last = last->next;
    if (total > size) {
        struct sim_segment *rest = malloc(sizeof(*rest));
        if (!rest)
            return GPU_OUT_OF_MEMORY;
        split(last, last->size - (total - size), rest);
        pool->unobserved += !rest->observed;
    }
    absorb_run(pool, segment, size);
    return 0;
}

void sim_memory_export(struct sim_pool *pool, struct sim_segment *segment)
{
    if (segment->exported)
        return;
    segment->exported = true;
    pool->exported += segment->size;
    sim_ledger_pool_exported(pool, pool->exported);
}

int sim_memory_import(struct sim_pool *pool, uint64_t offset, uint64_t size, void **ptr)
{
    struct sim_segment *segment = pool->segments;
    while (segment && (segment->state != SIM_SEGMENT_LIVE || segment->source != offset || segment->size != size))
        segment = segment->next;
    if (!segment) {
        segment = take_gap(pool, size);
        if (!segment)
            return GPU_OUT_OF_MEMORY;
        void *address = mmap(pool->base + segment->offset, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, pool->fd, (off_t)offset);
        if (address == MAP_FAILED) {
            merge_around(pool, segment);
            return GPU_OUT_OF_MEMORY;
        }
        segment->state = SIM_SEGMENT_LIVE;
        segment->source = offset;
        segment->asked = size;
        pool->blocks++;
        pool->used += size;
        take_memory(pool, size);
    }
    *ptr = pool->base + segment->offset;
    return 0;
}

int sim_memory_take(struct sim_pool *pool, size_t size, struct sim_stream *stream, void **ptr)
{
    if (size > pool->span)
        return GPU_OUT_OF_MEMORY;
    uint64_t bytes = round_up(size, pool->alignment);
    struct sim_segment *segment;
    int code = find_run(pool, bytes, stream, &segment);
    if (!code)
        code = make_live(pool, segment, bytes);
    if (code)
        return code;
    segment->asked = size;
    pool->blocks++;
    pool->used += size;
    if (pool->used_high < pool->used)
        pool->used_high = pool->used;
    *ptr = pool->base + segment->offset;
    return 0;
}

struct sim_pool *sim_memory_pool(const void *ptr)
{
    const unsigned char *address = ptr;
    struct sim_pool *pool = sim.pools;
    while (pool && (address < pool->base || address >= pool->base + pool->span))
        pool = pool->next;
    return pool;
}

struct sim_segment *sim_memory_block(const void *ptr, struct sim_pool **pool)
{
    struct sim_pool *home = sim_memory_pool(ptr);
    if (!home)
        return NULL;
    uint64_t offset = (uint64_t)((const unsigned char *)ptr - home->base);
    struct sim_segment *segment = home->segments;
    while (segment && segment->offset < offset)
        segment = segment->next;
    if (!segment || segment->offset != offset || segment->state != SIM_SEGMENT_LIVE)
        return NULL;
    *pool = home;
    return segment;
}

bool sim_memory_is_present(const struct sim_pool *pool, const void *ptr, size_t size)
{
    uint64_t begin = (uint64_t)((const unsigned char *)ptr - pool->base);
    if (size > pool->span - begin)
        return false;
    for (const struct sim_segment *segment = pool->segments; segment && segment->offset < begin + size; segment = segment->next)
        if (segment->offset + segment->size > begin && segment->state == SIM_SEGMENT_ABSENT)
            return false;
    return true;
}

void sim_memory_free(struct sim_pool *pool, struct sim_segment *segment, struct sim_stream *stream)
{
    segment->state = SIM_SEGMENT_FREE;
    segment->observed = false;
    segment->device = stream->device;
    segment->freed_by = stream->id;
    segment->sequence = ++sim.sequence;
    segment->done_at = sim_enqueue(stream, 0);
    pool->used -= segment->asked;
    pool->blocks--;
    pool->unobserved++;
    merge_around(pool, segment);
}

/* Seeing that frees have ended --------------------------------------------------------------------------------------------------------- */

static void observe_in(struct sim_pool *pool, uint64_t id, uint64_t sequence, int device)
{
    for (struct sim_segment *segment = pool->segments; segment && pool->unobserved; segment = segment->next) {
        if (segment->state != SIM_SEGMENT_FREE || segment->observed || segment->sequence > sequence)
            continue;
        if (id ? segment->freed_by != id : segment->device != device)
            continue;
        segment->observed = true;
        pool->unobserved--;
        segment = merge_around(pool, segment);
    }
}

void sim_memory_observe(uint64_t id, uint64_t sequence, int device)
{
    for (struct sim_pool *pool = sim.pools; pool; pool = pool->next)
        observe_in(pool, id, sequence, device);
}

uint64_t sim_memory_quiet_at(const struct sim_pool *pool)
{
    uint64_t time = 0;
    if (pool->unobserved)
        for (const struct sim_segment *segment = pool->segments; segment; segment = segment->next)
            if (segment->state == SIM_SEGMENT_FREE && !segment->observed && segment->done_at > time)
                time = segment->done_at;
    return time;
}

bool sim_memory_is_quiet(const struct sim_pool *pool)
{
    return sim_memory_quiet_at(pool) <= sim.now;
}
