/* SPDX-License-Identifier: MIT */
/* sim_clock.c - virtual time, and the effects on memory that wait for it. */
#include "lib/gpu/sim_internal.h"

#include <stdlib.h>
#include <string.h>

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Host memory is reachable from everywhere; pool memory from the devices that have access, and only while it exists. */
static bool can_touch(int device, const void *ptr, size_t size)
{
    const struct sim_pool *pool = sim_memory_pool(ptr);
    return !pool || (pool->access[device] == GPU_ACCESS_READ_WRITE && sim_memory_is_present(pool, ptr, size));
}

static void run(const struct sim_action *action)
{
    if (sim.sticky)
        return;
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
    sim_advance_to(add_saturated(sim.now, nanoseconds));
}

void sim_actions_clear(void)
{
    while (sim.actions)
        drop_first_action();
}

/* CUDA's legacy stream and the streams that block on it wait for each other. */
static uint64_t implicit_wait(const struct sim_stream *stream)
{
    uint64_t time = 0;
    if (stream->kind == SIM_STREAM_PER_THREAD)
        return sim.devices[stream->device].legacy.busy_until;
    if (stream->kind == SIM_STREAM_LEGACY)
        for (const struct sim_stream *other = sim.streams; other; other = other->next)
            if (other->kind == SIM_STREAM_PER_THREAD && other->device == stream->device)
                time = later(time, other->busy_until);
    return time;
}

uint64_t sim_enqueue(struct sim_stream *stream, uint64_t nanoseconds)
{
    uint64_t start = later(later(sim.now, stream->busy_until), implicit_wait(stream));
    stream->busy_until = add_saturated(start, nanoseconds);
    uint64_t *device_busy_until = &sim.devices[stream->device].busy_until;
    *device_busy_until = later(*device_busy_until, stream->busy_until);
    return stream->busy_until;
}

/* Behind all that is due no later, so that what was queued first runs first. */
static void insert(struct sim_action *action)
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

/* Queues a copy or a set. Takes `staged` over, also when it fails. */
static int queue_action(struct sim_stream *stream, void *dst, const void *src, unsigned char *staged, int byte, size_t size)
{
    struct sim_action *action = malloc(sizeof(*action));
    if (!action) {
        free(staged);
        return GPU_OUT_OF_MEMORY;
    }
    *action = (struct sim_action){ .device = stream->device, .dst = dst, .src = staged ? staged : src, .staged = staged,
                                   .byte = byte, .size = size };
    action->due = sim_enqueue(stream, cost(size));
    insert(action);
    return 0;
}

int sim_set_async(struct sim_thread *self, void *dst, int byte, size_t size, gpu_stream handle)
{
    struct sim_stream *stream;
    struct sim_capture *capture = NULL;
    int code = sim_stream_find(self, handle, &stream);
    if (!code)
        code = sim_capture_enter(stream, &capture);
    if (capture)
        capture->nodes++;
    if (code || capture || !size)
        return code;
    return sim_memory_pool(dst) ? queue_action(stream, dst, NULL, NULL, byte, size) : GPU_INVALID_VALUE;
}

/*
 * As CUDA does with pageable host memory: what is copied from it is read before the call returns, and what is copied to it has arrived
 * by then, so that the caller may do with it as he likes.
 */
int sim_copy_async(struct sim_thread *self, void *dst, const void *src, size_t size, gpu_stream handle)
{
    struct sim_stream *stream;
    struct sim_capture *capture = NULL;
    int code = sim_stream_find(self, handle, &stream);
    if (!code)
        code = sim_capture_enter(stream, &capture);
    if (capture)
        capture->nodes++;
    if (code || capture || !size)
        return code;
    if (!dst || !src)
        return GPU_INVALID_VALUE;
    unsigned char *staged = NULL;
    bool to_host = !sim_memory_pool(dst);
    if (!to_host && !sim_memory_pool(src)) {
        staged = malloc(size);
        if (!staged)
            return GPU_OUT_OF_MEMORY;
        memcpy(staged, src, size);
    }
    code = queue_action(stream, dst, src, staged, 0, size);
    if (!code && to_host) {
        sim_advance_to(stream->busy_until);
        code = sim.sticky;
    }
    return code;
}

int sim_delay(struct sim_thread *self, gpu_stream handle, uint64_t nanoseconds)
{
    struct sim_stream *stream;
    struct sim_capture *capture = NULL;
    int code = sim_stream_find(self, handle, &stream);
    if (!code)
        code = sim_capture_enter(stream, &capture);
    if (capture)
        capture->nodes++;
    if (code || capture)
        return code;
    sim_enqueue(stream, nanoseconds);
    return 0;
}
