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
 *  - Nothing is lost, leaked or half-applied when a call fails. A request that is refused leaves the device with as much free memory as it
 *    found, and its pool with no more reserved; only what recovery took from caches and idle memory on its way stays given back.
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
 *    pthread_exit(). Both pass through the call, which then returns nothing: see there for its effect. Nothing stays locked, lost or in
 *    use. An exception that comes from the log function on Weir's own thread (see weir_open) has no handler there and ends the process, as
 *    C++ has it. They must not leave by longjmp().
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
    /* Done. */ \
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
    X(WEIR_CUDA_ERROR, 13, "CUDA failed") \
    /* What was waited for did not come in the time given. Nothing was done; trying again is fine. */ \
    X(WEIR_TIMEOUT, 14, "timed out") \
    /* No process listens there now, or it died: the same call may succeed once one does again. What is leased from it can be used on and
       released. Of a ring that its producer closed it is WEIR_ENDED. */ \
    X(WEIR_GONE, 15, "no longer there") \
    /* The other side, or a check of who it is, said no; the error says why. */ \
    X(WEIR_REFUSED, 16, "refused") \
    /* The other side sent what the protocol does not allow, and its connection was closed. */ \
    X(WEIR_PROTOCOL, 17, "protocol error") \
    /* The ring was closed by its producer, and its last frame was read: where a sequence has an end, this is it. Whoever goes on asking gets
       the frames of the next ring of that name. */ \
    X(WEIR_ENDED, 18, "ended")

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

/* Makes the record as good as new: WEIR_ERROR_INIT can only initialise. NULL does nothing. Works in a forked child too. */
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
 * and weir_close() logs the last count. Called on any thread, at the end of the call that has something to say: all else of that is done
 * then, its outputs are written, and no Weir lock is held. (Where there is no host memory to keep the line until then, it comes at once.)
 * Must not call Weir. An exception thrown by it takes the place of the call's status, which is lost.
 */
typedef void (*weir_log_fn)(void *data, weir_log_level level, const char *line);

typedef struct weir_options {
    size_t size;             /* sizeof(weir_options) */
    const char *policy_file; /* a path, or the name of an installed policy as "inference" (weir-policy(5)). NULL: $WEIR_POLICY,
                                $XDG_CONFIG_HOME/weir/policy.yaml, /etc/weir/policy.yaml, the built-in default */
    const char *policy_text; /* the YAML itself instead of a file; $WEIR_CONF applies to it as well. Not both */
    const char *gpu;         /* "cuda" or "sim"; NULL: $WEIR_GPU, else "cuda". Never falls back to the simulator by itself */
    weir_log_fn log;         /* NULL: silent. $WEIR_LOG has lines written besides (libweir(3)) */
    void *log_data;
} weir_options;

#define WEIR_OPTIONS_INIT { sizeof(weir_options), NULL, NULL, NULL, NULL, NULL }

/*
 * Reads the policy, checks it against the devices, creates and configures every pool that it names and grows them to initial_size.
 * options: NULL means all defaults. *w: close it with weir_close(). Waits for the device only where initial_size is set.
 * `keeper: true` and `control: true` start a thread, one for all weirs of the process. It blocks all signals, and ends with the last of
 * them or at exit. With control, other processes of this user, and root, can take idle memory, trim pools, change live keys and have the
 * policy read again at any time, on that thread, which also calls the log function. Where there can be no control socket (a place that is
 * read-only, full, another user's or too long; no descriptors) memory is served all the same: the log says why nobody can see the process,
 * and names WEIR_CONTROL_DIR, which is another place.
 * The environment is read here and in weir_reload(), on the thread that calls, and by no other function.
 * WEIR_BAD_POLICY (also of WEIR_CONF and WEIR_QUOTA), WEIR_UNREADABLE, WEIR_NO_GPU, WEIR_NOT_SUPPORTED, WEIR_OUT_OF_MEMORY (initial_size),
 * WEIR_NO_HOST_MEMORY (also if the keeper's thread cannot be started), WEIR_INVALID (unknown gpu, size of options, file and text both),
 * WEIR_BUSY (`keeper` while the process exits), WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_open(const weir_options *options, weir_error *error, weir **w);

/*
 * Gives everything back: stops the keeper, empties the caches, closes streams that are still open, and destroys the pools. The device's
 * current pool and the settings of its default pool become what they were, unless somebody else has changed them since; with several weirs
 * on a default pool, once the last of them is closed, in whichever order. What the default pool has idle goes back. NULL does nothing.
 * Waits for pending frees on the open streams, since CUDA crashes where a pool is destroyed before they are complete (measured). A pool
 * with frees pending on other streams is destroyed by the next weir_open() or weir_close(); its memory goes back when the program
 * synchronises. Blocks that are still live stay valid and are logged. The caller frees them with cudaFreeAsync(), and the memory of their
 * pool returns with the last of them; those of an arena with weir_free(NULL, ptr, stream), and their memory returns at the next
 * weir_open(), weir_close() or weir_free() of that kind that finds the last of these frees complete.
 * Call it before main() returns, not from an exit handler or a destructor: CUDA may be gone by then. End captures first: the cache of a
 * stream that captures cannot be emptied, so its blocks stay with their pool, and are logged.
 * Threads: no other call on this weir may run or follow.
 * WEIR_BUSY (called in an out-of-memory callback of this weir, in a weir_leak_fn or in a log function; nothing was done), WEIR_FORKED; see
 * weir_last_error().
 */
