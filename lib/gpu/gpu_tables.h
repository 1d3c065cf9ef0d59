/* SPDX-License-Identifier: MIT */
/* gpu_tables.h - the implementations of struct gpu, from which gpu_find() chooses, and the list of operations that they share. Private to
   lib/gpu. */
#ifndef WEIR_GPU_TABLES_H
#define WEIR_GPU_TABLES_H

#include "lib/gpu/gpu.h"

extern const struct gpu gpu_sim;  /* sim.c; gpu_find() gets it from gpu_simulator() */
extern const struct gpu gpu_cuda; /* cuda.c, with HAVE_CUDA only */

/* Returns the simulator. Returns NULL, with the reason in *why (static or thread-local storage), if $WEIR_SIM was invalid before the first
   use (sim.c), or if the library has no simulator (sim_none.c, with --without-simulator). */
const struct gpu *gpu_simulator(const char **why);

/* X(name, check, parameters, arguments): every operation of struct gpu that can fail. The tables of both implementations, and the
   simulator's counts of calls and its injected faults, are made from this list. `check` is for the simulator: an expression that looks up
   the objects that the arguments name; if its value is not 0, the operation returns that value. */
#define GPU_OPERATIONS(X)                                                                                                                  \
    X(device_count, 0, (int *count), (count))                                                                                              \
    X(versions, 0, (int *driver, int *runtime), (driver, runtime))                                                                         \
    X(device_info, sim_device_find(device), (int device, struct gpu_device_info *info), (device, info))                                    \
    X(can_access_peer, sim_device_find(device) ?: sim_device_find(peer), (int device, int peer, bool *can), (device, peer, can))           \
    X(device_memory, sim_device_find(device), (int device, uint64_t *free_bytes, uint64_t *total_bytes),                                   \
      (device, free_bytes, total_bytes))                                                                                                   \
    X(device_processes, sim_device_find(device), (int device, struct gpu_process *processes, size_t room, size_t *count),                  \
      (device, processes, room, count))                                                                                                    \
    X(device_synchronize, sim_device_find(device), (int device), (device))                                                                 \
    X(get_current_device, 0, (int *device), (device))                                                                                      \
    X(set_current_device, sim_device_find(device), (int device), (device))                                                                 \
    X(device_is_used, sim_device_find(device), (int device, bool *used), (device, used))                                                   \
    X(pool_create, sim_device_find(spec->device), (const struct gpu_pool_spec *spec, gpu_pool *pool), (spec, pool))                        \
    X(pool_destroy, sim_pool_find(pool), (gpu_pool pool), (pool))                                                                          \
    X(pool_get_default, sim_device_find(device), (int device, gpu_pool *pool), (device, pool))                                             \
    X(pool_get_current, sim_device_find(device), (int device, gpu_pool *pool), (device, pool))                                             \
    X(pool_set_current, sim_device_find(device) ?: sim_pool_find_own(pool), (int device, gpu_pool pool), (device, pool))                   \
    X(pool_get, sim_pool_find_own(pool), (gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t *value), (pool, attribute, value))    \
    X(pool_set, sim_pool_find_own(pool), (gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value), (pool, attribute, value))     \
    X(pool_set_access, sim_pool_find(pool) ?: sim_device_find(device), (gpu_pool pool, int device, enum gpu_access access),                \
      (pool, device, access))                                                                                                              \
    X(pool_get_access, sim_pool_find(pool) ?: sim_device_find(device), (gpu_pool pool, int device, enum gpu_access *access),               \
      (pool, device, access))                                                                                                              \
    X(pool_trim, sim_pool_find_own(pool) ?: sim_capture_check_unsafe(), (gpu_pool pool, uint64_t keep), (pool, keep))                      \
    X(pool_export, sim_pool_find_own(pool), (gpu_pool pool, int *fd), (pool, fd))                                                          \
    X(pool_import, sim_device_find(device), (int device, int fd, gpu_pool *pool), (device, fd, pool))                                      \
    X(malloc_async, sim_pool_find_own(pool) ?: sim_work_begin(&stream), (void **ptr, size_t size, gpu_pool pool, gpu_stream stream),       \
      (ptr, size, pool, stream))                                                                                                           \
    X(free_async, sim_work_begin(&stream), (void *ptr, gpu_stream stream), (ptr, stream))                                                  \
    X(block_export, 0, (void *ptr, struct gpu_shared_block *shared), (ptr, shared))                                                        \
    X(block_import, sim_pool_find(pool), (gpu_pool pool, const struct gpu_shared_block *shared, void **ptr), (pool, shared, ptr))          \
    X(host_alloc, sim_device_find(device), (int device, uint64_t size, void **ptr), (device, size, ptr))                                   \
    X(host_free, 0, (void *ptr), (ptr))                                                                                                    \
    X(copy_async, sim_work_begin(&stream), (void *dst, const void *src, size_t size, gpu_stream stream), (dst, src, size, stream))         \
    X(set_async, sim_work_begin(&stream), (void *dst, int byte, size_t size, gpu_stream stream), (dst, byte, size, stream))                \
    X(range_reserve, sim_device_find(device), (int device, uint64_t size, void **range), (device, size, range))                            \
    X(range_free, 0, (void *range, uint64_t size), (range, size))                                                                          \
    X(page_create, sim_device_find(device), (int device, uint64_t size, gpu_page *page), (device, size, page))                             \
    X(page_release, 0, (gpu_page page), (page))                                                                                            \
    X(page_map, 0, (void *address, uint64_t size, gpu_page page), (address, size, page))                                                   \
    X(page_unmap, 0, (void *address, uint64_t size), (address, size))                                                                      \
    X(page_set_access, 0, (void *address, uint64_t size, const int *devices, size_t count), (address, size, devices, count))               \
    X(page_export, sim_device_find(device), (int device, gpu_page page, int *fd), (device, page, fd))                                      \
    X(page_import, sim_device_find(device), (int device, int fd, uint64_t size, gpu_page *page), (device, fd, size, page))                 \
    X(stream_create, sim_device_find(device), (int device, gpu_stream *stream), (device, stream))                                          \
    X(stream_destroy, sim_stream_find(&stream), (gpu_stream stream), (stream))                                                             \
    X(stream_synchronize, sim_stream_find(&stream), (gpu_stream stream), (stream))                                                         \
    X(stream_query, sim_stream_find(&stream), (gpu_stream stream), (stream))                                                               \
    X(stream_id, sim_stream_find(&stream), (gpu_stream stream, uint64_t *id), (stream, id))                                                \
    X(stream_capture_status, sim_stream_find(&stream), (gpu_stream stream, enum gpu_capture_status *status), (stream, status))             \
    X(stream_capture_id, sim_stream_find(&stream), (gpu_stream stream, uint64_t *id), (stream, id))                                        \
    X(stream_device, sim_stream_find(&stream), (gpu_stream stream, int *device), (stream, device))                                         \
    X(stream_context, sim_stream_find(&stream), (gpu_stream stream, struct gpu_context *context), (stream, context))                       \
    X(stream_wait_event, sim_event_find(event) ?: sim_stream_find(&stream), (gpu_stream stream, gpu_event event), (stream, event))         \
    X(delay, sim_work_begin(&stream), (gpu_stream stream, uint64_t nanoseconds), (stream, nanoseconds))                                    \
    X(event_create, sim_device_find(device), (int device, gpu_event *event), (device, event))                                              \
    X(event_destroy, sim_event_find(event), (gpu_event event), (event))                                                                    \
    X(event_record, sim_event_find(event) ?: sim_work_begin(&stream), (gpu_event event, gpu_stream stream), (event, stream))               \
    X(event_record_device, sim_event_find(event), (gpu_event event, int device), (event, device))                                          \
    X(event_query, sim_event_find(event), (gpu_event event), (event))                                                                      \
    X(event_synchronize, sim_event_find(event), (gpu_event event), (event))                                                                \
    X(event_create_shared, sim_device_find(device), (int device, gpu_event *event, struct gpu_shared_event *shared),                       \
      (device, event, shared))                                                                                                             \
    X(event_open_shared, sim_device_find(device), (int device, const struct gpu_shared_event *shared, gpu_event *event),                   \
      (device, shared, event))                                                                                                             \
    X(exchange_capture_mode, 0, (enum gpu_capture_mode *mode), (mode))                                                                     \
    X(capture_begin, sim_stream_find(&stream), (gpu_stream stream, enum gpu_capture_mode mode), (stream, mode))                            \
    X(capture_end, sim_stream_find(&stream), (gpu_stream stream, size_t *nodes), (stream, nodes))                                          \
    X(capture_run, sim_stream_find(&stream), (gpu_stream stream), (stream))                                                                \
    X(graph_trim, sim_device_find(device) ?: sim_capture_check_unsafe(), (int device), (device))

#endif
