/* SPDX-License-Identifier: MIT */
/* entry.c - the functions that torch calls for each tensor. The fast path serves streams that this thread has used before; malloc_slowly()
   and free_otherwise() begin the slow path. */
#include "config.h"

#include "plugin/torch/entry.h"

#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/orphans.h"
#include "lib/base/format.h"
#include "plugin/torch/late.h"
#include "plugin/torch/region.h"
#include "plugin/torch/reserve.h"

#define RECENT_COUNT 8 /* a power of two */

/* The opened streams that this thread used last, in a small hash table. The streams are never closed, so an entry stays valid. */
static __thread struct recent {
    gpu_stream handle;
    int device;
    weir_stream *opened; /* NULL: an empty entry */
} recents[RECENT_COUNT];

static __thread weir_error report;

static inline struct recent *recent_of(int device, gpu_stream handle)
{
    uint64_t hashed = ((uint64_t)(uintptr_t)handle + (uint64_t)device) * UINT64_C(0x9E3779B97F4A7C15);
    return &recents[hashed >> 61];
}
_Static_assert(RECENT_COUNT == 8, "three bits of the hash choose the place");

static inline bool is_recent(const struct recent *recent, int device, gpu_stream handle)
{
    return recent->opened && recent->handle == handle && recent->device == device;
}

void weir_torch_report(weir_error *error)
{
    *error = report;
}

weir_error *torch_entry_report(void)
{
    return &report;
}

void torch_entry_forget_streams(void)
{
    memset(recents, 0, sizeof recents);
}

static weir_error *clear_report(void)
{
    weir_error_clear(&report);
    return &report;
}

/* Allocating --------------------------------------------------------------------------------------------------------------------------- */

/* On a stream that may be destroyed before the block is freed: which one it was is noted. */
static weir_status malloc_external(struct torch_device *device, struct torch_stream *stream, size_t size, void **ptr)
{
    struct torch_note *note = torch_note_new();
    if (!note)
        return weir__fail(&report, WEIR_NO_HOST_MEMORY, "no host memory to keep track of a block of %s", WEIR__BYTES(size));
    int code = weir__stream_id(device->device, stream->handle, &note->id);
    weir_status status = code == GPU_SUCCESS ? torch_region_malloc(device, ptr, size, stream->handle)
                                             : weir__fail_gpu(&report, device->gpu, code, "%s on device %d: is the stream alive",
                                                              WEIR__BYTES(size), device->index);
    if (status != WEIR_OK) {
        torch_note_free(note);
        return status;
    }
    note->ptr = *ptr;
    note->stream = stream;
    torch_note_add(note);
    return WEIR_OK;
}

/* Allocates on a stream that does not capture. */
static weir_status malloc_plain(struct torch_device *device, gpu_stream handle, size_t size, void **ptr)
{
    struct torch_stream *stream = torch_stream_name(device, handle);
    if (!stream)
        return weir__fail(&report, WEIR_NO_HOST_MEMORY, "no host memory for a stream");
    bool lives = atomic_load(&stream->lives);
    weir_stream *opened = torch_stream_open(stream, device);
    if (!lives)
        return malloc_external(device, stream, size, ptr);
    /* In a region the table of recent streams stays empty, so that each allocation comes here. */
    if (!opened || torch_region)
        return torch_region_malloc(device, ptr, size, handle);
    *recent_of(device->index, handle) = (struct recent){ handle, device->index, opened };
    return weir_stream_malloc(opened, ptr, size);
}

/* Returns whether the stream captures. Returns false if CUDA cannot tell: the allocation itself then finds out. */
static bool captures(const struct torch_device *device, gpu_stream handle)
{
    enum gpu_capture_status capture = GPU_CAPTURE_STATUS_NONE;
    int former = weir__current_begin(device->gpu, device->index, handle);
    int code = device->gpu->stream_capture_status(handle, &capture);
    weir__current_end(device->gpu, former);
    return code == GPU_SUCCESS && capture != GPU_CAPTURE_STATUS_NONE;
}

/* Allocates on a stream that this thread has not used yet, or while captures, routes or late frees may matter. */
static void *malloc_otherwise(size_t size, int index, gpu_stream handle)
{
    struct torch_device *device = torch_device_open(index, clear_report());
    void *ptr = NULL;
    if (!device)
        return NULL;
    if (atomic_load_explicit(&device->late_count, memory_order_relaxed) && !atomic_load(&device->begun))
        torch_late_retry(device);
    bool is_capturing = captures(device, handle);
    if (is_capturing || atomic_load(&device->routes)) {
        ptr = torch_reserve_malloc(device, handle, size, is_capturing, &report);
        if (ptr || report.status != WEIR_OK)
            return ptr;
    }
    weir_status status = malloc_plain(device, handle, size, &ptr);
    if (status == WEIR_OK)
        return ptr;
    /* The stream has begun to capture since the check above. */
    if (status == WEIR_CAPTURING && (ptr = torch_reserve_malloc(device, handle, size, true, clear_report())))
        return ptr;
    if (report.status == WEIR_OK)
        weir_last_error(&report);
    return NULL;
}

