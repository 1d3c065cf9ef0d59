/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - the waist: the interface to the GPU, through which all of Weir goes.
 *
 * It is one table of operations, which cuda*.c fills for the CUDA runtime and sim*.c for the simulator. Nothing outside of lib/gpu calls
 * CUDA. The table is constant and belongs to the whole process, as CUDA's own state does: two weirs in one process see the same devices.
 * Any thread may call any operation.
 *
 * Every operation that can fail returns 0 or the CUDA runtime's own error number. enum gpu_code names the numbers that Weir compares with;
 * all others pass through unchanged. Outputs are the last parameters and are written only on success. Unless its comment says otherwise, an
 * operation does not change the calling thread's current device. Unlike a call of CUDA, an operation that fails leaves no last error behind
 * (cudaGetLastError()). "Measured" in a comment means: seen on real GPUs, though CUDA's documentation does not say it.
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
#define GPU_PAGE_DEVICES_MAX 64           /* the most devices that page_set_access() takes */

/* The handles with a fixed meaning in CUDA, called fixed handles here; NULL is one of them. A null stream is the legacy stream of the
   calling thread's current device. */
#define GPU_STREAM_LEGACY ((gpu_stream)0x1)
#define GPU_STREAM_PER_THREAD ((gpu_stream)0x2)

/* The CUDA runtime's error numbers that Weir tells apart. The simulator returns the same numbers. */
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
    GPU_CAPTURE_UNSUPPORTED = 900, /* the call would have disturbed a capture, which is now invalid */
    GPU_CAPTURE_INVALIDATED = 901,
    GPU_CAPTURE_IMPLICIT = 906, /* a question about the legacy stream while a blocking stream captures */
    GPU_UNKNOWN = 999,
};

/* Features that not every toolkit, driver or device has; supports() tells whether all three have one. A comment names the first version of
   driver and toolkit with the feature, and says where a device attribute tells whether the device has it too. */
enum gpu_feature {
    GPU_FEATURE_POOLS,          /* cudaMallocAsync and cudaMemPool_t: 11.2 and a device attribute */
    GPU_FEATURE_POOL_USAGE,     /* reserved and used figures of a pool: 11.3 */
    GPU_FEATURE_POOL_HOST,      /* pools on host memory: 13.0 (12.2 has the name, but creates none) and a device attribute */
    GPU_FEATURE_POOL_HOST_NUMA, /* pools on a host NUMA node: 12.2, from 12.9 on also a device attribute */
    GPU_FEATURE_POOL_MAX_SIZE,  /* a cap that the driver enforces: 12.2 */
    GPU_FEATURE_POOL_POSIX_FD,  /* pools exportable as a file descriptor: 11.3 and a device attribute */
    GPU_FEATURE_POOL_FABRIC,    /* pools exportable as a fabric handle: 12.4 and a device attribute */
    GPU_FEATURE_STREAM_ID,      /* an id for each stream, which no other stream of the process ever has: 12.0 */
    GPU_FEATURE_DEVICE_EVENT,   /* an event that completes after all work of a device: driver 12.5 */
    GPU_FEATURE_MAPPING,        /* ranges of addresses, and pages to map into them: a device attribute, and no virtual GPU */
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
    GPU_POOL_RELEASE_THRESHOLD, /* bytes; UINT64_MAX = keep everything; read and write */
    GPU_POOL_REUSE_EVENT_DEPENDENCIES, /* 0 or 1; read and write, like the next two */
    GPU_POOL_REUSE_OPPORTUNISTIC,
    GPU_POOL_REUSE_INTERNAL_DEPENDENCIES,
    GPU_POOL_RESERVED, /* bytes; read only; this one and all below need GPU_FEATURE_POOL_USAGE */
    GPU_POOL_RESERVED_HIGH, /* peak; read; writing 0 sets the peak to the present figure */
    GPU_POOL_USED,          /* bytes of live blocks; read only; falls when the host calls free_async, before the stream reaches the free */
    GPU_POOL_USED_HIGH,     /* peak, like GPU_POOL_RESERVED_HIGH */
};

