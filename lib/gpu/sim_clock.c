/* SPDX-License-Identifier: MIT */
/* sim_clock.c - the clock, and the effects of queued work on memory, which happen when the clock reaches them. */
#include "lib/gpu/sim_machine.h"

#include <stdlib.h>
#include <string.h>

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns whether work on the device may touch these bytes. Host memory can always be touched; memory of pools and pages only by devices
   with access, and only while it exists. */
static bool can_touch(int device, const void *ptr, size_t size)
{
    const struct sim_pool *pool = sim_memory_pool(ptr);
    if (!pool && sim_map_has(ptr))
        return sim_map_can_touch(device, ptr, size);
    return !pool || (pool->access[device] == GPU_ACCESS_READ_WRITE && sim_memory_is_present(pool, ptr, size));
}

static bool is_on_device(const void *ptr)
{
    return sim_memory_pool(ptr) || sim_map_has(ptr);
}

static void run(const struct sim_action *action)
{
    if (sim.sticky)
        return;
    if (action->fence >= 0) {
        sim_ledger_fence_done(action->fence, action->due);
        return;
    }
    if (!can_touch(action->device, action->dst, action->size) ||
        (action->src && !can_touch(action->device, action->src, action->size))) {
        sim.sticky = GPU_ILLEGAL_ADDRESS;
        return;
    }
    if (action->src)
        memmove(action->dst, action->src, action->size);
    else
        memset(action->dst, action->byte, action->size);
}

static void drop_first_action(void)
{
    struct sim_action *action = sim.actions;
    sim.actions = action->next;
    free(action->staged);
    free(action);
}

void sim_advance_to(uint64_t time)
{
    while (sim.actions && sim.actions->due <= time) {
        sim.now = later(sim.now, sim.actions->due);
        run(sim.actions);
        drop_first_action();
    }
    sim.now = later(sim.now, time);
}

void sim_advance_by(uint64_t nanoseconds)
{
    if (!sim_machine_is_named())
        sim_advance_to(sim_time_add(sim.now, nanoseconds));
}

void sim_actions_clear(void)
{
    while (sim.actions)
        drop_first_action();
}

/* Returns the time until which the stream has to wait because CUDA's legacy stream and the blocking streams wait for each other. */
static uint64_t implicit_wait(const struct sim_stream *stream)
{
    uint64_t time = 0;
    if (stream->kind == SIM_STREAM_PER_THREAD)
        return sim.devices[stream->device].legacy.busy_until;
    if (stream->kind == SIM_STREAM_LEGACY)
        for (const struct sim_thread *thread = sim.threads; thread; thread = thread->next)
            if (thread->streams[stream->device])
                time = sim_time_join(time, thread->streams[stream->device]->busy_until);
    return time;
}

uint64_t sim_enqueue(struct sim_stream *stream, uint64_t nanoseconds)
{
    uint64_t start = sim_time_join(later(sim.now, stream->busy_until), implicit_wait(stream));
    stream->busy_until = sim_time_add(start, nanoseconds);
    sim.devices[stream->device].used = true;
    return stream->busy_until;
}

/* Actions with the same time run in the order in which they were queued. */
void sim_action_insert(struct sim_action *action)
{
    struct sim_action **place = &sim.actions;
    while (*place && (*place)->due <= action->due)
        place = &(*place)->next;
    action->next = *place;
    *place = action;
}

static uint64_t cost(size_t size)
{
    return SIM_LAUNCH_NS + size / 1024;
}

/* Queues an action that takes this many nanoseconds. Takes over `made.staged`, even if it fails. */
static int queue_action(struct sim_stream *stream, struct sim_action made, uint64_t nanoseconds)
{
    struct sim_action *action = malloc(sizeof(*action));
    if (!action) {
        free(made.staged);
        return GPU_OUT_OF_MEMORY;
    }
    *action = made;
    action->device = stream->device;
    action->due = sim_enqueue(stream, nanoseconds);
    sim_action_insert(action);
    return 0;
}

int sim_fence_enqueue(struct sim_stream *stream, int fence)
{
    return queue_action(stream, (struct sim_action){ .fence = fence }, 0);
}

uint64_t sim_fence_due(int fence)
{
    const struct sim_action *action = sim.actions;
    while (action && action->fence != fence)
        action = action->next;
    return action ? action->due : SIM_NEVER;
}

int sim_set_async(void *dst, int byte, size_t size, gpu_stream stream)
{
    if (stream->capture) {
        stream->capture->nodes++;
        return 0;
    }
    if (!size)
        return 0;
    if (!is_on_device(dst))
        return GPU_INVALID_VALUE;
    return queue_action(stream, (struct sim_action){ .fence = -1, .dst = dst, .byte = byte, .size = size }, cost(size));
}

/* As in CUDA with pageable host memory: a copy from the host has read its source before the call returns, and a copy to the host has
   arrived, so the caller may use the host memory at once. */
int sim_copy_async(void *dst, const void *src, size_t size, gpu_stream stream)
{
    if (stream->capture) {
        stream->capture->nodes++;
        return 0;
    }
    if (!size)
        return 0;
    if (!dst || !src)
        return GPU_INVALID_VALUE;
    struct sim_action copy = { .fence = -1, .dst = dst, .src = src, .size = size };
    bool to_host = !is_on_device(dst);
    if (!to_host && !is_on_device(src)) {
        copy.staged = malloc(size);
        if (!copy.staged)
            return GPU_OUT_OF_MEMORY;
        copy.src = memcpy(copy.staged, src, size);
    }
    int code = queue_action(stream, copy, cost(size));
    if (!code && to_host) {
        sim_wait_until(stream->busy_until);
        code = sim.sticky;
    }
    return code;
}

int sim_delay(gpu_stream stream, uint64_t nanoseconds)
{
    if (stream->capture)
        stream->capture->nodes++;
    else
        sim_enqueue(stream, nanoseconds);
    return 0;
}
