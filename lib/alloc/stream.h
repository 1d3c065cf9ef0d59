/* SPDX-License-Identifier: MIT */
/*
 * stream.h - an opened stream: a CUDA stream that Weir was told of and may therefore touch until it is closed.
 *
 * Owned by the application, from open to close. Listed in its device under device->lock. Its members are fixed after open, but for the
 * cache, which has a lock of its own, and counters. Whoever uses the handle of a stream beyond the cache's lock pins it, or is a
 * call on it that was counted, and close waits for both. The memory of a closed stream is used again only after many others were closed.
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
    /* In one cache line what a call by the raw handle needs. */
    weir *w;
    struct weir__device *device;
    gpu_stream handle;
    uint64_t id; /* with device->has_stream_ids */
    weir_pool *pool;
    struct weir__link listed; /* in the device's table of this name, as is `routed`; guarded by device->lock, as the next members */
    struct weir__link routed; /* with is_routed */
    bool is_routed;           /* its pool is not the device's default one */
    bool is_listed;           /* in device->streams */
    weir_stream *next;        /* in device->streams, or device->closed */
    weir_stream *previous;    /* in device->streams */
    uint64_t number;          /* later streams have higher ones, and stand before it in the list */
    _Atomic unsigned pins;    /* of those that found it in the list */
    uint64_t name; /* the id, or where the driver has no ids a number of Weir's own; never 0. Fixed after open */
    bool is_own; /* made by weir_stream_create() */
    struct gpu_context context; /* in which it lives. Fixed after open */
    /* It was destroyed without having been closed: its handle has become another stream, which was opened too, or its context was
       destroyed. Then its cache is shut, and nobody finds it in the list who would use its handle. */
    atomic_bool is_gone;
    struct weir__cache cache;
    struct weir__line *line; /* what was freed here, and the events behind that. Fixed from open to close, as the next two */
    struct weir__debt *debt; /* its own pool's on the line */
    struct weir__parked *room; /* for what is in the cache when the stream may not be used any more */
    struct weir__recorded_stream recorded; /* its name, for traces and reports; the recorder's from open to close */
};

/* A stream as the program names it, and what CUDA has said of it during a call, so that CUDA is asked once. */
struct weir__raw {
    gpu_stream handle;
    bool is_known; /* it does not capture, and this is its id */
    bool is_open;  /* it was named by its weir_stream, which the call keeps open */
    uint64_t id;
};

/*
 * The pool that serves a raw stream handle: that of the opened stream with its id, else the default pool of the device. Held for the
 * caller, who must weir__pool_release() it. NULL: no such pool on this device. Takes device->lock only where an opened stream with this
 * handle may have a pool of its own.
 */
weir_pool *weir__stream_route(struct weir__device *device, struct weir__raw *raw);

/* The opened stream that the handle is, by its id, or NULL; also NULL while it captures. It is not pinned: another thread may close it, and
   open another stream in its place, at any moment, which the functions of cache.h see by the id. */
weir_stream *weir__stream_find(struct weir__device *device, struct weir__raw *raw);

/*
 * Begins a call that uses the handle of an opened stream beyond the cache's lock; leave ends it. false: the stream is closed. As good as a
 * pin.
 */
bool weir__stream_enter(weir_stream *stream);
void weir__stream_leave(weir_stream *stream);

/* Whether a stream of the device captures, or cannot say. */
bool weir__handle_captures(const struct weir__device *device, gpu_stream handle);
bool weir__stream_captures(const weir_stream *stream);

/* Whether a call on the stream has to leave its cache alone because the stream captures, or may. */
static inline __attribute__((always_inline)) bool weir__stream_is_barred(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->pool->cache.capture_check, memory_order_relaxed) && weir__stream_captures(stream);
}

/*
 * What Weir does on its own account asks before it uses the handle, since CUDA crashes at a stream whose context the program has destroyed.
 * false: it is gone; nothing touches it any more, and its cached blocks are orphans. The caller keeps it from being closed (a pin, a call),
 * and holds neither device->lock nor a lock of an arena.
 */
