/* SPDX-License-Identifier: MIT */
/*
 * weir_torch.h - Weir as the allocator of PyTorch: the entry points that torch calls, and what the Python package and its shim ask.
 *
 * All of libweir-torch.so. It holds one weir for each device that torch allocates on, opened by the first allocation there, all from the
 * same policy, and closed never: torch frees tensors until the process ends. Besides these functions it exports those of weir.h.
 *
 * None of them calls torch, exits or prints, and none calls Python or takes the GIL, but for what python_begin() and capsule_new() say; any
 * thread may call any of them. In the child of a fork allocations
 * fail and frees do nothing. Only weir_torch_malloc throws. Sizes are bytes.
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
 * Allocates on the device for work on the stream; size 0 gives NULL. When nothing helps, weir_torch_malloc throws std::bad_alloc, and
 * weir_torch_pool_malloc returns NULL, which torch checks only in a MemPool: it must get the former as its allocator. The report of
 * what was tried is weir_torch_report()'s on this thread.
 * On a stream that captures, the block comes from the reserve of the graph (weir_torch_begin_allocate_to_pool), or, where torch has begun
 * none, is refused.
 */
WEIR_API void *weir_torch_malloc(ssize_t size, int device, weir_cuda_stream stream);
WEIR_API void *weir_torch_pool_malloc(ssize_t size, int device, weir_cuda_stream stream);

/* Frees what they gave, in the order of the stream it was allocated on; where other streams were recorded, behind their work too, and no
   stream of torch's waits for that. The stream is not touched unless it is known to live for ever, or was used by an allocation since. */
WEIR_API void weir_torch_free(void *ptr, ssize_t size, int device, weir_cuda_stream stream);

/* The same by a caller who keeps the stream alive until this returns: the block goes back on it at once, unless it captures. It may be
   another stream than the block's own, if it is behind every use of the block. */
WEIR_API void weir_torch_free_alive(void *ptr, ssize_t size, int device, weir_cuda_stream stream);

/* torch begins to use CUDA with so many devices. */
WEIR_API void weir_torch_init(int device_count);

/* empty_cache(): gives back what nobody uses, on every device in use. Waits for work of the streams that freed something; not where
   something captures. */
WEIR_API void weir_torch_reset(void);

/* set_per_process_memory_fraction(): torch gets no more than this part of the device's memory from Weir, max_size or not. The second says
   what was set last; 1: nothing was. */
WEIR_API void weir_torch_memory_fraction(double fraction, int device);
WEIR_API double weir_torch_get_memory_fraction(int device);

/* The block is used by work on that stream too: see weir_torch_free(). */
WEIR_API void weir_torch_record_stream(void *ptr, weir_cuda_stream stream);

/*
 * Memory of graphs. From begin to end, what is asked for on a stream that captures comes from the reserve of that id: memory that is there
 * before the graph runs, used again by later blocks of the same stream, and kept until as many releases as begins were counted and its
 * blocks are freed. A third argument, torch's filter, is not looked at. Blocks from before a capture that are freed during it wait
 * for its end.
 */
typedef struct weir_torch_pool_id {
    uint64_t first, second;
} weir_torch_pool_id;
WEIR_API void weir_torch_begin_allocate_to_pool(int device, weir_torch_pool_id id);
WEIR_API void weir_torch_end_allocate_to_pool(int device, weir_torch_pool_id id);
WEIR_API void weir_torch_release_pool(int device, weir_torch_pool_id id);

/* What the Python package and the shim call -------------------------------------------------------------------------------------------- */

/*
 * Says from which policy the weirs are opened (options as weir_open(); NULL: all defaults), and checks it as far as can be done without
 * touching CUDA. The strings are copied. `capture: relaxed` is in force whatever the policy says. No kernel reaches the memory of the
 * simulator: where $WEIR_GPU names it, devices are not opened (WEIR_INVALID); what runs no kernel, as a test, names it in the options.
 * WEIR_BAD_POLICY, WEIR_UNREADABLE, WEIR_INVALID, WEIR_NO_GPU (a build without CUDA), WEIR_BUSY (a weir is open already),
 * WEIR_NO_HOST_MEMORY, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_torch_configure(const weir_options *options, weir_error *error);

/* Whether nothing of this library works any more: the process has used a GPU and forked, and this is the child, or main() has returned. A
   child that was forked before is not over. Takes no lock. */
WEIR_API int weir_torch_is_over(void);