WEIR_API weir_status weir_close(weir *w);

/*
 * Reads a policy and applies what differs, all or nothing. policy_file: as in weir_options. NULL: what was opened, again, as `weir reload`
 * does it from outside: the file that weir_open() found, by its absolute path, whatever directory the process stands in by now; the same
 * policy_text; or the same built-in policy. What stands in $WEIR_CONF now is applied on top. Only the keys that weir-policy(5) calls live may differ; any other refuses the whole reload and is named in the error. A
 * max_size that the driver enforces (that of a pool without a small twin) can be lowered, and raised up to what it was at open. A reload
 * that succeeds empties all caches as weir_pool_trim() does, since their blocks were kept under the former rules.
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
 * WEIR_OUT_OF_MEMORY, WEIR_NOT_FOUND (device without that pool), WEIR_INVALID (also a size above pools.P.ipc_max_block of an exportable
 * pool), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_malloc(weir *w, void **ptr, size_t size, int device, weir_cuda_stream stream);

/*
 * cudaFreeAsync. w: the block's weir; NULL for a block of an arena whose weir is closed. ptr: a block, or NULL, which does nothing.
 * stream: any stream of any device (0 as in weir_malloc, of the block's device). Stream order: the caller has ordered every use of the
 * block before this point of `stream`. An opened stream may keep the block in its cache (see Streams) instead of giving it to CUDA. Blocks
 * of an arena (backing: arena) go back to that. Only this function and weir_stream_free() can free them: CUDA does not know them.
 * WEIR_NOT_A_BLOCK, WEIR_CAPTURING (a block from before the capture on a capturing stream, or beside another thread's capture; it stays
 * live), WEIR_BUSY (the block is published, see weir_export_publish()), WEIR_INVALID (w is NULL, and no closed arena has the
 * block), WEIR_NO_HOST_MEMORY (of an arena's block, which stays live), WEIR_CUDA_ERROR (the block stays live), WEIR_FORKED.
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
 *    like size can share blocks; weir_pool_stats.slack counts what that adds. Other requests are served to the byte and not cached. So are
 *    those for which only their exact size finds room.
 *  - Stream order: a block freed on a stream may be served again to work behind that point of the same stream, and to no other stream.
 *  - While a stream captures, its cache neither serves nor takes anything. cache.capture_check: false leaves that question out of all
 *    requests of the pool, and is only for programs that never capture.
 *  - To CUDA a cached block is in use: a synchronise does not give it back. It goes back when it has to make room for another, at
 *    weir_stream_close(), weir_pool_trim(), weir_reload() and weir_close(), in the flush step of recovery, and with `keeper: true` once it
 *    has gone unused for cache.idle.
 */

/*
 * Tells Weir of a CUDA stream. From now on weir_malloc() on its handle is served by the pool of the policy's stream `name`, what it frees
 * may be cached, the recovery ladder may wait for its pending frees, and a `private: true` entry gets a pool of its own.
 * device: the stream's own; another one is refused. stream: alive until weir_stream_close(), and so is its context, if the program made
 * that with the driver (cuCtxCreate): see weir_stream_close(). The per-thread default stream is refused, since its handle stands for a
 * different stream in each thread. name: an entry of the policy's `streams`; NULL, or one that the policy does not have: the default pool,
 * and where the policy has streams a line of the log names the nearest. *s: close it.
 * WEIR_NOT_FOUND (device), WEIR_BUSY (this stream is open already), WEIR_CAPTURING (it is being captured, which goes on), WEIR_INVALID,
 * WEIR_OUT_OF_MEMORY, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_stream_open(weir *w, int device, weir_cuda_stream stream, const char *name, weir_error *error,
                                                 weir_stream **s);

/*
 * The same with a non-blocking CUDA stream of Weir's own: for programs that have no streams of their own, and for those that run on the
 * simulator. It is one that an earlier weir_stream_create() made on the device, in the context that is current now, and whose weir_stream
 * is closed; else a new one. It lives until weir_close(): the program does not destroy it.
 */
WEIR_API WEIR_CHECK weir_status weir_stream_create(weir *w, int device, const char *name, weir_error *error, weir_stream **s);

