/* SPDX-License-Identifier: MIT */
/*
 * weir.h - GPU memory pools from a policy file. The one public header of libweir; libweir(3) has a guided tour.
 *
 * Compiles alone as C11 and C++17, with and without CUDA's headers: `weir_cuda_stream` and `weir_cuda_pool` are the types that CUDA calls
 * cudaStream_t and cudaMemPool_t.
 *
 * Rules that hold for every function, and are not repeated below:
 *  - Any thread may call it at any time, on any object that is not being closed, unless "Threads" says otherwise. A weir_stream may be
 *    closed while others use it: their calls are served before it is, or fail with WEIR_INVALID and change nothing.
 *  - Sizes are bytes, times are milliseconds. Outputs come last and are written only on WEIR_OK.
 *  - Nothing is lost, leaked or half-applied when a call fails.
 *  - A `weir_error *error` may be NULL. The first error put into a record stays: set it up with WEIR_ERROR_INIT before each use.
 *  - After fork(), in the child, every call fails with WEIR_FORKED and touches nothing (CUDA does not work there either).
 *  - The library never exits, aborts or prints. What it has to say goes to the log function of weir_options.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_CHECK __attribute__((warn_unused_result))
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_CHECK
#define WEIR_API
#endif

/* Version ------------------------------------------------------------------------------------------------------------------------------ */

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/* The version of the library at run time, "0.1.0". Static storage; works in a forked child too. */
WEIR_API const char *weir_version(void);

/* Status and error --------------------------------------------------------------------------------------------------------------------- */

/* X(name, number, text): the one list of all statuses. Numbers never change their meaning. */
#define WEIR_STATUS_LIST(X) \
    /* Done. */ \
    X(WEIR_OK, 0, "success") \
    /* The device, the pool's max_size or the driver has no room, and recovery found none. Everything goes on as before; a later request
       may succeed. weir_last_error() has the report. */ \
    X(WEIR_OUT_OF_MEMORY, 1, "out of GPU memory") \
    /* malloc() or a system call found no host memory. Everything goes on as before. */ \
    X(WEIR_NO_HOST_MEMORY, 2, "out of host memory") \
    /* An argument is outside what the function documents, or its weir_stream is closed: a bug of the caller. Nothing was done. */ \
    X(WEIR_INVALID, 3, "invalid argument") \
    /* The pointer is not a live block: foreign, interior to a block, or freed already. CUDA was not called; no block was harmed. */ \
    X(WEIR_NOT_A_BLOCK, 4, "not a live block of this weir") \
    /* There is no pool, policy stream, device or callback of that name or number. Nothing was done. */ \
    X(WEIR_NOT_FOUND, 5, "no such object") \
    /* The policy is refused; the error names file, line, column, key and remedy. Nothing was applied. */ \
    X(WEIR_BAD_POLICY, 6, "bad policy") \
    /* A policy file that was asked for cannot be read. Nothing was applied. */ \
    X(WEIR_UNREADABLE, 7, "cannot read the policy file") \
    /* No GPU, no usable driver, or a build without CUDA. The error names the simulator as the way to go on without one. */ \
    X(WEIR_NO_GPU, 8, "no usable GPU") \
    /* The device, the driver or the toolkit lacks what was asked for; the error says which. Nothing was done. */ \
    X(WEIR_NOT_SUPPORTED, 9, "not supported here") \
    /* The stream is being captured into a graph, and the call cannot be part of one: that capture goes on unharmed. With cuda_code 900 \
       the call cannot be made beside another thread's global-mode capture, which CUDA has invalidated: `capture: relaxed` avoids that. */ \
    X(WEIR_CAPTURING, 10, "not possible during stream capture") \
    /* The object is in use and cannot change now; the error says by what. Nothing was done. */ \
    X(WEIR_BUSY, 11, "in use") \
    /* This process is the child of a fork() after weir_open(). Only exec, or a weir_open() before any fork, helps. */ \
    X(WEIR_FORKED, 12, "not usable after fork()") \
    /* CUDA failed for another reason; cuda_code in the error has it. If CUDA calls it sticky, the process needs a restart. */ \
    X(WEIR_CUDA_ERROR, 13, "CUDA failed")