/* The weir of that device, opened now if it is not yet. Borrowed, for ever. Statuses as weir_open(), WEIR_NOT_FOUND (device). */
WEIR_API WEIR_CHECK weir_status weir_torch_get(int device, weir_error *error, weir **w);

/* Why this thread's last allocation failed, as weir_last_error(), which has no news of a weir that could not be opened. */
WEIR_API void weir_torch_report(weir_error *error);

/* This stream of torch's lives until the process ends, as those of its stream pools do (and the default stream, which needs no telling): it
   is opened, and gets a cache. Of others nothing is known after the call that named them. */
WEIR_API void weir_torch_stream_lives(int device, weir_cuda_stream stream);

/* Asked, once for each handle of each device, when it first allocates: whether it lives for ever, as above. Must not call Weir. */
typedef int (*weir_torch_stream_fn)(int device, weir_cuda_stream stream);
WEIR_API void weir_torch_set_stream_fn(weir_torch_stream_fn fn);

/* Figures of one device, in torch's terms. All 0 where nothing was allocated yet. */
typedef struct weir_torch_stats {
    size_t size;             /* in: sizeof(weir_torch_stats) */
    uint64_t memory;         /* the device's bytes in all, */
    uint64_t memory_free;    /* and those free for all processes */
    uint64_t allocated;      /* bytes in tensors: asked for and not freed */
    uint64_t allocated_high; /* the highest of it since the last reset; see exact_peaks in weir-policy(5) */
    uint64_t active;         /* allocated, and what was freed but waits for other streams, captures or an unknown stream */
    uint64_t reserved;       /* bytes of the device that all pools hold */
    uint64_t reserved_high;
    uint64_t cached;         /* in the caches of streams */
    uint64_t idle;           /* reserved, and used by nobody */
    uint64_t graph_reserved; /* part of `reserved`: what graphs keep, */
    uint64_t graph_live;     /* and what of it is in tensors */
    uint64_t blocks;         /* live ones */
    uint64_t mallocs;        /* since the first, or the last reset of the totals */
    uint64_t frees;
    uint64_t cache_hits;
    uint64_t recoveries;     /* times that the ladder ran, */
    uint64_t rescues;        /* requests that it saved, */
    uint64_t failures;       /* and requests refused for want of memory */
    uint64_t max_size;       /* the cap, the memory fraction included; 0: none */
} weir_torch_stats;
/* WEIR_INVALID (size), WEIR_NOT_FOUND (device), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_torch_stats_take(int device, weir_error *error, weir_torch_stats *stats);

/* The highest figures, or the totals (mallocs, frees, cache_hits, recoveries, rescues, failures), start anew from now. */
WEIR_API void weir_torch_reset_peaks(int device);
WEIR_API void weir_torch_reset_totals(int device);

/* Calls `use` for each live block of the device: address, and bytes asked for. It must not call Weir. */
typedef void (*weir_torch_block_fn)(const void *ptr, uint64_t size, void *data);
WEIR_API void weir_torch_blocks(int device, weir_torch_block_fn use, void *data);

/* The same as a list: copies as many live blocks as there is room for, and returns how many there are. For those who cannot run code of
   theirs under the locks that `use` is called with, such as an interpreter. */
typedef struct weir_torch_block {
    const void *ptr;
    uint64_t size;
} weir_torch_block;
WEIR_API size_t weir_torch_list_blocks(int device, weir_torch_block *blocks, size_t room);

/* Pools of torch's --------------------------------------------------------------------------------------------------------------------- */

/*
 * The same as weir_torch_begin_allocate_to_pool() for what the filter wants, whether something captures or not, as a MemPool in use has it.
 * Of several begins that want a request the latest has it. weir_torch_end_allocate_to_pool() ends it. `wants` is called by the
 * thread that allocates, under a lock: it must call neither CUDA nor Weir. `drop` (may be NULL) is called once, at the end, with no lock
 * held; if this fails it is not. WEIR_NO_HOST_MEMORY, and the statuses of weir_torch_get().
 */
typedef struct weir_torch_filter {
    int (*wants)(void *data, weir_cuda_stream stream);
    void (*drop)(void *data);
    void *data;
} weir_torch_filter;
WEIR_API WEIR_CHECK weir_status weir_torch_begin_route(int device, weir_torch_pool_id id, const weir_torch_filter *filter,
                                                       weir_error *error);

