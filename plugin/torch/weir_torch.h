/* SPDX-License-Identifier: MIT */
/*
 * weir_torch.h - Weir as the allocator of PyTorch: the functions that PyTorch (below: torch) calls, and those that the Python package and
 * its C++ shim call.
 *
 * These are all functions that libweir-torch.so exports, besides those of weir.h. The library holds one weir for each device that torch
 * allocates on. The first allocation on a device opens the weir of that device; all weirs come from the same policy, and none is ever
 * closed, since torch frees tensors until the process ends.
 *
 * No function calls torch, exits or prints. No function calls Python or takes the GIL, except weir_torch_capsule_new() and, after
 * weir_torch_python_begin(), an allocation whose stack is recorded. Any thread may call any function. In the child of a fork allocations
 * fail and frees do nothing. Only weir_torch_malloc() throws. Sizes are in bytes.
 */
#ifndef WEIR_TORCH_H
#define WEIR_TORCH_H

#include <sys/types.h>

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What torch calls --------------------------------------------------------------------------------------------------------------------- */

/*
 * Allocates memory on the device for work on the stream; size 0 gives NULL. If there is no memory, and no recovery finds any,
 * weir_torch_malloc() throws std::bad_alloc and weir_torch_pool_malloc() returns NULL. torch checks for NULL only in a MemPool, so
 * weir_torch_malloc() must be torch's general allocator. weir_torch_report() then has the report of what Weir tried, for the same thread.
 *
 * On a stream that captures, the block comes from the reserve of the graph (see weir_torch_begin_allocate_to_pool()). If torch has begun no
 * such allocation, the request fails.
 */
WEIR_API void *weir_torch_malloc(ssize_t size, int device, weir_cuda_stream stream);
WEIR_API void *weir_torch_pool_malloc(ssize_t size, int device, weir_cuda_stream stream);

/* Frees a block of these two functions, in the order of the stream that the block was allocated on. If weir_torch_record_stream() named
   other streams for the block, the free also comes behind their work, but no stream of torch's waits for that. Weir touches the block's
   stream only if that stream is known to live for ever, or if a later allocation has named it. */
WEIR_API void weir_torch_free(void *ptr, ssize_t size, int device, weir_cuda_stream stream);

/* The same, but the caller keeps the stream alive until the function returns: the block is freed on that stream at once, unless the stream
   captures. The stream may be another one than the block's own, if it is behind every use of the block. */
WEIR_API void weir_torch_free_alive(void *ptr, ssize_t size, int device, weir_cuda_stream stream);

/* torch tells that it begins to use CUDA, and how many devices there are. */
WEIR_API void weir_torch_init(int device_count);

/* torch.cuda.empty_cache(): gives unused memory back to CUDA, on every device in use. Unless a capture is in progress, it waits for the
   streams on which blocks were freed. */
WEIR_API void weir_torch_reset(void);

/* torch.cuda.set_per_process_memory_fraction(): from now on torch gets at most this fraction of the device's memory from Weir, whatever
   max_size the policy has. The second function returns the fraction that was set last, or 1 if none was. */
WEIR_API void weir_torch_memory_fraction(double fraction, int device);
WEIR_API double weir_torch_get_memory_fraction(int device);

/* Tells that work on this stream, too, uses the block: weir_torch_free() then waits for that work. */
WEIR_API void weir_torch_record_stream(void *ptr, weir_cuda_stream stream);

/*
 * Memory of CUDA graphs and of torch's MemPools. torch names each such pool by an id, and Weir keeps a *reserve* of memory for each id.
 * From begin to end, an allocation on a stream that captures comes from the reserve of that id. The reserve allocates its memory from Weir
 * before the graph runs; later blocks of the same stream use it again. Weir keeps the reserve until release was called as often as begin
 * and all of its blocks are freed. torch passes a third argument to begin, a filter, which Weir ignores. If a block that was allocated
 * before a capture is freed during the capture, the free waits for the end of the capture.
 */
