/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/source.h"

#include <stdlib.h>

#include "lib/base/format.h"

static struct torch_foreign *add_use(struct torch_source *source)
{
    struct torch_foreign *foreign = calloc(1, sizeof *foreign);
    if (!foreign)
        return NULL;
    atomic_fetch_add(&source->uses, 1);
    foreign->source = source;
    return foreign;
}

static void end_use(struct torch_foreign *foreign)
{
    struct torch_source *source = foreign->source;
    free(foreign);
    if (atomic_fetch_sub(&source->uses, 1) != 1)
        return;
    if (source->given.drop)
        source->given.drop(source->given.data);
    free(source);
}

struct torch_foreign *torch_source_new(const weir_torch_source *given)
{
    struct torch_source *source = calloc(1, sizeof *source);
    struct torch_foreign *foreign = source ? add_use(source) : NULL;
    if (!foreign) {
        free(source);
        return NULL;
    }
    source->given = *given;
    return foreign;
}

struct torch_foreign *torch_source_malloc(struct torch_device *device, struct torch_source *source, size_t size, gpu_stream handle,
                                          weir_error *error)
{
    struct torch_foreign *foreign = add_use(source);
    if (!foreign) {
        weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to keep track of %s of a pool's own allocator", WEIR__BYTES(size));
        return NULL;
    }
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    foreign->base = source->given.malloc(source->given.data, size, device->index, handle);
    weir__relaxed_end(device->gpu, mode);
    foreign->size = size;
    if (foreign->base)
        return foreign;
    end_use(foreign);
    weir__fail(error, WEIR_OUT_OF_MEMORY, "%s on device %d: the pool's own allocator has no more", WEIR__BYTES(size), device->index);
    return NULL;
}

/* Waits for the device. Returns false, without a wait, if a capture is in progress, which the wait would destroy. */
static bool wait_for_device(struct torch_device *device)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    bool is_quiet = weir__quiet_begin(device->gpu);
    if (is_quiet) {
        device->gpu->device_synchronize(device->index);
        weir__quiet_end();
    }
    weir__relaxed_end(device->gpu, mode);
    return is_quiet;
}

static void keep(struct torch_device *device, struct torch_foreign *list)
{
    struct torch_foreign *last = list;
    while (last->next)
        last = last->next;
    pthread_mutex_lock(&device->reserve_lock);
    last->next = device->gone;
    device->gone = list;
    pthread_mutex_unlock(&device->reserve_lock);
}

void torch_source_drop(struct torch_device *device, struct torch_foreign *list)
{
    const struct torch_foreign *chunk = list;
    while (chunk && !chunk->base)
        chunk = chunk->next;
    if (chunk && !wait_for_device(device)) {
        keep(device, list);
        return;
    }
    while (list) {
        struct torch_foreign *foreign = list;
        list = foreign->next;
        if (foreign->base)
            foreign->source->given.free(foreign->source->given.data, foreign->base, foreign->size, device->index);
        end_use(foreign);
    }
}