/* The description of a new pool. */
struct gpu_pool_spec {
    int device; /* the device that has the memory; for a host location, the device that gets access to the memory */
    enum gpu_location location;
    int numa_node;     /* for GPU_LOCATION_HOST_NUMA only */
    bool posix_fd;     /* exportable; needs GPU_FEATURE_POOL_POSIX_FD */
    uint64_t max_size; /* bytes; 0 = no cap; needs GPU_FEATURE_POOL_MAX_SIZE */
};

/* A block and an event in the form in which one process sends them to another: CUDA's cudaMemPoolPtrExportData and cudaIpcEventHandle_t, as
   opaque bytes. */
#define GPU_SHARED_BYTES 64
struct gpu_shared_block {
    unsigned char bytes[GPU_SHARED_BYTES];
};
struct gpu_shared_event {
    unsigned char bytes[GPU_SHARED_BYTES];
};

/* The driver's context of a stream. The driver may give the handle of a destroyed context to the next new context (measured), but never its
   id. */
struct gpu_context {
    void *handle; /* NULL: not known */
    uint64_t id;  /* 0: the driver has no ids of contexts (before 12.0) */
};

struct gpu_device_info {
    char name[256];
    char uuid[48];   /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", or "MIG-…" */
    uint64_t memory; /* bytes that the device has */
    bool mig;
    /* The device uses memory of the host, or of a NUMA node of the host: the operating system may then have more of it to give than
       device_memory() reports (cudaMemGetInfo() and nvmlDeviceGetMemoryInfo_v2() in NVIDIA's references). */
    bool os_managed;
};

/* A process that uses a device. */
struct gpu_process {
    int pid;
    uint64_t bytes; /* bytes of the device's memory; GPU_BYTES_UNKNOWN: NVML cannot tell */
};
#define GPU_BYTES_UNKNOWN UINT64_MAX

struct gpu {
    const char *name; /* "cuda" or "sim" */

    /* Devices ------------------------------------------------------------------------------------------------------------------------ */

    /* The number of devices. Weir calls this first: on a machine without a GPU it returns GPU_NO_DEVICE or GPU_INSUFFICIENT_DRIVER. */
    int (*device_count)(int *count);
    /* CUDA version numbers as CUDA writes them: 12020 is 12.2. runtime: the toolkit with which Weir was built. */
    int (*versions)(int *driver, int *runtime);
    int (*device_info)(int device, struct gpu_device_info *info);
    /* Returns whether device, driver and toolkit all have the feature. If not, `why` says which of them lacks it (at most len bytes, always
       terminated; why may be NULL). */
    bool (*supports)(int device, enum gpu_feature feature, char *why, size_t len);
    /* Tells whether kernels on `peer` can reach the memory of `device`. */
    int (*can_access_peer)(int device, int peer, bool *can);
    /* Free and total device memory in bytes, for all processes together. Slow (3.5 µs). */
    int (*device_memory)(int device, uint64_t *free_bytes, uint64_t *total_bytes);
    /* Lists the processes that use the device, this process among them: fills in at most `room` of `processes`, and sets *count to their
       number. GPU_NOT_SUPPORTED: they cannot be listed, for example because process ids come from another PID namespace, or because another
       thread is already asking. Takes milliseconds, and at most a quarter of a second: call it with no lock held. */
    int (*device_processes)(int device, struct gpu_process *processes, size_t room, size_t *count);
    /* Waits for all work of the device. Destroys captures, even in relaxed mode: use it only where doc/thread-safety.md allows it. */
    int (*device_synchronize)(int device);
    int (*get_current_device)(int *device);
    int (*set_current_device)(int device);
    /* Tells whether this process has used the device; the question itself is no use. An unused device runs no work of this process. */
    int (*device_is_used)(int device, bool *used);

    /* Pools -------------------------------------------------------------------------------------------------------------------------- */

