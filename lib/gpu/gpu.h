/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - the waist: everything that Weir asks of a GPU.
 *
 * One table of operations, filled by cuda*.c for the CUDA runtime and by sim*.c for the simulator. Nothing outside lib/gpu calls CUDA.
 * The table is process-wide and immutable, as CUDA's own state is: two weirs in one process see the same devices. Every operation may be
 * called from any thread.
 *
 * Every operation that can fail returns 0 or the CUDA runtime's own error number (enum gpu_code names those that Weir decides on; the
 * others pass through unchanged). Outputs come last and are written only on success. Unless said otherwise an operation does not change
 * the calling thread's current device. Unlike a call of CUDA, an operation that fails leaves no last error behind (cudaGetLastError()).
 */
#ifndef WEIR_GPU_H
#define WEIR_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA's own handle types, declared as its headers declare them, so that a handle passes through without a cast. */
typedef struct CUstream_st *gpu_stream;
typedef struct CUevent_st *gpu_event;
typedef struct CUmemPoolHandle_st *gpu_pool;

/* A piece of physical memory, which can be mapped into a range of addresses: CUDA's CUmemGenericAllocationHandle. */
typedef unsigned long long gpu_page;
#define GPU_PAGE_UNIT (UINT64_C(2) << 20) /* sizes and addresses of pages and ranges are multiples of it */
#define GPU_PAGE_DEVICES_MAX 64           /* that get access to a page in one call */

/* The handles that CUDA gives a fixed meaning. A null stream is the legacy stream of the calling thread's current device. */
#define GPU_STREAM_LEGACY ((gpu_stream)0x1)
#define GPU_STREAM_PER_THREAD ((gpu_stream)0x2)

/* The CUDA runtime's error numbers that Weir tells apart. The simulator returns the same ones. */
enum gpu_code {
    GPU_SUCCESS = 0,
    GPU_INVALID_VALUE = 1,
    GPU_OUT_OF_MEMORY = 2,
    GPU_INSUFFICIENT_DRIVER = 35,
    GPU_NO_DEVICE = 100,
    GPU_INVALID_DEVICE = 101,
    GPU_INVALID_HANDLE = 400, /* cudaErrorInvalidResourceHandle */
    GPU_NOT_READY = 600,      /* not an error: the event or stream has work left */
    GPU_ILLEGAL_ADDRESS = 700,
    GPU_CONTEXT_DESTROYED = 709, /* cudaErrorContextIsDestroyed */
    GPU_PEER_ACCESS_UNSUPPORTED = 217,
    GPU_NOT_PERMITTED = 800,
    GPU_NOT_SUPPORTED = 801,
    GPU_CAPTURE_UNSUPPORTED = 900, /* the call would have disturbed a capture; the capture is invalid now */
    GPU_CAPTURE_INVALIDATED = 901,
    GPU_CAPTURE_IMPLICIT = 906, /* asked about the legacy stream while a blocking stream captures */
    GPU_UNKNOWN = 999,
};

/* What toolkits, drivers and devices add to each other; supports() answers for one device. */
enum gpu_feature {
    GPU_FEATURE_POOLS,          /* cudaMallocAsync and cudaMemPool_t: 11.2 and a device attribute */
    GPU_FEATURE_POOL_USAGE,     /* reserved and used figures of a pool: 11.3 */
    GPU_FEATURE_POOL_HOST,      /* pools on host memory: 13.0 (12.2 has the name, but creates none) and a device attribute */
    GPU_FEATURE_POOL_HOST_NUMA, /* pools on a host NUMA node: 12.2, from 12.9 on also a device attribute */
    GPU_FEATURE_POOL_MAX_SIZE,  /* a cap that the driver enforces: 12.2 */
    GPU_FEATURE_POOL_POSIX_FD,  /* pools exportable as a file descriptor: 11.3 and a device attribute */
    GPU_FEATURE_POOL_FABRIC,    /* pools exportable as a fabric handle: 12.4 and a device attribute */
    GPU_FEATURE_STREAM_ID,      /* an id that no other stream of the process has: 12.0 */
    GPU_FEATURE_DEVICE_EVENT,   /* an event behind all work of a device: driver 12.5 */
    GPU_FEATURE_MAPPING,        /* ranges of addresses and pages for them: a device attribute, and no virtual GPU */
    GPU_FEATURE_COUNT
};

