/* SPDX-License-Identifier: MIT */
/*
 * pages.c - tensors that go to other processes through torch.multiprocessing. The sender hands out the name of the window in which its block
 * lies (lib/backing/window.h), and the receiver maps the pages of the window.
 *
 * torch counts the receivers of a tensor and keeps its block live until the last has dropped it. All tensors of one window have the same
 * handle, for which a receiver has one mapping.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/format.h"
#include "plugin/torch/reserve.h"
#include "plugin/torch/source.h"
#include "share/window.h"

/* A handle as torch passes it on. Both processes run on one machine, so that numbers need no fixed order of bytes. */
struct handle {
    char magic[8];
    struct share_window there;
};
_Static_assert(sizeof(struct handle) == sizeof(weir_torch_handle), "the handle has no padding");
static const char magic[8] = "WEIRPG1";

/* The sender --------------------------------------------------------------------------------------------------------------------------- */

static weir_status fail_elsewhere(const struct torch_device *device, const void *ptr, weir_error *error)
{
    const struct weir__entry *entry = weir__blocks_look(&device->w->blocks, ptr);
    bool is_block = entry && atomic_load(&entry->live) && atomic_load(&entry->ptr) == ptr;
    return weir__fail(error, WEIR_NOT_SUPPORTED, "the tensor at %p cannot be sent to other processes, as its memory is no arena of Weir's: write "
                                                 "backing: arena for pool '%s' in the policy",
                      ptr, is_block ? entry->pool->name : device->pool->name);
}

weir_status weir_torch_share(int index, const void *ptr, size_t size, weir_error *error, weir_torch_handle *handle, uint64_t *offset)
{
    struct handle made = {.magic = ""};
    struct torch_device *device = torch_device_find(index);
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    if (!device || !ptr || !size || !handle || !offset)
        return weir__fail(error, WEIR_INVALID, "weir_torch_share: there must be a block, and handle and offset must not be NULL");
    status = WEIR_NOT_FOUND;
    for (weir_pool *pool = NULL; status == WEIR_NOT_FOUND && (pool = weir__device_next_pool(device->device, pool));)
        status = weir__window_share(pool->backing, ptr, size, &made.there.window);
    if (status == WEIR_NOT_FOUND)
        return fail_elsewhere(device, ptr, error);
    if (status == WEIR_BUSY)
        return weir__fail(error, status, "the tensor at %p cannot be sent to other processes while its pool sleeps: wake the pool", ptr);
    if (status != WEIR_OK)
        return weir__fail(error, status, "no host memory to send the tensor at %p to other processes", ptr);
    pthread_mutex_lock(&torch_opening); /* so that one thread opens the socket */
    status = share_window_tell(device->w, device->index, error, &made.there);
    pthread_mutex_unlock(&torch_opening);
    if (status != WEIR_OK) {
        weir__window_unshare(ptr);
        return status;
    }
    memcpy(made.magic, magic, sizeof magic);
    memcpy(handle->bytes, &made, sizeof made);
    *offset = (uintptr_t)ptr - made.there.window.address;
    return WEIR_OK;
}

void weir_torch_unshare(const void *ptr)
{
    if (!torch_is_over())
        weir__window_unshare(ptr);
}

/* The receiver ------------------------------------------------------------------------------------------------------------------------- */