typedef struct weir_torch_pool_id {
    uint64_t first, second;
} weir_torch_pool_id;
WEIR_API void weir_torch_begin_allocate_to_pool(int device, weir_torch_pool_id id);
WEIR_API void weir_torch_end_allocate_to_pool(int device, weir_torch_pool_id id);
WEIR_API void weir_torch_release_pool(int device, weir_torch_pool_id id);

/* What the Python package and the shim call -------------------------------------------------------------------------------------------- */

/*
 * Sets the policy from which the weirs are opened (options as for weir_open(); NULL: all defaults), and checks the policy as far as that is
 * possible without a call of CUDA. The strings are copied. `capture: relaxed` is in force whatever the policy says. Kernels cannot reach
 * the memory of the simulator: if $WEIR_GPU names the simulator, devices are not opened (WEIR_INVALID); a program that runs no kernels,
 * such as a test, names the simulator in the options instead. WEIR_BAD_POLICY, WEIR_UNREADABLE, WEIR_INVALID, WEIR_NO_GPU (a build without
 * CUDA), WEIR_BUSY (a weir is open already), WEIR_NO_HOST_MEMORY, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_torch_configure(const weir_options *options, weir_error *error);

/* Returns whether this library has stopped working: main() has returned, or this process is the child of a fork and its parent had used a
   GPU before. A child that was forked earlier can use the library. Takes no lock. */
WEIR_API int weir_torch_is_over(void);

/* Returns in *w the weir of the device, and opens the weir if it is not open yet. The weir is borrowed and is never closed. Statuses as
   weir_open(), and WEIR_NOT_FOUND (there is no such device). */
WEIR_API WEIR_CHECK weir_status weir_torch_get(int device, weir_error *error, weir **w);

/* Tells why this thread's last allocation failed. Unlike weir_last_error(), it also has the error of a weir that could not be opened. */
WEIR_API void weir_torch_report(weir_error *error);

/* Tells that this stream of torch's lives until the process ends, as the streams of torch's stream pools do. Weir opens such a stream,
   which gives the stream a cache. The default stream always lives; nobody has to name it. Any other stream may be destroyed as soon as the
   call that named it returns. */
WEIR_API void weir_torch_stream_lives(int device, weir_cuda_stream stream);

/* Sets a function that returns whether a stream lives for ever, in the sense above. Weir calls it once for each stream handle of each
   device, at the first allocation on that handle. The function must not call Weir. */
typedef int (*weir_torch_stream_fn)(int device, weir_cuda_stream stream);
WEIR_API void weir_torch_set_stream_fn(weir_torch_stream_fn fn);

/* Figures of one device, in torch's terms. All are 0 before the first allocation on the device. */
typedef struct weir_torch_stats {
    size_t size;             /* in: sizeof(weir_torch_stats) */
    uint64_t memory;         /* bytes that the device has, and */
    uint64_t memory_free;    /* bytes of it that are free, for all processes */
    uint64_t allocated;      /* bytes of live tensors, as requested */
    uint64_t allocated_high; /* peak of `allocated` since the last reset; see exact_peaks in weir-policy(5) */
    uint64_t active;         /* `allocated`, and freed blocks that wait for other streams, captures or an unknown stream */
    uint64_t reserved;       /* bytes of the device that all pools hold */
    uint64_t reserved_high;
    uint64_t cached;         /* bytes in the caches of streams */
    uint64_t idle;           /* bytes that are reserved and unused */
    uint64_t graph_reserved; /* part of `reserved`: memory of graphs and MemPools, */
    uint64_t graph_live;     /* and bytes of live tensors in that memory */
    uint64_t blocks;         /* live blocks */
    uint64_t mallocs;        /* since the process began, or since the last reset of the totals */
    uint64_t frees;
    uint64_t cache_hits;
    uint64_t recoveries;     /* runs of the recovery ladder, */
    uint64_t rescues;        /* requests for which the ladder found memory, */
    uint64_t failures;       /* and requests that failed for lack of memory */
    uint64_t max_size;       /* the cap in force, with the memory fraction; 0: no cap */
} weir_torch_stats;
/* WEIR_INVALID (size), WEIR_NOT_FOUND (device), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_torch_stats_take(int device, weir_error *error, weir_torch_stats *stats);

/* Resets the peaks, or the totals (mallocs, frees, cache_hits, recoveries, rescues, failures): they count anew from now on. */
WEIR_API void weir_torch_reset_peaks(int device);
WEIR_API void weir_torch_reset_totals(int device);