enum gpu_location {
    GPU_LOCATION_DEVICE,
    GPU_LOCATION_HOST,
    GPU_LOCATION_HOST_NUMA,
};

enum gpu_access {
    GPU_ACCESS_NONE,
    GPU_ACCESS_READ_WRITE,
};

enum gpu_capture_mode {
    GPU_CAPTURE_MODE_GLOBAL,
    GPU_CAPTURE_MODE_THREAD_LOCAL,
    GPU_CAPTURE_MODE_RELAXED,
};

enum gpu_capture_status {
    GPU_CAPTURE_STATUS_NONE,
    GPU_CAPTURE_STATUS_ACTIVE,
    GPU_CAPTURE_STATUS_INVALID,
};

enum gpu_pool_attribute {
    GPU_POOL_RELEASE_THRESHOLD, /* bytes, UINT64_MAX = keep everything; read and write */
    GPU_POOL_REUSE_EVENT_DEPENDENCIES, /* 0 or 1; read and write; as are the next two */
    GPU_POOL_REUSE_OPPORTUNISTIC,
    GPU_POOL_REUSE_INTERNAL_DEPENDENCIES,
    GPU_POOL_RESERVED, /* bytes; read only; needs GPU_FEATURE_POOL_USAGE, as do the others */
    GPU_POOL_RESERVED_HIGH, /* read; writing 0 restarts the mark at the current figure */
    GPU_POOL_USED,          /* bytes asked for; read only: falls at the host's call of free_async, before the stream gets there */
    GPU_POOL_USED_HIGH,     /* as RESERVED_HIGH */
};

/* What a pool is created from. */
struct gpu_pool_spec {
    int device; /* the owner; for a host location, the device that shall have access */
    enum gpu_location location;
    int numa_node;     /* with GPU_LOCATION_HOST_NUMA only */
    bool posix_fd;     /* exportable; needs GPU_FEATURE_POOL_POSIX_FD */
    uint64_t max_size; /* bytes; 0 = no cap; needs GPU_FEATURE_POOL_MAX_SIZE */
};

/* What processes send each other of a block and of an event: CUDA's cudaMemPoolPtrExportData and cudaIpcEventHandle_t, opaque bytes. */
#define GPU_SHARED_BYTES 64
struct gpu_shared_block {
    unsigned char bytes[GPU_SHARED_BYTES];
};
struct gpu_shared_event {
    unsigned char bytes[GPU_SHARED_BYTES];
};

/* The driver's context of a stream. The driver gives the handle of a destroyed context to the next one at once (measured), but not its id. */
struct gpu_context {
    void *handle; /* NULL: not known */
    uint64_t id;  /* 0: the driver has no ids of contexts (before 12.0) */
};

struct gpu_device_info {
    char name[256];
    char uuid[48];   /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or "MIG-…" */
    uint64_t memory; /* bytes in all */
    bool mig;
    /* Its memory is the host's, or a NUMA node of the host: the operating system may have more of it than device_memory() says
       (cudaMemGetInfo() and nvmlDeviceGetMemoryInfo_v2() in NVIDIA's references). */
    bool os_managed;
};

/* A process that uses a device. */
struct gpu_process {
    int pid;
    uint64_t bytes; /* of the device's memory; GPU_BYTES_UNKNOWN: that cannot be told */
};
#define GPU_BYTES_UNKNOWN UINT64_MAX

struct gpu {
    const char *name; /* "cuda" or "sim" */

    /* Devices ------------------------------------------------------------------------------------------------------------------------ */