typedef enum weir_status {
#define WEIR_STATUS_ENTRY(name, number, text) name = number,
    WEIR_STATUS_LIST(WEIR_STATUS_ENTRY)
#undef WEIR_STATUS_ENTRY
} weir_status;

/* "WEIR_OUT_OF_MEMORY", and "out of GPU memory". Never NULL, static storage, work in a forked child too. */
WEIR_API const char *weir_status_name(weir_status status);
WEIR_API const char *weir_status_text(weir_status status);

/* What went wrong, in words. Owned by the caller, no clean-up needed. */
typedef struct weir_error {
    weir_status status;
    int cuda_code;         /* cudaError_t, or 0 if CUDA had no part in it */
    unsigned line, column; /* place in `file`, from 1; 0 if there is none */
    char file[256];        /* policy file, "WEIR_CONF", or "" */
    char text[4096];       /* one line for each thing found; of an out-of-memory the whole report. Always terminated, cut if longer */
} weir_error;

#define WEIR_ERROR_INIT { WEIR_OK, 0, 0, 0, { 0 }, { 0 } }

/*
 * The error of this thread's last failed call of weir_malloc, weir_free, weir_pool_malloc, weir_stream_malloc or weir_stream_free, which
 * take no record for the sake of speed. Copies it to *error (status WEIR_OK if none failed yet).
 */
WEIR_API void weir_last_error(weir_error *error);

/* Handles ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct CUstream_st *weir_cuda_stream;    /* cudaStream_t */
typedef struct CUmemPoolHandle_st *weir_cuda_pool; /* cudaMemPool_t */

typedef struct weir weir;               /* everything opened from one policy */
typedef struct weir_pool weir_pool;     /* one policy entry on one device (or of one private stream); borrowed from its weir */
typedef struct weir_stream weir_stream; /* a CUDA stream that Weir was told of, from open to close */
typedef struct weir_stats weir_stats;   /* a snapshot of all figures */

/* Open and close ----------------------------------------------------------------------------------------------------------------------- */

typedef enum weir_log_level { WEIR_LOG_ERROR, WEIR_LOG_WARNING, WEIR_LOG_INFO } weir_log_level;

/* Gets one line without a newline. Called without any Weir lock held, from whichever thread had the news; must not call Weir. */
typedef void (*weir_log_fn)(void *data, weir_log_level level, const char *line);

typedef struct weir_options {
    size_t size;             /* sizeof(weir_options), so that later versions can add members */
    const char *policy_file; /* NULL: $WEIR_POLICY, $XDG_CONFIG_HOME/weir/policy.yaml, /etc/weir/policy.yaml, the built-in default */
    const char *policy_text; /* the YAML itself instead of a file; $WEIR_CONF applies to it as well. Not both */
    const char *gpu;         /* "cuda" or "sim"; NULL: $WEIR_GPU, else "cuda". Never falls back to the simulator by itself */
    weir_log_fn log;         /* NULL: silent */
    void *log_data;
} weir_options;

#define WEIR_OPTIONS_INIT { sizeof(weir_options), NULL, NULL, NULL, NULL, NULL }