    int (*pool_create)(const struct gpu_pool_spec *spec, gpu_pool *pool);
    /* Live blocks stay valid; the pool ends when the last of them is freed. */
    int (*pool_destroy)(gpu_pool pool);
    /* The default pool, which the driver made for the device. Never destroy it. */
    int (*pool_get_default)(int device, gpu_pool *pool);
    /* The current pool of the device, which cudaMallocAsync() uses. */
    int (*pool_get_current)(int device, gpu_pool *pool);
    int (*pool_set_current)(int device, gpu_pool pool);
    int (*pool_get)(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t *value);
    int (*pool_set)(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value);
    /* Precondition of both: the device is not the pool's owner (CUDA returns GPU_INVALID_DEVICE for GPU_ACCESS_NONE on the owner). */
    int (*pool_set_access)(gpu_pool pool, int device, enum gpu_access access);
    int (*pool_get_access)(gpu_pool pool, int device, enum gpu_access *access);
    /* Gives idle memory back until only `keep` bytes are reserved. CUDA gives back a freed block only once it has *observed* that the free
       is complete: first synchronise the stream of the free, or an event recorded behind the free. */
    int (*pool_trim)(gpu_pool pool, uint64_t keep);
    /* Returns in *fd a new file descriptor (close-on-exec, owned by the caller) for a pool that was created with posix_fd. */
    int (*pool_export)(gpu_pool pool, int *fd);

    /* Imports a pool that another process exported with pool_export(). `device` is this process's number of the same GPU. The descriptor
       stays the caller's. An imported pool can only import blocks: it cannot allocate, be trimmed or report attributes. Destroy it after
       its last block was freed: the exporter's memory goes back only when every process has destroyed its imported pool (measured). */
    int (*pool_import)(int device, int fd, gpu_pool *pool);

    /* Memory ------------------------------------------------------------------------------------------------------------------------- */

    /*
     * Preconditions: size > 0; if the stream is a fixed handle, the pool's device is current. On a capturing stream the call makes a graph
     * node, and the block does not come from the pool. If the pool has no free memory and cannot grow, but has
     * GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, the block may get memory whose free on another stream has not been reached yet: CUDA then makes
     * `stream` wait for that free.
     */
    int (*malloc_async)(void **ptr, size_t size, gpu_pool pool, gpu_stream stream);
    /* Precondition as for malloc_async: with a fixed handle the pool's device is current. Returns GPU_INVALID_VALUE, and does no harm, if
       ptr is not a live block. Both invalidate a global-mode capture of another thread, unless the calling thread is in relaxed mode. */
    int (*free_async)(void *ptr, gpu_stream stream);
    /*
     * Describes the block for another process, which can import it then. Precondition: the block's pool was exported. From now on the
     * block's memory goes back to the device only with its pool: once the block is free, and a trim or a synchronise above the release
     * threshold would have given the memory back, the memory serves no request any more, and GPU_POOL_RESERVED does not count it
     * (measured).
     */
    int (*block_export)(void *ptr, struct gpu_shared_block *shared);
    /* Imports a block of an imported pool, and sets *ptr to the block's address in this process. free_async() ends the import, in stream
       order, and frees nothing in the exporter. Preconditions: the block is not imported already (a second import gives the same address,
       and one free ends both; measured), and it has at most 5,248 MiB (the driver crashes on a larger one; measured). */
    int (*block_import)(gpu_pool pool, const struct gpu_shared_block *shared, void **ptr);
    /* Allocates page-locked memory of the host, from and to which copies run at full speed. The device matters only to the call. May wait
       for running kernels, as may host_free() (measured). GPU_OUT_OF_MEMORY: the host has not so much. */
    int (*host_alloc)(int device, uint64_t size, void **ptr);
    int (*host_free)(void *ptr);
    /* `dst` and `src` may each be device or host memory. */
    int (*copy_async)(void *dst, const void *src, size_t size, gpu_stream stream);
    int (*set_async)(void *dst, int byte, size_t size, gpu_stream stream);

    /* Address ranges and pages ------------------------------------------------------------------------------------------------------- */

    /* All of these need GPU_FEATURE_MAPPING. The operations on pages do not wait for kernels, and succeed during another thread's capture,
       whatever the capture mode of the calling thread (measured). The driver never takes a mapped page away, not even an unused one for a
       request that would fail otherwise (measured). */