/* A mapping of a window. The chunk of `memory` is the mapping, and goes once the device has done its work. */
struct received {
    struct received *next;
    struct handle handle;
    unsigned holders;
    struct torch_device *device;
    struct torch_foreign *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the numbers of holders; a leaf */
static struct received *first;

static void unmap_chunk(void *data, void *range, size_t size, int index)
{
    const struct gpu *gpu = torch_device_find(index)->gpu;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    (void)data;
    share_window_unmap(gpu, range, size, size);
    weir__relaxed_end(gpu, mode);
}

/* Unmaps the memory once the device has done its work, and what had to wait for the end of a capture before. */
static void drop(struct received *received)
{
    struct torch_device *device = received->device;
    pthread_mutex_lock(&device->reserve_lock);
    received->memory->next = device->gone;
    device->gone = received->memory;
    torch_reserve_unlock(device);
    free(received);
}

static weir_status make(struct torch_device *device, const struct handle *handle, weir_error *error, struct received **made)
{
    static const weir_torch_source source = {.free = unmap_chunk};
    struct received *received = calloc(1, sizeof *received);
    if (received) {
        *received = (struct received){.handle = *handle, .device = device, .memory = torch_source_new(&source)};
        if (received->memory)
            received->memory->size = handle->there.window.bytes;
    }
    if (!received || !received->memory) {
        free(received);
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to receive a tensor");
    }
    void *range;
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    weir_status status = share_window_map(device->gpu, device->index, &handle->there, error, &range);
    weir__relaxed_end(device->gpu, mode);
    received->memory->base = status == WEIR_OK ? range : NULL;
    if (status == WEIR_OK)
        *made = received;
    else
        drop(received);
    return status;
}

/* Adds a holder to the mapping of that handle. Without one, adds `fresh` (NULL: nothing), which has one holder then. Returns the mapping, or
   NULL. */
static struct received *hold(struct torch_device *device, const struct handle *handle, struct received *fresh)
{
    pthread_mutex_lock(&lock);
    struct received *received = first;
    while (received && (received->device != device || memcmp(&received->handle, handle, sizeof *handle) != 0))
        received = received->next;
    if (!received && fresh) {
        received = fresh;
        received->next = first;
        first = received;
    }
    if (received)
        received->holders++;
    pthread_mutex_unlock(&lock);
    return received;
}

static weir_status check_handle(const void *bytes, size_t size, weir_error *error, struct handle *handle)
{
    if (size != sizeof *handle || memcmp(bytes, magic, sizeof magic) != 0)
        return weir__fail(error, WEIR_INVALID, "the tensor of another process comes from no release of Weir that this one knows: enable the same "
                                               "release in both processes, or in neither");
    memcpy(handle, bytes, sizeof *handle);
    if (!share_window_is_whole(&handle->there))
        return weir__fail(error, WEIR_INVALID, "the handle of a tensor of another process is damaged");
    return WEIR_OK;
}

weir_status weir_torch_receive(int index, const void *bytes, size_t size, weir_error *error, void **ptr)
{
    struct handle handle;
    weir_error own = WEIR_ERROR_INIT;
    weir_error *filled = error ? error : &own;
    struct received *received, *fresh = NULL;
    weir_status status = weir__check_fork(error);
    if (status == WEIR_OK && (!bytes || !ptr))
        status = weir__fail(error, WEIR_INVALID, "weir_torch_receive: handle and ptr must not be NULL");
    if (status == WEIR_OK)
        status = check_handle(bytes, size, error, &handle);
    if (status != WEIR_OK)
        return status;
    struct torch_device *device = torch_device_open(index, filled);
    if (!device)
        return filled->status;
    if (strcmp(handle.there.uuid, device->device->info.uuid) != 0)
        return weir__fail(error, WEIR_INVALID, "the tensor of another process is on %s, and device %d of this one is %s: let both see the same GPUs "
                                               "(CUDA_VISIBLE_DEVICES)",
                          handle.there.uuid, index, device->device->info.uuid);
    received = hold(device, &handle, NULL);
    if (!received) {
        status = make(device, &handle, error, &fresh);
        if (status != WEIR_OK)
            return status;
        received = hold(device, &handle, fresh);
        if (received != fresh)
            drop(fresh); /* another thread was faster */
    }
    *ptr = received->memory->base;
    return WEIR_OK;
}

void weir_torch_receive_end(void *ptr)
{
    if (torch_is_over())
        return;
    pthread_mutex_lock(&lock);
    struct received **link = &first, *received;
    while ((received = *link) && received->memory->base != ptr)
        link = &received->next;
    if (received && --received->holders == 0)
        *link = received->next;
    else
        received = NULL;
    pthread_mutex_unlock(&lock);
    if (received)
        drop(received);
}
