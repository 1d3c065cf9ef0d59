/* SPDX-License-Identifier: MIT */
/*
 * weir.h - GPU memory pools from a policy file. Beside it: weir_sleep.h (pools that sleep), weir_reserve.h (claims). libweir(3) has a tour.
 *
 * Compiles alone as C11 and C++17, with and without CUDA's headers: `weir_cuda_stream` and `weir_cuda_pool` are the types that CUDA calls
 * cudaStream_t and cudaMemPool_t.
 *
 * Words. A *live* block is allocated and not freed; a *cached* block is freed, and a stream keeps it for a later request; *idle* memory is
 * reserved by a pool and unused. An *arena* is a pool whose memory Weir maps by itself. A pool's *small twin* is a second CUDA pool, for
 * requests below small_below. The *recovery ladder* is the list of steps, the *rungs*, that look for memory when a request finds none. The
 * *keeper* (`keeper: true`) gives memory back that the program has stopped using. A *neighbour* is another process on the same GPU.
 *
 * Rules that hold for every function, and are not repeated below:
 *  - Any thread may call it at any time, on any object that is not being closed, unless "Threads" says otherwise. A weir_stream may be
 *    closed while others use it: their calls are served before it is, or fail with WEIR_INVALID and change nothing.
 *  - Sizes are bytes, times are milliseconds. Outputs come last and are written only on WEIR_OK.
 *  - Nothing is lost, leaked or half-applied when a call fails. A refused request leaves the device with as much free memory as before, and
 *    its pool with no more reserved. Cached and idle memory that recovery gave back meanwhile stays with the device.
 *  - A `weir_error *error` may be NULL. The first error put into a record stays: set it up with WEIR_ERROR_INIT, and clear it with
 *    weir_error_clear() before it is used again.
 *  - A struct that begins with `size` grows at its end with later versions. Set `size` to its sizeof (WEIR_..._INIT does): the program then
 *    works unchanged with the library of another version. Members that an older program's struct does not have count as 0. Members of a
 *    newer program's struct that this library does not know must be 0 (else WEIR_INVALID), and are set to 0 where the library fills the
 *    struct. A struct that the library hands out by pointer grows at its end too, so the library's may be larger than the program's sizeof.
 *  - No function is async-signal-safe: a signal handler must not call any. (It may have interrupted a call that holds a lock.)
 *  - A thread is not cancelled within a function, nor in a callback or log function that it runs: pthread_cancel() takes effect later. The
 *    exception is asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS), with which no function may be called.
 *  - The program's functions that the library calls (weir_log_fn, weir_leak_fn, weir_oom_fn) may throw an exception, or end their thread by
 *    pthread_exit(). Both pass through the library's call, which then returns nothing: the type of each function describes the effect.
 *    Nothing stays locked, lost or in use. An exception of the log function on Weir's own thread (see weir_open) finds no handler and ends
 *    the process. These functions must not leave by longjmp().
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
#define WEIR_VERSION_MINOR 2
#define WEIR_VERSION_PATCH 0
/* One number for #if: a later version's is greater. 0.2.0 is 200, and 1.2.3 is 10203. */
#define WEIR_VERSION (WEIR_VERSION_MAJOR * 10000 + WEIR_VERSION_MINOR * 100 + WEIR_VERSION_PATCH)

/* The version of the library at run time, "0.2.0". Static storage; works in a forked child too. */
WEIR_API const char *weir_version(void);

/* Status and error --------------------------------------------------------------------------------------------------------------------- */

/* X(name, number, text): the one list of all statuses. Numbers never change their meaning. */
#define WEIR_STATUS_LIST(X) \
    /* The call succeeded. */ \
    X(WEIR_OK, 0, "success") \
    /* The device, the pool's max_size or the driver has no room, and recovery found none. Everything goes on as before; a later request
       may succeed. weir_last_error() has the report. */ \
    X(WEIR_OUT_OF_MEMORY, 1, "out of GPU memory") \
    /* malloc() or a system call found no host memory, or no addresses. Everything goes on as before. */ \
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
    /* The device, the driver or the toolkit lacks the requested feature; the error says which of them. Nothing was done. */ \
    X(WEIR_NOT_SUPPORTED, 9, "not supported here") \
    /* The stream is being captured into a graph, and the call cannot be part of one: that capture goes on unharmed. With cuda_code 900 \
       the call cannot be made beside another thread's global-mode capture, which CUDA has invalidated: `capture: relaxed` avoids that. */ \
    X(WEIR_CAPTURING, 10, "not possible during stream capture") \
    /* The object is in use and cannot change now; the error says by what. Nothing was done. */ \
    X(WEIR_BUSY, 11, "in use") \
    /* This process is the child of a fork() after weir_open(). Only exec, or a weir_open() before any fork, helps. */ \
    X(WEIR_FORKED, 12, "not usable after fork()") \
    /* CUDA failed for another reason; cuda_code in the error has it. If CUDA calls it sticky, the process needs a restart. */ \
    X(WEIR_CUDA_ERROR, 13, "CUDA failed") \
    /* The call waited for the given time in vain. Nothing was done; trying again is fine. */ \
    X(WEIR_TIMEOUT, 14, "timed out") \
    /* No process listens at the socket now, or the process there has died: the same call may succeed once a process listens again. Leases
       from it stay usable and are released as usual. A ring that its producer closed gives WEIR_ENDED instead. */ \
    X(WEIR_GONE, 15, "no longer there") \
    /* The other process refused, or the check of its identity failed; the error says why. */ \
    X(WEIR_REFUSED, 16, "refused") \
    /* The other process sent a message that the protocol does not allow, and its connection was closed. */ \
    X(WEIR_PROTOCOL, 17, "protocol error") \
    /* The producer closed the ring, and its last frame was read: the end of the sequence. Later calls get the frames of the next ring of
       that name. */ \
    X(WEIR_ENDED, 18, "ended")

typedef enum weir_status {
#define WEIR_STATUS_ENTRY(name, number, text) name = number,
    WEIR_STATUS_LIST(WEIR_STATUS_ENTRY)
#undef WEIR_STATUS_ENTRY
} weir_status;

/* "WEIR_OUT_OF_MEMORY", and "out of GPU memory". Never NULL, static storage, work in a forked child too. */
WEIR_API const char *weir_status_name(weir_status status);
WEIR_API const char *weir_status_text(weir_status status);

/* A record of an error. Owned by the caller, no clean-up needed. */
typedef struct weir_error {
    weir_status status;
    int cuda_code;         /* cudaError_t, or 0 if CUDA had no part in it */
    unsigned line, column; /* place in `file`, from 1; 0 if there is none */
    char file[256];        /* policy file, "WEIR_CONF", or "" */
    char text[4096];       /* a line for each error found, or the whole report of an out-of-memory. Always terminated, cut if longer */
} weir_error;

#define WEIR_ERROR_INIT { WEIR_OK, 0, 0, 0, { 0 }, { 0 } }

/* Sets the record back to the state after WEIR_ERROR_INIT, which can only initialise a variable. NULL does nothing. Works in a forked child
   too. */
WEIR_API void weir_error_clear(weir_error *error);

/*
 * The error of this thread's last failed call of weir_malloc, weir_free, weir_pool_malloc, weir_stream_malloc or weir_stream_free, which
 * take no record for the sake of speed, or of weir_close, weir_stream_close, weir_mark, weir_tag_push, weir_tag_pop or weir_reader_fd.
 * Copies it to *error (status WEIR_OK if none failed yet).
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

/*
 * Gets one line without a newline. Lines of one kind about one pool come once a second at most; the next one says how many were left out,
 * and weir_close() logs the last count. Called on any thread, at the end of the library's call that logs: the call is complete, its outputs
 * are written, and no Weir lock is held. (If there is no host memory to keep the line until then, the function is called at once.) Must not
 * call Weir. An exception that it throws replaces the call's status, which is lost.
 */