/*
 * Reads the policy, checks it against the devices, creates and configures every pool that it names and grows them to initial_size.
 * options: NULL means all defaults. *w: close it with weir_close(). Waits for the device only where initial_size is set.
 * `keeper: true` starts a thread, one for all weirs of the process. It blocks all signals, and ends with the last of them or at exit.
 * WEIR_BAD_POLICY, WEIR_UNREADABLE, WEIR_NO_GPU, WEIR_NOT_SUPPORTED, WEIR_OUT_OF_MEMORY (initial_size), WEIR_NO_HOST_MEMORY (also the
 * keeper's thread cannot be started), WEIR_INVALID (unknown gpu, size of options, file and text both), WEIR_BUSY (`keeper: true` while the
 * process exits), WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_open(const weir_options *options, weir_error *error, weir **w);

/*
 * Gives everything back: the keeper is stopped, caches are emptied, streams still open are closed, pools destroyed, `current` pools and the
 * settings of default pools restored to what they were if they are still ours. NULL does nothing. Waits for pending frees of the pools on
 * streams that are open, since CUDA crashes where a pool is destroyed before (measured); a pool with frees pending elsewhere is destroyed
 * by the next weir_open() or weir_close(), and its memory goes back when the program synchronises. Blocks still live stay valid, are
 * logged, and are the caller's to free with cudaFreeAsync(); the memory of their pool returns with the last of them.
 * Call it before main() returns, not from an exit handler or a destructor: CUDA may be gone by then. And end captures first: what the cache of
 * a stream holds that captures stays with its pool, and is logged.
 * Threads: no other call on this weir may run or follow.
 */
WEIR_API void weir_close(weir *w);

/*
 * Reads the policy again (policy_file: NULL is the same search as weir_open's with policy_file NULL) and applies what differs, all or
 * nothing. Only the keys that weir-policy(5) calls live may differ; any other refuses the whole reload and is named in the error. A
 * max_size that the driver enforces (that of a pool without a small twin) can be lowered, and raised up to what it was at open. A reload
 * that succeeds empties all caches as weir_pool_trim() does, since what they held was kept under other rules.
 * WEIR_BAD_POLICY, WEIR_UNREADABLE, WEIR_NOT_SUPPORTED, WEIR_NO_HOST_MEMORY, WEIR_BUSY (`keeper: true` while the process exits),
 * WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_reload(weir *w, const char *policy_file, weir_error *error);

/* Allocate and free -------------------------------------------------------------------------------------------------------------------- */

/*
 * cudaMallocAsync, from the pool that the policy gives to this stream: that of the opened stream with this handle, else defaults.pool.
 * size: bytes; 0 gives NULL. device: the CUDA device of the memory. stream: 0 is that device's legacy stream, or the calling thread's
 * per-thread stream if compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM. *ptr: a block aligned to 512 bytes, free it with weir_free().
 * Stream order: the block may be used by work behind this call on `stream`, and by other streams that wait for it.
 * On an opened stream the block may come from the stream's cache (see Streams), and then CUDA is not asked for it.
 * When CUDA has no memory left the recovery ladder runs (weir-policy(5), on_oom): the call can then take as long as its deadline plus one
 * driver call, and callbacks run on this thread. On a capturing stream the block belongs to the graph and nothing is recovered.
 * WEIR_OUT_OF_MEMORY, WEIR_NOT_FOUND (device without that pool), WEIR_INVALID, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_malloc(weir *w, void **ptr, size_t size, int device, weir_cuda_stream stream);

/*
 * cudaFreeAsync. ptr: a block of this weir, or NULL, which does nothing. stream: any stream of any device (0 as in weir_malloc, of the
 * block's device). Stream order: the caller has ordered every use of the block before this point of `stream`. An opened stream may keep the
 * block in its cache (see Streams) instead of giving it to CUDA.
 * WEIR_NOT_A_BLOCK, WEIR_CAPTURING (a block from before the capture on a capturing stream, or beside another thread's capture; it stays
 * live), WEIR_CUDA_ERROR (the block stays live), WEIR_FORKED.
 */
WEIR_API weir_status weir_free(weir *w, void *ptr, weir_cuda_stream stream);

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