/* Calls `use` for each live block of the device, with its address and the bytes that were requested. `use` must not call Weir. */
typedef void (*weir_torch_block_fn)(const void *ptr, uint64_t size, void *data);
WEIR_API void weir_torch_blocks(int device, weir_torch_block_fn use, void *data);

/* The same as a list: copies live blocks until `room` of them are copied, and returns the number of all live blocks. For a caller, such as
   an interpreter, whose code must not run under the locks that weir_torch_blocks() holds while it calls `use`. */
typedef struct weir_torch_block {
    const void *ptr;
    uint64_t size;
} weir_torch_block;
WEIR_API size_t weir_torch_list_blocks(int device, weir_torch_block *blocks, size_t room);

/* Pools of torch's --------------------------------------------------------------------------------------------------------------------- */

/*
 * Like weir_torch_begin_allocate_to_pool(), but for the requests that the filter accepts, whether the stream captures or not, as for a
 * MemPool in use. If several begins accept a request, the latest one gets it. weir_torch_end_allocate_to_pool() ends the route. The thread
 * that allocates calls `wants`, under a lock: `wants` must call neither CUDA nor Weir. `drop` (may be NULL) is called once, at the end,
 * with no lock held; if weir_torch_begin_route() fails, `drop` is not called. WEIR_NO_HOST_MEMORY, and the statuses of weir_torch_get().
 */
typedef struct weir_torch_filter {
    int (*wants)(void *data, weir_cuda_stream stream);
    void (*drop)(void *data);
    void *data;
} weir_torch_filter;
WEIR_API WEIR_CHECK weir_status weir_torch_begin_route(int device, weir_torch_pool_id id, const weir_torch_filter *filter,
                                                       weir_error *error);

/*
 * An allocator other than Weir, from which a pool takes its memory. The pool asks the allocator for chunks, for work on the given stream,
 * and hands out parts of them. Any thread may give a chunk back, after the device has finished all its work, and never during a capture.
 * Weir calls these functions with no lock held. `malloc` returns NULL if there is no memory. `drop` (may be NULL) is called last: after it
 * Weir calls none of these functions again.
 */
typedef struct weir_torch_source {
    void *(*malloc)(void *data, size_t size, int device, weir_cuda_stream stream);
    void (*free)(void *data, void *ptr, size_t size, int device);
    void (*drop)(void *data);
    void *data;
} weir_torch_source;

/* Counts one use of the pool without a begin; weir_torch_release_pool() ends it. The pool's source (NULL: Weir) is that of the first call
   that names a source while the pool has no memory. The source is copied; the caller gives it away even if the call fails. Statuses as
   weir_torch_begin_route(). */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_pool(int device, weir_torch_pool_id id, const weir_torch_source *source, weir_error *error);

/* Options of a pool that is held. WEIR_TORCH_USE_ON_OOM: when a request of others, outside of captures, finds no memory, the free parts of
   the pool serve it, unless a graph was captured with the pool, since that graph uses them. WEIR_TORCH_NO_SPLIT: each chunk serves one
   request only. */
enum weir_torch_pool_option {
    WEIR_TORCH_USE_ON_OOM,
    WEIR_TORCH_NO_SPLIT
};
WEIR_API void weir_torch_set_pool(int device, weir_torch_pool_id id, int option, int value);

/* Gives back the chunks without live blocks, unless a graph was captured with the pool: the graph may use them. */
WEIR_API void weir_torch_trim_pool(int device, weir_torch_pool_id id);