typedef void (*weir_log_fn)(void *data, weir_log_level level, const char *line);

typedef struct weir_options {
    size_t size;             /* sizeof(weir_options) */
    const char *policy_file; /* a path, or the name of an installed policy as "inference" (weir-policy(5)). NULL: $WEIR_POLICY,
                                $XDG_CONFIG_HOME/weir/policy.yaml, /etc/weir/policy.yaml, the built-in default */
    const char *policy_text; /* the YAML itself instead of a file; $WEIR_CONF applies to it as well. Not both */
    const char *gpu;         /* "cuda" or "sim"; NULL: $WEIR_GPU, else "cuda". Never falls back to the simulator by itself */
    weir_log_fn log;         /* NULL: silent. $WEIR_LOG writes lines as well, independently of this (libweir(3)) */
    void *log_data;
} weir_options;

#define WEIR_OPTIONS_INIT { sizeof(weir_options), NULL, NULL, NULL, NULL, NULL }

/*
 * Reads the policy, checks it against the devices, creates and configures every pool that it names and grows them to initial_size.
 * options: NULL means all defaults. *w: close it with weir_close(). Waits for the device only where initial_size is set.
 * `keeper: true` and `control: true` start a thread, one for all weirs of the process. It blocks all signals, and ends with the last weir
 * that needs it, or at exit. With control, other processes of this user, and root, can take idle memory, trim pools, change live keys and
 * make the process read its policy again at any time, on that thread, which also calls the log function. If the control socket cannot be
 * made (its place is read-only, full, another user's or too long; no descriptors are left), weir_open() succeeds all the same: the log says
 * why other processes cannot see this one, and names WEIR_CONTROL_DIR, which sets another place.
 * Only this function and weir_reload() read the environment, on the calling thread.
 * WEIR_BAD_POLICY (also of WEIR_CONF and WEIR_QUOTA), WEIR_UNREADABLE, WEIR_NO_GPU, WEIR_NOT_SUPPORTED, WEIR_OUT_OF_MEMORY (initial_size),
 * WEIR_NO_HOST_MEMORY (also if the keeper's thread cannot be started), WEIR_INVALID (unknown gpu, size of options, file and text both),
 * WEIR_BUSY (`keeper` while the process exits), WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_open(const weir_options *options, weir_error *error, weir **w);

/*
 * Gives everything back: stops the keeper, empties the caches, closes streams that are still open, and destroys the pools. Restores the
 * device's current pool and the settings of its default pool, unless other code has changed them since; if several weirs use a default
 * pool, the last of them to be closed does that. Idle memory of the default pool goes back. NULL does nothing.
 * Waits for pending frees on the open streams, since CUDA crashes if a pool is destroyed before they are complete (measured). A pool
 * with frees pending on other streams is destroyed by the next weir_open() or weir_close(); its memory goes back when the program
 * synchronises. Blocks that are still live stay valid and are logged. The caller frees them with cudaFreeAsync(), or with weir_free(NULL,
 * ptr, stream) if they are of a pool with `align`, or of an arena and not of a graph. Their pool's memory goes back after the last of these
 * frees; an arena's at the first weir_open(), weir_close() or weir_free(NULL, ...) that finds the last of them complete.
 * Call it before main() returns, not from an exit handler or a destructor: CUDA may be gone by then. End captures first: the cache of a
 * stream that captures cannot be emptied, so its blocks stay with their pool, and are logged.
 * Threads: no other call on this weir may run or follow.
 * WEIR_BUSY (called in an out-of-memory callback of this weir, in a weir_leak_fn or in a log function; nothing was done), WEIR_FORKED; see
 * weir_last_error().
 */
WEIR_API weir_status weir_close(weir *w);

/*
 * Reads a policy and applies all differences, or none. policy_file: as in weir_options. NULL reads the opened policy again, as `weir
 * reload` does from outside: the file that weir_open() found, by its absolute path, whatever the present directory; the same policy_text;
 * or the same built-in policy. The present $WEIR_CONF is applied on top. Only the keys that weir-policy(5) calls live may differ; any other
 * difference refuses the whole reload, and the error names the key. A max_size that the driver enforces (that of a pool without a small
 * twin) can be lowered, and raised again up to its value at open. A successful reload empties all caches as weir_pool_trim() does, since
 * their blocks were kept under the former rules.
 * WEIR_BAD_POLICY, WEIR_UNREADABLE, WEIR_NOT_SUPPORTED, WEIR_NO_HOST_MEMORY, WEIR_BUSY (`keeper: true` while the process exits),
 * WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_reload(weir *w, const char *policy_file, weir_error *error);

/* Allocate and free -------------------------------------------------------------------------------------------------------------------- */

/*
 * Allocates as cudaMallocAsync() does, from the pool that the policy gives to this stream: that of the opened stream with this handle, else
 * defaults.pool.
 * size: bytes; 0 gives NULL. device: the CUDA device of the memory. stream: 0 is that device's legacy stream, or the calling thread's
 * per-thread stream if compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM. *ptr: a block that begins at a multiple of 512 bytes, or of the
 * pool's `align`; free it with weir_free().
 * Stream order: the block may be used by work behind this call on `stream`, and by other streams that wait for it.
 * On an opened stream the block may come from the stream's cache (see Streams), without a call of CUDA.
 * When CUDA has no memory left the recovery ladder runs (weir-policy(5), on_oom): the call can then take as long as its deadline plus one
 * driver call, and callbacks run on this thread. On a capturing stream the block belongs to the graph and nothing is recovered.
 * WEIR_OUT_OF_MEMORY, WEIR_NOT_FOUND (device without that pool), WEIR_INVALID (also a size above pools.P.ipc_max_block of an exportable
 * pool), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_malloc(weir *w, void **ptr, size_t size, int device, weir_cuda_stream stream);

/*
 * Frees a block as cudaFreeAsync() does. w: the block's weir; NULL if that is closed (see weir_close()). ptr: a block, or NULL,
 * which does nothing. stream: any stream of any device (0 as in weir_malloc, of the block's device). Stream order: the caller has ordered
 * every use of the block before this point of `stream`. An opened stream may keep the block in its cache (see Streams) instead of giving it
 * to CUDA. Blocks of an arena (backing: arena) go back to the arena. Only this function and weir_stream_free() can free them: CUDA does not
 * know them.
 * WEIR_NOT_A_BLOCK, WEIR_CAPTURING (a block from before the capture on a capturing stream, or beside another thread's capture; it stays
 * live), WEIR_BUSY (the block is published, see weir_export_publish()), WEIR_INVALID (w is NULL, and no closed weir had the
 * block), WEIR_NO_HOST_MEMORY (of an arena's block, which stays live), WEIR_CUDA_ERROR (the block stays live), WEIR_FORKED.
 */
WEIR_API weir_status weir_free(weir *w, void *ptr, weir_cuda_stream stream);

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

