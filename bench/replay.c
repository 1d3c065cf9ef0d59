/* SPDX-License-Identifier: MIT */
#include "bench/replay.h"

#include <stdlib.h>
#include <string.h>

#include "bench/numbers.h"
#include "lib/alloc/recent.h"
#include "lib/backing/arena/arena.h"

#define BASE (UINT64_C(1) << 40)
#define RANGE (UINT64_C(1) << 41)
#define TABLE_ROOM 4096 /* slots at first */

/* The table ---------------------------------------------------------------------------------------------------------------------------- */

/* Open addressing, linear probing, at most three quarters full, hashed as the library's table of blocks is. */
struct table {
    struct slot {
        uint64_t address; /* 0: empty */
        struct weir__extent *extent;
    } * slots;
    size_t mask, count;
};

static size_t home_of(const struct table *table, uint64_t address)
{
    return (size_t)((address >> 9) * UINT64_C(0x9E3779B97F4A7C15) >> 26) & table->mask;
}

static struct slot *find_slot(const struct table *table, uint64_t address)
{
    size_t at = home_of(table, address);
    while (table->slots[at].address && table->slots[at].address != address)
        at = (at + 1) & table->mask;
    return &table->slots[at];
}

static bool grow_table(struct table *table)
{
    size_t room = table->slots ? 2 * (table->mask + 1) : TABLE_ROOM;
    struct table larger = {.slots = calloc(room, sizeof(*larger.slots)), .mask = room - 1, .count = table->count};
    if (!larger.slots)
        return false;
    for (size_t i = 0; table->slots && i <= table->mask; i++)
        if (table->slots[i].address)
            *find_slot(&larger, table->slots[i].address) = table->slots[i];
    free(table->slots);
    *table = larger;
    return true;
}

static bool add_to_table(struct table *table, struct weir__extent *extent)
{
    if ((!table->slots || (table->count + 1) * 4 > (table->mask + 1) * 3) && !grow_table(table))
        return false;
    *find_slot(table, extent->address) = (struct slot){.address = extent->address, .extent = extent};
    table->count++;
    return true;
}

static struct weir__extent *remove_from_table(struct table *table, uint64_t address)
{
    struct slot *slot = find_slot(table, address);
    struct weir__extent *extent = slot->extent;
    size_t hole = (size_t)(slot - table->slots);
    for (size_t at = (hole + 1) & table->mask; table->slots[at].address; at = (at + 1) & table->mask)
        if (((at - home_of(table, table->slots[at].address)) & table->mask) >= ((at - hole) & table->mask)) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    table->slots[hole].address = 0;
    table->count--;
    return extent;
}

/* The replay --------------------------------------------------------------------------------------------------------------------------- */

struct run {
    struct weir__arena arena;
    struct table table;
    uint64_t *addresses; /* of the blocks, by id */
    struct weir__entry *entries; /* what is kept of them, by id */
    struct replay_result result;
    struct weir__arena_stream streams[REPLAY_STREAMS_MAX];
    struct weir__recent recent[REPLAY_STREAMS_MAX];
};

/* What the streams keep ----------------------------------------------------------------------------------------------------------------- */

static void give_up(struct run *run, size_t stream, uint64_t before, size_t now)
{
    struct weir__entry *entry = weir__recent_drain(&run->recent[stream], before);
    for (; entry; entry = entry->next)
        weir__arena_give(&run->arena, entry->from, &run->streams[stream], now);
}

static void keep(struct run *run, size_t stream, const struct trace_step *step, struct weir__extent *extent, size_t now)
{
    struct weir__recent *recent = &run->recent[stream];
    struct weir__entry *entry = &run->entries[step->id];
    uint64_t taken = run->arena.small.extents.live_bytes + run->arena.large.extents.live_bytes;
    while (weir__recent_is_full(recent, step->bytes, taken))
        give_up(run, stream, recent->entries[0]->stamp + 1, now);
    *entry = (struct weir__entry){.size = step->bytes, .stamp = now, .from = extent};
    weir__recent_add(recent, entry);
}

/* The extent of a block that is kept for exactly so many bytes; NULL: there is none. */
static struct weir__extent *take_kept(struct run *run, size_t stream, uint64_t bytes)
{
    struct weir__entry *entry = weir__recent_find(&run->recent[stream], bytes);
    if (!entry)
        return NULL;
    weir__recent_remove(&run->recent[stream], entry);
    run->result.hits++;
    return entry->from;
}