/*
 * An allocator beside Weir. The pool takes chunks from it, for work on that stream, and hands out parts of them. They go back when the
 * device has done all its work, on any thread, and none goes while something captures. Called with no lock held. malloc: NULL where there is no
 * memory. drop (may be NULL): nothing calls it any more.
 */
typedef struct weir_torch_source {
    void *(*malloc)(void *data, size_t size, int device, weir_cuda_stream stream);
    void (*free)(void *data, void *ptr, size_t size, int device);
    void (*drop)(void *data);
    void *data;
} weir_torch_source;

/* A use of the pool without a begin, to be released as one. The source (NULL: Weir) is that of the first who names one while the pool has
   no memory; it is copied, and given away in any case. Statuses as weir_torch_begin_route(). */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_pool(int device, weir_torch_pool_id id, const weir_torch_source *source, weir_error *error);

/* Whether its free parts serve requests of others, but not of graphs, for which there is no memory, unless a graph was captured with the
   pool, which uses them; whether no request shares a chunk. Of a pool that is held. */
enum weir_torch_pool_option {
    WEIR_TORCH_USE_ON_OOM,
    WEIR_TORCH_NO_SPLIT
};
WEIR_API void weir_torch_set_pool(int device, weir_torch_pool_id id, int option, int value);

/* Gives back what no block uses, unless a graph was captured with the pool, which may use it. */
WEIR_API void weir_torch_trim_pool(int device, weir_torch_pool_id id);

/*
 * Which blocks of a pool are live: to be restored, and freed. It keeps nothing of the pool. WEIR_NOT_FOUND: there is no such pool, as its
 * last use was released and its blocks are freed. WEIR_BUSY: freed blocks wait for other streams; synchronize these. WEIR_NO_HOST_MEMORY,
 * and the statuses of weir_torch_get().
 */
typedef struct weir_torch_state weir_torch_state;
WEIR_API WEIR_CHECK weir_status weir_torch_state_save(int device, weir_torch_pool_id id, weir_error *error, weir_torch_state **state);
WEIR_API void weir_torch_state_free(weir_torch_state *state);

/*
 * From now on exactly the blocks of the state are live in its pool. All that were live are freed at once, and those of the state are
 * allocated, whether they were live or not: the delta has both, with sizes, and streams of those that were made. What other streams were
 * recorded for is waited for. If it fails, nothing has changed. WEIR_NOT_FOUND: as above, or chunks that the state needs went back.
 * WEIR_BUSY: as above, or a recorded stream captures. Nobody may allocate in the pool or free there meanwhile.
 */
typedef struct weir_torch_change {
    void *ptr;
    uint64_t size; /* bytes asked for */
    weir_cuda_stream stream;
} weir_torch_change;
typedef struct weir_torch_delta {
    weir_torch_change *freed, *made;
    size_t freed_count, made_count;
} weir_torch_delta;
WEIR_API WEIR_CHECK weir_status weir_torch_state_restore(const weir_torch_state *state, weir_error *error, weir_torch_delta **delta);
WEIR_API void weir_torch_delta_free(weir_torch_delta *delta);

/* Whether exactly these blocks of the pool are live. */
WEIR_API int weir_torch_pool_has(int device, weir_torch_pool_id id, const void *const *ptrs, size_t count);

/* How often begin and hold, less release, were called for that id. */
WEIR_API int weir_torch_pool_uses(int device, weir_torch_pool_id id);

/* weir_mark() on every device in use. */
WEIR_API weir_status weir_torch_mark(const char *name);

/*
 * What this thread allocates from here to the end, outside of captures and of pools of torch's, comes from that pool of the policy, on every
 * device. Regions lie in each other, at most 16. No cache serves them. device: where the pool is looked for now; where another device lacks
 * it, allocations fail there. WEIR_NOT_FOUND (the error names the pools that there are), WEIR_INVALID (too many regions), and the statuses
 * of weir_torch_get().
 */
WEIR_API WEIR_CHECK weir_status weir_torch_region_begin(const char *pool, int device, weir_error *error);
WEIR_API void weir_torch_region_end(void);

/* weir_tag_push() and weir_tag_pop() for the calling thread, on every device that is in use by then. The statuses are those of the first
   device that refuses; the others have the tag all the same. */
WEIR_API weir_status weir_torch_tag_push(const char *name);
WEIR_API void weir_torch_tag_pop(const char *name);