/*
 * Caches. A block that is freed on an opened stream need not go back to CUDA: the stream's cache keeps it and serves it to a later request
 * on the same stream, and neither call takes the driver's lock. The policy bounds caches or switches them off (weir-policy(5), CACHES).
 *  - Only opened streams have a cache. weir_malloc(), weir_pool_malloc() and weir_free() use the cache of an opened stream if CUDA's id of
 *    the handle proves that the handle still means that stream (CUDA 12.0); otherwise they call CUDA. weir_stream_malloc() and
 *    weir_stream_free() need no id.
 *  - A cache has blocks of the pool that its stream allocates from, and no others.
 *  - With caches, a request of up to cache.largest for that pool on that stream is rounded up to a size class, so that requests of similar
 *    size can share blocks; weir_pool_stats.slack counts the added bytes. All other requests are served to the byte. Of blocks above
 *    cache.largest a stream keeps the last two that it freed, for requests of exactly their size; in CUDA's pools only sizes that come again.
 *    A block of up to cache.largest for which only the exact size found room is not cached.
 *  - Stream order: a block freed on a stream may be served again to work behind that point of the same stream, and to no other stream.
 *  - While a stream captures, its cache neither serves nor takes blocks. With cache.capture_check: false no request of the pool checks for
 *    a capture: set it only for programs that never capture.
 *  - To CUDA a cached block is in use: a synchronise does not give it back. It goes back when it has to make room for another, at
 *    weir_stream_close(), weir_pool_trim(), weir_reload() and weir_close(), in the flush step of recovery, and with `keeper: true` once it
 *    has gone unused for cache.idle; a block above cache.largest also before its pool grows for a large request.
 */

/*
 * Tells Weir of a CUDA stream. From now on the pool of the policy's stream `name` serves weir_malloc() on its handle, blocks freed on it
 * may be cached, the recovery ladder may wait for its pending frees, and a `private: true` entry gets a pool of its own.
 * device: the device of the stream; any other one is refused. stream: must stay alive until weir_stream_close(), and so must its context,
 * if the program made that with the driver (cuCtxCreate): see weir_stream_close(). The per-thread default stream is refused, since its
 * handle stands for a different stream in each thread. name: an entry of the policy's `streams`. NULL means the default pool, and so does a
 * name that the policy does not have; if the policy has streams, the log then names the nearest. *s: close it.
 * WEIR_NOT_FOUND (device), WEIR_BUSY (this stream is open already), WEIR_CAPTURING (it is being captured, which goes on), WEIR_INVALID,
 * WEIR_OUT_OF_MEMORY, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_stream_open(weir *w, int device, weir_cuda_stream stream, const char *name, weir_error *error,
                                                 weir_stream **s);

/*
 * The same with a non-blocking CUDA stream of Weir's own: for programs that have no streams of their own, and for programs on the
 * simulator. A stream that an earlier weir_stream_create() made on the device, in the current context, is used again once its weir_stream
 * is closed; otherwise a new one is made. The CUDA stream lives until weir_close(): the program does not destroy it.
 */
WEIR_API WEIR_CHECK weir_status weir_stream_create(weir *w, int device, const char *name, weir_error *error, weir_stream **s);

/*
 * Forgets the stream. Blocks allocated on it live on; those in its cache go back to CUDA, in the order of the stream. A private pool
 * without live blocks serves the next private stream of its entry. NULL does nothing.
 * Call it before cudaStreamDestroy(), and not while the stream captures: the blocks in the cache of a stream that captures go back at
 * weir_close() only. Destroying an open stream is as dangerous as any later use of its handle: CUDA crashes (measured). Weir notices a
 * destroyed stream only if another stream gets the same handle and is opened. From then on Weir never touches the former stream, and calls
 * on it fail with WEIR_INVALID. Its cached blocks go back at a weir_pool_trim(), weir_reload(), weir_close() or out-of-memory that finds
 * the device's work of that time complete, and nothing captured. Close it all the same.
 * The program may destroy the context of an open stream (cuCtxDestroy), on drivers from CUDA 12.0 on. Then only weir_stream_close() and
 * weir_stream_synchronize(), which fails, may follow, and no call that names the raw handle: CUDA crashes there (measured). Before Weir
 * itself uses the stream it asks the driver whether the context still exists; the stream's blocks go back as above. The question and the
 * use are two steps. So close the stream first if other threads call Weir meanwhile, if the keeper or other processes may use it, and on
 * older drivers, which have no such question. cudaDeviceReset() must not be called while a weir is open.
 * The CUDA stream of weir_stream_create() lives until weir_close(), or as long as its context. So a block that outlives its weir_stream may
 * be freed there with weir_free(), by the raw handle. Another weir_stream may use that CUDA stream by then. This function destroys the CUDA
 * stream at once only if Weir cannot wait for its work (it captures, CUDA reports an error), or for lack of host memory.
 * Waits for calls on this weir_stream that are in progress; one that recovers from out-of-memory may take as long as its deadline. Waits
 * for the work of the stream only if weir_stream_create() made it.
 * Threads: one thread closes it, once. A call of another thread meanwhile is served before that, or fails with WEIR_INVALID; a block that
 * it was to free then stays live. No call may begin afterwards. One that does is refused in the same way, but only until the memory of *s
 * serves another stream.
 * WEIR_BUSY (called in a callback, while a call on this stream is in progress, as the one whose request the callback serves; nothing was
 * done, the stream stays open), WEIR_FORKED; see weir_last_error().
 */
WEIR_API weir_status weir_stream_close(weir_stream *s);

/* weir_malloc and weir_free on an opened stream: the same rules and statuses, without the search for the stream. Also WEIR_INVALID, if the
   stream is being closed. */
WEIR_API WEIR_CHECK weir_status weir_stream_malloc(weir_stream *s, void **ptr, size_t size);
WEIR_API weir_status weir_stream_free(weir_stream *s, void *ptr);

/* cudaStreamSynchronize: waits for all work of the stream. Then memory of pools beyond their release_threshold goes back; CUDA's own
   synchronise functions do not do that for arenas. WEIR_CAPTURING if it captures (and the capture goes on). WEIR_INVALID if it is being
   closed, or its context was destroyed, WEIR_CUDA_ERROR, WEIR_FORKED. */
WEIR_API weir_status weir_stream_synchronize(weir_stream *s, weir_error *error);

/* The CUDA stream, its device and its pool (borrowed until the stream is closed). NULL or -1 for NULL. A CUDA stream of
   weir_stream_create() is borrowed until weir_close(), see weir_stream_close(). */
WEIR_API weir_cuda_stream weir_stream_handle(const weir_stream *s);
WEIR_API int weir_stream_device(const weir_stream *s);
WEIR_API weir_pool *weir_stream_pool(const weir_stream *s);

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

/*
 * The policy's pool of that name on that device. name: NULL is defaults.pool. *pool: borrowed, valid until weir_close().
 * WEIR_NOT_FOUND, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_get(weir *w, const char *name, int device, weir_error *error, weir_pool **pool);

/* Like weir_malloc(), but allocates from this pool, even if the policy gives the stream another one. A cache serves the request only if its
   stream has this pool. */
WEIR_API WEIR_CHECK weir_status weir_pool_malloc(weir_pool *pool, void **ptr, size_t size, weir_cuda_stream stream);

