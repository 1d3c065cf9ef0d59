/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/ledger.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/torch/arena.h"

/* The first member of what a tree holds, so that a range finds whatever overlaps it. */
struct range {
    uint64_t base, size;
};

struct segment {
    struct range range;
    int device;
    bool is_old; /* from before anybody looked */
    bool is_shown;
    gpu_stream stream; /* of the first block */
    weir_torch_pool_id pool;
    weir_torch_context *context;
};

struct block {
    struct range range; /* as much of the segment as is nobody else's */
    uint64_t asked;
    struct segment *segment;
    gpu_stream stream;
    bool is_freed; /* requested */
    bool waits;
    weir_torch_context *context;
};

static int compare(const void *a, const void *b)
{
    const struct range *first = a, *second = b;
    if (first->base + first->size <= second->base)
        return -1;
    return second->base + second->size <= first->base;
}

static struct range range_at(const void *ptr)
{
    return (struct range){ .base = (uintptr_t)ptr, .size = 1 };
}

static void *find(void *const *tree, struct range range)
{
    void **found = tfind(&range, tree, compare);
    return found ? *found : NULL;
}

static struct segment *find_segment(struct torch_ledger *ledger, const void *ptr)
{
    return find(&ledger->segments, range_at(ptr));
}

/* The one that begins there. */
static struct segment *segment_at(struct torch_ledger *ledger, const void *base)
{
    struct segment *segment = find_segment(ledger, base);
    return segment && segment->range.base == (uintptr_t)base ? segment : NULL;
}

