/* SPDX-License-Identifier: MIT */
/* sim_context.c - contexts that a program makes in addition to the context of each device. Not simulated: in CUDA each of them has a legacy
   stream of its own. */
#include "lib/gpu/sim_internal.h"

#include <stdlib.h>

static bool is_open(const void *handle)
{
    const struct sim_context *context = sim.contexts;
    while (context && context != handle)
        context = context->next;
    return context;
}

uint64_t sim_context_here(int device)
{
    const struct sim_context *context = sim_self->context;
    return context && context->device == device && sim_self->device == device ? context->id : 0;
}

/* The device's own context has the id of the device's legacy stream, so that no other context has the same id. */
static struct gpu_context describe(int device, uint64_t id)
{
    struct sim_stream *legacy = &sim.devices[device].legacy;
    struct gpu_context described = {.handle = legacy, .id = legacy->id};
    for (struct sim_context *context = sim.contexts; id && context; context = context->next)
        if (context->id == id)
            described = (struct gpu_context){.handle = context, .id = id};
    if (!sim_driver(12000))
        described.id = 0;
    return described;
}

int sim_stream_context(gpu_stream stream, struct gpu_context *context)
{
    *context = describe(stream->device, stream->kind == SIM_STREAM_CREATED ? stream->context : sim_context_here(stream->device));
    return 0;
}

bool sim_context_lives(const struct gpu_context *context)
{
    bool is_device = false;
    for (int device = 0; device < SIM_DEVICES_MAX; device++)
        is_device = is_device || context->handle == &sim.devices[device].legacy;
    if (is_device || !context->handle || !context->id)
        return true;
    return is_open(context->handle) && ((const struct sim_context *)context->handle)->id == context->id;
}

struct sim_context *sim_context_make(int device)
{
    struct sim_context *context = sim.spare_contexts;
    if (context)
        sim.spare_contexts = context->next;
    else if (!(context = calloc(1, sizeof(*context))))
        return NULL;
    *context = (struct sim_context){.next = sim.contexts, .id = ++sim.last_id, .device = device};
    sim.contexts = context;
    return context;
}

void sim_context_drop(struct sim_context *context)
{
    sim_streams_end_context(context->id);
    for (struct sim_thread *thread = sim.threads; thread; thread = thread->next)
        if (thread->context == context)
            thread->context = NULL;
    struct sim_context **link = &sim.contexts;
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    context->next = sim.spare_contexts;
    sim.spare_contexts = context;
}

static void free_all(struct sim_context **list)
{
    while (*list) {
        struct sim_context *context = *list;
        *list = context->next;
        free(context);
    }
}

void sim_contexts_clear(void)
{
    free_all(&sim.contexts);
    free_all(&sim.spare_contexts);
}