/* Whether any of the streams had something for this one to wait for. */
static bool wait_for_others(struct run *run, struct weir__arena_stream *stream, size_t now)
{
    uint64_t before = run->result.waits;
    for (size_t i = 0; i < REPLAY_STREAMS_MAX; i++) {
        struct weir__arena_stream *other = &run->streams[i];
        if (other == stream || other->small.bytes + other->large.bytes == 0)
            continue;
        weir__arena_pass_on(&run->arena, other, 0, now, stream, now);
        run->result.waits++;
    }
    return run->result.waits > before;
}

/* From what is mapped, for which all streams give up what they keep if need be. */
static struct weir__extent *take(struct run *run, const struct trace_step *step, struct weir__arena_stream *stream,
                                 const struct replay_streams *streams, size_t now)
{
    bool recent = streams && streams->recent;
    struct weir__extent *extent = recent ? take_kept(run, step->id % streams->count, step->bytes) : NULL;
    if (!extent)
        extent = weir__arena_take(&run->arena, stream, step->bytes);
    if (!extent && recent) {
        for (size_t i = 0; i < streams->count; i++)
            give_up(run, i, UINT64_MAX, now);
        extent = weir__arena_take(&run->arena, stream, step->bytes);
    }
    if (!extent && streams && streams->waits && wait_for_others(run, stream, now))
        extent = weir__arena_take(&run->arena, stream, step->bytes);
    return extent;
}

static bool serve(struct run *run, const struct trace_step *step, struct weir__arena_stream *stream, const struct replay_streams *streams,
                  size_t now)
{
    struct weir__extent *extent = take(run, step, stream, streams, now);
    run->result.large += step->bytes >= WEIR__ARENA_LARGE;
    if (!extent) {
        if (weir__arena_grow(&run->arena, stream, step->bytes, &extent))
            return false;
        uint64_t mapped = run->arena.small.mapped_bytes + run->arena.large.mapped_bytes;
        if (mapped > run->result.mapped_peak)
            run->result.mapped_peak = mapped;
    }
    uint64_t live = run->arena.small.extents.live_bytes + run->arena.large.extents.live_bytes;
    if (live > run->result.live_peak)
        run->result.live_peak = live;
    run->addresses[step->id] = extent->address;
    return add_to_table(&run->table, extent);
}

static bool run_steps(struct run *run, const struct trace *trace, const struct replay_streams *streams)
{
    for (size_t i = 0; i < trace->step_count; i++) {
        const struct trace_step *step = &trace->steps[i];
        struct weir__arena_stream *stream = streams ? &run->streams[step->id % streams->count] : NULL;
        for (size_t s = 0; streams && i >= streams->delay && s < streams->count; s++)
            weir__arena_complete(&run->arena, &run->streams[s], i - streams->delay);
        if (!step->is_free) {
            if (!serve(run, step, stream, streams, i))
                return false;
            continue;
        }
        struct weir__extent *extent = remove_from_table(&run->table, run->addresses[step->id]);
        if (streams && streams->recent && step->bytes >= WEIR__ARENA_LARGE)
            keep(run, step->id % streams->count, step, extent, i + 1);
        else
            weir__arena_give(&run->arena, extent, stream, i + 1);
    }
    return true;
}

bool replay(const struct trace *trace, const struct replay_streams *streams, struct replay_result *result)
{
    struct run *run = calloc(1, sizeof(*run));
    if (!run)
        return false;
    run->addresses = calloc(trace->block_count + 1, sizeof(*run->addresses));
    run->entries = calloc(trace->block_count + 1, sizeof(*run->entries));
    bool is_done = weir__arena_init(&run->arena, BASE, RANGE, &numbers, NULL) && run->addresses && run->entries &&
                   run_steps(run, trace, streams);
    *result = run->result;
    result->created = run->arena.small.created_count + run->arena.large.created_count;
    result->moved = run->arena.small.moved_count + run->arena.large.moved_count;
    weir__arena_clear(&run->arena);
    free(run->table.slots);
    free(run->addresses);
    free(run->entries);
    free(run);
    return is_done;
}