/*
 * Saves which blocks of a pool are live, to restore that later. The state does not keep the pool's memory. WEIR_NOT_FOUND: there is no such
 * pool, because its last use was released and all its blocks are freed. WEIR_BUSY: freed blocks of the pool wait for other streams;
 * synchronize these streams first. WEIR_NO_HOST_MEMORY, and the statuses of weir_torch_get(). weir_torch_state_free() frees the state, and
 * changes no block.
 */
typedef struct weir_torch_state weir_torch_state;
WEIR_API WEIR_CHECK weir_status weir_torch_state_save(int device, weir_torch_pool_id id, weir_error *error, weir_torch_state **state);
WEIR_API void weir_torch_state_free(weir_torch_state *state);

/*
 * Makes exactly the blocks of the state live in their pool. All live blocks of the pool are freed at once, and all blocks of the state are
 * allocated, even those that were live before. The delta lists both, with their sizes, and the streams of the allocated ones. The call
 * waits for the streams that were recorded for the live blocks. If it fails, nothing has changed. WEIR_NOT_FOUND: there is no such pool, or
 * chunks that the state needs were given back. WEIR_BUSY: freed blocks wait for other streams, or a recorded stream captures. No thread may
 * allocate or free in the pool during the call.
 */
typedef struct weir_torch_change {
    void *ptr;
    uint64_t size; /* bytes that were requested */
    weir_cuda_stream stream;
} weir_torch_change;
typedef struct weir_torch_delta {
    weir_torch_change *freed, *made;
    size_t freed_count, made_count;
} weir_torch_delta;
WEIR_API WEIR_CHECK weir_status weir_torch_state_restore(const weir_torch_state *state, weir_error *error, weir_torch_delta **delta);
WEIR_API void weir_torch_delta_free(weir_torch_delta *delta);

/* Returns whether exactly these blocks of the pool are live. */
WEIR_API int weir_torch_pool_has(int device, weir_torch_pool_id id, const void *const *ptrs, size_t count);

/* Returns how often begin and hold were called for that id, less the calls of release. */
WEIR_API int weir_torch_pool_uses(int device, weir_torch_pool_id id);

/*
 * What the process has claimed of the device by weir_reserve() (weir_reserve.h), with what it inherited as a claim of `weir run --reserve`:
 * *total bytes, of which the pools of its weir have not reserved *free yet. Both are 0 without a claim. Begins to use the device, and has
 * the statuses of, weir_torch_get().
 */
WEIR_API WEIR_CHECK weir_status weir_torch_claim(int device, weir_error *error, uint64_t *total, uint64_t *free);

/* Calls weir_mark() on every device in use. */
WEIR_API weir_status weir_torch_mark(const char *name);

/*
 * A region: until its end, allocations of this thread outside of captures and of torch's pools come from this pool of the policy, on every
 * device. Regions can be nested, up to 16 of them. No cache serves a request in a region. `device`: the device on which the name of the
 * pool is checked now; an allocation on another device that lacks such a pool fails. WEIR_NOT_FOUND (the error lists the pools of the
 * policy), WEIR_INVALID (too many regions), and the statuses of weir_torch_get().
 */
WEIR_API WEIR_CHECK weir_status weir_torch_region_begin(const char *pool, int device, weir_error *error);
WEIR_API void weir_torch_region_end(void);

/* weir_tag_push() and weir_tag_pop() for the calling thread, on every device in use. The status is that of the first device that refuses
   the tag; the other devices have the tag all the same. */
WEIR_API weir_status weir_torch_tag_push(const char *name);
WEIR_API void weir_torch_tag_pop(const char *name);

/* weir_torch_regions_take() copies the tags and the region that are in force in this thread; weir_torch_regions_use() replaces those of
   this thread by a copy (NULL: by none). For a program whose threads work on behalf of each other, as the threads of torch's autograd do.
   Any thread of this process may use a copy, as often as it likes. */
