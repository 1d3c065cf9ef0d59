/* SPDX-License-Identifier: MIT */
/*
 * sim_gate.c - times that are not known yet.
 *
 * When a stream waits for an event that another process recorded, the end of the stream's later work is unknown: it may come soon, late, or
 * never, if that process is killed first. A *gate* stands for the unknown time, and opens at that time. Each gate has a range of numbers of
 * its own, all above the known times; a number's distance from the start of its range says how long after the opening of the gate the time
 * is. So every comparison with the clock gives "not yet". When a gate opens, all numbers of its range are replaced by known times, wherever
 * they are stored.
 */
#include "lib/gpu/sim_machine.h"

#include <stdlib.h>

#define LIMBO (UINT64_C(1) << 63)
#define STRETCH (UINT64_C(1) << 40) /* 18 minutes; work that would end later than this after its gate opens never ends */
#define GATES_MAX ((size_t)((SIM_NEVER - LIMBO) / STRETCH))

bool sim_time_is_open(uint64_t time)
{
    return time >= LIMBO;
}

static uint64_t base_of(size_t gate)
{
    return LIMBO + gate * STRETCH;
}

static bool is_of(uint64_t time, uint64_t base)
{
    return time >= base && time - base < STRETCH;
}

/* If the sum lies outside the gate's range, or above all known times, it is SIM_NEVER. */
uint64_t sim_time_add(uint64_t time, uint64_t nanoseconds)
{
    uint64_t sum;
    if (__builtin_add_overflow(time, nanoseconds, &sum))
        return SIM_NEVER;
    bool leaves = sim_time_is_open(time) ? (sum - LIMBO) / STRETCH != (time - LIMBO) / STRETCH : sim_time_is_open(sum);
    return leaves ? SIM_NEVER : sum;
}

static bool grow_gates(void)
{
    size_t more = sim.gate_room ? sim.gate_room * 2 : 16;
    struct sim_gate *gates = more <= GATES_MAX ? realloc(sim.gates, more * sizeof(*gates)) : NULL;
    if (!gates)
        return false;
    sim.gates = gates;
    sim.gate_room = more;
    return true;
}

/* Returns the time at which the new gate opens, or SIM_NEVER if host memory runs out. */
static uint64_t add_gate(struct sim_gate made)
{
    size_t gate = 0;
    while (gate < sim.gate_count && sim.gates[gate].used)
        gate++;
    if (gate == sim.gate_room && !grow_gates())
        return SIM_NEVER;
    if (gate == sim.gate_count)
        sim.gate_count++;
    made.used = true;
    made.made_at = sim.now;
    sim.gates[gate] = made;
    return base_of(gate);
}

uint64_t sim_gate_of_fence(int fence)
{
    for (size_t gate = 0; gate < sim.gate_count; gate++)
        if (sim.gates[gate].used && sim.gates[gate].fence == fence)
            return base_of(gate);
    uint64_t time = add_gate((struct sim_gate){ .fence = fence });
    if (time == SIM_NEVER)
        sim_ledger_fence_release(fence);
    return time;
}

uint64_t sim_time_join(uint64_t a, uint64_t b)
{
    uint64_t first = a < b ? a : b, second = a < b ? b : a;
    bool is_plain = !sim_time_is_open(second) || second == SIM_NEVER || first <= sim.now;
    if (is_plain || (sim_time_is_open(first) && (first - LIMBO) / STRETCH == (second - LIMBO) / STRETCH))
        return second;
    return add_gate((struct sim_gate){ .fence = -1, .a = first, .b = second });
}

/* Opening ------------------------------------------------------------------------------------------------------------------------------ */

static void replace(uint64_t *time, uint64_t base, uint64_t at)
{
    if (is_of(*time, base))
        *time = sim_time_add(at, *time - base);
}

static void replace_in_pools(uint64_t base, uint64_t at)
{
    for (struct sim_pool *pool = sim.pools; pool; pool = pool->next)
        for (struct sim_segment *segment = pool->index.pending; segment; segment = segment->later)
            replace(&segment->done_at, base, at);
}

/* The new due time changes an action's place in the list: take the action out, and insert it again. */
static void replace_in_actions(uint64_t base, uint64_t at)
{
    struct sim_action *found = NULL, **end = &found;
    for (struct sim_action **place = &sim.actions; *place;) {
        struct sim_action *action = *place;
        if (!is_of(action->due, base)) {
            place = &action->next;
            continue;
        }
        *place = action->next;
        action->next = NULL;
        *end = action;
        end = &action->next;
    }
    while (found) {
        struct sim_action *action = found;
        found = action->next;
        replace(&action->due, base, at);
        sim_action_insert(action);
    }
}

static void replace_everywhere(uint64_t base, uint64_t at)
{
    for (struct sim_stream *stream = sim.streams; stream; stream = stream->next)
        replace(&stream->busy_until, base, at);
    for (int device = 0; device < SIM_DEVICES_MAX; device++) {
        replace(&sim.devices[device].legacy.busy_until, base, at);
        replace(&sim.devices[device].gone_until, base, at);
    }
    for (struct sim_event *event = sim.events; event; event = event->next)
        replace(&event->done_at, base, at);
    for (struct sim_sleeper *sleeper = sim.sleepers; sleeper; sleeper = sleeper->next)
        replace(&sleeper->until, base, at);
    for (size_t gate = 0; gate < sim.gate_count; gate++) {
        replace(&sim.gates[gate].a, base, at);
        replace(&sim.gates[gate].b, base, at);
    }
    replace_in_pools(base, at);
    replace_in_actions(base, at);
}

/* Returns whether the gate is open, and sets *at to the time since when. */
static bool is_open_now(const struct sim_gate *gate, uint64_t *at)
{
    if (gate->fence >= 0)
        return sim_ledger_fence_is_done(gate->fence, at);
    *at = gate->a > gate->b ? gate->a : gate->b;
    return !sim_time_is_open(*at);
}

bool sim_gates_settle(void)
{
    bool any = false;
    for (size_t i = 0; i < sim.gate_count;) {
        struct sim_gate *gate = &sim.gates[i];
        uint64_t at;
        if (!gate->used || !is_open_now(gate, &at)) {
            i++;
            continue;
        }
        gate->used = false;
        if (gate->fence >= 0)
            sim_ledger_fence_release(gate->fence);
        replace_everywhere(base_of(i), at > gate->made_at ? at : gate->made_at);
        any = true;
        i = 0; /* an earlier gate may have waited for this one */
    }
    return any;
}

bool sim_gates_are_closed(void)
{
    for (size_t gate = 0; gate < sim.gate_count; gate++)
        if (sim.gates[gate].used && sim.gates[gate].fence >= 0)
            return true;
    return false;
}

void sim_gates_clear(void)
{
    free(sim.gates);
    sim.gates = NULL;
    sim.gate_count = sim.gate_room = 0;
}