/* What a MemPool of torch's keeps for the case that there is no other memory. A graph would use it for longer than the pool keeps it. */
static void *malloc_at_last(size_t size, int index, gpu_stream handle)
{
    struct torch_device *device = report.status == WEIR_OUT_OF_MEMORY ? torch_device_find(index) : NULL;
    return device && !captures(device, handle) ? torch_reserve_spare(device, handle, size) : NULL;
}

static __attribute__((noinline)) void *malloc_slowly(size_t size, int index, gpu_stream handle)
{
    void *ptr = malloc_otherwise(size, index, handle);
    return ptr ? ptr : malloc_at_last(size, index, handle);
}

void *weir_torch_pool_malloc(ssize_t size, int device, weir_cuda_stream stream)
{
    const struct recent *recent = recent_of(device, stream);
    void *ptr;
    if (size <= 0)
        return NULL;
    if (torch_is_busy() || !is_recent(recent, device, stream))
        return malloc_slowly((size_t)size, device, stream);
    weir_status status = weir_stream_malloc(recent->opened, &ptr, (size_t)size);
    if (status == WEIR_OK)
        return ptr;
    weir_last_error(&report);
    if (status == WEIR_CAPTURING)
        return malloc_slowly((size_t)size, device, stream);
    return malloc_at_last((size_t)size, device, stream);
}

/* Freeing ------------------------------------------------------------------------------------------------------------------------------ */

static __attribute__((noinline)) void free_otherwise(void *ptr, int index, gpu_stream handle, bool is_alive)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    bool is_lost = false;
    if (!device)
        return;
    struct torch_note *note = torch_note_may_be(ptr) ? torch_note_take(ptr, &is_lost) : NULL;
    if (!note && torch_reserve_free(device, ptr))
        return;
    if (note && torch_reserve_owns(device, ptr)) {
        torch_late_add(device, note);
        return;
    }
    struct torch_stream *stream = is_lost && !note ? NULL : torch_stream_get(index, handle);
    torch_late_free(device, ptr, stream, note, is_alive);
}

static inline void free_block(void *ptr, int device, gpu_stream stream, bool is_alive)
{
    const struct recent *recent = recent_of(device, stream);
    if (!ptr)
        return;
    if (torch_is_busy() || torch_note_may_be(ptr) || !is_recent(recent, device, stream) ||
        weir_stream_free(recent->opened, ptr) != WEIR_OK)
        free_otherwise(ptr, device, stream, is_alive);
}

void weir_torch_free(void *ptr, ssize_t size, int device, weir_cuda_stream stream)
{
    (void)size;
    free_block(ptr, device, stream, false);
}

void weir_torch_free_alive(void *ptr, ssize_t size, int device, weir_cuda_stream stream)
{
    (void)size;
    free_block(ptr, device, stream, true);
}

/* Other hooks -------------------------------------------------------------------------------------------------------------------------- */

/* Returns whether ptr is a live block of the device or a live part of a reserve there. torch also records streams for memory that is not
   Weir's. */
static bool is_ours(struct torch_device *device, const void *ptr)
{
    const struct weir__entry *entry = weir__blocks_look(&device->w->blocks, ptr);
    return (entry && atomic_load_explicit(&entry->live, memory_order_acquire) &&
            atomic_load_explicit(&entry->ptr, memory_order_relaxed) == ptr) ||
           torch_reserve_owns(device, ptr);
}

void weir_torch_record_stream(void *ptr, weir_cuda_stream handle)
{
    if (!ptr || torch_is_over())
        return;
    struct torch_device *device = torch_device_next(-1);
    while (device && !is_ours(device, ptr))
        device = torch_device_next(device->index);
    if (!device)
        return;
    if (handle && handle != GPU_STREAM_LEGACY) {
        torch_note_record(ptr, torch_stream_get(device->index, handle));
        return;
    }
    /* The handle of the default stream does not say which device is meant, so the block is recorded for all of them. */
    for (struct torch_device *other = torch_device_next(-1); other; other = torch_device_next(other->index))
        torch_note_record(ptr, torch_stream_get(other->index, NULL));
}

/* Waits until CUDA has seen the frees on the opened streams. The caller is in relaxed capture mode. */
static void wait_for_frees(struct torch_device *device)
{
    weir__flush(device->device, NULL, false, WEIR__NO_DEADLINE);
    weir__wait_for_frees(device->device, UINT64_MAX, true);
}

static void reset_device(struct torch_device *device)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(device->gpu);
    torch_reserve_tidy(device);
    torch_late_retry(device);
    if (!atomic_load(&device->begun))
        wait_for_frees(device);
    for (weir_pool *pool = weir__device_next_pool(device->device, NULL); pool; pool = weir__device_next_pool(device->device, pool))
        weir_pool_trim(pool, 0, NULL, NULL);
    weir__relaxed_end(device->gpu, mode);
}

void weir_torch_reset(void)
{
    if (torch_is_over())
        return;
    for (struct torch_device *device = torch_device_next(-1); device; device = torch_device_next(device->index))
        reset_device(device);
}