/*
 * Caches. A block that is freed on an opened stream need not go back to CUDA: the stream's cache keeps it and serves it to a later request
 * on the same stream, and neither call takes the driver's lock. The policy bounds caches or switches them off (weir-policy(5), CACHES).
 *  - Only opened streams have a cache. weir_malloc(), weir_pool_malloc() and weir_free() use that of an opened stream if CUDA's id of the
 *    handle proves that it is that stream (CUDA 12.0); where it cannot, they call CUDA. Only weir_stream_malloc() and weir_stream_free()
 *    need no id.
 *  - A cache has blocks of the pool that its stream allocates from, and no others.
 *  - Where caches are on, a request of up to cache.largest for that pool on that stream is rounded up to a size class, so that requests of
 *    like size can share blocks: weir_pool_stats.slack has what that adds. Other requests are served to the byte, and never cached.
 *  - Stream order: a block freed on a stream may be served again to work behind that point of the same stream, and to no other stream.
 *  - While a stream captures, its cache neither serves nor takes anything. cache.capture_check: false leaves that question out, and is only
 *    for programs that never capture.
 *  - To CUDA a cached block is in use: a synchronise does not give it back. It goes back when it has to make room for another, at
 *    weir_stream_close(), weir_pool_trim(), weir_reload() and weir_close(), in the flush step of recovery, and with `keeper: true` once it
 *    has gone unused for cache.idle.
 */

/*
 * Tells Weir of a CUDA stream. From now on weir_malloc() on its handle is served by the pool of the policy's stream `name`, what it frees
 * may be cached, the recovery ladder may wait for its pending frees, and a `private: true` entry gets a pool of its own.
 * device: the stream's device. stream: alive until weir_stream_close(); the per-thread stream is refused, as it is another one in each
 * thread. name: an entry of the policy's `streams`; NULL, or one that the policy does not have: the default pool. *s: close it.
 * WEIR_NOT_FOUND (device), WEIR_BUSY (this stream is open already), WEIR_CAPTURING (it is being captured, which goes on), WEIR_INVALID,
 * WEIR_OUT_OF_MEMORY, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_stream_open(weir *w, int device, weir_cuda_stream stream, const char *name, weir_error *error,
                                                 weir_stream **s);

/*
 * The same with a new, non-blocking CUDA stream that Weir creates now and destroys at close: for programs that have no streams of their
 * own, and for those that run on the simulator.
 */
WEIR_API WEIR_CHECK weir_status weir_stream_create(weir *w, int device, const char *name, weir_error *error, weir_stream **s);

/*
 * Forgets the stream. Blocks allocated on it live on; those in its cache go back to CUDA, in the order of the stream. A private pool
 * without live blocks serves the next private stream of its entry. NULL does nothing.
 * Call it before cudaStreamDestroy(), and not while the stream captures. What is in the cache of one that captures goes back at
 * weir_close() only. A destroyed stream that is open is as dangerous as any use of its handle: CUDA crashes (measured). Only if the handle
 * has become another stream, and that one was opened, does Weir know: then what the former one cached goes back at a weir_pool_trim(),
 * weir_reload(), weir_close() or out-of-memory that synchronises the device for it, and at none at which a stream captures.
 * Waits for calls on this weir_stream in progress: if one of them is recovering from out-of-memory, for as long as that takes. So a
 * callback of the ladder must not close the stream whose request it serves; it would wait for itself. Waits for the work of the stream only
 * if weir_stream_create() made it.
 * Threads: one thread closes it, once. A call of another thread meanwhile is served before it, or fails with WEIR_INVALID, and a block that
 * it was to free stays live. No call may begin after it; one that does is refused in the same way until the memory of *s serves another
 * stream.
 */
WEIR_API void weir_stream_close(weir_stream *s);

/* weir_malloc and weir_free on an opened stream: the same rules and statuses, without the search for the stream, and WEIR_INVALID if the
   stream is being closed. */
WEIR_API WEIR_CHECK weir_status weir_stream_malloc(weir_stream *s, void **ptr, size_t size);
WEIR_API weir_status weir_stream_free(weir_stream *s, void *ptr);