/*
 * A copy of the tags and of the region that are in force in this thread, and this thread's in the place of its own; NULL: none. For a host
 * whose threads work for each other, as those of autograd do. The copy may be used as often as wanted, by any thread of this process.
 */
typedef struct weir_torch_regions {
    uint64_t opaque[68];
} weir_torch_regions;
WEIR_API void weir_torch_regions_take(weir_torch_regions *regions);
WEIR_API void weir_torch_regions_use(const weir_torch_regions *regions);

/*
 * From now on the stacks of the recorder (`record.stacks: true`) have the frames of the Python of this process, CPython from 3.9 on, and an
 * allocation by a thread that Python knows takes the GIL for a moment, if its stack is recorded: a lock that a holder of the GIL may wait
 * for must not be held over it, as with torch's own history. Called with Python initialized. WEIR_NOT_SUPPORTED (there is no such Python),
 * WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_torch_python_begin(weir_error *error);
/* To be called before Python ends, without the GIL: waits until no thread asks for it on our behalf. */
WEIR_API void weir_torch_python_end(void);

/* History ------------------------------------------------------------------------------------------------------------------------------ */

/*
 * What happens to memory that Weir holds of the device, and torch has blocks in: for the shim, which keeps torch's memory history. A
 * *segment* is a block that Weir took from CUDA or from an arena, from then until Weir gives it back, in caches and out of them; or a chunk
 * that the allocator of a MemPool gave. Weir does not know which of them torch uses: other libraries of the process have some too.
 */
typedef enum weir_torch_what {
    WEIR_TORCH_DEVICE,       /* the device is in use: `device` */
    WEIR_TORCH_SEGMENT_WAS,  /* a segment was there before anybody listened: `device`, `size` */
    WEIR_TORCH_SEGMENT_USED, /* that segment was used on `stream` before anybody listened */
    WEIR_TORCH_SEGMENT_POOL, /* the segment is memory of graphs or of a MemPool: `pool` */
    WEIR_TORCH_SEGMENT_CAME, /* `device`, `size` */
    WEIR_TORCH_SEGMENT_WENT,
    WEIR_TORCH_SEGMENT_BACK, /* what this thread was last told to have gone is there: CUDA refused it. `device`, `size` */
    WEIR_TORCH_FREE_WAITED,  /* a block of `size` bytes of `stream` was freed before anybody listened, and waits */
    WEIR_TORCH_FREE_WAITS,   /* a block that torch freed waits for streams that use it, or for a capture's end */
    WEIR_TORCH_FREE_GOES_ON, /* the block waits no more */
    WEIR_TORCH_FREE_DONE     /* the free of a block that waited is complete */
} weir_torch_what;

/* What stands with none of the members is 0. */
typedef struct weir_torch_news {
    weir_torch_what what;
    int device;
    const void *ptr;
    uint64_t size;
    weir_cuda_stream stream;
    weir_torch_pool_id pool;
} weir_torch_news;

/* Called under locks of Weir's, for one address in the order of what happens. It calls nobody but the host's allocator. */
typedef void (*weir_torch_news_fn)(const weir_torch_news *news);

/*
 * From now on the function is told of all devices, and first of what is there: of some of it, what happened since may be told before. NULL:
 * nobody is told, and no thread is still in a call of the function when this returns: the caller must hold no lock that the function takes.
 * One thread at a time may call this. WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_torch_watch(weir_torch_news_fn listener, weir_error *error);

/* Sharing ------------------------------------------------------------------------------------------------------------------------------ */

/* What weir.share holds, and what ends it. */
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
 * Something shared, for as long as anything holds it: objects of Python, and the tensors that were made of them. With its last holder it
 * ends, and lets go of its parent: a lease keeps its import, a slot its ring, a ring its export. None of these functions takes a lock of
 * Python's: a tensor may go in any thread, and after Python has ended. In the child of a fork, and behind weir_torch_holds_end(), dropping
 * does nothing. Any thread may call any of them.
 */
typedef struct weir_torch_hold weir_torch_hold;

/*
 * One holder of `thing`. device: where its memory is. home: the stream in whose order it is used. timeout_ms: of weir_export_close().
 * parent: may be NULL; that of a slot is its ring, of a block its export. NULL: no host memory, or the child of a fork; `thing` stays the
 * caller's then.
 */