static struct block *block_at(struct torch_ledger *ledger, const void *ptr)
{
    struct block *block = find(&ledger->blocks, range_at(ptr));
    return block && block->range.base == (uintptr_t)ptr ? block : NULL;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static int64_t microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void tell(struct torch_ledger *ledger, weir_torch_event event)
{
    if (ledger->skipped >> event.action & 1)
        return;
    event.time = microseconds();
    if (!ledger->keeps_contexts && event.action != WEIR_TORCH_ANNOTATE)
        event.context = NULL;
    torch_events_add(&ledger->events[event.device], &event, ledger->limit);
}

static void tell_segment(struct torch_ledger *ledger, int action, const struct segment *segment, weir_torch_context *context)
{
    tell(ledger, (weir_torch_event){ .action = action, .device = segment->device, .address = segment->range.base,
                                     .size = segment->range.size, .stream = segment->stream, .block_stream = segment->stream,
                                     .pool = segment->pool, .context = context });
}

static void tell_block(struct torch_ledger *ledger, int action, const struct block *block, weir_torch_context *context)
{
    const struct segment *segment = block->segment;
    tell(ledger, (weir_torch_event){ .action = action, .device = segment->device, .address = block->range.base, .size = block->asked,
                                     .stream = segment->stream, .block_stream = block->stream, .pool = segment->pool,
                                     .context = context });
}

void torch_ledger_tell(struct torch_ledger *ledger, int action, int device, uint64_t address, uint64_t size, gpu_stream stream,
                       weir_torch_context *context)
{
    if (device >= 0 && device < TORCH_DEVICES_MAX)
        tell(ledger, (weir_torch_event){ .action = action, .device = device, .address = address, .size = size, .stream = stream,
                                         .block_stream = stream, .context = context });
}

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

static void remove_block(struct torch_ledger *ledger, struct block *block)
{
    tdelete(block, &ledger->blocks, compare);
    ledger->block_count--;
    ledger->active[block->segment->device] -= block->asked;
    torch_context_drop(block->context);
    free(block);
}

static void end_block(struct torch_ledger *ledger, struct block *block)
{
    if (!block->is_freed)
        tell_block(ledger, WEIR_TORCH_FREE_REQUESTED, block, NULL);
    tell_block(ledger, WEIR_TORCH_FREE_COMPLETED, block, NULL);
    remove_block(ledger, block);
}

/* Ends what blocks there are in the range. */
static void end_blocks(struct torch_ledger *ledger, struct range range)
{
    struct block *block;
    while ((block = find(&ledger->blocks, range)))
        end_block(ledger, block);
}

/* How much of the segment a new block has: all of it, or in a chunk of graphs, which has an id, a step and more. */
static struct range range_of(const struct segment *segment, const void *ptr, uint64_t size)
{
    uint64_t base = (uintptr_t)ptr, room = segment->range.base + segment->range.size - base;
    uint64_t steps = (size + TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    bool has_all = base == segment->range.base && !segment->pool.first && !segment->pool.second;
    return (struct range){ .base = base, .size = has_all || steps > room ? room : steps };
}

/* NULL: it lies in no segment, or there is no host memory. What was there has ended. */
static struct block *add_block(struct torch_ledger *ledger, const void *ptr, uint64_t size, gpu_stream stream)
{
    struct segment *segment = find_segment(ledger, ptr);
    struct block *block = segment && size ? calloc(1, sizeof *block) : NULL;
    if (!block)
        return NULL;
    block->range = range_of(segment, ptr, size);
    block->asked = size;
    block->segment = segment;
    block->stream = stream;
    end_blocks(ledger, block->range);
    if (!tsearch(block, &ledger->blocks, compare)) {
        free(block);
        return NULL;
    }
    ledger->block_count++;
    ledger->active[segment->device] += size;
    return block;
}

static void show(struct segment *segment, gpu_stream stream)
{
    if (!segment->is_shown)
        segment->stream = stream;
    segment->is_shown = true;
}

void torch_ledger_alloc(struct torch_ledger *ledger, const void *ptr, uint64_t size, gpu_stream stream, weir_torch_context *context,
                        bool is_known)
{
    if (is_known && block_at(ledger, ptr))
        return;
    struct block *block = add_block(ledger, ptr, size, stream);
    if (!block)
        return;
    struct segment *segment = block->segment;
    bool is_new = !segment->is_shown;
    is_known = is_known && segment->is_old;
    show(segment, stream);
    torch_context_keep(block->context = context);
    /* A segment outlives its block: where only live memory is to have contexts, one that is free has none. */
    if (is_new && ledger->keeps_contexts)
        torch_context_keep(segment->context = context);
    if (is_new && !is_known)
        tell_segment(ledger, WEIR_TORCH_SEGMENT_ALLOC, segment, context);
    if (!is_known)
        tell_block(ledger, WEIR_TORCH_ALLOC, block, context);
}

void torch_ledger_request(struct torch_ledger *ledger, const void *ptr, weir_torch_context *context)
{
    struct block *block = block_at(ledger, ptr);
    if (!block || block->is_freed)
        return;
    block->is_freed = true;
    tell_block(ledger, WEIR_TORCH_FREE_REQUESTED, block, context);
}

void torch_ledger_wait(struct torch_ledger *ledger, const void *ptr, bool waits)
{
    struct block *block = block_at(ledger, ptr);
    if (block && block->is_freed)
        block->waits = waits;
}

void torch_ledger_complete(struct torch_ledger *ledger, const void *ptr)
{
    struct block *block = block_at(ledger, ptr);
    if (block && block->is_freed && !block->waits)
        end_block(ledger, block);
}

void torch_ledger_annotate(struct torch_ledger *ledger, const void *ptr, weir_torch_context *context)
{
    const struct block *block = block_at(ledger, ptr);
    if (block && !block->is_freed)
        tell_block(ledger, WEIR_TORCH_ANNOTATE, block, context);
}

void torch_ledger_waiting(struct torch_ledger *ledger, const void *ptr, uint64_t size, gpu_stream stream)
{
    const struct segment *segment = find_segment(ledger, ptr);
    struct block *block = segment && segment->is_old && !block_at(ledger, ptr) ? add_block(ledger, ptr, size, stream) : NULL;
    if (!block)
        return;
    show(block->segment, stream);
    block->is_freed = block->waits = true;
}

weir_torch_context *torch_ledger_context(struct torch_ledger *ledger, const void *ptr)
{
    const struct block *block = find(&ledger->blocks, range_at(ptr));
    return block && !block->is_freed ? block->context : NULL;
}

/* Segments ----------------------------------------------------------------------------------------------------------------------------- */

static void remove_segment(struct torch_ledger *ledger, struct segment *segment)
{
    end_blocks(ledger, segment->range);
    if (segment->is_shown)
        tell_segment(ledger, WEIR_TORCH_SEGMENT_FREE, segment, NULL);
    tdelete(segment, &ledger->segments, compare);
    ledger->segment_count--;
    torch_context_drop(segment->context);
    free(segment);
}

void torch_ledger_segment(struct torch_ledger *ledger, int device, const void *base, uint64_t size, bool is_known)
{
    struct range range = { .base = (uintptr_t)base, .size = size };
    struct segment *segment;
    if (device < 0 || device >= TORCH_DEVICES_MAX || !size || (is_known && segment_at(ledger, base)))
        return;
    while ((segment = find(&ledger->segments, range)))
        remove_segment(ledger, segment);
    segment = calloc(1, sizeof *segment);
    if (!segment)
        return;
    segment->range = range;
    segment->device = device;
    segment->is_old = is_known;
    if (tsearch(segment, &ledger->segments, compare))
        ledger->segment_count++;
    else
        free(segment);
}

void torch_ledger_show(struct torch_ledger *ledger, const void *base, gpu_stream stream)
{
    struct segment *segment = segment_at(ledger, base);
    if (segment && segment->is_old)
        show(segment, stream);
}

void torch_ledger_chunk(struct torch_ledger *ledger, const void *base, weir_torch_pool_id id)
{
    struct segment *segment = segment_at(ledger, base);
    if (segment)
        segment->pool = id;
}

bool torch_ledger_gone(struct torch_ledger *ledger, const void *base, gpu_stream *stream, weir_torch_pool_id *id)
{
    struct segment *segment = segment_at(ledger, base);
    bool is_shown = segment && segment->is_shown;
    if (is_shown) {
        *stream = segment->stream;
        *id = segment->pool;
    }
    if (segment)
        remove_segment(ledger, segment);
    return is_shown;
}

void torch_ledger_back(struct torch_ledger *ledger, int device, const void *base, uint64_t size, gpu_stream stream, weir_torch_pool_id id)
{
    torch_ledger_segment(ledger, device, base, size, false);
    struct segment *segment = segment_at(ledger, base);
    if (!segment)
        return;
    show(segment, stream);
    segment->pool = id;
    if (!torch_events_undo(&ledger->events[device], WEIR_TORCH_SEGMENT_FREE, segment->range.base))
        tell_segment(ledger, WEIR_TORCH_SEGMENT_ALLOC, segment, NULL);
}

/* All of it ---------------------------------------------------------------------------------------------------------------------------- */

void torch_ledger_empty(struct torch_ledger *ledger)
{
    while (ledger->blocks)
        remove_block(ledger, *(struct block **)ledger->blocks);
    while (ledger->segments) {
        struct segment *segment = *(struct segment **)ledger->segments;
        tdelete(segment, &ledger->segments, compare);
        ledger->segment_count--;
        torch_context_drop(segment->context);
        free(segment);
    }
}

void torch_ledger_clear(struct torch_ledger *ledger)
{
    for (int device = 0; device < TORCH_DEVICES_MAX; device++)
        torch_events_clear(&ledger->events[device]);
}

/* Copies ------------------------------------------------------------------------------------------------------------------------------- */

/* What a walk of a tree, which has no place for data of the caller's, fills: by address. The ledger's lock guards it. */
static struct {
    weir_torch_snapshot *snapshot;
    const struct block **blocks;
    size_t block_count;
} walk;

static void list_block(const void *node, VISIT order, int depth)
{
    (void)depth;
    if (order == postorder || order == leaf)
        walk.blocks[walk.block_count++] = *(const struct block *const *)node;
}

static void list_segment(const void *node, VISIT order, int depth)
{
    const struct segment *segment = *(const struct segment *const *)node;
    (void)depth;
    if (!segment->is_shown || (order != postorder && order != leaf))
        return;
    torch_context_keep(segment->context);
    walk.snapshot->segments[walk.snapshot->segment_count++] =
        (weir_torch_segment){ .device = segment->device, .address = segment->range.base, .size = segment->range.size,
                              .stream = segment->stream, .pool = segment->pool, .context = segment->context };
}

static void add_part(weir_torch_snapshot *snapshot, uint64_t address, uint64_t size, const struct block *block)
{
    weir_torch_part *part = &snapshot->parts[snapshot->part_count];
    if (!size)
        return;
    *part = (weir_torch_part){ .address = address, .size = size };
    if (block) {
        part->asked = block->asked;
        part->is_allocated = !block->is_freed;
        part->is_active = true;
        torch_context_keep(part->context = block->context);
    }
    snapshot->part_count++;
}

/* Blocks and segments are both in order. A block lies in a segment that is shown. */
static void list_parts(weir_torch_snapshot *snapshot)
{
    size_t next = 0;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        weir_torch_segment *segment = &snapshot->segments[i];
        uint64_t at = segment->address, end = segment->address + segment->size;
        segment->first_part = snapshot->part_count;
        for (; next < walk.block_count && walk.blocks[next]->range.base < end; next++) {
            const struct block *block = walk.blocks[next];
            add_part(snapshot, at, block->range.base - at, NULL);
            add_part(snapshot, block->range.base, block->range.size, block);
            at = block->range.base + block->range.size;
        }
        add_part(snapshot, at, end - at, NULL);
        segment->part_count = snapshot->part_count - segment->first_part;
    }
}

static void list_events(const struct torch_ledger *ledger, weir_torch_snapshot *snapshot)
{
    for (int device = 0; device < TORCH_DEVICES_MAX; device++)
        for (size_t i = 0; i < ledger->events[device].count; i++) {
            const weir_torch_event *event = torch_events_at(&ledger->events[device], i);
            torch_context_keep(event->context);
            snapshot->events[snapshot->event_count++] = *event;
        }
}

weir_torch_snapshot *torch_ledger_copy(struct torch_ledger *ledger, bool with_events)
{
    size_t events = 0;
    for (int device = 0; with_events && device < TORCH_DEVICES_MAX; device++)
        events += ledger->events[device].count;
    weir_torch_snapshot *snapshot = calloc(1, sizeof *snapshot);
    const struct block **blocks = malloc((ledger->block_count + 1) * sizeof *blocks);
    if (snapshot) {
        snapshot->segments = malloc((ledger->segment_count + 1) * sizeof *snapshot->segments);
        /* Before each block and behind the last of each segment there may be something inactive. */
        snapshot->parts = malloc((2 * ledger->block_count + ledger->segment_count + 1) * sizeof *snapshot->parts);
        snapshot->events = malloc((events + 1) * sizeof *snapshot->events);
    }
    if (!blocks || !snapshot || !snapshot->segments || !snapshot->parts || !snapshot->events) {
        free(blocks);
        torch_ledger_free(snapshot);
        return NULL;
    }
    walk.snapshot = snapshot;
    walk.blocks = blocks;
    walk.block_count = 0;
    twalk(ledger->segments, list_segment);
    twalk(ledger->blocks, list_block);
    list_parts(snapshot);
    if (with_events)
        list_events(ledger, snapshot);
    free(blocks);
    return snapshot;
}

void torch_ledger_free(weir_torch_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (size_t i = 0; i < snapshot->segment_count; i++)
        torch_context_drop(snapshot->segments[i].context);
    for (size_t i = 0; i < snapshot->part_count; i++)
        torch_context_drop(snapshot->parts[i].context);
    for (size_t i = 0; i < snapshot->event_count; i++)
        torch_context_drop(snapshot->events[i].context);
    free(snapshot->segments);
    free(snapshot->parts);
    free(snapshot->events);
    free(snapshot);
}