/*
 * Forgets the stream. Blocks allocated on it live on; those in its cache go back to CUDA, in the order of the stream. A private pool
 * without live blocks serves the next private stream of its entry. NULL does nothing.
 * Call it before cudaStreamDestroy(), and not while the stream captures: the blocks in the cache of a stream that captures go back at
 * weir_close() only. To destroy a stream that is open is as dangerous as any later use of its handle: CUDA crashes (measured). Weir notices
 * it only if another stream gets the same handle and is opened. From then on nothing touches the former stream, and calls on it fail with
 * WEIR_INVALID. Its cached blocks go back at a weir_pool_trim(), weir_reload(), weir_close() or out-of-memory that finds the device's work
 * of that time complete, and nothing captured. Close it all the same.
 * The program may destroy the context of a stream that is open (cuCtxDestroy), on drivers from CUDA 12.0 on. Then only weir_stream_close()
 * and weir_stream_synchronize(), which fails, may follow, and no call that names the raw handle: CUDA crashes there (measured). What Weir
 * does on its own account asks before it touches the stream; what becomes of its blocks is said above. The question and what follows it are
 * two steps, so close the stream first where other threads call Weir meanwhile, or the keeper or other processes may have work done there;
 * and on older drivers, which have no safe question. cudaDeviceReset() must not be called while a weir is open.
 * The CUDA stream of weir_stream_create() lives until weir_close(), or as long as its context. So a block that outlives its weir_stream may
 * be freed there with weir_free(), by the raw handle. Another weir_stream may be on that CUDA stream by then. Only where its work cannot be
 * waited for (it captures, CUDA reports an error), or for lack of host memory, this function destroys it at once.
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

/* cudaStreamSynchronize: waits for all work of the stream. What pools keep beyond their release_threshold goes back then; arenas know only
   of this function, not of CUDA's. WEIR_CAPTURING if it captures (and the capture goes on). WEIR_INVALID if it is being closed, or its
   context was destroyed, WEIR_CUDA_ERROR, WEIR_FORKED. */
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

/* As weir_malloc(), from this pool whatever the policy says of the stream. Only the cache of a stream that has this pool can serve it. */
WEIR_API WEIR_CHECK weir_status weir_pool_malloc(weir_pool *pool, void **ptr, size_t size, weir_cuda_stream stream);

/*
 * Empties the caches of the pool's streams, then does cudaMemPoolTrimTo on the pool and its small twin: gives idle memory back, but leaves
 * at least `keep` bytes to both together. CUDA gives back whole steps of 32 MiB in which nothing is live; an arena gives back pages of
 * 2 to 64 MiB, and waits up to 1 ms for every stream.
 * Only memory whose free CUDA has seen complete can go back. For the opened streams, stream 0 and what was noted of others Weir waits up to
 * 1 ms in all, which is enough for streams without other work; stream 0 gets an event if something was freed there. A stream that captures
 * keeps its cache. For cached blocks of a stream that is gone it waits until the device's work is done. With any other stream the caller
 * synchronises first: Weir puts an event there only each time that 32 MiB were freed, and memory beside what was freed since does not go back
 * either (measured).
 * Does nothing on a pool of which a block was published: its memory goes back when the pool is made anew (see Sharing).
 * *released (may be NULL): bytes that went back. WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API weir_status weir_pool_trim(weir_pool *pool, uint64_t keep, weir_error *error, uint64_t *released);

/*
 * Changes the release threshold of the pool and its small twin together: bytes kept over a synchronise, UINT64_MAX for all. Holds until
 * changed again or until the next reload. WEIR_NOT_SUPPORTED for an exportable pool, which keeps nothing until its first block is
 * published, and all from then on. WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_pool_set_release_threshold(weir_pool *pool, uint64_t bytes, weir_error *error);

/* CUDA's handle of the pool, and of its small twin (NULL without one). Borrowed: never destroy them. The handle of a shared pool changes
   each time that the pool is made anew (share.retire_after). That of an arena has only what streams allocate while they capture. */
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
 * One pool. In every snapshot   live + cached + slack = used   and   used + idle = reserved.
 * slack is the difference between the size classes of live blocks and what was asked for (less than 12.5 % above 4 KiB; up to 4 KiB classes
 * are multiples of 512 bytes), and all that others hold in a pool that Weir shares with them (backing: default, current). An arena counts
 * in steps of 512 bytes. A pool with share.scrub clears whole steps of 512 bytes, so there a request is for so many.
 */
typedef struct weir_pool_stats {
    const char *name;
    int device;
    int is_private;     /* belongs to one stream */
    int is_exportable;  /* blocks that code other than Weir's exported leave all figures once they are freed, although the device still
                           lacks them (measured). Those that Weir exported count as `idle` */
    int is_arena;       /* Weir maps its memory (backing: arena, or auto where there can be one) */
    uint64_t live;      /* bytes asked for and not freed */
    uint64_t cached;    /* bytes of freed blocks that caches keep, in their size classes */
    uint64_t slack;
    uint64_t used;
    uint64_t idle;      /* reserved, and used by nobody */
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
    uint64_t cache_hits; /* of the requests served: those that needed no call of CUDA */
    /* What `release_threshold: auto` did, since open: bytes, and what they come to in milliseconds of calls that wait. */
    int is_auto; /* it is in force now */
    uint64_t kept_used, kept_used_ms; /* kept while idle for half a second or more, and used again: what that saved */
    /* Kept, and given back in the end: what the idle memory was worth, 0.44 ms for a GiB and second, eight times as much with a neighbour
       that asks for memory. */
    uint64_t kept_unused, kept_unused_ms;
    uint64_t given_missed, given_missed_ms; /* given back, and had from the device anew within 4 s: what that cost */
    uint64_t grown_ahead, grown_ahead_ms; /* grown by the keeper before it was asked for, and how long that took, on no thread of yours */
    uint64_t ahead_used, ahead_used_ms;   /* of these, what came to be used: what that saved */
    /* Since 0.2. */
    uint64_t obtainable; /* bytes that one request is served with for certain, while nobody else takes memory of the device: a lower bound, of
                            the cap and the device. What the pool has idle counts for an arena, which moves its free pages; of a CUDA pool
                            live blocks may pin it, so weir_pool_trim() first shows what there is. 0 for a pool of the host's memory */
} weir_pool_stats;

