/* SPDX-License-Identifier: MIT */
#include "lib/alloc/spare.h"

#include <stdlib.h>
#include <string.h>

struct weir__spare {
    gpu_stream handle;
    struct gpu_context context;
};

static bool is_open(struct weir__device *device, gpu_stream handle)
{
    pthread_rwlock_rdlock(&device->lock);
    bool is_listed = weir__stream_of_handle(device, handle);
    pthread_rwlock_unlock(&device->lock);
    return is_listed;
}

/* Whether it can be opened in this context, which is alive, and so the spare one is too. */
static bool is_fit(struct weir__device *device, const struct weir__spare *spare, const struct gpu_context *here)
{
    return spare->context.handle == here->handle && spare->context.id == here->id && !is_open(device, spare->handle) &&
           !weir__handle_captures(device, spare->handle);
}

static void take_out(struct weir__spares *spares, size_t i)
{
    spares->count--;
    memmove(&spares->items[i], &spares->items[i + 1], (spares->count - i) * sizeof *spares->items);
}

bool weir__spare_take(struct weir__device *device, gpu_stream *handle)
{
    struct weir__spares *spares = &device->spares;
    if (!spares->count)
        return false;
    const struct gpu_context here = weir__stream_context(device, GPU_STREAM_LEGACY);
    for (size_t i = spares->count; here.handle && i-- > 0;) {
        if (!is_fit(device, &spares->items[i], &here))
            continue;
        *handle = spares->items[i].handle;
        take_out(spares, i);
        return true;
    }
    return false;
}

/* Those whose context the program has destroyed went with it. */
static void forget_gone(struct weir__device *device)
{
    struct weir__spares *spares = &device->spares;
    for (size_t i = spares->count; i-- > 0;)
        if (!device->w->gpu->context_is_alive(&spares->items[i].context))
            take_out(spares, i);
}

bool weir__spare_put(struct weir__device *device, gpu_stream handle, const struct gpu_context *context)
{
    struct weir__spares *spares = &device->spares;
    if (spares->count == spares->room)
        forget_gone(device);
    if (spares->count == spares->room) {
        size_t room = spares->room ? 2 * spares->room : 4;
        struct weir__spare *items = realloc(spares->items, room * sizeof *items);
        if (!items)
            return false;
        spares->items = items;
        spares->room = room;
    }
    spares->items[spares->count++] = (struct weir__spare){.handle = handle, .context = *context};
    return true;
}

void weir__spares_destroy(struct weir__device *device)
{
    const struct gpu *gpu = device->w->gpu;
    struct weir__spares *spares = &device->spares;
    forget_gone(device);
    for (size_t i = 0; i < spares->count; i++) {
        gpu_stream handle = spares->items[i].handle;
        if (!weir__handle_captures(device, handle))
            gpu->stream_synchronize(handle);
        weir__stream_destroy(device, handle);
    }
    free(spares->items);
    *spares = (struct weir__spares){.items = NULL};
}