/* cudaStreamSynchronize: waits for all work of the stream. WEIR_CAPTURING if it captures (and the capture goes on). WEIR_INVALID if it is
   being closed, WEIR_CUDA_ERROR, WEIR_FORKED. */
WEIR_API weir_status weir_stream_synchronize(weir_stream *s, weir_error *error);

/* The CUDA stream, its device and its pool (borrowed until the stream is closed). NULL or -1 for NULL. */
WEIR_API weir_cuda_stream weir_stream_handle(const weir_stream *s);
WEIR_API int weir_stream_device(const weir_stream *s);
WEIR_API weir_pool *weir_stream_pool(const weir_stream *s);

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

/*
 * The policy's pool of that name on that device. name: NULL is defaults.pool. *pool: borrowed, valid until weir_close().
 * WEIR_NOT_FOUND, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_get(weir *w, const char *name, int device, weir_error *error, weir_pool **pool);

/* As weir_malloc(), from this pool whatever the policy says of the stream. Only the cache of a stream that has this pool can serve it. */
WEIR_API WEIR_CHECK weir_status weir_pool_malloc(weir_pool *pool, void **ptr, size_t size, weir_cuda_stream stream);

/*
 * Empties the caches of the pool's streams, then does cudaMemPoolTrimTo on the pool and its small twin: gives idle memory back, but leaves
 * at least `keep` bytes to both together. CUDA gives back whole steps of 32 MiB in which nothing is live.
 * Only memory whose free CUDA has seen complete can go back. For each stream whose cache had something in it, up to 1 ms is spent on that,
 * which is enough for a stream that has nothing else to do; one that captures keeps its cache. What else was freed is the caller's to
 * synchronise first (measured: without it nothing returns).
 * *released (may be NULL): bytes that went back. WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API weir_status weir_pool_trim(weir_pool *pool, uint64_t keep, weir_error *error, uint64_t *released);

/*
 * Changes the release threshold of the pool and its small twin together: bytes kept over a synchronise, UINT64_MAX for all. Holds until
 * changed again or until the next reload. WEIR_NOT_SUPPORTED for an exportable pool, where no threshold could be kept: memory of blocks
 * that were exported never goes back while the pool lives. WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_set_release_threshold(weir_pool *pool, uint64_t bytes, weir_error *error);

/* CUDA's handle of the pool, and of its small twin (NULL without one). Borrowed: never destroy them. */
WEIR_API weir_cuda_pool weir_pool_handle(const weir_pool *pool);
WEIR_API weir_cuda_pool weir_pool_small_handle(const weir_pool *pool);
WEIR_API const char *weir_pool_name(const weir_pool *pool);
WEIR_API int weir_pool_device(const weir_pool *pool);

/* Statistics --------------------------------------------------------------------------------------------------------------------------- */

/* The steps of the recovery ladder. */
typedef enum weir_rung { WEIR_RUNG_FLUSH, WEIR_RUNG_WAIT, WEIR_RUNG_TRIM, WEIR_RUNG_CALLBACKS, WEIR_RUNG_COUNT } weir_rung;

/* "flush", "wait", "trim", "callbacks". Never NULL. */
WEIR_API const char *weir_rung_name(weir_rung rung);

/*
 * One pool. In every snapshot   live + cached + slack = used   and   used + idle = reserved.
 * slack is what blocks that caches may keep are larger than what was asked for (less than 12.5 % above 4 KiB; up to 4 KiB they are
 * multiples of 512 bytes), and what others hold in a pool that Weir shares with them (backing: default, current).
 */