typedef struct weir_torch_regions {
    uint64_t opaque[68];
} weir_torch_regions;
WEIR_API void weir_torch_regions_take(weir_torch_regions *regions);
WEIR_API void weir_torch_regions_use(const weir_torch_regions *regions);

/*
 * From now on the stacks of the recorder (`record.stacks: true`) contain the frames of this process's Python, CPython 3.9 or later. If a
 * stack is recorded, an allocation by a thread that Python knows takes the GIL for a moment. As with torch's own history, a thread must
 * therefore not allocate while it holds a lock for which another thread may wait with the GIL held. Call the function when Python is
 * initialized. WEIR_NOT_SUPPORTED (there is no such Python), WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_torch_python_begin(weir_error *error);
/* Call this before Python ends, without the GIL: the function waits until no thread takes the GIL on behalf of Weir any more. */
WEIR_API void weir_torch_python_end(void);

/* History ------------------------------------------------------------------------------------------------------------------------------ */

/*
 * News of the memory that Weir holds, for the shim, which keeps torch's memory history. A *segment* is a block that Weir took from CUDA or
 * from an arena, until Weir gives the block back, or a chunk that the allocator of a MemPool gave. A segment stays one while a cache keeps
 * it. Weir does not know which segments torch uses: other libraries of the process use some too.
 *
 * The names in quotes are the members of weir_torch_news that the event sets besides `ptr`. Events that end in WAS, USED or WAITED describe
 * the state at the time when the listener was set.
 */
typedef enum weir_torch_what {
    WEIR_TORCH_DEVICE,       /* the device is in use; has no `ptr`: `device` */
    WEIR_TORCH_SEGMENT_WAS,  /* a segment existed before the listener was set: `device`, `size` */
    WEIR_TORCH_SEGMENT_USED, /* the segment was used on `stream` */
    WEIR_TORCH_SEGMENT_POOL, /* the segment is memory of graphs or of a MemPool: `pool` */
    WEIR_TORCH_SEGMENT_CAME, /* Weir took a segment: `device`, `size` */
    WEIR_TORCH_SEGMENT_WENT, /* Weir gave the segment back */
    WEIR_TORCH_SEGMENT_BACK, /* CUDA refused the segment that this thread last reported as WENT: `device`, `size` */
    WEIR_TORCH_FREE_WAITED,  /* a block of `size` bytes, allocated on `stream`, was freed, and waits */
    WEIR_TORCH_FREE_WAITS,   /* a block that torch freed waits for streams that use it, or for the end of a capture */
    WEIR_TORCH_FREE_GOES_ON, /* the block waits no longer */
    WEIR_TORCH_FREE_DONE     /* a block that had waited is now free */
} weir_torch_what;

/* A member that the event does not set is 0. */
typedef struct weir_torch_news {
    weir_torch_what what;
    int device;
    const void *ptr;
    uint64_t size;
    weir_cuda_stream stream;
    weir_torch_pool_id pool;
} weir_torch_news;

/* Weir calls the listener under its own locks; for one address the calls are in the order of the events. The listener may call only the
   allocator of host memory. */
typedef void (*weir_torch_news_fn)(const weir_torch_news *news);

/* Sets the listener, which gets the news of all devices. First it gets the present state; meanwhile news of other threads may come earlier
   than the state of the same memory. NULL ends the news: when the call returns, no thread is in the listener any more, so the caller must
   hold no lock that the listener takes. Only one thread at a time may call this function. WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_torch_watch(weir_torch_news_fn listener, weir_error *error);

/* Sharing ------------------------------------------------------------------------------------------------------------------------------ */

/* The kinds of things that weir.share (Python) holds, and the function that ends each of them. */
typedef enum weir_torch_held {
    WEIR_TORCH_LEASE,  /* weir_lease_release() */
    WEIR_TORCH_READER, /* weir_reader_close() */
    WEIR_TORCH_IMPORT, /* weir_import_close(), and weir_close() of its weir */
    WEIR_TORCH_EXPORT, /* weir_export_close(), and weir_close() of its weir */
    WEIR_TORCH_RING,   /* weir_ring_close() */
    WEIR_TORCH_SLOT,   /* weir_ring_drop(), unless it was pushed */
    WEIR_TORCH_BLOCK,  /* weir_free(), unless it was published */
    WEIR_TORCH_MEMORY  /* free() */
} weir_torch_held;

