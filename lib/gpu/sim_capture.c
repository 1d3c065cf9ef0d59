/* SPDX-License-Identifier: MIT */
/*
 * sim_capture.c - stream capture: which operations become nodes, and which invalidate the capture. Of a graph that runs, only the memory is
 * simulated: from then on until graph_trim() the device lacks the largest number of bytes that any graph so far had live at once.
 *
 * Not simulated: capture_end does not fail if a stream that joined the capture was never joined back to its origin.
 */
#include "lib/gpu/sim_internal.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct sim_capture *find_capture(uint64_t id)
{
    struct sim_capture *capture = sim.captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

void sim_capture_invalidate(uint64_t id)
{
    struct sim_capture *capture = find_capture(id);
    if (capture)
        capture->invalid = true;
}

bool sim_capture_invalidate_device(int device)
{
    bool any = false;
    for (struct sim_capture *capture = sim.captures; capture; capture = capture->next) {
        if (capture->origin->device != device)
            continue;
        capture->invalid = true;
        any = true;
    }
    return any;
}

/* Returns whether the thread must not do something unsafe now because of this capture. That is CUDA's rule: a thread in relaxed mode may do
   anything. Any other thread endangers a capture that the thread itself began, unless that was begun in relaxed mode; and in global mode
   also a capture that any thread began in global mode. */
static bool endangers(const struct sim_capture *capture)
{
    if (sim_self->mode == GPU_CAPTURE_MODE_RELAXED || capture->invalid)
        return false;
    if (capture->thread == sim_self)
        return capture->mode != GPU_CAPTURE_MODE_RELAXED;
    return sim_self->mode == GPU_CAPTURE_MODE_GLOBAL && capture->mode == GPU_CAPTURE_MODE_GLOBAL;
}

int sim_capture_check_unsafe(void)
{
    int code = 0;
    for (struct sim_capture *capture = sim.captures; capture; capture = capture->next) {
        if (!endangers(capture))
            continue;
        capture->invalid = true;
        code = GPU_CAPTURE_UNSUPPORTED;
    }
    return code;
}

/* Returns the capture of a blocking stream of the device, or NULL: work on the legacy stream would have to wait for that stream, which is
   impossible. */
static struct sim_capture *implicit_capture(const struct sim_stream *legacy)
{
    for (const struct sim_stream *stream = sim.captures ? sim.streams : NULL; stream; stream = stream->next)
        if (stream->kind == SIM_STREAM_PER_THREAD && stream->device == legacy->device && stream->capture)
            return stream->capture;
    return NULL;
}

int sim_capture_enter(const struct sim_stream *stream)
{
    struct sim_capture *implicit = stream->kind == SIM_STREAM_LEGACY ? implicit_capture(stream) : NULL;
    if (implicit) {
        implicit->invalid = true;
        return GPU_CAPTURE_IMPLICIT;
    }
    return stream->capture && stream->capture->invalid ? GPU_CAPTURE_INVALIDATED : 0;
}

int sim_capture_refuse(const struct sim_stream *stream)
{
    if (!stream->capture)
        return 0;
    stream->capture->invalid = true;
    return GPU_CAPTURE_UNSUPPORTED;
}

int sim_capture_wait(struct sim_stream *stream, const struct sim_event *event)
{
    struct sim_capture *capture = find_capture(event->capture);
    if (stream->capture && stream->capture->invalid)
        return GPU_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = true;
        return SIM_CAPTURE_ISOLATION;
    }
    if (!capture)
        return SIM_CAPTURED_EVENT;
    if (stream->kind == SIM_STREAM_LEGACY) {
        capture->invalid = true;
        return GPU_CAPTURE_IMPLICIT;
    }
    stream->capture = capture;
    return 0;
}

int sim_stream_capture_status(gpu_stream stream, enum gpu_capture_status *status)
{
    if (stream->kind == SIM_STREAM_LEGACY && implicit_capture(stream))
        return GPU_CAPTURE_IMPLICIT;
    *status = !stream->capture           ? GPU_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? GPU_CAPTURE_STATUS_INVALID
                                         : GPU_CAPTURE_STATUS_ACTIVE;
    return 0;
}

int sim_stream_capture_id(gpu_stream stream, uint64_t *id)
{
    if (stream->kind == SIM_STREAM_LEGACY && implicit_capture(stream))
        return GPU_CAPTURE_IMPLICIT;
    *id = stream->capture ? stream->capture->id : 0;
    return 0;
}