    /* Reserves a range of addresses for pages of one device; nothing is mapped there yet. GPU_OUT_OF_MEMORY: the process has no room for
       the range. */
    int (*range_reserve)(int device, uint64_t size, void **range);
    /* Precondition: `size` is the size that was reserved, and no page is mapped in the range. */
    int (*range_free)(void *range, uint64_t size);
    /* Allocates a page of the device's memory. GPU_OUT_OF_MEMORY: the device has too little memory left. */
    int (*page_create)(int device, uint64_t size, gpu_page *page);
    /* Gives the page back; if the page is mapped, its memory goes back once the page is unmapped. */
    int (*page_release)(gpu_page page);
    /* Maps a whole page of `size` bytes, which must not be mapped anywhere else. No device has access before page_set_access(). */
    int (*page_map)(void *address, uint64_t size, gpu_page page);
    /* Unmaps one whole page, or several whole pages side by side. Precondition: all work that uses them is done. */
    int (*page_unmap)(void *address, uint64_t size);
    /* Lets the devices, at most GPU_PAGE_DEVICES_MAX, read and write the pages that are mapped there. The device that has the pages needs
       this call as well. */
    int (*page_set_access)(void *address, uint64_t size, const int *devices, size_t count);
    /* Returns in *fd a new file descriptor (close-on-exec, owned by the caller) for a page of the device. The memory goes back to the device only when
       every process has released and unmapped the page, and closed its descriptors; the exporter may be dead by then (measured).
       GPU_NOT_SUPPORTED: the device has no descriptors for pages. */
    int (*page_export)(int device, gpu_page page, int *fd);
    /* Imports a page of `size` bytes, which is mapped and released like one of this process. `device` is this process's number of the same
       GPU. The descriptor stays the caller's. */
    int (*page_import)(int device, int fd, uint64_t size, gpu_page *page);

    /* Streams and work --------------------------------------------------------------------------------------------------------------- */

    /* Creates a stream that does not synchronise with the legacy stream. */
    int (*stream_create)(int device, gpu_stream *stream);
    int (*stream_destroy)(gpu_stream stream);
    /* Precondition: the stream does not capture. */
    int (*stream_synchronize)(gpu_stream stream);
    /* GPU_NOT_READY while work of the stream is left. Success does not let other pools have the memory that was freed on the stream before:
       only a synchronise does (measured). Precondition: the stream does not capture. */
    int (*stream_query)(gpu_stream stream);
    /* Needs GPU_FEATURE_STREAM_ID. A fixed handle means the stream of the current device. Preconditions: the stream is alive (CUDA crashes
       otherwise), and it does not capture (the call would fail and destroy the capture, even in relaxed mode; measured). */
    int (*stream_id)(gpu_stream stream, uint64_t *id);
    /* The device of a stream. Preconditions: the stream is alive, and its handle is not a fixed one. Harmless while the stream captures
       (measured). */
    int (*stream_device)(gpu_stream stream, int *device);
    /* The context of a stream; a fixed handle means the current context. Preconditions: the stream is alive; if its handle is a fixed one,
       its device is current. Harmless while the stream captures. */
    int (*stream_context)(gpu_stream stream, struct gpu_context *context);
    /* Returns false if the context was destroyed: from then on any other operation on a stream of the context crashes the process, and
       operations on its events fail with GPU_CONTEXT_DESTROYED (measured). Returns true if the driver cannot tell. Always safe, because it
       uses no stream, and harmless to captures. */
    bool (*context_is_alive)(const struct gpu_context *context);
    /* Harmless on any stream that is alive. Unless the call succeeds with GPU_CAPTURE_STATUS_NONE, do nothing else with the stream. */
    int (*stream_capture_status)(gpu_stream stream, enum gpu_capture_status *status);
    /* The number of the capture that the stream is part of, or 0 if the stream does not capture. All streams of one capture have the same
       number, and no other capture ever has it. As harmless as stream_capture_status(). */
    int (*stream_capture_id)(gpu_stream stream, uint64_t *id);
    int (*stream_wait_event)(gpu_stream stream, gpu_event event);
    /* Launches a kernel that keeps the stream busy for this many nanoseconds; for tests, benchmarks and `weir try`. */
    int (*delay)(gpu_stream stream, uint64_t nanoseconds);

    /* Events (without timing) -------------------------------------------------------------------------------------------------------- */