    /* The number of devices. Also the first contact: GPU_NO_DEVICE or GPU_INSUFFICIENT_DRIVER is what a machine without a GPU says. */
    int (*device_count)(int *count);
    /* CUDA version numbers as CUDA writes them: 12020 is 12.2. runtime is the toolkit that Weir was built with. */
    int (*versions)(int *driver, int *runtime);
    int (*device_info)(int device, struct gpu_device_info *info);
    /* Whether the device, the driver and the toolkit together have the feature. If not, why says what is missing (len bytes at most,
       always terminated; why may be NULL). */
    bool (*supports)(int device, enum gpu_feature feature, char *why, size_t len);
    /* Whether kernels on peer can reach memory of device. */
    int (*can_access_peer)(int device, int peer, bool *can);
    /* Free and total device memory in bytes, over all processes. Slow (3.5 µs). */
    int (*device_memory)(int device, uint64_t *free_bytes, uint64_t *total_bytes);
    /* The processes that use the device, this one among them: fills `processes` up to `room`, and *count tells how many there are.
       GPU_NOT_SUPPORTED: that cannot be told, as where process ids are those of another namespace, or while another thread asks. Takes
       milliseconds, a quarter of a second at most: call it with no lock held. */
    int (*device_processes)(int device, struct gpu_process *processes, size_t room, size_t *count);
    /* Waits for all work of the device. Destroys captures, relaxed mode or not: use only where design says so. */
    int (*device_synchronize)(int device);
    int (*get_current_device)(int *device);
    int (*set_current_device)(int device);
    /* Whether this process has begun to use the device; asking does not begin it. Nothing of the process runs on an unused device. */
    int (*device_is_used)(int device, bool *used);

    /* Pools -------------------------------------------------------------------------------------------------------------------------- */

    int (*pool_create)(const struct gpu_pool_spec *spec, gpu_pool *pool);
    /* Blocks still live stay valid; the pool goes when the last of them was freed. */
    int (*pool_destroy)(gpu_pool pool);
    /* The pool that the driver made for the device; never destroy it. */
    int (*pool_get_default)(int device, gpu_pool *pool);
    /* The pool that plain cudaMallocAsync on the device uses. */
    int (*pool_get_current)(int device, gpu_pool *pool);
    int (*pool_set_current)(int device, gpu_pool pool);
    int (*pool_get)(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t *value);
    int (*pool_set)(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value);
    /* Precondition of both: device is not the pool's owner (facts: naming the owner with "none" is GPU_INVALID_DEVICE). */
    int (*pool_set_access)(gpu_pool pool, int device, enum gpu_access access);
    int (*pool_get_access)(gpu_pool pool, int device, enum gpu_access *access);
    /* Gives idle memory back until keep bytes are reserved. Gives back nothing whose free has not been *observed* as complete: synchronise
       the freeing stream, or an event recorded behind the free, first. */
    int (*pool_trim)(gpu_pool pool, uint64_t keep);
    /* A new file descriptor (close-on-exec, the caller's) for a pool created with posix_fd. */
    int (*pool_export)(gpu_pool pool, int *fd);

    /* The pool behind another process's pool_export(), on this process's device of that number, which must be the same GPU. The descriptor
       stays the caller's. An imported pool only imports blocks: it can neither allocate nor trim nor be asked anything. Destroy it after
       its last block was freed: the exporter's memory goes back when every process has destroyed its pool (measured). */
    int (*pool_import)(int device, int fd, gpu_pool *pool);

    /* Memory ------------------------------------------------------------------------------------------------------------------------- */

    /* Preconditions: size > 0; if stream is a fixed handle (null, legacy, per-thread) the pool's device is current.
       On a capturing stream the call makes a graph node, and the block does not come from the pool. Where the pool has no such memory and
       cannot grow, it takes what another stream freed and has not come to yet: the stream then waits for that free, if the pool has
       GPU_POOL_REUSE_INTERNAL_DEPENDENCIES. */
    int (*malloc_async)(void **ptr, size_t size, gpu_pool pool, gpu_stream stream);
    /* Precondition as above. GPU_INVALID_VALUE, and no harm, for what is not a live block. Like malloc_async it spoils the global capture
       of another thread, unless the calling thread is in relaxed mode. */
    int (*free_async)(void *ptr, gpu_stream stream);
    /* What another process needs to import the block at ptr. Precondition: its pool was exported. Its memory then goes back only with its
       pool. Where the pool would let go of it, once it is free, by a synchronise above the release threshold or by a trim, it serves
       nothing more, and is missing from GPU_POOL_RESERVED (measured). */
    int (*block_export)(void *ptr, struct gpu_shared_block *shared);
    /* A block of an imported pool, at an address of this process; free_async() ends the import, stream-ordered, and frees nothing in the
       exporter. Preconditions: it is not imported now (a second import gives the same address with one count, measured), and is no larger
       than 5,248 MiB (the driver crashes, measured). */
    int (*block_import)(gpu_pool pool, const struct gpu_shared_block *shared, void **ptr);
    /* dst and src may be device or host memory. */
    int (*copy_async)(void *dst, const void *src, size_t size, gpu_stream stream);
    int (*set_async)(void *dst, int byte, size_t size, gpu_stream stream);