/* One device. */
typedef struct weir_device_stats {
    int device;
    uint64_t memory;      /* bytes in all */
    uint64_t memory_free; /* bytes free for all processes */
    uint64_t recoveries;  /* times that the ladder ran */
    uint64_t rescues[WEIR_RUNG_MAX]; /* requests that succeeded after this rung, by weir_rung */
    uint64_t asks_sent;     /* times that a neighbour was asked for memory of this device */
    uint64_t bytes_got;     /* what neighbours gave */
    uint64_t asks_received; /* times that a neighbour asked this weir for memory of this device */
    uint64_t bytes_given;   /* what this weir gave */
    /* Since 0.2. */
    uint64_t quota; /* bytes that this process may have of it, as weir_open() found the environment: the least of `memory` and of the limits
                       that are good (weir-policy(5), QUOTAS). Shares of the policy are of it. Nothing here enforces it */
    const char *quota_from; /* the variable that says so, as "WEIR_QUOTA"; NULL: none is below `memory` */
    uint64_t obtainable; /* bytes that a pool without a cap can grow by for certain: `memory_free` in whole steps of 32 MiB */
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
 * Writes all figures of a snapshot as one JSON object, in one line without a newline: "version" of the library, and arrays "devices", "pools"
 * and "tags". Members of their objects are called as those of the structs above, but for the number of a device, "index" in `devices`;
 * "rescues" has the rungs by name. These are the names of `weir ps --json`. UINT64_MAX stands as that number. Bytes of a name that are not
 * UTF-8 become U+FFFD.
 * json: room for `size` bytes; NULL if size is 0. Returns the length of the text without the NUL behind it. Where `size` is not larger than
 * that, nothing is written, as half an object is none: ask with size 0 first. stats: NULL has no text, and gives 0. Works in a forked child
 * too.
 */
WEIR_API size_t weir_stats_json(const weir_stats *stats, char *json, size_t size);

/*
 * Makes live_high and reserved_high of the pools of a device (-1: of every device) start anew from what is live and reserved now. The
 * highest reserved figure of a pool that others use too (backing: default, current) starts anew for them as well.
 * Every pool is tried, also after one that failed. WEIR_NOT_FOUND (device), WEIR_INVALID, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API weir_status weir_stats_reset_peaks(weir *w, int device, weir_error *error);

/* Marks, tags and leaks ---------------------------------------------------------------------------------------------------------------- */

/*
 * The recorder remembers the last events of each thread (weir-policy(5), record); `weir trace` shows them once they are in a file.
 *
 * Writes into the recorder that the program is here, with what each pool has in use and reserved. name: any text, as "step 12"; 72 bytes of it
 * are kept. With `record.level: off` nothing is done. Threads: any. WEIR_INVALID (NULL), WEIR_FORKED.
 */
WEIR_API weir_status weir_mark(weir *w, const char *name);

/*
 * Names what the calling thread allocates from w from now on, until the tag is popped or another one is pushed over it: "weights",
 * "kv-cache". A block keeps its tag until it is freed, on whatever thread. name: 1 to 63 bytes. 4,095 names are possible for each weir, and
 * a thread can have 32 tags at a time. From the first push of any thread on, each cached call of this weir counts by tag, which makes it
 * slower (doc/performance.md).
 * Tags are of the calling thread alone: neither other threads nor those that it starts have them.
 * WEIR_INVALID (NULL, length, 32 tags), WEIR_NO_HOST_MEMORY (also of the 4,096th name), WEIR_FORKED.
 */
WEIR_API weir_status weir_tag_push(weir *w, const char *name);

/* Takes the tag that is in force for w off again. name: which one that must be; NULL: whichever. WEIR_NOT_FOUND (another one is in force, or
   none; nothing was done), WEIR_INVALID, WEIR_FORKED. */
WEIR_API weir_status weir_tag_pop(weir *w, const char *name);

/* What the blocks of one tag come to. Blocks without a tag are in no tag's figures, nor are those of graphs. */
typedef struct weir_tag_stats {
    const char *name;
    uint64_t live, live_blocks; /* bytes asked for, and blocks, that are not freed */
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
    uint64_t size;        /* bytes that each of them was asked with */
    uint64_t blocks;
    const void *ptr;      /* one of them */
    size_t frame_count;   /* return addresses of who asked for them, the innermost first, none of an interpreter; 0 without
                             `record.stacks: true`. With `record.level: pool` and no tag ever pushed: of who got them from CUDA, before a
                             cache had them */
    const uintptr_t *frames;
} weir_leak;

typedef void (*weir_leak_fn)(void *data, const weir_leak *leak);

/*
 * Calls fn for all blocks that are live now, put together, those with the most bytes first; graphs' blocks are left out. weir_close() logs the
 * first of them. device: -1 is all of them. No lock of Weir's is held over fn, which may call Weir. Threads: any; blocks that others allocate
 * or free meanwhile may be among them or not.
 * An exception thrown by fn ends the listing.
 * WEIR_INVALID, WEIR_NOT_FOUND (device), WEIR_NO_HOST_MEMORY, WEIR_FORKED.
 */
WEIR_API weir_status weir_leaks(weir *w, int device, weir_leak_fn fn, void *data, weir_error *error);

/* Callbacks ---------------------------------------------------------------------------------------------------------------------------- */

/*
 * Asked for memory when a request on `device` failed and the earlier rungs did not help. needed: the bytes of the request, or at the pool's
 * max_size those that lack below it. A callback that says it freed something, and after which there were frees or the device had more
 * memory, is asked again, after all rungs were tried once more, until it returns 0, the request is served or its deadline has passed: so it need not free all that is
 * needed at once. Frees what the application can
 * spare (it may call weir_free, weir_stream_free, weir_pool_trim and read statistics; a weir_malloc inside runs without recovery) and
 * returns how many bytes that was, 0 if nothing. Called without any Weir lock held, on the thread whose request failed, never while that
 * thread's stream captures. Afterwards the same device is current as before. In it nothing waits for the request that it serves: WEIR_BUSY
 * is what weir_close() of its weir returns, weir_stream_close() of a stream with a call in progress, and weir_oom_remove() of a callback that runs. It
 * must not close the export in whose weir_ring_open() it runs.
 * An exception thrown by it ends the request, which gets no memory, and reaches the caller of the function that made the request. The
 * recovery is over then, and later ones run as ever. pthread_exit() in it does the same and ends the thread. weir.hpp has callbacks whose
 * exceptions count as "nothing was freed" instead.
 */
typedef uint64_t (*weir_oom_fn)(void *data, int device, uint64_t needed);

/* Callbacks run in the order of their registration until the retry succeeds. *id: for weir_oom_remove(). WEIR_INVALID,
   WEIR_NO_HOST_MEMORY, WEIR_FORKED. */
WEIR_API WEIR_CHECK weir_status weir_oom_add(weir *w, weir_oom_fn fn, void *data, weir_error *error, unsigned *id);

/* When this returns WEIR_OK the callback neither runs nor will run. Waits for calls of it that are in progress, but not within a callback:
   WEIR_BUSY (called in a callback, and the one to be removed runs, perhaps as that very call; it stays), WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API weir_status weir_oom_remove(weir *w, unsigned id, weir_error *error);

/* Sharing between processes ------------------------------------------------------------------------------------------------------------ */

/*
 * An exporter publishes blocks of a pool with `ipc: posix_fd` and a `share:` section; importers, other processes on the same GPU, use them
 * through mappings of the same memory, without copies and without a host that waits: the stream of the importer waits for the stream of
 * the exporter. weir-share(7) has a tour, doc/protocol.md the protocol.
 *
 * Trust. Whoever may connect gets the pool's descriptor, and with it can read and write every block that the pool ever exports, for ever:
 * CUDA has no read-only imports and no way to take a descriptor back. Use one pool for each group of processes that trust each other, let
 * `share.allow` name them, and use `share.scrub` where former contents are nobody's business.
 *
 *  - A *lease* is the use of one block by one importer, from its acquisition to its release. Until every lease ended and every importer
 *    unmapped a block, its memory is not used again.
 *  - An importer that dies loses its leases and mappings once its process is gone. One that hangs gets no new leases, and can be evicted;
 *    what it had mapped stays out of use until its process is gone, or imports again after an exec. No importer can stall the exporter beyond the time-outs given here, nor
 *    can it stall another importer.
 *  - When the exporter dies or closes, importers keep reading what they have leased, and release it as ever. New requests fail with
 *    WEIR_GONE until there is an exporter again; then they connect anew by themselves.
 *  - A pool keeps all of its memory from its first publication on. Memory of published blocks serves the same pool again, but goes back to
 *    the device only when the empty pool is made anew, as share.retire_after says (measured: CUDA gives none of it back before).
 *  - A context that the program made (cuCtxCreate), and in which it called a function of this section, must not be destroyed before the
 *    export or import is closed: their streams and events live there.
 *  - The service thread (see weir_open) answers importers and exporters. It is started by the first export or import.
 */

typedef struct weir_export weir_export; /* one pool that is shared; owned by whoever opened it */
typedef struct weir_ring weir_ring;     /* a bounded sequence of blocks, the frames, that an export publishes */
typedef struct weir_import weir_import; /* a connection to the export of another process */
typedef struct weir_reader weir_reader; /* an import's place in a ring */
typedef struct weir_lease weir_lease;   /* the use of one block of another process */

#define WEIR_METADATA_MAX 256 /* bytes that the user can send along with a block */

/* Exporting */

/*
 * Listens at the socket that the policy names (pools.P.share.socket). pool: exportable, with a `share:` section; one export for each pool
 * and process. *e: close it with weir_export_close(). A reload applies changed share.* keys to later connections, but neither moves the
 * socket nor changes its mode. So where other users are to be let in later, share.allow has to name another user from the start.
 * WEIR_INVALID (pool without ipc or share; the socket's directory), WEIR_BUSY (another process, or this one, listens there already),
 * WEIR_REFUSED (the socket's directory is not safe), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_export_open(weir_pool *pool, weir_error *error, weir_export **e);

/*
 * Ends the export and its rings. Readers get what is queued, and importers are told to unmap everything; both have timeout_ms for it. Then
 * queued frames are dropped. Blocks that nobody maps any more are freed; those that an importer still maps stay reserved until
 * weir_close(), and are logged. NULL does nothing. weir_close() does this for exports still open, without waiting.
 * Threads: no other call on this export or its rings may run or follow.
 */
WEIR_API void weir_export_close(weir_export *e, unsigned timeout_ms);

/* As the size of what is published: no bytes at all, as 0 means all that there are. An importer of Weir 0.1 is told of 1 byte. */
#define WEIR_EMPTY ((size_t)-1)

/*
 * Publishes a block under a name, for any number of importers at once. name: at most 63 letters, digits, '_', '-' and '.', not one that is
 * published already. ptr: the start of a live block of the pool; from now on it is the export's, and weir_free() refuses it. size: how
 * many bytes of it importers shall use; 0: all; WEIR_EMPTY: none. metadata: metadata_size bytes (at most WEIR_METADATA_MAX) that go with it.
 * Stream order: importers' streams wait for what is on `stream` before this call. Nothing may write to the block afterwards.
 * WEIR_NOT_A_BLOCK, WEIR_INVALID (a block of another pool, or of a graph; name, sizes), WEIR_BUSY (the name, or the block, is published
 * already), WEIR_CAPTURING, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED. The block stays the caller's then.
 */
WEIR_API WEIR_CHECK weir_status weir_export_publish(weir_export *e, const char *name, void *ptr, size_t size, const void *metadata,
                                                    size_t metadata_size, weir_cuda_stream stream, weir_error *error);

/* The name is no longer published. The export frees the block once every lease has ended and every importer has unmapped it; nobody waits.
   WEIR_NOT_FOUND, WEIR_FORKED. */
WEIR_API weir_status weir_export_withdraw(weir_export *e, const char *name, weir_error *error);

/*
 * Evicts the importers that process `pid` is: their connections are closed, and they get nothing more. What they have leased and mapped
 * stays out of use until the process is dead. WEIR_NOT_FOUND (it imports nothing here, or is evicted already), WEIR_FORKED.
 */
WEIR_API weir_status weir_export_evict(weir_export *e, int pid, weir_error *error);

typedef struct weir_export_info {
    size_t size;        /* in: sizeof(weir_export_info) */
    uint64_t epoch;     /* how often the pool was made anew (share.retire_after), from 1 */
    unsigned importers; /* processes connected, with the hung and evicted ones */
    unsigned hung, evicted;
    uint64_t blocks;    /* published ones, slots of rings, and withdrawn ones that somebody still maps */
    uint64_t leases;    /* that have not ended; also released ones whose stream has not come to the release */
    uint64_t mappings;
    /* Since 0.2, of the whole time since weir_export_open(), whoever has left and whatever was closed since. */
    uint64_t pushed, bytes, dropped, refused, hangs; /* of all rings together, as in weir_ring_info */
    uint64_t leases_given; /* of frames, and of blocks with names */
    uint64_t evictions;    /* importers that were evicted, also those that died of themselves */
    uint64_t lag;          /* of the ring whose slowest reader is furthest behind, now */
    uint64_t lag_high;     /* the highest it was, of any ring */
} weir_export_info;

/* WEIR_INVALID (size), WEIR_FORKED. */
WEIR_API weir_status weir_export_get_info(weir_export *e, weir_export_info *info);

/* What happens when every slot of a ring is in use. A slot that an importer has leased is never taken from it. */
typedef enum weir_overflow {
    WEIR_OVERFLOW_BLOCK,       /* weir_ring_take() waits until every reader has released the oldest frame; no frame is lost */
    WEIR_OVERFLOW_DROP_OLDEST, /* the oldest frame that nobody has leased is dropped; WEIR_BUSY if all are leased */
    WEIR_OVERFLOW_FAIL         /* WEIR_BUSY */
} weir_overflow;

/* What a reader gets first that comes when frames were pushed already. */
typedef enum weir_late {
    WEIR_LATE_DEFAULT, /* WEIR_LATE_NEWEST with WEIR_OVERFLOW_DROP_OLDEST, else WEIR_LATE_NEXT */
    WEIR_LATE_NEXT,    /* the next frame that is pushed */
    WEIR_LATE_NEWEST   /* the newest one, though others have released it. That costs no slot: weir_ring_take() takes its slot last, and where
                          it had to, a late reader gets the next frame */
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
 * Publishes a ring under a name, and allocates its slots from the pool, in the order of `stream`. Every reader gets every frame that is
 * pushed while it is there, in order, unless it is dropped; weir_late says what comes first. *ring: close it, or weir_export_close() does.
 * WEIR_INVALID (also slot_size above pools.P.ipc_max_block), WEIR_BUSY (the name is published), WEIR_OUT_OF_MEMORY, WEIR_CAPTURING,
 * WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_open(weir_export *e, const char *name, const weir_ring_options *options, weir_cuda_stream stream,
                                               weir_error *error, weir_ring **ring);

/*
 * Ends the ring. Never waits: readers still get the frames that are queued, and are told of the end behind the last one; then the slots are
 * freed as withdrawn blocks are. All work on slots that were taken and not pushed must be complete. NULL does nothing.
 * Threads: no other call on this ring may run or follow.
 */
WEIR_API void weir_ring_close(weir_ring *ring);

/*
 * Takes a free slot to be written by work on `stream`. Its bytes are those of an earlier frame, or undefined. *ptr: the slot, until
 * weir_ring_push() or weir_ring_drop(). Several can be taken at a time. timeout_ms: how long WEIR_OVERFLOW_BLOCK waits for readers. A
 * reader that has not taken or released the oldest frame by then counts as hung: it keeps what it has leased, misses what is queued, and is
 * not waited for until it reads on.
 * WEIR_BUSY (see weir_overflow; or all slots are taken and not pushed, at once, since no reader can free one), WEIR_TIMEOUT, WEIR_CAPTURING,
 * WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_take(weir_ring *ring, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                               void **ptr);

/*
 * Waits until weir_ring_take() would find a slot, takes none, and drops nothing. For programs that have to look after something else in
 * between: no reader counts as hung for that, however often the time runs out. timeout_ms: as there.
 * WEIR_OK (another thread may be faster), WEIR_BUSY, WEIR_TIMEOUT, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_wait(weir_ring *ring, unsigned timeout_ms, weir_error *error);

/*
 * Publishes a slot that was taken as the next frame. size: bytes of it that readers shall use; 0: all; WEIR_EMPTY: none. Never waits.
 * Stream order: readers' streams wait for what is on `stream` before this call. Nothing may write to the slot afterwards.
 * WEIR_INVALID (not a slot that was taken, or another thread has it in weir_ring_push() or weir_ring_drop(); sizes), WEIR_CAPTURING,
 * WEIR_CUDA_ERROR, WEIR_FORKED. The slot stays taken then.
 */
WEIR_API WEIR_CHECK weir_status weir_ring_push(weir_ring *ring, void *ptr, size_t size, const void *metadata, size_t metadata_size,
                                               weir_cuda_stream stream, weir_error *error);

/* Gives back a slot that was taken, without a frame. It is used again behind the work that is on `stream` now. Statuses as
   weir_ring_push(). */
WEIR_API weir_status weir_ring_drop(weir_ring *ring, void *ptr, weir_cuda_stream stream, weir_error *error);

/* How many readers the ring has now, with the hung ones. */
WEIR_API unsigned weir_ring_readers(weir_ring *ring);

typedef struct weir_ring_info {
    size_t size; /* in: sizeof(weir_ring_info) */
    size_t slot_size;
    unsigned depth;
    weir_overflow overflow;
    unsigned taken;   /* slots that were taken, and neither pushed nor given back */
    unsigned queued;  /* slots whose frame a reader is still to get or to release; the others, beside the taken ones, are free */
    unsigned readers; /* with the hung ones */
    unsigned hung;
    /* Since weir_ring_open(), whoever has left since. */
    uint64_t pushed;       /* frames */
    uint64_t bytes;        /* of these frames, as far as readers were to use them */
    uint64_t dropped;      /* frames that WEIR_OVERFLOW_DROP_OLDEST dropped before every reader had got them */
    uint64_t refused;      /* calls of weir_ring_take() that found no slot: WEIR_BUSY, WEIR_TIMEOUT */
    uint64_t hangs;        /* times that a reader became hung; it misses what is queued then, which is not counted in `dropped` */
    uint64_t leases_given; /* frames times the readers that got them */
    uint64_t lag;          /* frames that the slowest reader is behind: pushed since the last one that it released, or since it came */
    uint64_t lag_high;     /* the highest it was */
} weir_ring_info;

/* What is in the ring now, and what went through it. Costs a lock that producers take as well: for every second, not for every frame.
   WEIR_INVALID (size), WEIR_FORKED. */
WEIR_API weir_status weir_ring_get_info(weir_ring *ring, weir_ring_info *info);

/* Importing */

typedef struct weir_import_options {
    size_t size;         /* sizeof(weir_import_options) */
    unsigned timeout_ms; /* to connect, and for each answer of the exporter; 0: 5000 */
    int host_waits;      /* not 0: the calling thread waits until the exporter's work on the block is complete, and `stream` does not. A
                            stream that waits for the work of a killed exporter waits for ever (measured): choose this where exporters may
                            be killed at any time and their importers must survive */
    unsigned wait_ms;    /* how long weir_import_open() waits for an exporter where nobody listens; 0: not at all */
    unsigned reserved;   /* 0 */
} weir_import_options;

#define WEIR_IMPORT_OPTIONS_INIT { sizeof(weir_import_options), 0, 0, 0, 0 }

/*
 * Connects to an export. socket: what the exporter's policy has as share.socket, a name or a path. options: NULL means all defaults. The
 * exporter's device is found here by its UUID, whatever its number. *i: close it with weir_import_close(). If the exporter dies, the next
 * request connects to the exporter that listens there by then.
 * WEIR_GONE (nobody listens there, also after wait_ms), WEIR_REFUSED (not allowed, too many importers, another version), WEIR_BUSY (this
 * process imports the pool already, or was evicted and has to end first, or to exec where the exporter can see that: where it runs as the
 * same user or as root), WEIR_INVALID (also if this process is the exporter),
 * WEIR_TIMEOUT, WEIR_PROTOCOL, WEIR_NOT_FOUND (the exporter's GPU is not visible here), WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_import_open(weir *w, const char *socket, const weir_import_options *options, weir_error *error,
                                                 weir_import **i);

/*
 * Unmaps everything and disconnects. Waits for what was released last, timeout_ms at most. Release all leases before. Blocks whose lease
 * was not released stay mapped until this process ends, as nobody can tell when their use ends: the exporter cannot use them, and they are
 * logged. NULL does nothing. weir_close() does this for imports still open.
 * Threads: no other call on this import, its readers and leases may run or follow.
 */
WEIR_API void weir_import_close(weir_import *i);

/*
 * Leases the block of a name. timeout_ms: how long to wait until it is published; 0: not at all. *lease: release it.
 * Stream order: work behind this call on `stream` sees what the exporter wrote. No host waits for that (see host_waits).
 * WEIR_NOT_FOUND (no such name), WEIR_TIMEOUT (the same, after timeout_ms; or the exporter does not answer), WEIR_BUSY (1,024 leases of
 * this import at a time, or 16 calls that wait: weir-share(7), Limits), WEIR_GONE, WEIR_REFUSED, WEIR_PROTOCOL, WEIR_CAPTURING, WEIR_NO_HOST_MEMORY, WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_import_acquire(weir_import *i, const char *name, unsigned timeout_ms, weir_cuda_stream stream,
                                                    weir_error *error, weir_lease **lease);

/*
 * Reads a ring: its newest frame first, or from the next one on, as weir_late of the ring says. leases: how many frames to have at a time,
 * with those that are on their way. With 2 one comes while the other is used. With 1 the next frame is the oldest that is queued at the
 * release. 0: as many as are allowed. *reader: close it. Statuses as weir_import_acquire().
 *
 * A reader follows the name of its ring: when the producer is started anew, whether it was closed in good order or killed, a later
 * weir_reader_next() finds the new ring by itself. The end of the old one is told of once in between, by WEIR_ENDED or WEIR_GONE.
 */
WEIR_API WEIR_CHECK weir_status weir_reader_open(weir_import *i, const char *ring, unsigned leases, weir_error *error,
                                                 weir_reader **reader);

/* Gives back frames that weir_reader_next() has not returned yet; leases stay. NULL does nothing. Threads: as weir_import_close(). */
WEIR_API void weir_reader_close(weir_reader *reader);

/*
 * Leases the next frame. timeout_ms: how long to wait for one; 0: not at all. Stream order and statuses as weir_import_acquire(),
 * WEIR_TIMEOUT (no frame came), WEIR_BUSY (all leases of this reader are in use by this process: release one first), WEIR_ENDED (the
 * producer closed the ring, and there is none of its name now), WEIR_GONE (the exporter died, or none is there), WEIR_NOT_FOUND (the
 * exporter was started again, and has no such ring yet). With the last three no time is waited: a program that is to survive the restart of
 * its producer sleeps a moment, and calls again. Before the first frame of another ring the end of the one before was told, by WEIR_ENDED
 * or WEIR_GONE; several threads that read with one reader tell rings apart by `generation`.
 */
WEIR_API WEIR_CHECK weir_status weir_reader_next(weir_reader *reader, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error,
                                                 weir_lease **lease);

/*
 * A descriptor for poll(), select(), epoll and event loops: readable (POLLIN) while weir_reader_next() has something to say without
 * waiting, which is a frame, or that the ring has ended or the exporter is gone. Then call that with timeout_ms 0. WEIR_TIMEOUT is
 * possible, where another thread took the frame, or the exporter has made its pool anew. That all leases are in use (WEIR_BUSY) does not
 * make it readable; a frame that comes after the next release does. Where weir_reader_next() fails for good, as after the exporter's death
 * or in a process that was evicted, it stays readable: wait before you ask again, or close the reader. From the first call on Weir's
 * service thread reads what comes whenever no thread of the program waits.
 * Owned by the reader, the same at each call, closed by weir_reader_close(): take it out of the loop before. It is only to be polled,
 * neither read from nor closed. It is closed by exec; in the child of a fork it is of no use.
 * -1: WEIR_INVALID, WEIR_NO_HOST_MEMORY (no descriptor is left), WEIR_FORKED; see weir_last_error().
 */
WEIR_API int weir_reader_fd(weir_reader *reader);

/* What is leased. Borrowed from the lease until its release. */
typedef struct weir_lease_info {
    void *ptr;         /* in this process. Not to be written to, unless all who map it agree */
    size_t size;       /* bytes that were published */
    int device;        /* in this process */
    uint64_t sequence; /* of a frame, from 1: frames that were dropped leave gaps. Begins anew with each ring. 0: the block of a name */
    size_t metadata_size;
    const void *metadata;
    uint64_t generation; /* since 0.2: an opaque number, not 0, the same for all frames of one ring, in all importers, and another one when the
                            ring was opened anew, in whatever process: only within one do sequences compare. Of the block of a name it is that
                            of its publication. Exporters of Weir 0.1 say too little: theirs may be the same after a restart */
} weir_lease_info;

WEIR_API const weir_lease_info *weir_lease_get_info(const weir_lease *lease);

/*
 * Ends a lease: the exporter may use the block again once `stream` has come to this point. NULL does nothing. If this fails the lease is as
 * it was, and to be released again, on this stream or another one.
 * Stream order: every use of the block comes before this point of `stream`. The host waits for the stream only where CUDA refuses to record
 * an event.
 * WEIR_CAPTURING (the stream is being captured), WEIR_CUDA_ERROR (CUDA can neither record an event on the stream nor wait for it),
 * WEIR_FORKED. WEIR_OK also where the exporter is gone.
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