WEIR_API weir_torch_hold *weir_torch_hold_new(weir_torch_held kind, void *thing, weir *w, int device, weir_cuda_stream home,
                                              unsigned timeout_ms, weir_torch_hold *parent);
WEIR_API void weir_torch_hold_keep(weir_torch_hold *hold);
/* One holder less. A lease, a slot or a block ends on the first of the streams that used it, behind what is on all of them now. One that
   cannot end, as a stream captures, ends along with a later one, or before the next is taken. */
WEIR_API void weir_torch_hold_drop(weir_torch_hold *hold);
/* `stream` uses it from now on. waits: not 0: behind what is on the home stream. The stream has to live until the last holder is gone.
   WEIR_BUSY (too many streams), WEIR_CAPTURING, WEIR_CUDA_ERROR, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_use(weir_torch_hold *hold, weir_cuda_stream stream, int waits, weir_error *error);
/* The calling thread waits for the home stream. */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_finish(weir_torch_hold *hold, weir_error *error);
WEIR_API unsigned weir_torch_hold_holders(const weir_torch_hold *hold);
/* Python ends: from now on dropping does nothing, and what is left ends with the process. */
WEIR_API void weir_torch_holds_end(void);

/* weir_ring_take(), and a hold of the slot, whose home is `stream`. */
WEIR_API WEIR_CHECK weir_status weir_torch_slot_take(weir_torch_hold *ring, unsigned timeout_ms, weir_cuda_stream stream,
                                                     weir_error *error, weir_torch_hold **slot, void **ptr);
/* weir_ring_push() on that stream, behind all that used the slot. Its holders stay, and end nothing any more. A slot that could not be pushed
   is as it was. WEIR_INVALID also: it was pushed or dropped before. */
WEIR_API WEIR_CHECK weir_status weir_torch_slot_push(weir_torch_hold *slot, size_t size, const void *metadata, size_t metadata_size,
                                                     weir_cuda_stream stream, weir_error *error);
/* weir_export_publish() on the home stream, in the same way. */
WEIR_API WEIR_CHECK weir_status weir_torch_block_publish(weir_torch_hold *block, const char *name, size_t size, const void *metadata,
                                                         size_t metadata_size, weir_error *error);
/* Ends a slot or a block at once, on that stream, behind all that used it, whoever else holds it: nobody may use its memory any more. */
WEIR_API WEIR_CHECK weir_status weir_torch_hold_discard(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error);
/* weir_reader_next() and weir_import_acquire(), and a hold of the lease, whose home is `stream`. *info: borrowed from the hold. */
WEIR_API WEIR_CHECK weir_status weir_torch_lease_next(weir_torch_hold *reader, unsigned timeout_ms, weir_cuda_stream stream,
                                                      weir_error *error, weir_torch_hold **lease, const weir_lease_info **info);
WEIR_API WEIR_CHECK weir_status weir_torch_lease_acquire(weir_torch_hold *import, const char *name, unsigned timeout_ms,
                                                         weir_cuda_stream stream, weir_error *error, weir_torch_hold **lease,
                                                         const weir_lease_info **info);

/* What a tensor looks like, as DLPack says it; shape and strides in elements. */
typedef struct weir_torch_tensor {
    int32_t device_type, device, dimensions;
    uint8_t code, bits;
    const int64_t *shape, *strides;
} weir_torch_tensor;

/* Functions of Python's, which this library does not link. */
typedef struct weir_torch_capsules {
    void *(*create)(void *ptr, const char *name, void (*destructor)(void *capsule)); /* PyCapsule_New() */
    int (*is_valid)(void *capsule, const char *name);                               /* PyCapsule_IsValid() */
    void *(*pointer)(void *capsule, const char *name);                              /* PyCapsule_GetPointer() */
    void *(*no_memory)(void);                                                       /* PyErr_NoMemory() */
} weir_torch_capsules;

/* Says where they are, before the first capsule is made. */
WEIR_API void weir_torch_capsules_set(const weir_torch_capsules *functions);
/*
 * A PyObject that carries a DLManagedTensor, or a DLManagedTensorVersioned, which keeps the hold until its deleter is called, and is deleted
 * where nobody has consumed it. NULL: MemoryError is set; no host memory, or more than 32 dimensions. The caller has the GIL.
 */
WEIR_API void *weir_torch_capsule_new(weir_torch_hold *hold, void *data, const weir_torch_tensor *like, int is_versioned, uint64_t flags);

#ifdef __cplusplus
}
#endif

#endif
