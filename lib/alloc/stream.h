/* SPDX-License-Identifier: MIT */
/*
 * stream.h - an opened stream: a CUDA stream that the program opened with Weir, so that Weir may use its handle until it is closed.
 *
 * The application owns the stream from open to close. Its device lists it under device->lock. Its members are fixed after open, except for
 * the cache, which has its own lock, and for counters. A thread that uses the stream's handle without the cache's lock first *pins* the
 * stream (weir__stream_pin(), `pins`) or *enters* it (weir__stream_enter(), cache.calls); closing the stream waits until no thread has done
 * so. The memory of a closed stream is reused only after many other streams were closed.
 */
#ifndef WEIR_LIB_STREAM_H
#define WEIR_LIB_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/alloc/cache.h"
#include "lib/base/table.h"
#include "lib/fence/fence.h"
#include "lib/pool/weir_internal.h"

struct weir_stream {
    /* The members that a call by the raw handle reads come first, so that they share a cache line. */
    weir *w;
    struct weir__device *device;
    gpu_stream handle;
    uint64_t id; /* CUDA's id of the stream, if device->has_stream_ids; else 0 */
    weir_pool *pool;
    struct weir__link listed; /* in the table device->listed; guarded by device->lock, as are the members up to `number` */
    struct weir__link routed; /* in the table device->routed, if is_routed */
    bool is_routed;           /* the stream's pool is not the device's default pool */
    bool is_listed;           /* the stream is in device->streams */
    weir_stream *next;        /* in device->streams, or in device->closed */
    weir_stream *previous;    /* in device->streams */
    uint64_t number;          /* streams that were opened later have higher numbers, and come earlier in device->streams */
    _Atomic unsigned pins;    /* pins of threads; raised under device->lock */
    uint64_t name; /* the id, or Weir's own number if the driver has no ids; never 0. Fixed after open */
    bool is_own; /* the stream was made by weir_stream_create() */
    struct gpu_context context; /* the CUDA context of the stream. Fixed after open */
    /* The program destroyed the stream without closing it: its context was destroyed, or its handle was opened again and is another stream
       now. The cache of such a stream is shut, and the functions that pin streams leave it out. */
    atomic_bool is_gone;
    struct weir__cache cache;
    struct weir__line *line; /* the stream's line (fence.h). Fixed from open to close, as are the next two */
    struct weir__debt *debt; /* the debt of the stream's own pool on that line */
    struct weir__parked *room; /* in which the cached blocks are parked if the stream must not be used any more */
    struct weir__recorded_stream recorded; /* the stream's name in traces and reports; used by the recorder from open to close */
};

/* A stream as the program names it in a call, and the answers of CUDA about it, so that each call asks CUDA only once. */
struct weir__raw {
    gpu_stream handle;
    bool is_known; /* CUDA was asked: the stream does not capture, and `id` is its id */
    bool is_open;  /* the program named the weir_stream, which cannot be closed during the call */
    uint64_t id;   /* if is_known */
};

/*
 * Returns the pool that serves requests on a raw stream handle: the pool of the opened stream that has the same id, else the default pool
 * of the device; NULL if the device has no default pool. The pool is held (weir__pool_hold()), and the caller must call
 * weir__pool_release(). Takes device->lock only if an opened stream with this handle may have another pool than the default one.
 */
weir_pool *weir__stream_route(struct weir__device *device, struct weir__raw *raw);

/* Returns the opened stream that has this handle and its id; NULL if there is none or the stream captures. The stream is not pinned:
   another thread may close it at any moment and open another stream in the same memory. The functions of cache.h notice that by the id. */
weir_stream *weir__stream_find(struct weir__device *device, struct weir__raw *raw);

/*
 * weir__stream_enter() begins a call that uses the handle of an opened stream without the cache's lock: the stream stays open until
 * weir__stream_leave(). Returns false, with nothing begun, if the stream is closed.
 */
bool weir__stream_enter(weir_stream *stream);
void weir__stream_leave(weir_stream *stream);

/* Return true if the stream captures, or if CUDA fails to tell. */
bool weir__handle_captures(const struct weir__device *device, gpu_stream handle);
bool weir__stream_captures(const weir_stream *stream);

/* Returns true if a call on the stream must not use the stream's cache, because the stream captures. With `cache.capture_check: false`
   that is never checked. */
static inline __attribute__((always_inline)) bool weir__stream_is_barred(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->pool->cache.capture_check, memory_order_relaxed) && weir__stream_captures(stream);
}

/*
 * Call this before Weir uses the handle of a stream that the present call of the program does not name: CUDA crashes if the program has
 * destroyed the stream's context. Returns false if it has; the stream is then marked as gone, and its cached blocks become orphans
 * (orphans.h). The caller has pinned or entered the stream, and holds neither device->lock nor a lock of an arena.
 */