    /* An event lives in the context that is current when the event is created. After that context was destroyed each operation on the
       event returns GPU_CONTEXT_DESTROYED; before driver 12.0 it may crash instead. The owner still has to call event_destroy(), which then
       ends the event all the same. After any other failure of event_destroy() the event is still there. */
    int (*event_create)(int device, gpu_event *event);
    int (*event_destroy)(gpu_event event);
    int (*event_record)(gpu_event event, gpu_stream stream);
    /* Records the event behind all work that the device has so far, on any stream, even on destroyed ones. The event was created for that
       device. Needs GPU_FEATURE_DEVICE_EVENT. Destroys captures as device_synchronize() does. */
    int (*event_record_device)(gpu_event event, int device);
    /* GPU_NOT_READY while work before the event is left. GPU_CONTEXT_DESTROYED: all work before the event is done, since destroying a
       context waits for its work, and other pools can have the memory that was freed there (measured). Precondition of both: the event was
       not recorded on a stream while that stream captured. */
    int (*event_query)(gpu_event event);
    int (*event_synchronize)(gpu_event event);

    /* An event that other processes can open, and record, wait for and query like one of their own. Each process destroys its own handle.
       If a process records the event and is killed before its GPU work gets there, the event never completes: streams that wait for the
       event hang for ever, and so does a process that records the event again (both measured). */
    int (*event_create_shared)(int device, gpu_event *event, struct gpu_shared_event *shared);
    int (*event_open_shared)(int device, const struct gpu_shared_event *shared, gpu_event *event);

    /* Capture ------------------------------------------------------------------------------------------------------------------------ */

    /* Sets the calling thread's capture mode to *mode, and returns the former mode in *mode. */
    int (*exchange_capture_mode)(enum gpu_capture_mode *mode);
    int (*capture_begin)(gpu_stream stream, enum gpu_capture_mode mode);
    /* Ends the capture and destroys the graph. nodes: the number of its nodes. GPU_CAPTURE_INVALIDATED if the capture was invalidated. */
    int (*capture_end)(gpu_stream stream, size_t *nodes);
    /*
     * Ends the capture, runs the graph once, waits for it and destroys it; for tests. Precondition: the graph frees all memory that it
     * allocates. After that the driver keeps the graph's memory for other graphs of the device, and no pool gets it, although nobody uses
     * it, until graph_trim() (measured). GPU_OUT_OF_MEMORY if the device has too little memory. capture_run() and graph_trim() need CUDA
     * 11.4; before that version graphs allocate nothing.
     */
    int (*capture_run)(gpu_stream stream);
    /* Gives back the memory that the driver keeps for graphs of the device and that no graph uses. */
    int (*graph_trim)(int device);

    /* Time and errors ---------------------------------------------------------------------------------------------------------------- */

    /* The clock of the GPU, in nanoseconds, which never goes back: CLOCK_MONOTONIC, or the simulator's virtual clock. */
    uint64_t (*now)(void);
    /* The same clock, up to 4 ms late, but cheaper to read: CLOCK_MONOTONIC_COARSE, or the simulator's virtual clock. */
    uint64_t (*now_coarse)(void);
    /* The cheapest clock, to tell slow calls from fast ones. Its unit is between 0.1 and 1 ns, and fixed for the life of the process. On
       the simulator it is the virtual clock. */
    uint64_t (*ticks)(void);
    /* Waits until this many nanoseconds of `now` have passed. */
    void (*pause)(uint64_t nanoseconds);
    const char *(*code_name)(int code); /* "cudaErrorMemoryAllocation"; never NULL */
    const char *(*code_text)(int code); /* "out of memory"; never NULL */
    /* Tells what the user can do when device_count() has failed on this thread or has found no device; never NULL. */
    const char *(*remedy)(void);
};

/* Returns the table by its name: "cuda" (the default: NULL or "") or "sim". If this build has no such table, returns NULL, and sets *why
   (static storage) to the reason and the remedy. Never returns the simulator in place of CUDA, or the reverse. */
const struct gpu *gpu_find(const char *name, const char **why);

/* Returns the name of a feature for messages ("pools on host memory"), never NULL. */
const char *gpu_feature_name(enum gpu_feature feature);

#endif