typedef struct weir_pool_stats {
    const char *name;
    int device;
    int is_private;     /* belongs to one stream */
    int is_exportable;  /* then CUDA's figures, and so these, leave out free blocks whose pointer was exported (measured) */
    uint64_t live;      /* bytes asked for and not freed */
    uint64_t cached;    /* bytes of freed blocks that caches keep, in their size classes */
    uint64_t slack;
    uint64_t used;
    uint64_t idle;      /* reserved, and used by nobody */
    uint64_t reserved;  /* bytes of the device that the pool holds */
    uint64_t live_high; /* the highest `live` since open; with caches exact to 1 MiB (cache.largest, if that is more) for each opened stream */
    uint64_t reserved_high;
    uint64_t max_size;          /* the cap in bytes, for cached blocks too; 0: none */
    uint64_t release_threshold; /* bytes; UINT64_MAX: all */
    uint64_t live_blocks;
    uint64_t graph_blocks; /* allocated during a capture; not part of `live`, since they do not come from the pool */
    uint64_t mallocs;      /* requests served, since open */
    uint64_t frees;
    uint64_t failures; /* requests refused for want of memory, after recovery */
    uint64_t cache_hits; /* of the requests served: those that needed no call of CUDA */
} weir_pool_stats;

/* One device. */
typedef struct weir_device_stats {
    int device;
    uint64_t memory;      /* bytes in all */
    uint64_t memory_free; /* bytes free for all processes */
    uint64_t recoveries;  /* times that the ladder ran */
    uint64_t rescues[WEIR_RUNG_COUNT]; /* requests that succeeded after this rung */
} weir_device_stats;

/* Takes a snapshot. *stats: the caller's; weir_stats_free() it before or after weir_close(). WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR,
   WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_stats_take(weir *w, weir_error *error, weir_stats **stats);
WEIR_API void weir_stats_free(weir_stats *stats);
WEIR_API size_t weir_stats_pool_count(const weir_stats *stats);
/* Borrowed from the snapshot; NULL past the end. */
WEIR_API const weir_pool_stats *weir_stats_pool(const weir_stats *stats, size_t index);
WEIR_API size_t weir_stats_device_count(const weir_stats *stats);
WEIR_API const weir_device_stats *weir_stats_device(const weir_stats *stats, size_t index);

/* Callbacks ---------------------------------------------------------------------------------------------------------------------------- */

/*
 * Asked for memory when a request of `needed` bytes on `device` failed and the earlier rungs did not help. Frees what the application can
 * spare (it may call weir_free, weir_stream_free, weir_pool_trim and read statistics; a weir_malloc inside runs without recovery) and
 * returns how many bytes that was, 0 if nothing. Called without any Weir lock held, on the thread whose request failed, never while that
 * thread's stream captures. Must not close the stream whose request it serves, which waits for that request.
 */
typedef uint64_t (*weir_oom_fn)(void *data, int device, uint64_t needed);

/* Callbacks run in the order of their registration until the retry succeeds. *id: for weir_oom_remove(). WEIR_INVALID,
   WEIR_NO_HOST_MEMORY, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_oom_add(weir *w, weir_oom_fn fn, void *data, weir_error *error, unsigned *id);

/* Once it returned, the callback neither runs nor will run; so it must not be called from within one. WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API weir_status weir_oom_remove(weir *w, unsigned id, weir_error *error);

/* Per-thread default streams ----------------------------------------------------------------------------------------------------------- */

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
/* CUDA's headers make stream 0 mean cudaStreamPerThread under this macro; so do we. */
static inline weir_cuda_stream weir_default_stream_(weir_cuda_stream stream)
{
    return stream ? stream : (weir_cuda_stream)0x2;
}
#define weir_malloc(w, ptr, size, device, stream) weir_malloc(w, ptr, size, device, weir_default_stream_(stream))
#define weir_free(w, ptr, stream) weir_free(w, ptr, weir_default_stream_(stream))
#define weir_pool_malloc(pool, ptr, size, stream) weir_pool_malloc(pool, ptr, size, weir_default_stream_(stream))
#define weir_stream_open(w, device, stream, name, error, s) \
    weir_stream_open(w, device, weir_default_stream_(stream), name, error, s)
#endif

#ifdef __cplusplus
}
#endif

#endif