/*
 * Empties the caches of the pool's streams, then does cudaMemPoolTrimTo on the pool and its small twin: gives idle memory back, but leaves
 * at least `keep` bytes to both together. CUDA gives back whole steps of 32 MiB in which nothing is live; an arena gives back pages of
 * 2 to 64 MiB, and waits up to 1 ms for every stream.
 * Memory can go back only after CUDA has seen its free complete. Weir waits for the opened streams, stream 0 and noted frees on other
 * streams, up to 1 ms in all, which is enough for streams without other work; stream 0 gets an event if a block was freed there. A
 * capturing stream keeps its cache. For cached blocks of a destroyed stream Weir waits until the device's work is done. Synchronise any
 * other stream before the call: Weir records an event there only once per 32 MiB of frees, and memory beside later frees does not go back
 * either (measured). Does nothing on a pool that has published a block: its memory goes back when the pool is made anew (see Sharing).
 * *released (may be NULL): bytes that went back. WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API weir_status weir_pool_trim(weir_pool *pool, uint64_t keep, weir_error *error, uint64_t *released);

/*
 * Changes the release threshold of the pool and its small twin together: bytes kept over a synchronise, UINT64_MAX for all. Holds until
 * changed again or until the next reload. WEIR_NOT_SUPPORTED for an exportable pool, which keeps no idle memory until its first block is
 * published, and all of it from then on. WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_set_release_threshold(weir_pool *pool, uint64_t bytes, weir_error *error);

/* CUDA's handle of the pool, and of its small twin (NULL without one). Borrowed: never destroy them. The handle of a shared pool changes
   each time that the pool is made anew (share.retire_after). The pool behind an arena's handle serves only capturing streams. */
WEIR_API weir_cuda_pool weir_pool_handle(const weir_pool *pool);
WEIR_API weir_cuda_pool weir_pool_small_handle(const weir_pool *pool);
WEIR_API const char *weir_pool_name(const weir_pool *pool);
WEIR_API int weir_pool_device(const weir_pool *pool);

/* Statistics --------------------------------------------------------------------------------------------------------------------------- */

/* The steps of the recovery ladder. */
typedef enum weir_rung {
    WEIR_RUNG_FLUSH,
    WEIR_RUNG_WAIT,
    WEIR_RUNG_TRIM,
    WEIR_RUNG_CALLBACKS,
    WEIR_RUNG_NEIGHBOURS,
    WEIR_RUNG_COUNT
} weir_rung;

#define WEIR_RUNG_MAX 16 /* room for steps of later versions, which then move no member */

/* "flush", "wait", "trim", "callbacks", "neighbours". Never NULL. */
WEIR_API const char *weir_rung_name(weir_rung rung);

/*
 * One pool. In every snapshot   live + cached + slack = used   and   used + idle = reserved + asleep.
 * slack is the difference between the size classes of live blocks and the requested sizes (less than 12.5 % above 4 KiB; up to 4 KiB
 * classes are multiples of 512 bytes), and all blocks of other code in a pool that Weir shares with it (backing: default, current). An
 * arena counts in steps of 512 bytes. A pool with share.scrub clears whole steps of 512 bytes, and counts each request as such steps; a pool
 * with `align` counts whole multiples of that.
 */
typedef struct weir_pool_stats {
    const char *name;
    int device;
    int is_private;     /* belongs to one stream */
    int is_exportable;  /* once freed, a block that other code exported is in no figure, although the device still lacks its memory
                           (measured). A freed block that Weir exported counts as `idle` */
    int is_arena;       /* Weir maps its memory (backing: arena, or auto where there can be one) */
    uint64_t live;      /* requested bytes of blocks that are not freed */
    uint64_t cached;    /* bytes of freed blocks that caches keep, in their size classes */
    uint64_t slack;
    uint64_t used;
    uint64_t idle;      /* reserved bytes that nothing uses */
    uint64_t reserved;  /* bytes of the device that the pool holds */
    uint64_t live_high; /* the highest `live` since open or weir_stats_reset_peaks(); with caches exact to 1 MiB (cache.largest, if that is
                           more) for each opened stream, with `exact_peaks: true` to the byte */
    uint64_t reserved_high;
    uint64_t max_size;          /* the cap in bytes, for cached blocks too; 0: none */
    uint64_t release_threshold; /* bytes; UINT64_MAX: all. With `release_threshold: auto` what the keeper keeps at present */
    uint64_t keep;              /* bytes that stay reserved when a neighbour asks; UINT64_MAX: all */
    uint64_t live_blocks;
    uint64_t graph_blocks; /* allocated during a capture; not part of `live`, since they do not come from the pool */
    uint64_t mallocs;      /* requests served, since open */
    uint64_t frees;
    uint64_t failures; /* requests refused for want of memory, after recovery */
    uint64_t cache_hits; /* served requests that needed no call of CUDA */
    /* The effects of `release_threshold: auto` since open, each in bytes and in milliseconds of waiting calls. */
    int is_auto; /* automatic thresholds are in force now */
    uint64_t kept_used, kept_used_ms; /* memory kept while idle for half a second or more and then used again: the time saved */
    /* Memory kept idle and given back unused: the worth of that idleness, 0.44 ms for a GiB and second, eight times as much while a
       neighbour asks for memory. */
    uint64_t kept_unused, kept_unused_ms;
    uint64_t given_missed, given_missed_ms; /* memory given back and taken from the device again within 4 s: the time lost */
    /* Since 0.2. */
    uint64_t obtainable; /* a request of this size surely succeeds while nobody else takes memory of the device: a lower bound by the cap
                            and the device. Idle memory counts for an arena, which can move its free pages. It does not count for a CUDA
                            pool, where live blocks may pin it: weir_pool_trim() first shows the real figure. 0 for a pool of host memory */
    uint64_t leave_free; /* bytes of the device that stay free when the pool grows */
    uint64_t align; /* each block begins at a multiple of so many bytes: `align` of the policy, at least 512 */
    uint64_t asleep;         /* bytes of blocks whose memory weir_pool_sleep() gave back */
    uint64_t held_elsewhere; /* of these, so many were not free right after the sleep: a registration of NCCL or RDMA, say, holds them */
    uint64_t sleeps, wakes;  /* that succeeded, since open */
    uint64_t yielded; /* reserved bytes of a pool that weir_pool_yield() has promised to leave alone: others can have it put to sleep */
} weir_pool_stats;