int sim_exchange_capture_mode(enum gpu_capture_mode *mode)
{
    if ((unsigned)*mode > GPU_CAPTURE_MODE_RELAXED)
        return GPU_INVALID_VALUE;
    enum gpu_capture_mode former = sim_self->mode;
    sim_self->mode = *mode;
    *mode = former;
    return 0;
}

int sim_capture_begin(gpu_stream stream, enum gpu_capture_mode mode)
{
    if ((unsigned)mode > GPU_CAPTURE_MODE_RELAXED)
        return GPU_INVALID_VALUE;
    if (stream->kind == SIM_STREAM_LEGACY)
        return GPU_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return SIM_ILLEGAL_STATE;
    struct sim_capture *capture = malloc(sizeof(*capture));
    if (!capture)
        return GPU_OUT_OF_MEMORY;
    *capture = (struct sim_capture){ .next = sim.captures, .id = ++sim.last_id, .origin = stream, .thread = sim_self, .mode = mode };
    sim.captures = capture;
    stream->capture = capture;
    return 0;
}

static void unmap(const struct sim_graph_block *block)
{
    munmap((char *)block->address - SIM_ALIGNMENT, block->size + SIM_ALIGNMENT);
}

static void drop_capture(struct sim_capture *capture)
{
    struct sim_capture **place = &sim.captures;
    while (*place != capture)
        place = &(*place)->next;
    *place = capture->next;
    for (struct sim_stream *stream = sim.streams; stream; stream = stream->next)
        if (stream->capture == capture)
            stream->capture = NULL;
    while (capture->blocks) {
        struct sim_graph_block *block = capture->blocks;
        capture->blocks = block->next;
        unmap(block);
        free(block);
    }
    free(capture);
}

int sim_capture_end(gpu_stream stream, size_t *nodes)
{
    struct sim_capture *capture = stream->capture;
    if (!capture)
        return SIM_ILLEGAL_STATE;
    if (capture->origin != stream)
        return SIM_CAPTURE_UNMATCHED;
    if (capture->mode != GPU_CAPTURE_MODE_RELAXED && capture->thread != sim_self)
        return SIM_CAPTURE_WRONG_THREAD;
    int code = capture->invalid ? GPU_CAPTURE_INVALIDATED : 0;
    if (!code)
        *nodes = capture->nodes;
    drop_capture(capture);
    return code;
}

int sim_capture_run(gpu_stream stream)
{
    struct sim_pool *graphs = &sim.devices[stream->device].graphs;
    uint64_t most = stream->capture ? sim_round_up(stream->capture->most, SIM_STEP) : 0;
    size_t nodes;
    int code = sim_capture_end(stream, &nodes);
    if (code)
        return code;
    if (most > graphs->held && !sim_device_charge(stream->device, graphs, most - graphs->held))
        return GPU_OUT_OF_MEMORY;
    return sim_stream_synchronize(stream);
}

int sim_graph_trim(int device)
{
    struct sim_pool *graphs = &sim.devices[device].graphs;
    sim_device_charge(device, graphs, -graphs->held);
    return 0;
}

void sim_capture_drop_origin(struct sim_stream *stream)
{
    if (stream->capture && stream->capture->origin == stream)
        drop_capture(stream->capture);
}

void sim_captures_clear(void)
{
    while (sim.captures)
        drop_capture(sim.captures);
}

int sim_capture_malloc(struct sim_capture *capture, size_t size, void **ptr)
{
    struct sim_graph_block *block = size > SIZE_MAX - SIM_ALIGNMENT ? NULL : malloc(sizeof(*block));
    if (!block)
        return GPU_OUT_OF_MEMORY;
    block->size = size;
    char *nothing = sim_map_nothing(NULL, size + SIM_ALIGNMENT);
    if (!nothing) {
        free(block);
        return GPU_OUT_OF_MEMORY;
    }
    block->address = nothing + SIM_ALIGNMENT; /* more alignment than that is not promised */
    block->next = capture->blocks;
    capture->blocks = block;
    capture->bytes += size;
    if (capture->most < capture->bytes)
        capture->most = capture->bytes;
    capture->nodes++;
    *ptr = block->address;
    return 0;
}

int sim_capture_free(struct sim_capture *capture, void *ptr)
{
    for (struct sim_graph_block **place = &capture->blocks; *place; place = &(*place)->next) {
        struct sim_graph_block *block = *place;
        if (block->address != ptr)
            continue;
        *place = block->next;
        capture->bytes -= block->size;
        unmap(block);
        free(block);
        capture->nodes++;
        return 0;
    }
    return GPU_INVALID_VALUE;
}