    /* Address ranges and pages ------------------------------------------------------------------------------------------------------- */

    /* All need GPU_FEATURE_MAPPING. Those on pages wait for no kernel, and succeed beside another thread's capture, whatever the mode of
       the calling one. The driver takes no mapped page away, used or not: not even for a request that fails otherwise. Both were
       measured. */

    /* Reserves addresses for pages of one device; nothing is mapped there yet. GPU_OUT_OF_MEMORY: the process may not have so many. */
    int (*range_reserve)(int device, uint64_t size, void **range);
    /* Precondition: size is what was reserved, and nothing is mapped there. */
    int (*range_free)(void *range, uint64_t size);
    /* Memory of the device; GPU_OUT_OF_MEMORY if it has not so much left. */
    int (*page_create)(int device, uint64_t size, gpu_page *page);
    /* Gives the memory back, that of a mapped page once the page is unmapped. */
    int (*page_release)(gpu_page page);
    /* Maps a whole page, which is mapped nowhere. size: the page's. Devices have access only after page_set_access(). */
    int (*page_map)(void *address, uint64_t size, gpu_page page);
    /* Unmaps one page or several that lie side by side, all of each. Precondition: no work that uses them is left. */
    int (*page_unmap)(void *address, uint64_t size);
    /* Lets the devices, up to GPU_PAGE_DEVICES_MAX, read and write the pages mapped there. The pages' own device needs that as well. */
    int (*page_set_access)(void *address, uint64_t size, const int *devices, size_t count);

    /* Streams and work --------------------------------------------------------------------------------------------------------------- */

    /* A stream that does not synchronise with the legacy stream. */
    int (*stream_create)(int device, gpu_stream *stream);
    int (*stream_destroy)(gpu_stream stream);
    /* Precondition of synchronise: the stream cannot be capturing. */
    int (*stream_synchronize)(gpu_stream stream);
    /* GPU_NOT_READY while work of the stream is left. Success does not give memory that was freed before to other pools: only a synchronise
       does (measured). Precondition as of stream_synchronize(). */
    int (*stream_query)(gpu_stream stream);
    /* Needs GPU_FEATURE_STREAM_ID. For a fixed handle the answer is that of the current device. Precondition: the stream is alive (CUDA
       crashes otherwise) and does not capture: it fails then and destroys the capture, relaxed mode or not (measured). */
    int (*stream_id)(gpu_stream stream, uint64_t *id);
    /* The device of a stream. Preconditions: it is alive, and no fixed handle. Harmless on one that captures (measured). */
    int (*stream_device)(gpu_stream stream, int *device);
    /* The context of a stream. For a fixed handle it is the current context. Preconditions: the stream is alive; if its handle is a fixed one
       its device is current. Harmless on one that captures. */
    int (*stream_context)(gpu_stream stream, struct gpu_context *context);
    /* Returns false if the context was destroyed: then any other operation on a stream of the context crashes the process, and operations
       on its events fail with GPU_CONTEXT_DESTROYED (measured). Returns true where the driver cannot tell. Always safe, as no stream is
       asked, and harmless to captures. */
    bool (*context_is_alive)(const struct gpu_context *context);
    /* Harmless on any stream that is alive. Any answer but success and GPU_CAPTURE_STATUS_NONE means: leave this stream alone. */
    int (*stream_capture_status)(gpu_stream stream, enum gpu_capture_status *status);
    /* The number of the capture that the stream is part of: all streams of one capture have the same, and no other capture has it.
       0 if it does not capture. As harmless as stream_capture_status(). */
    int (*stream_capture_id)(gpu_stream stream, uint64_t *id);
    int (*stream_wait_event)(gpu_stream stream, gpu_event event);
    /* A kernel that keeps the stream busy for so many nanoseconds; for tests, benchmarks and `weir try`. */
    int (*delay)(gpu_stream stream, uint64_t nanoseconds);