/*
 * A hold counts the users of one shared thing: objects of Python, and the tensors that were made from the thing. When its last holder is
 * gone, the thing ends, and the hold drops its parent: the hold of a lease keeps that of its import, a slot keeps its ring, and a ring
 * keeps its export. None of these functions takes a lock of Python's, so a tensor may be deleted in any thread, and even after Python has
 * ended. In the child of a fork, and after weir_torch_holds_end(), weir_torch_hold_drop() does nothing. Any thread may call any of these
 * functions.
 */
typedef struct weir_torch_hold weir_torch_hold;

/* Makes a hold of `thing` with one holder. device: the device that has the memory. home: the stream in whose order the memory is used.
   timeout_ms: for weir_export_close(). parent: may be NULL; the parent of a slot is its ring, that of a block its export. Returns NULL if
   host memory runs out or in the child of a fork; `thing` then stays the caller's. */
WEIR_API weir_torch_hold *weir_torch_hold_new(weir_torch_held kind, void *thing, weir *w, int device, weir_cuda_stream home,
                                              unsigned timeout_ms, weir_torch_hold *parent);
/* Adds one holder. */
WEIR_API void weir_torch_hold_keep(weir_torch_hold *hold);
/* Removes one holder. With the last one a lease, a slot or a block ends on the first stream that used it, behind all present work of all
   streams that used it. If it cannot end because a stream captures, Weir tries again at the next drop of such a hold, or before the next
   slot or lease is taken. */
WEIR_API void weir_torch_hold_drop(weir_torch_hold *hold);
/* `stream` uses the memory from now on. If `waits` is not 0, the stream first waits for the present work of the home stream. The stream has
   to live until the last holder is gone. WEIR_BUSY (too many streams), WEIR_CAPTURING, WEIR_CUDA_ERROR, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_use(weir_torch_hold *hold, weir_cuda_stream stream, int waits, weir_error *error);
/* The calling thread waits until the home stream has done its work. */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_finish(weir_torch_hold *hold, weir_error *error);
WEIR_API unsigned weir_torch_hold_holders(const weir_torch_hold *hold);
/* Tells that Python ends: from now on weir_torch_hold_drop() does nothing, and the remaining holds end with the process. */
WEIR_API void weir_torch_holds_end(void);

/* weir_ring_take(), and a new hold of the slot; the home stream of the hold is `stream`. */
WEIR_API WEIR_CHECK weir_status weir_torch_slot_take(weir_torch_hold *ring, unsigned timeout_ms, weir_cuda_stream stream,
                                                     weir_error *error, weir_torch_hold **slot, void **ptr);
/* weir_ring_push() on the stream, behind the work of all streams that used the slot. The holders of the slot stay, but the last drop ends
   nothing any more. If the push fails, the slot is unchanged. WEIR_INVALID also: the slot was pushed or dropped before. */
WEIR_API WEIR_CHECK weir_status weir_torch_slot_push(weir_torch_hold *slot, size_t size, const void *metadata, size_t metadata_size,
                                                     weir_cuda_stream stream, weir_error *error);
/* weir_export_publish() on the home stream, with the same rules. */
WEIR_API WEIR_CHECK weir_status weir_torch_block_publish(weir_torch_hold *block, const char *name, size_t size, const void *metadata,
                                                         size_t metadata_size, weir_error *error);
/* Ends a slot or a block at once, on the stream, behind the work of all streams that used it, even if others hold it. After that nobody may
   use its memory. */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_discard(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error);
/* weir_reader_next() and weir_import_acquire(), and a new hold of the lease; the home stream of the hold is `stream`. *info is borrowed
   from the hold. */