bool weir__stream_is_alive(weir_stream *stream);

/* Closes a stream, for weir_stream_close() and for Weir itself; waits until no thread has the stream pinned or entered. */
void weir__stream_close(weir_stream *s);

/* Destroys a CUDA stream that Weir made; logs an error if CUDA refuses. */
void weir__stream_destroy(struct weir__device *device, gpu_stream handle);

/* Fills the error for a call of `function` on a closed stream, and returns its status. */
weir_status weir__stream_closed(weir_error *error, const char *function);

/* Pins up to `max` streams of the device: those with the highest numbers below *below (UINT64_MAX: the newest of all), newest first. Lowers
   *below for the next call. Leaves out streams that weir__stream_is_alive() finds gone. Returns the number of pinned streams; 0 at the end.
   The array must be filled with NULL before the first call and be passed on unchanged: its last entry tells the next call where to go on.
   */
size_t weir__streams_pin_next(struct weir__device *device, uint64_t *below, weir_stream **streams, size_t max);

/* Sets *id to CUDA's id of the stream, or to 0 if the driver has no ids. Makes the device current to ask, since a fixed handle (legacy,
   per-thread) means another stream on each device. Returns CUDA's code; GPU_CAPTURE_UNSUPPORTED if the stream captures, as CUDA must not be
   asked then. */
int weir__stream_id(struct weir__device *device, gpu_stream handle, uint64_t *id);

/* Returns the context of a stream; for a fixed handle, the context in which the calling thread uses the device. If the driver cannot tell,
   the handle of the context is NULL, and the context counts as alive. */
struct gpu_context weir__stream_context(struct weir__device *device, gpu_stream handle);

/* Returns the opened stream that has this id, or this handle if the driver has no ids; else NULL. The caller holds device->lock. */
weir_stream *weir__stream_listed(struct weir__device *device, gpu_stream handle, uint64_t id);

/* Returns the opened stream that has this handle and is not gone, or NULL. The handle may mean another stream by now. The caller holds
   device->lock. */
weir_stream *weir__stream_of_handle(struct weir__device *device, gpu_stream handle);

/* Returns the memory of a stream that was closed long ago, or new memory; in both cases as a closed stream. NULL: host memory runs out. */
weir_stream *weir__stream_take(struct weir__device *device);
/* Puts a closed stream at the end of device->closed, so that its memory is not reused for a while. Takes device->lock. */
void weir__stream_bury(weir_stream *stream);
/* Add the stream to the list and the tables of its device, and remove it; weir__stream_unlist() also adds the counts of the stream's cache
   to the pool's. Both take device->lock. */
void weir__stream_list(weir_stream *stream);
void weir__stream_unlist(weir_stream *stream);

/* Make and free the lists of streams of a device that no other thread uses. */
void weir__streams_init(struct weir__device *device);
void weir__streams_destroy(struct weir__device *device);

/* Counts `bytes` of the pool as freed on the stream, which the caller has pinned or entered. Does nothing for an arena, which counts its
   own frees. If host memory runs out, the bytes are not counted, and no request waits for them. */
void weir__stream_freed(weir_stream *stream, weir_pool *pool, uint64_t bytes);
/* Returns the line of a stream that the present call of the program names, opened or not; NULL if host memory runs out. The stream may
   belong to another device than `device`, whose memory the call uses. The stream must not capture. id: the stream's id, or 0 if the caller
   does not know it. weir__line_put() must follow. */
struct weir__line *weir__stream_line(struct weir__device *device, gpu_stream handle, uint64_t id);
/* Pins the opened stream that has this handle and its id, and returns it; NULL if there is none. weir__stream_unpin() must follow. */
weir_stream *weir__stream_pin(struct weir__device *device, gpu_stream handle);
void weir__stream_unpin(weir_stream *stream);

/*
 * A *spare* stream is a CUDA stream that weir_stream_create() made and whose weir_stream is closed. Spare streams live until weir_close(),
 * and the next weir_stream_create() takes one of them. So a program may still free blocks on the raw handle of a closed stream: the handle
 * is never that of a destroyed stream, at which CUDA crashes, nor that of a new stream of the program's own. Spare streams belong to their
 * device. w->config guards them, under which CUDA may be called.
 */
/* Takes the newest spare stream that belongs to the current context, does not capture, and was not opened by its raw handle. Returns false
   if there is none. */
bool weir__spare_take(struct weir__device *device, gpu_stream *handle);
/* Makes an idle stream a spare one. Returns false if host memory runs out; the caller then still owns the stream. */
bool weir__spare_put(struct weir__device *device, gpu_stream handle, const struct gpu_context *context);
/* Synchronises all spare streams, as the program may have freed blocks on them, and destroys them. Call it in relaxed capture mode. */
void weir__spares_destroy(struct weir__device *device);

#endif