    /* Events (without timing) -------------------------------------------------------------------------------------------------------- */

    /* An event lives in the context that is current when the event is created. After that context was destroyed each operation on the
       event returns GPU_CONTEXT_DESTROYED; before driver 12.0 it may crash instead. The owner still has to call event_destroy(). */
    int (*event_create)(int device, gpu_event *event);
    int (*event_destroy)(gpu_event event);
    int (*event_record)(gpu_event event, gpu_stream stream);
    /* Records the event behind all work that the device was given, on any stream, also on one that was destroyed since. The event was
       created for that device. Needs GPU_FEATURE_DEVICE_EVENT. Destroys captures as device_synchronize() does. */
    int (*event_record_device)(gpu_event event, int device);
    /* GPU_NOT_READY while work is left. GPU_CONTEXT_DESTROYED: all work before it is done, as destroying a context waits for its work, and
       lets other pools have what was freed in it (measured). Precondition of both: the event was not recorded on a stream that captured
       then. */
    int (*event_query)(gpu_event event);
    int (*event_synchronize)(gpu_event event);

    /* An event that other processes can open, record, wait for and query as their own. Destroyed like any other, by each process for
       itself. What a process recorded never completes once that process was killed before it came to it (measured): a stream waits for
       ever then, and whoever records such an event anew hangs as well (measured). */
    int (*event_create_shared)(int device, gpu_event *event, struct gpu_shared_event *shared);
    int (*event_open_shared)(int device, const struct gpu_shared_event *shared, gpu_event *event);

    /* Capture ------------------------------------------------------------------------------------------------------------------------ */

    /* Sets the calling thread's capture mode and writes the former one to *mode. */
    int (*exchange_capture_mode)(enum gpu_capture_mode *mode);
    int (*capture_begin)(gpu_stream stream, enum gpu_capture_mode mode);
    /* Ends the capture and drops the graph. nodes: how many nodes it had. GPU_CAPTURE_INVALIDATED if something spoilt it. */
    int (*capture_end)(gpu_stream stream, size_t *nodes);
    /* Ends the capture, runs the graph once, waits for it and drops it; for tests. Precondition: the graph frees all that it allocates. From
       then on the driver keeps that memory for other graphs of the device: no pool gets it, although nobody uses it, before graph_trim()
       (measured). GPU_OUT_OF_MEMORY if the device has not so much. Both need CUDA 11.4, without which graphs allocate nothing. */
    int (*capture_run)(gpu_stream stream);
    /* Gives back what the driver keeps for graphs of the device and none of them uses. */
    int (*graph_trim)(int device);

    /* Time and errors ---------------------------------------------------------------------------------------------------------------- */

    /* A clock that never goes back, in nanoseconds: CLOCK_MONOTONIC, or the simulator's virtual clock. */
    uint64_t (*now)(void);
    /* The same, up to 4 ms late and cheaper: CLOCK_MONOTONIC_COARSE, or the same virtual clock. */
    uint64_t (*now_coarse)(void);
    /* The cheapest clock, by which calls that take long are told from others: units of 0.1 to 1 ns, at the same pace over the process's life.
       The simulator's is its virtual clock. */
    uint64_t (*ticks)(void);
    /* Lets so many nanoseconds of that clock pass. */
    void (*pause)(uint64_t nanoseconds);
    const char *(*code_name)(int code); /* "cudaErrorMemoryAllocation"; never NULL */
    const char *(*code_text)(int code); /* "out of memory"; never NULL */
    /* What the user can do after device_count() failed on this thread, or found no device; never NULL. */
    const char *(*remedy)(void);
};

/*
 * The table by name: "cuda" (the default: NULL or "") or "sim". NULL if there is none of that name in this build; then *why (static
 * storage) says so and names the remedy. Never falls back from one to the other.
 */
const struct gpu *gpu_find(const char *name, const char **why);

/* The name of a feature as people read it ("pools on host memory"), never NULL. */
const char *gpu_feature_name(enum gpu_feature feature);

#endif