bool weir__stream_is_alive(weir_stream *stream);

/* weir_stream_close() from wherever: waits for calls in progress. */
void weir__stream_close(weir_stream *s);

/* Destroys a CUDA stream of Weir's own, and logs where that fails. */
void weir__stream_destroy(struct weir__device *device, gpu_stream handle);

/* The error of a call on a closed stream. */
weir_status weir__stream_closed(weir_error *error, const char *function);

/* Pins the next streams of the device behind number *below (UINT64_MAX: from the first), `max` at most, and lowers *below. Leaves out those
   that are gone, as weir__stream_is_alive() says. Returns how many; 0 at the end. The last of `streams` is NULL, or a stream of the device
   that comes before those and shortens the way, as the array has it after a call that filled it. */
size_t weir__streams_pin_next(struct weir__device *device, uint64_t *below, weir_stream **streams, size_t max);

/* The id of a stream, asked with its device current, since a fixed handle means another stream on each device. GPU_CAPTURE_UNSUPPORTED: the
   stream captures, so that its id must not be asked for. */
int weir__stream_id(struct weir__device *device, gpu_stream handle, uint64_t *id);

/* The context of a stream, or for a fixed handle the one in which the calling thread uses the device. Its handle is NULL where the driver
   cannot tell, and then it counts as alive. */
struct gpu_context weir__stream_context(struct weir__device *device, gpu_stream handle);

/* The opened stream of that id, or, where the driver has no ids, of that handle. Called with device->lock. */
weir_stream *weir__stream_listed(struct weir__device *device, gpu_stream handle, uint64_t id);

/* The opened stream of that handle that is not gone: a handle alone proves little. Called with device->lock. */
weir_stream *weir__stream_of_handle(struct weir__device *device, gpu_stream handle);

/* A stream that was closed long enough ago, or a new one; closed. NULL: no host memory. */
weir_stream *weir__stream_take(struct weir__device *device);
/* Its memory is kept for a while. */
void weir__stream_bury(weir_stream *stream);
void weir__stream_list(weir_stream *stream);
/* What its cache has counted becomes the pool's own. */
void weir__stream_unlist(weir_stream *stream);

/* The lists of streams, in device.c's order: the device is not known to others yet, or no longer. */
void weir__streams_init(struct weir__device *device);
void weir__streams_destroy(struct weir__device *device);

/* Bytes of the pool were freed on the stream, which the caller has pinned, or within a call; an arena has counted them itself. Where host
   memory lacks, they are not counted: nobody waits for them then. */
void weir__stream_freed(weir_stream *stream, weir_pool *pool, uint64_t bytes);
/* The line of a stream that the program has just named, opened or not, beside memory of the device: the stream may be of another one. It does
   not capture; weir__line_put() follows. id: as far as the caller knows it; else 0. NULL: no host memory. */
struct weir__line *weir__stream_line(struct weir__device *device, gpu_stream handle, uint64_t id);
/* Pins the opened stream with the id of this handle; NULL if there is none. */
weir_stream *weir__stream_pin(struct weir__device *device, gpu_stream handle);
void weir__stream_unpin(weir_stream *stream);

/*
 * CUDA streams that weir_stream_create() made and whose weir_stream is closed live until weir_close(), and the next weir_stream_create()
 * takes them first. So the raw handle of a closed stream is never that of a destroyed one, at which CUDA crashes, nor that of a new stream of
 * the program's own: a program may still free on it. They belong to their device; w->config guards them, under which CUDA may be called.
 */
/* Takes the last that came, of those that live in the current context, do not capture, and were not opened by their raw handle meanwhile.
   false: there is none. */
bool weir__spare_take(struct weir__device *device, gpu_stream *handle);
/* Keeps a stream that is idle. false: no host memory; it stays the caller's. */
bool weir__spare_put(struct weir__device *device, gpu_stream handle, const struct gpu_context *context);
/* Waits for them, as the program may have freed on them, and destroys them. Call it in relaxed capture mode. */
void weir__spares_destroy(struct weir__device *device);

#endif