WEIR_API WEIR_CHECK weir_status weir_torch_lease_next(weir_torch_hold *reader, unsigned timeout_ms, weir_cuda_stream stream,
                                                      weir_error *error, weir_torch_hold **lease, const weir_lease_info **info);
WEIR_API WEIR_CHECK weir_status weir_torch_lease_acquire(weir_torch_hold *import, const char *name, unsigned timeout_ms,
                                                         weir_cuda_stream stream, weir_error *error, weir_torch_hold **lease,
                                                         const weir_lease_info **info);

/* Between processes -------------------------------------------------------------------------------------------------------------------- */

/* What names the memory of a tensor in another process of the same user and machine, as torch.multiprocessing sends it. */
typedef struct weir_torch_handle {
    unsigned char bytes[192];
} weir_torch_handle;

/* Shares the live block of `size` bytes with other processes until weir_torch_unshare(), and sets *offset to where the block begins in the
   memory that the handle names. Blocks that lie in the same pages have the same handle. A receiver gets whole pages, and so sees what else
   lies in them, as with CUDA's own handles. The pool does not sleep meanwhile. The block may be shared already. WEIR_INVALID,
   WEIR_NOT_SUPPORTED (the memory is no arena of Weir's), WEIR_BUSY (the pool sleeps), WEIR_REFUSED (no directory for a socket),
   WEIR_NO_HOST_MEMORY, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_torch_share(int device, const void *ptr, size_t size, weir_error *error, weir_torch_handle *handle,
                                                 uint64_t *offset);
/* Ends that. Call it before the block is freed; it does nothing if the block is not shared. Memory that others have mapped stays there. */
WEIR_API void weir_torch_unshare(int device, const void *ptr, size_t size);

/* Maps the memory that a handle of another process names, and sets *ptr to its address. Each call maps it anew. The device is this process's
   number of the GPU that the memory is on. WEIR_INVALID (no handle, another GPU), WEIR_GONE (the sender is, or the block was freed),
   WEIR_TIMEOUT (the sender does not answer for 30 s), WEIR_REFUSED (another user's), WEIR_PROTOCOL, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR,
   the statuses of weir_torch_get(), WEIR_FORKED. */
typedef struct weir_torch_received weir_torch_received;
WEIR_API WEIR_CHECK weir_status weir_torch_receive(int device, const void *handle, size_t size, weir_error *error,
                                                   weir_torch_received **received, void **ptr);
/* Waits for the device and unmaps the memory, after a capture that is in progress. */
WEIR_API void weir_torch_receive_end(int device, weir_torch_received *received);

/* The description of a tensor in DLPack's terms; shape and strides count elements. */
typedef struct weir_torch_tensor {
    int32_t device_type, device, dimensions;
    uint8_t code, bits;
    const int64_t *shape, *strides;
} weir_torch_tensor;

/* Functions of Python, as pointers, since this library does not link Python. */
typedef struct weir_torch_capsules {
    void *(*create)(void *ptr, const char *name, void (*destructor)(void *capsule)); /* PyCapsule_New() */
    int (*is_valid)(void *capsule, const char *name);                               /* PyCapsule_IsValid() */
    void *(*pointer)(void *capsule, const char *name);                              /* PyCapsule_GetPointer() */
    void *(*no_memory)(void);                                                       /* PyErr_NoMemory() */
} weir_torch_capsules;

/* Sets these pointers. Call it before the first capsule is made. */
WEIR_API void weir_torch_capsules_set(const weir_torch_capsules *functions);
/* Returns a new PyObject, a capsule with a DLManagedTensor or a DLManagedTensorVersioned, which keeps the hold until the deleter of the
   tensor is called. If nobody consumes the capsule, its end calls the deleter. Returns NULL, with MemoryError set, if host memory runs out
   or the tensor has more than 32 dimensions. The caller has the GIL. */
WEIR_API void *weir_torch_capsule_new(weir_torch_hold *hold, void *data, const weir_torch_tensor *like, int is_versioned, uint64_t flags);

#ifdef __cplusplus
}
#endif

#endif