/* One device. */
typedef struct weir_device_stats {
    int device;
    uint64_t memory;      /* bytes in all */
    uint64_t memory_free; /* bytes free for all processes */
    uint64_t recoveries;  /* times that the ladder ran */
    uint64_t rescues[WEIR_RUNG_MAX]; /* requests that succeeded after this rung, by weir_rung */
    uint64_t asks_sent;     /* times that a neighbour was asked for memory of this device */
    uint64_t bytes_got;     /* bytes that neighbours gave */
    uint64_t asks_received; /* times that a neighbour asked this weir for memory of this device */
    uint64_t bytes_given;   /* bytes that this weir gave */
    /* Since 0.2. */
    uint64_t quota; /* bytes of the device that this process may have: the least of `memory` and of the valid limits in the environment of
                       weir_open() (weir-policy(5), QUOTAS). Shares in the policy count from it. Weir does not enforce it */
    const char *quota_from; /* the variable that sets it, such as "WEIR_QUOTA"; NULL: none is below `memory` */
    uint64_t obtainable; /* bytes that a pool without a cap can grow by for certain: `memory_free` in whole steps of 32 MiB */
    const char *uuid;    /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or "MIG-..." */
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

/*
 * Writes a snapshot as one JSON object, in one line without a newline. The process sends the same text to `weir ps` and to other programs
 * that ask it.
 *  - "version" of the library, "pid" (as the process sees itself), "program", "age_ms" since weir_open(), and "labels", an object of
 *    "rank", "local_rank", "job" and "pod" as the environment had them at weir_open(); null: the environment had none.
 *  - "policy": the file in force, as `weir show` prints it; and "values", an array with an object for each key of the policy: "key",
 *    "value", "live" (can change while the weir is open), "file" (the file or variable that set the key; null: the key has its default),
 *    and "line" and "column" where they are known. Changes by `weir set` and reloads are included.
 *  - arrays "devices", "pools" and "tags". The members of their objects have the names of the members in the structs above, except that the
 *    number of a device is "index" in "devices"; "rescues" has the rungs by name. `weir ps --json` uses the same names. UINT64_MAX stands
 *    as that number.
 * Bytes of a name that are not UTF-8 become U+FFFD, and control characters are escaped.
 * json: room for `size` bytes; NULL if size is 0. Returns the length of the text without the terminating NUL. If the text does not fit,
 * nothing is written: call with size 0 first to learn the length. stats: NULL returns 0. Works in a forked child too.
 */
WEIR_API size_t weir_stats_json(const weir_stats *stats, char *json, size_t size);

/*
 * Sets live_high and reserved_high of the pools of a device (-1: of every device) to the present `live` and `reserved`. In a pool that
 * other code uses too (backing: default, current) CUDA's own highest figure is reset for that code as well.
 * Every pool is tried, even after one has failed. WEIR_NOT_FOUND (device), WEIR_INVALID, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API weir_status weir_stats_reset_peaks(weir *w, int device, weir_error *error);

/* Marks, tags and leaks ---------------------------------------------------------------------------------------------------------------- */

/*
 * The recorder remembers the last events of each thread (weir-policy(5), record); `weir trace` shows them once they are in a file.
 *
 * Records a mark, with the used and reserved bytes of each pool at this moment. name: any text, such as "step 12"; 72 bytes of it are kept.
 * With `record.level: off` nothing is done. Threads: any. WEIR_INVALID (NULL), WEIR_FORKED.
 */
WEIR_API weir_status weir_mark(weir *w, const char *name);

/*
 * Tags all blocks that the calling thread allocates from w from now on, until the tag is popped or another one is pushed over it:
 * "weights", "kv-cache". A block keeps its tag until it is freed, on any thread. name: 1 to 63 bytes. 4,095 names are possible for each
 * weir, and a thread can have 32 tags at a time. From the first push of any thread on, each cached call of this weir counts by tag and is
 * slower (doc/performance.md).
 * A tag belongs to the calling thread alone; threads that it starts do not inherit it.
 * WEIR_INVALID (NULL, length, 32 tags), WEIR_NO_HOST_MEMORY (also of the 4,096th name), WEIR_FORKED.
 */
WEIR_API weir_status weir_tag_push(weir *w, const char *name);

/* Removes the innermost tag of the calling thread for w. name: the tag that is expected there; NULL: any. WEIR_NOT_FOUND (another tag is
   innermost, or there is none; nothing was done), WEIR_INVALID, WEIR_FORKED. */
WEIR_API weir_status weir_tag_pop(weir *w, const char *name);

/* The sums over all blocks of one tag. Blocks of graphs are in no tag's figures. */
typedef struct weir_tag_stats {
    const char *name;
    uint64_t live, live_blocks; /* requested bytes, and number, of the blocks that are not freed */
    uint64_t live_high;         /* the highest `live` since open */
} weir_tag_stats;

WEIR_API size_t weir_stats_tag_count(const weir_stats *stats);
/* Borrowed from the snapshot; NULL past the end. In the order of their first push. */
WEIR_API const weir_tag_stats *weir_stats_tag(const weir_stats *stats, size_t index);

/* Live blocks of one size, pool, tag and stack. Borrowed during the call. */
typedef struct weir_leak {
    const char *pool;
    int device;
    const char *tag;      /* NULL: none */
    uint64_t size;        /* requested bytes of each of them */
    uint64_t blocks;
    const void *ptr;      /* the address of one of them */
    size_t frame_count;   /* number of `frames`: the return addresses of the call that requested them, the innermost first, none of an
                             interpreter. 0 without `record.stacks: true`. With `record.level: pool` and no tag ever pushed: of the call
                             that first got them from CUDA, before a cache kept them */
    const uintptr_t *frames;
} weir_leak;

typedef void (*weir_leak_fn)(void *data, const weir_leak *leak);

/*
 * Calls fn once for each group of live blocks, the group with the most bytes first; blocks of graphs are left out. weir_close() logs the
 * first groups. device: -1 is all devices. fn may call Weir: no lock is held. Threads: any; blocks that other threads allocate or free
 * meanwhile may be included or not.
 * An exception thrown by fn ends the listing.
 * WEIR_INVALID, WEIR_NOT_FOUND (device), WEIR_NO_HOST_MEMORY, WEIR_FORKED.
 */
WEIR_API weir_status weir_leaks(weir *w, int device, weir_leak_fn fn, void *data, weir_error *error);

/* Callbacks ---------------------------------------------------------------------------------------------------------------------------- */

/*
 * Called when a request on `device` failed and the earlier rungs did not help. The callback frees memory that the application can spare,
 * and returns how many bytes that was, 0 if none. needed: the bytes of the request, or at the pool's max_size the bytes that are missing
 * below it. The callback may call weir_free, weir_stream_free and weir_pool_trim and read statistics; a weir_malloc inside runs without
 * recovery. It need not free enough at once: as long as it returns more than 0, and blocks were really freed or the device has more memory,
 * all rungs run once more and it is called again, until the request is served or its deadline has passed.
 * Called without any Weir lock held, on the thread whose request failed, never while that thread's stream captures. Afterwards the same
 * device is current as before. No function waits inside a callback for the request that the callback serves: weir_close() of its weir,
 * weir_stream_close() of a stream with a call in progress, and weir_oom_remove() of a running callback return WEIR_BUSY. The callback must
 * not close the export in whose weir_ring_open() it runs.
 * An exception that it throws ends the request, which gets no memory, and reaches the caller of the function that made the request. That
 * recovery is then over; later ones are not affected. pthread_exit() does the same and ends the thread. weir.hpp has callbacks whose
 * exceptions count as "nothing was freed" instead.
 */
typedef uint64_t (*weir_oom_fn)(void *data, int device, uint64_t needed);

/* Callbacks run in the order of their registration until the retry succeeds. *id: for weir_oom_remove(). WEIR_INVALID,
   WEIR_NO_HOST_MEMORY, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_oom_add(weir *w, weir_oom_fn fn, void *data, weir_error *error, unsigned *id);

/* When this returns WEIR_OK the callback neither runs nor will run. Waits for calls of it that are in progress, except inside a callback:
   there it returns WEIR_BUSY if the callback to be removed is running (which may be the calling one), and the callback stays.
   WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API weir_status weir_oom_remove(weir *w, unsigned id, weir_error *error);

/* Sharing between processes ------------------------------------------------------------------------------------------------------------ */

/*
 * An exporter publishes blocks of a pool with `ipc: posix_fd` and a `share:` section; importers, other processes on the same GPU, use them
 * through mappings of the same memory, without copies and without a host that waits: the stream of the importer waits for the stream of
 * the exporter. weir-share(7) has a tour, doc/protocol.md the protocol.
 *
 * Trust. Every process that may connect gets the pool's descriptor, and can then read and write every block that the pool ever exports, for
 * ever: CUDA has no read-only imports and no way to take a descriptor back. Use one pool for each group of processes that trust each other,
 * let `share.allow` name them, and set `share.scrub` if importers must not see former contents.
 *
 *  - A *lease* is the use of one block by one importer, from its acquisition to its release. Until every lease ended and every importer
 *    unmapped a block, its memory is not used again.
 *  - An importer that dies loses its leases and mappings once its process is gone. A hung importer gets no new leases, and can be evicted;
 *    the blocks that it has mapped stay out of use until its process is gone, or imports again after an exec. No importer can stall the
 *    exporter beyond the time-outs given here, nor stall another importer.
 *  - When the exporter dies or closes, importers can still read and release their leases. New requests fail with WEIR_GONE until there is
 *    an exporter again; then they connect anew by themselves.
 *  - A pool keeps all of its memory from its first publication on. Memory of published blocks serves the same pool again, but goes back to
 *    the device only when the empty pool is made anew, as share.retire_after says (measured: CUDA gives none of it back before).
 *  - A context that the program made (cuCtxCreate), and in which it called a function of this section, must not be destroyed before the
 *    export or import is closed: their streams and events live there.
 *  - The service thread (see weir_open) answers importers and exporters. It is started by the first export or import.
 */

typedef struct weir_export weir_export; /* one shared pool; owned by the caller of weir_export_open() */
typedef struct weir_ring weir_ring;     /* a bounded sequence of blocks, the frames, that an export publishes */
typedef struct weir_import weir_import; /* a connection to the export of another process */
typedef struct weir_reader weir_reader; /* an import's place in a ring */
typedef struct weir_lease weir_lease;   /* the use of one block of another process */

#define WEIR_METADATA_MAX 256 /* bytes that the user can send along with a block */

/* Exporting */

/*
 * Listens at the socket that the policy names (pools.P.share.socket). pool: exportable, with a `share:` section; one export for each pool
 * and process. *e: close it with weir_export_close(). A reload applies changed share.* keys to later connections, but neither moves the
 * socket nor changes its mode. To let other users in by a later reload, share.allow must name another user from the start.
 * WEIR_INVALID (pool without ipc or share; the socket's directory), WEIR_BUSY (another process, or this one, listens there already),
 * WEIR_REFUSED (the socket's directory is not safe), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_export_open(weir_pool *pool, weir_error *error, weir_export **e);

/*
 * Ends the export and its rings. For timeout_ms readers can still get the queued frames, and importers are asked to unmap all blocks. Then
 * queued frames are dropped. Blocks that nobody maps any more are freed; blocks that an importer still maps stay reserved until
 * weir_close(), and are logged. NULL does nothing. weir_close() does this for exports still open, without waiting.
 * Threads: no other call on this export or its rings may run or follow.
 */
WEIR_API void weir_export_close(weir_export *e, unsigned timeout_ms);

/* A published size of no bytes, since 0 means the whole block or slot. An importer of Weir 0.1 sees 1 byte. */
#define WEIR_EMPTY ((size_t)-1)

/*
 * Publishes a block under a name, for any number of importers at once. name: at most 63 letters, digits, '_', '-' and '.', not one that is
 * published already. ptr: the start of a live block of the pool; from now on the export owns it, and weir_free() refuses it. size: how
 * many bytes of it importers see; 0: all; WEIR_EMPTY: none. metadata: metadata_size bytes (at most WEIR_METADATA_MAX) that go with it.
 * Stream order: importers' streams wait for the work on `stream` before this call. Nothing may write to the block afterwards.
 * WEIR_NOT_A_BLOCK, WEIR_INVALID (a block of another pool, or of a graph; name, sizes), WEIR_BUSY (the name, or the block, is published
 * already), WEIR_CAPTURING, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED. After an error the caller still owns the block.
 */
WEIR_API WEIR_CHECK weir_status weir_export_publish(weir_export *e, const char *name, void *ptr, size_t size, const void *metadata,
                                                    size_t metadata_size, weir_cuda_stream stream, weir_error *error);

/* The name is no longer published. The export frees the block once every lease has ended and every importer has unmapped it; nobody waits.
   WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API weir_status weir_export_withdraw(weir_export *e, const char *name, weir_error *error);

/*
 * Disconnects process `pid`, which gets nothing more from this export. The blocks that it has leased or mapped stay out of use until the
 * process is dead. WEIR_NOT_FOUND (it imports nothing here, or is evicted already), WEIR_FORKED.
 */
WEIR_API weir_status weir_export_evict(weir_export *e, int pid, weir_error *error);

typedef struct weir_export_info {
    size_t size;        /* in: sizeof(weir_export_info) */
    uint64_t epoch;     /* how often the pool was made anew (share.retire_after), from 1 */
    unsigned importers; /* processes connected, with the hung and evicted ones */
    unsigned hung, evicted;
    uint64_t blocks;    /* published blocks, slots of rings, and withdrawn blocks that an importer still maps */
    uint64_t leases;    /* leases that have not ended, also released ones whose stream has not reached the release */
    uint64_t mappings;
    /* Since 0.2. Totals since weir_export_open(), with importers that have left and rings that were closed. */
    uint64_t pushed, bytes, dropped, refused, hangs; /* of all rings together, as in weir_ring_info */
    uint64_t leases_given; /* of frames, and of blocks with names */
    uint64_t evictions;    /* importers that were evicted, or that died by themselves */
    uint64_t lag;          /* the largest present `lag` of all rings */
    uint64_t lag_high;     /* the largest `lag_high` of all rings */
} weir_export_info;

/* WEIR_INVALID (size), WEIR_FORKED. */
WEIR_API weir_status weir_export_get_info(weir_export *e, weir_export_info *info);

/* What happens when every slot of a ring is in use. A slot that an importer has leased is never taken from it. */
typedef enum weir_overflow {
    WEIR_OVERFLOW_BLOCK,       /* weir_ring_take() waits until every reader has released the oldest frame; no frame is lost */
    WEIR_OVERFLOW_DROP_OLDEST, /* the oldest frame without a lease is dropped; WEIR_BUSY if all are leased */
    WEIR_OVERFLOW_FAIL         /* WEIR_BUSY */
} weir_overflow;

/* The first frame of a reader that opens the ring after frames were pushed. */
typedef enum weir_late {
    WEIR_LATE_DEFAULT, /* WEIR_LATE_NEWEST with WEIR_OVERFLOW_DROP_OLDEST, else WEIR_LATE_NEXT */
    WEIR_LATE_NEXT,    /* the next frame that is pushed */
    WEIR_LATE_NEWEST   /* the newest frame, even if other readers have released it. This costs no slot: weir_ring_take() takes the slot of
                          the newest frame last, and once it has, a late reader gets the next frame */
} weir_late;

typedef struct weir_ring_options {
    size_t size;      /* sizeof(weir_ring_options) */
    size_t slot_size; /* bytes of a frame at most */
    unsigned depth;   /* slots, 2 to 1024. A reader can lease at most depth - 1 frames at a time */
    weir_overflow overflow;
    weir_late late;    /* since 0.2 */
    unsigned reserved; /* 0 */
} weir_ring_options;

/*
 * Publishes a ring under a name, and allocates its slots from the pool, in the order of `stream`. Each reader gets, in order, every frame
 * that is pushed while it is open and not dropped; weir_late chooses its first frame. *ring: close it, or weir_export_close() does.
 * WEIR_INVALID (also slot_size above pools.P.ipc_max_block), WEIR_BUSY (the name is published), WEIR_OUT_OF_MEMORY, WEIR_CAPTURING,
 * WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_open(weir_export *e, const char *name, const weir_ring_options *options, weir_cuda_stream stream,
                                               weir_error *error, weir_ring **ring);

/*
 * Ends the ring. Never waits: readers still get the queued frames and then WEIR_ENDED; then the slots are freed as withdrawn blocks are.
 * All work on slots that were taken and not pushed must be complete. NULL does nothing.
 * Threads: no other call on this ring may run or follow.
 */
WEIR_API void weir_ring_close(weir_ring *ring);

/*
 * Takes a free slot to be written by work on `stream`. Its bytes are those of an earlier frame, or undefined. *ptr: the slot, until
 * weir_ring_push() or weir_ring_drop(). Several can be taken at a time. timeout_ms: how long WEIR_OVERFLOW_BLOCK waits for readers. A
 * reader that has not taken or released the oldest frame by then counts as hung: it keeps its leases and misses the queued frames, and no
 * producer waits for it until it calls weir_reader_next() or releases a frame.
 * WEIR_BUSY (see weir_overflow; or all slots are taken and not pushed, at once, since no reader can free one), WEIR_TIMEOUT,
 * WEIR_CAPTURING, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_take(weir_ring *ring, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                               void **ptr);

/*
 * Waits until weir_ring_take() would find a slot, takes none, and drops nothing. For programs that do other work between short waits: no
 * reader counts as hung when this time runs out. timeout_ms: as for weir_ring_take().
 * WEIR_OK (another thread may take the slot first), WEIR_BUSY, WEIR_TIMEOUT, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_wait(weir_ring *ring, unsigned timeout_ms, weir_error *error);

/*
 * Publishes a taken slot as the next frame. size: bytes of it that readers see; 0: all; WEIR_EMPTY: none. Never waits.
 * Stream order: readers' streams wait for the work on `stream` before this call. Nothing may write to the slot afterwards.
 * WEIR_INVALID (not a taken slot, or another thread has it in weir_ring_push() or weir_ring_drop(); sizes), WEIR_CAPTURING,
 * WEIR_CUDA_ERROR, WEIR_FORKED. After an error the slot is still taken.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_push(weir_ring *ring, void *ptr, size_t size, const void *metadata, size_t metadata_size,
                                               weir_cuda_stream stream, weir_error *error);

/* Gives back a taken slot without a frame. The slot is used again after the work that is on `stream` now. Statuses as weir_ring_push(). */
WEIR_API weir_status weir_ring_drop(weir_ring *ring, void *ptr, weir_cuda_stream stream, weir_error *error);

/* The present number of readers, hung ones included. */
WEIR_API unsigned weir_ring_readers(weir_ring *ring);

typedef struct weir_ring_info {
    size_t size; /* in: sizeof(weir_ring_info) */
    size_t slot_size;
    unsigned depth;
    weir_overflow overflow;
    unsigned taken;   /* slots that were taken, and neither pushed nor given back */
    unsigned queued;  /* slots with a frame that a reader has yet to get or to release; slots neither queued nor taken are free */
    unsigned readers; /* hung ones included */
    unsigned hung;
    /* Totals since weir_ring_open(), with readers that have left. */
    uint64_t pushed;       /* frames */
    uint64_t bytes;        /* the sizes with which these frames were pushed */
    uint64_t dropped;      /* frames that WEIR_OVERFLOW_DROP_OLDEST dropped before every reader had got them */
    uint64_t refused;      /* calls of weir_ring_take() that found no slot: WEIR_BUSY, WEIR_TIMEOUT */
    uint64_t hangs;        /* times that a reader became hung; `dropped` does not count the queued frames that it misses */
    uint64_t leases_given; /* frames times the readers that got them */
    uint64_t lag;          /* frames pushed since the slowest reader released its last one, or since it opened the ring */
    uint64_t lag_high;     /* the highest `lag` so far */
} weir_ring_info;

/* The present state of the ring and its totals. Takes a lock that producers take as well: call it once a second, not once a frame.
   WEIR_INVALID (size), WEIR_FORKED. */
WEIR_API weir_status weir_ring_get_info(weir_ring *ring, weir_ring_info *info);

/* Importing */

typedef struct weir_import_options {
    size_t size;         /* sizeof(weir_import_options) */
    unsigned timeout_ms; /* to connect, and for each answer of the exporter; 0: 5000 */
    int host_waits;      /* not 0: the calling thread waits until the exporter's work on the block is complete, and `stream` does not. A
                            stream that waits for the work of a killed exporter waits for ever (measured): choose this where exporters may
                            be killed at any time and their importers must survive */
    unsigned wait_ms;    /* how long weir_import_open() waits until an exporter listens; 0: not at all */
    unsigned reserved;   /* 0 */
} weir_import_options;

#define WEIR_IMPORT_OPTIONS_INIT { sizeof(weir_import_options), 0, 0, 0, 0 }

/*
 * Connects to an export. socket: share.socket of the exporter's policy, a name or a path. options: NULL means all defaults. Weir finds the
 * exporter's device by its UUID; its number may differ. *i: close it with weir_import_close(). If the exporter dies, the next
 * request connects to the exporter that listens there by then.
 * WEIR_GONE (nobody listens there, even after wait_ms), WEIR_REFUSED (not allowed, too many importers, another version), WEIR_BUSY (this
 * process imports the pool already; or it was evicted, and can import again only after it has ended, or after an exec that the exporter can
 * see because it runs as the same user or as root), WEIR_INVALID (also if this process is the exporter), WEIR_TIMEOUT, WEIR_PROTOCOL,
 * WEIR_NOT_FOUND (the exporter's GPU is not visible here), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_import_open(weir *w, const char *socket, const weir_import_options *options, weir_error *error,
                                                 weir_import **i);

/*
 * Unmaps everything and disconnects. Waits for the streams of the last releases, timeout_ms at most. Release all leases first. A block
 * whose lease was not released stays mapped until this process ends, since nobody can tell when its use ends: the exporter cannot use it,
 * and it is logged. NULL does nothing. weir_close() does this for imports still open.
 * Threads: no other call on this import, its readers and leases may run or follow.
 */
WEIR_API void weir_import_close(weir_import *i);

/*
 * Leases the block of a name. timeout_ms: how long to wait until it is published; 0: not at all. *lease: release it.
 * Stream order: work after this call on `stream` sees the exporter's writes. No host waits for that (see host_waits).
 * WEIR_NOT_FOUND (no such name), WEIR_TIMEOUT (the same, after timeout_ms; or the exporter does not answer), WEIR_BUSY (1,024 leases of
 * this import at a time, or 16 waiting calls: weir-share(7), Limits), WEIR_GONE, WEIR_REFUSED, WEIR_PROTOCOL, WEIR_CAPTURING,
 * WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_import_acquire(weir_import *i, const char *name, unsigned timeout_ms, weir_cuda_stream stream,
                                                    weir_error *error, weir_lease **lease);

/*
 * Opens a reader of a ring. weir_late of the ring chooses its first frame: the newest or the next one. leases: how many frames the reader
 * may have at a time, with frames on their way. With 2 the next frame arrives while the first is used. With 1 the next frame is the oldest
 * that is queued at the release. 0: as many as are allowed. *reader: close it. Statuses as weir_import_acquire().
 *
 * A reader follows the name of its ring: when the producer starts again, after a clean end or a kill, a later weir_reader_next() finds the
 * new ring by itself. In between one call returns WEIR_ENDED or WEIR_GONE for the old ring.
 */
WEIR_API WEIR_CHECK weir_status weir_reader_open(weir_import *i, const char *ring, unsigned leases, weir_error *error,
                                                 weir_reader **reader);

/* Gives back frames that weir_reader_next() has not returned yet; leases stay. NULL does nothing. Threads: as weir_import_close(). */
WEIR_API void weir_reader_close(weir_reader *reader);

/*
 * Leases the next frame. timeout_ms: how long to wait for one; 0: not at all. Stream order and statuses as weir_import_acquire(),
 * WEIR_TIMEOUT (no frame came), WEIR_BUSY (all leases of this reader are in use by this process: release one first), WEIR_ENDED (the
 * producer closed the ring, and there is no other of its name now), WEIR_GONE (the exporter died, or none listens), WEIR_NOT_FOUND (the
 * exporter was started again, and has no such ring yet). The last three return at once: a program that should survive a restart of its
 * producer sleeps a moment, and calls again. A call returns WEIR_ENDED or WEIR_GONE for the old ring before any call returns the first
 * frame of the next; several threads that share a reader tell rings apart by `generation`.
 */
WEIR_API WEIR_CHECK weir_status weir_reader_next(weir_reader *reader, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                                 weir_lease **lease);

/*
 * A descriptor for poll(), select(), epoll and event loops: readable (POLLIN) while weir_reader_next() can return without waiting, with a
 * frame, the end of the ring or the loss of the exporter. Then call weir_reader_next() with timeout_ms 0. It may still return WEIR_TIMEOUT,
 * if another thread took the frame, or the exporter has made its pool anew. The descriptor does not become readable because all leases are
 * in use (WEIR_BUSY), but for a frame that comes after the next release. If weir_reader_next() fails for good, as after the exporter's
 * death or an eviction, the descriptor stays readable: wait before you call again, or close the reader. From the first call on Weir's
 * service thread reads messages whenever no thread of the program waits.
 * The reader owns the descriptor, returns the same one at each call, and closes it in weir_reader_close(): take it out of the loop first.
 * Only poll it; neither read from it nor close it. An exec closes it; the child of a fork cannot use it.
 * -1: WEIR_INVALID, WEIR_NO_HOST_MEMORY (no descriptor is left), WEIR_FORKED; see weir_last_error().
 */
WEIR_API int weir_reader_fd(weir_reader *reader);

/* The block or frame of a lease. Borrowed from the lease until its release. */
typedef struct weir_lease_info {
    void *ptr;         /* in this process. Do not write there, unless all processes that map the block agree */
    size_t size;       /* published bytes */
    int device;        /* in this process */
    uint64_t sequence; /* of a frame, from 1: frames that were dropped leave gaps. Begins anew with each ring. 0: the block of a name */
    size_t metadata_size;
    const void *metadata;
    uint64_t generation; /* since 0.2: an opaque number, not 0, the same for all frames of one ring in all importers. It changes when the
                            ring is opened anew, in any process: sequences compare only within one generation. For the block of a name it
                            identifies the publication. With an exporter of Weir 0.1 it may stay the same after a restart */
} weir_lease_info;

WEIR_API const weir_lease_info *weir_lease_get_info(const weir_lease *lease);

/*
 * Ends a lease: the exporter may use the block again once `stream` has reached this point. NULL does nothing. After an error the lease is
 * unchanged; release it again, on this stream or another one.
 * Stream order: every use of the block comes before this point of `stream`. The host waits for the stream only if CUDA refuses to record
 * an event.
 * WEIR_CAPTURING (the stream is being captured), WEIR_CUDA_ERROR (CUDA can neither record an event on the stream nor wait for it),
 * WEIR_FORKED. WEIR_OK even if the exporter is gone.
 */
WEIR_API weir_status weir_lease_release(weir_lease *lease, weir_cuda_stream stream, weir_error *error);

/* Per-thread default streams ----------------------------------------------------------------------------------------------------------- */

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
/* CUDA's headers make stream 0 mean cudaStreamPerThread under these macros, in calls and in pointers to functions; so do we. */
#ifdef __cplusplus
#define WEIR_INLINE_ inline
#else
#define WEIR_INLINE_ static inline
#endif
WEIR_INLINE_ weir_cuda_stream weir_default_stream_(weir_cuda_stream stream)
{
    return stream ? stream : (weir_cuda_stream)0x2;
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_malloc_ptsz_(weir *w, void **ptr, size_t size, int device, weir_cuda_stream stream)
{
    return weir_malloc(w, ptr, size, device, weir_default_stream_(stream));
}
WEIR_INLINE_ weir_status weir_free_ptsz_(weir *w, void *ptr, weir_cuda_stream stream)
{
    return weir_free(w, ptr, weir_default_stream_(stream));
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_pool_malloc_ptsz_(weir_pool *pool, void **ptr, size_t size, weir_cuda_stream stream)
{
    return weir_pool_malloc(pool, ptr, size, weir_default_stream_(stream));
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_stream_open_ptsz_(weir *w, int device, weir_cuda_stream stream, const char *name,
                                                           weir_error *error, weir_stream **s)
{
    return weir_stream_open(w, device, weir_default_stream_(stream), name, error, s);
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_export_publish_ptsz_(weir_export *e, const char *name, void *ptr, size_t size,
                                                              const void *metadata, size_t metadata_size, weir_cuda_stream stream,
                                                              weir_error *error)
{
    return weir_export_publish(e, name, ptr, size, metadata, metadata_size, weir_default_stream_(stream), error);
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_ring_open_ptsz_(weir_export *e, const char *name, const weir_ring_options *options,
                                                         weir_cuda_stream stream, weir_error *error, weir_ring **ring)
{
    return weir_ring_open(e, name, options, weir_default_stream_(stream), error, ring);
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_ring_take_ptsz_(weir_ring *ring, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                                         void **ptr)
{
    return weir_ring_take(ring, timeout_ms, weir_default_stream_(stream), error, ptr);
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_ring_push_ptsz_(weir_ring *ring, void *ptr, size_t size, const void *metadata,
                                                         size_t metadata_size, weir_cuda_stream stream, weir_error *error)
{
    return weir_ring_push(ring, ptr, size, metadata, metadata_size, weir_default_stream_(stream), error);
}
WEIR_INLINE_ weir_status weir_ring_drop_ptsz_(weir_ring *ring, void *ptr, weir_cuda_stream stream, weir_error *error)
{
    return weir_ring_drop(ring, ptr, weir_default_stream_(stream), error);
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_import_acquire_ptsz_(weir_import *i, const char *name, unsigned timeout_ms,
                                                              weir_cuda_stream stream, weir_error *error, weir_lease **lease)
{
    return weir_import_acquire(i, name, timeout_ms, weir_default_stream_(stream), error, lease);
}
WEIR_INLINE_ WEIR_CHECK weir_status weir_reader_next_ptsz_(weir_reader *reader, unsigned timeout_ms, weir_cuda_stream stream,
                                                           weir_error *error, weir_lease **lease)
{
    return weir_reader_next(reader, timeout_ms, weir_default_stream_(stream), error, lease);
}
WEIR_INLINE_ weir_status weir_lease_release_ptsz_(weir_lease *lease, weir_cuda_stream stream, weir_error *error)
{
    return weir_lease_release(lease, weir_default_stream_(stream), error);
}
#define weir_malloc weir_malloc_ptsz_
#define weir_free weir_free_ptsz_
#define weir_pool_malloc weir_pool_malloc_ptsz_
#define weir_stream_open weir_stream_open_ptsz_
#define weir_export_publish weir_export_publish_ptsz_
#define weir_ring_open weir_ring_open_ptsz_
#define weir_ring_take weir_ring_take_ptsz_
#define weir_ring_push weir_ring_push_ptsz_
#define weir_ring_drop weir_ring_drop_ptsz_
#define weir_import_acquire weir_import_acquire_ptsz_
#define weir_reader_next weir_reader_next_ptsz_
#define weir_lease_release weir_lease_release_ptsz_
#endif

#ifdef __cplusplus
}
#endif

#endif
