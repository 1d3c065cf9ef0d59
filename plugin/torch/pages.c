/* SPDX-License-Identifier: MIT */
/*
 * pages.c - tensors that go to other processes through torch.multiprocessing: the sender hands out the name of the window in which its block
 * lies, and the receiver maps the pages of the window (share/window.h). torch counts the receivers of a tensor, and keeps its block live until
 * the last has dropped it; the shim looks that a receiver maps a window once.
 */
#include "config.h"

#include <string.h>

#include "lib/base/format.h"
#include "plugin/torch/reserve.h"
#include "plugin/torch/source.h"
#include "share/window.h"

_Static_assert(sizeof(struct share_window) == sizeof(weir_torch_handle), "a handle is a window as other processes know it");

static weir_status fail_to_share(const struct torch_device *device, const void *ptr, weir_status status, weir_error *error)
{
    const struct weir__entry *entry = weir__blocks_look(&device->w->blocks, ptr);
    bool is_block = entry && atomic_load(&entry->live) && atomic_load(&entry->ptr) == ptr;
    return weir__fail(error, status == WEIR_NOT_FOUND ? WEIR_NOT_SUPPORTED : status, "the tensor at %p of pool '%s' cannot be sent to other processes%s",
                      ptr, is_block ? entry->pool->name : device->pool->name,
                      status == WEIR_NOT_FOUND ? ", as its memory is no arena of Weir's: write backing: arena for the pool in the policy"
                      : status == WEIR_BUSY    ? " while the pool sleeps: wake the pool"
                                               : ": no host memory");
}

weir_status weir_torch_share(int index, const void *ptr, size_t size, weir_error *error, weir_torch_handle *handle, uint64_t *offset)
{
    struct share_window there = {.magic = ""};
    struct torch_device *device = torch_device_find(index);
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    if (!device || !ptr || !size || !handle || !offset)
        return weir__fail(error, WEIR_INVALID, "weir_torch_share: there must be a block, and handle and offset must not be NULL");
    status = WEIR_NOT_FOUND;
    weir_pool *pool = weir__device_next_pool(device->device, NULL);
    while (pool && (status = weir__window_share(pool->backing, ptr, size, &there.window)) == WEIR_NOT_FOUND)
        pool = weir__device_next_pool(device->device, pool);
    if (pool)
        weir__pool_release(pool);
    if (status != WEIR_OK)
        return fail_to_share(device, ptr, status, error);
    pthread_mutex_lock(&torch_opening); /* so that one thread opens the socket */
    status = share_window_tell(device->w, index, error, &there);
    pthread_mutex_unlock(&torch_opening);
    if (status != WEIR_OK) {
        weir_torch_unshare(index, ptr, size);
        return status;
    }
    memcpy(handle->bytes, &there, sizeof there);
    *offset = (uintptr_t)ptr - there.window.address;
    return WEIR_OK;
}

void weir_torch_unshare(int index, const void *ptr, size_t size)
{
    const struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    for (weir_pool *pool = NULL; device && (pool = weir__device_next_pool(device->device, pool));)
        weir__window_unshare(pool->backing, ptr, size);
}

static void unmap(void *data, void *range, size_t size, int index)
{
    const struct gpu *gpu = torch_device_find(index)->gpu;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    (void)data;
    share_window_unmap(gpu, range, size, size);
    weir__relaxed_end(gpu, mode);
}

/* A mapping is a chunk of a source of its own, so that it goes once the device has done its work, and not during a capture. */
weir_status weir_torch_receive(int index, const void *handle, size_t size, weir_error *error, weir_torch_received **received, void **ptr)
{
    static const weir_torch_source source = {.free = unmap};
    struct share_window there = {.magic = ""};
    weir_error own = WEIR_ERROR_INIT, *filled = error ? error : &own;
    struct torch_device *device = torch_device_open(index, filled);
    if (!device)
        return filled->status;
    if (!handle || !received || !ptr)
        return weir__fail(error, WEIR_INVALID, "weir_torch_receive: handle, received and ptr must not be NULL");
    memcpy(&there, handle, size == sizeof there ? size : 0);
    struct torch_foreign *made = torch_source_new(&source);
    if (!made)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to receive a tensor");
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    weir_status status = share_window_map(device->pool, &there, error, &made->base);
    weir__relaxed_end(device->gpu, mode);
    if (status != WEIR_OK) {
        made->base = NULL;
        torch_source_drop(device, made);
        return status;
    }
    made->size = there.window.bytes;
    *received = (weir_torch_received *)made;
    *ptr = made->base;
    return WEIR_OK;
}

void weir_torch_receive_end(int index, weir_torch_received *received)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    struct torch_foreign *made = (struct torch_foreign *)received;
    if (!device)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    made->next = device->gone;
    device->gone = made;
    torch_reserve_unlock(device);
}
