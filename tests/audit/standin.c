/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/audit/standin.h"

#define EXPORT __attribute__((visibility("default")))
#define CHUNK (UINT64_C(2) << 20)
#define BLOCKS_MAX 65536
#define VERSION 13000

/* What is there: blocks, physical memory and mappings, by their address or handle. */
enum { DEVICE = 1, HOST, MANAGED, ASYNC, PHYSICAL, MAPPED };
struct thing {
    uint64_t address, size, of;
    int kind, references;
};
struct pool {
    uint64_t used, reserved, cap, threshold;
};
struct stream {
    bool captures;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thing things[BLOCKS_MAX]; /* in no order; guarded by lock, as all below is */
static size_t thing_count;
static uint64_t freed[BLOCKS_MAX], freed_count, next_address = UINT64_C(0x7e0000000000), memory_used;
static struct pool default_pool;
static uint64_t kernel_ends;
static int primary_owners;
static int context;
static _Atomic uint64_t calls, waited;
static __thread int next_code;
static __thread void *current;

EXPORT int standin_fail(int code)
{
    next_code = code;
    return 0;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

EXPORT int standin_run(unsigned ms)
{
    kernel_ends = now() + ms * UINT64_C(1000000);
    return 0;
}

EXPORT uint64_t standin_waited(void)
{
    return waited;
}

EXPORT uint64_t standin_calls(void)
{
    return calls;
}

static void wait_for_kernel(void)
{
    uint64_t began = now();
    while (now() < kernel_ends)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    if (now() - began > 1000000)
        waited += now() - began;
}

/* Begins a call: 0, or what it fails with. */
static int begin(void)
{
    int code = next_code;
    next_code = 0;
    calls++;
    return code;
}

static uint64_t memory(void)
{
    const char *text = getenv("STANDIN_MEMORY");
    return text ? strtoull(text, NULL, 10) : UINT64_C(1) << 36;
}

static struct thing *find(uint64_t address, int kind)
{
    for (size_t i = thing_count; i--;)
        if (things[i].address == address && (things[i].kind == kind || !kind))
            return &things[i];
    return NULL;
}

static void remove_thing(struct thing *thing)
{
    *thing = things[--thing_count];
}

static uint64_t take_address(uint64_t size)
{
    if (freed_count && size <= CHUNK)
        return freed[--freed_count];
    uint64_t address = next_address;
    next_address += (size + CHUNK - 1) / CHUNK * CHUNK;
    return address;
}

/* With the lock. */
static int add(int kind, uint64_t size, uint64_t of, uint64_t *address)
{
    if (!size || thing_count == BLOCKS_MAX)
        return 1;
    if (kind != HOST && size > memory() - memory_used)
        return 2;
    memory_used += kind != HOST ? size : 0;
    *address = take_address(size);
    things[thing_count++] = (struct thing){*address, size, of, kind, 1};
    return 0;
}

static int drop(uint64_t address, int first, int last)
{
    struct thing *thing = find(address, 0);
    if (!thing || thing->kind < first || thing->kind > last)
        return 1;
    if (thing->kind == ASYNC)
        ((struct pool *)(uintptr_t)thing->of)->used -= thing->size;
    memory_used -= thing->kind != HOST ? thing->size : 0;
    if (thing->size <= CHUNK && freed_count < BLOCKS_MAX)
        freed[freed_count++] = address;
    remove_thing(thing);
    return 0;
}

static int add_block(int kind, uint64_t size, uint64_t *address)
{
    int code = begin();
    if (kind == HOST)
        wait_for_kernel();
    pthread_mutex_lock(&lock);
    code = code ? code : add(kind, size, 0, address);
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size) { return add_block(DEVICE, size, address); }
EXPORT int cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags) { (void)flags; return add_block(MANAGED, size, address); }
EXPORT int cuMemAllocHost_v2(uint64_t *address, size_t size) { return add_block(HOST, size, address); }
EXPORT int cuMemHostAlloc(uint64_t *address, size_t size, unsigned flags) { (void)flags; return add_block(HOST, size, address); }
EXPORT int cuMemAllocPitch_v2(uint64_t *address, size_t *pitch, size_t width, size_t height, unsigned element)
{
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return add_block(DEVICE, *pitch * height, address);
}

static int free_block(uint64_t address, int first, int last)
{
    int code = begin();
    if (!address)
        return code;
    if (first != ASYNC)
        wait_for_kernel();
    pthread_mutex_lock(&lock);
    code = code ? code : drop(address, first, last);
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT int cuMemFree_v2(uint64_t address) { return free_block(address, DEVICE, ASYNC); }
EXPORT int cuMemFreeHost(uint64_t address) { return free_block(address, HOST, HOST); }

/* The old form, with 32 bits: nobody can use it, but it is there. */
EXPORT int cuMemAlloc(unsigned *address, unsigned size) { (void)address; (void)size; return 801; }

static int take_async(uint64_t *address, size_t size, struct pool *pool)
{
    int code = begin();
    pthread_mutex_lock(&lock);
    if (!code && pool->cap && pool->used + size > pool->cap)
        code = 2;
    code = code ? code : add(ASYNC, size, (uintptr_t)pool, address);
    if (!code) {
        pool->used += size;
        pool->reserved = pool->used > pool->reserved ? pool->used : pool->reserved;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static struct pool *_Atomic set_pool = &default_pool;

EXPORT int cuMemAllocAsync(uint64_t *address, size_t size, void *stream) { (void)stream; return take_async(address, size, set_pool); }
EXPORT int cuMemAllocAsync_ptsz(uint64_t *address, size_t size, void *stream) { (void)stream; return take_async(address, size, set_pool); }
EXPORT int cuMemAllocFromPoolAsync(uint64_t *address, size_t size, void *pool, void *stream) { (void)stream; return take_async(address, size, pool); }
EXPORT int cuMemAllocFromPoolAsync_ptsz(uint64_t *address, size_t size, void *pool, void *stream) { (void)stream; return take_async(address, size, pool); }
EXPORT int cuMemFreeAsync(uint64_t address, void *stream) { (void)stream; return free_block(address, ASYNC, ASYNC); }
EXPORT int cuMemFreeAsync_ptsz(uint64_t address, void *stream) { (void)stream; return free_block(address, ASYNC, ASYNC); }

EXPORT int cuMemPoolCreate(void **pool, const uint64_t *props)
{
    int code = begin();
    struct pool *made = code ? NULL : calloc(1, sizeof *made);
    if (code)
        return code;
    made->cap = props[3]; /* allocType, handleTypes; location; security; maxSize */
    *pool = made;
    return 0;
}
EXPORT int cuMemPoolDestroy(void *pool)
{
    int code = begin();
    if (!code)
        free(pool);
    return code;
}
EXPORT int cuMemPoolSetAttribute(struct pool *pool, int attribute, void *value)
{
    int code = begin();
    if (!code && attribute == 4)
        pool->threshold = *(uint64_t *)value;
    return code;
}
EXPORT int cuMemPoolGetAttribute(struct pool *pool, int attribute, uint64_t *value)
{
    pthread_mutex_lock(&lock);
    *value = attribute == 4 ? pool->threshold : attribute == 5 ? pool->reserved : attribute == 7 ? pool->used : 0;
    pthread_mutex_unlock(&lock);
    return 0;
}
EXPORT int cuMemPoolTrimTo(struct pool *pool, size_t kept)
{
    int code = begin();
    pthread_mutex_lock(&lock);
    if (!code)
        pool->reserved = kept > pool->used ? kept : pool->used;
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuMemPoolExportToShareableHandle(int *handle, void *pool, int type, uint64_t flags)
{
    (void)pool; (void)type; (void)flags;
    *handle = 0;
    return begin();
}
EXPORT int cuMemPoolImportFromShareableHandle(void **pool, void *handle, int type, uint64_t flags)
{
    (void)handle; (void)type; (void)flags;
    *pool = &default_pool;
    return begin();
}
EXPORT int cuDeviceGetDefaultMemPool(void **pool, int device) { (void)device; *pool = &default_pool; return 0; }
EXPORT int cuDeviceSetMemPool(int device, void *pool) { (void)device; set_pool = pool; return begin(); }
EXPORT int cuMemSetMemPool(const int *location, int type, void *pool) { (void)location; (void)type; set_pool = pool; return begin(); }

EXPORT int cuMemCreate(uint64_t *handle, size_t size, const void *props, uint64_t flags)
{
    (void)props; (void)flags;
    int code = begin();
    pthread_mutex_lock(&lock);
    code = code ? code : add(PHYSICAL, size, 0, handle);
    pthread_mutex_unlock(&lock);
    return code;
}

/* With the lock. */
static int release(uint64_t handle)
{
    struct thing *thing = find(handle, PHYSICAL);
    if (!thing)
        return 1;
    return --thing->references ? 0 : drop(handle, PHYSICAL, PHYSICAL);
}
EXPORT int cuMemRelease(uint64_t handle)
{
    int code = begin();
    pthread_mutex_lock(&lock);
    code = code ? code : release(handle);
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
    (void)offset; (void)flags;
    int code = begin();
    pthread_mutex_lock(&lock);
    struct thing *thing = find(handle, PHYSICAL);
    code = code ? code : thing ? 0 : 1;
    if (!code) {
        thing->references++;
        things[thing_count++] = (struct thing){address, size, handle, MAPPED, 1};
    }
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuMemUnmap(uint64_t address, size_t size)
{
    int code = begin();
    pthread_mutex_lock(&lock);
    for (uint64_t done = 0; !code && done < size;) {
        struct thing *thing = find(address + done, MAPPED);
        if (!thing) {
            code = 1;
            break;
        }
        done += thing->size;
        uint64_t handle = thing->of;
        remove_thing(thing);
        release(handle);
    }
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuMemRetainAllocationHandle(uint64_t *handle, void *address)
{
    int code = begin();
    pthread_mutex_lock(&lock);
    struct thing *mapping = find((uintptr_t)address, MAPPED), *thing = mapping ? find(mapping->of, PHYSICAL) : NULL;
    code = code ? code : thing ? 0 : 1;
    if (!code) {
        thing->references++;
        *handle = thing->address;
    }
    pthread_mutex_unlock(&lock);
    return code;
}
EXPORT int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted, uint64_t flags)
{
    (void)alignment; (void)wanted; (void)flags;
    int code = begin();
    pthread_mutex_lock(&lock);
    *address = next_address;
    next_address += (size + CHUNK - 1) / CHUNK * CHUNK;
    pthread_mutex_unlock(&lock);
    return code;
}

static int make_stream(void **stream)
{
    int code = begin();
    *stream = code ? NULL : calloc(1, sizeof(struct stream));
    return code;
}
EXPORT int cuStreamCreate(void **stream, unsigned flags) { (void)flags; return make_stream(stream); }
EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { (void)flags; (void)priority; return make_stream(stream); }
EXPORT int cuGreenCtxStreamCreate(void **stream, void *green, unsigned flags, int priority) { (void)green; (void)flags; (void)priority; return make_stream(stream); }
static int end_stream(void *stream)
{
    int code = begin();
    if (!code)
        free(stream);
    return code;
}
EXPORT int cuStreamDestroy(void *stream) { return end_stream(stream); }
EXPORT int cuStreamDestroy_v2(void *stream) { return end_stream(stream); }
static int synchronise(void)
{
    int code = begin();
    wait_for_kernel();
    return code;
}
EXPORT int cuStreamSynchronize(void *stream) { (void)stream; return synchronise(); }
EXPORT int cuStreamSynchronize_ptsz(void *stream) { (void)stream; return synchronise(); }
EXPORT int cuEventSynchronize(void *event) { (void)event; return synchronise(); }
EXPORT int cuCtxSynchronize(void) { return synchronise(); }
EXPORT int cuCtxSynchronize_v2(void *of) { (void)of; return synchronise(); }

static int begin_capture(struct stream *stream)
{
    int code = begin();
    stream->captures = !code;
    return code;
}
EXPORT int cuStreamBeginCapture(void *stream) { return begin_capture(stream); }
EXPORT int cuStreamBeginCapture_ptsz(void *stream) { return begin_capture(stream); }
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) { (void)mode; return begin_capture(stream); }
EXPORT int cuStreamBeginCapture_v2_ptsz(void *stream, int mode) { (void)mode; return begin_capture(stream); }
#define GRAPH (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode)
EXPORT int cuStreamBeginCaptureToGraph GRAPH { (void)graph; (void)nodes; (void)edges; (void)count; (void)mode; return begin_capture(stream); }
EXPORT int cuStreamBeginCaptureToGraph_ptsz GRAPH { (void)graph; (void)nodes; (void)edges; (void)count; (void)mode; return begin_capture(stream); }
static int end_capture(struct stream *stream)
{
    int code = begin();
    if (!stream->captures)
        return 401;
    stream->captures = false;
    return code;
}
EXPORT int cuStreamEndCapture(void *stream, void **graph) { *graph = NULL; return end_capture(stream); }
EXPORT int cuStreamEndCapture_ptsz(void *stream, void **graph) { *graph = NULL; return end_capture(stream); }
EXPORT int cuStreamIsCapturing(struct stream *stream, int *status) { *status = (uintptr_t)stream > 2 && stream->captures; return 0; }
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) { static __thread int own; int before = own; own = *mode; *mode = before; return 0; }

static int make_context(void **made)
{
    int code = begin();
    *made = code ? NULL : malloc(1);
    if (!code)
        current = *made;
    return code;
}
EXPORT int cuCtxCreate_v2(void **made, unsigned flags, int device) { (void)flags; (void)device; return make_context(made); }
EXPORT int cuCtxCreate_v3(void **made, void *list, int count, unsigned flags, int device) { (void)list; (void)count; (void)flags; (void)device; return make_context(made); }
EXPORT int cuCtxCreate_v4(void **made, void *asked, unsigned flags, int device) { (void)asked; (void)flags; (void)device; return make_context(made); }
static int end_context(void *of)
{
    int code = begin();
    if (!code && current == of)
        current = NULL;
    if (!code)
        free(of);
    return code;
}
EXPORT int cuCtxDestroy(void *of) { return end_context(of); }
EXPORT int cuCtxDestroy_v2(void *of) { return end_context(of); }
EXPORT int cuDevicePrimaryCtxRetain(void **of, int device) { (void)device; *of = current = &context; primary_owners++; return begin(); }
static int let_go(int owners)
{
    int code = begin();
    primary_owners = code ? primary_owners : owners;
    if (primary_owners == 0 && current == &context)
        current = NULL;
    return code;
}
EXPORT int cuDevicePrimaryCtxRelease(int device) { (void)device; return let_go(primary_owners - 1); }
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return let_go(primary_owners - 1); }
EXPORT int cuDevicePrimaryCtxReset(int device) { (void)device; return let_go(0); }
EXPORT int cuDevicePrimaryCtxReset_v2(int device) { (void)device; return let_go(0); }
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) { (void)device; *flags = 0; *is_active = primary_owners > 0; return 0; }

EXPORT int cuInit(unsigned flags) { (void)flags; return 0; }
EXPORT int cuCtxGetDevice(int *device) { *device = 0; return current ? 0 : 201; }
EXPORT int cuCtxGetCurrent(void **of) { *of = current; return 0; }
EXPORT int cuDeviceGetCount(int *count) { *count = 1; return 0; }
EXPORT int cuDeviceGetName(char *name, int len, int device) { (void)device; snprintf(name, (size_t)len, "Stand-in"); return 0; }
EXPORT int cuDeviceGetUuid(unsigned char *uuid, int device) { (void)device; memset(uuid, 0xab, 16); return 0; }
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = memory(); return 0; }
EXPORT int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }

/* Looking up: the rows of one name go from the oldest form to the newest. ----------------------------------------------------------------- */

EXPORT int cuGetProcAddress(const char *name, void **found, int version, uint64_t flags);
EXPORT int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status);

static const struct row {
    const char *name;
    int version;
    void *function, *of_own_stream;
} rows[] = {
#define ROW(name, version, function) {#name, version, (void *)function, NULL},
#define ROW_2(name, version, function) {#name, version, (void *)function, (void *)function##_ptsz},
    ROW(cuGetProcAddress, 11030, cuGetProcAddress) ROW(cuGetProcAddress, 12000, cuGetProcAddress_v2)
    ROW(cuMemAlloc, 2000, cuMemAlloc) ROW(cuMemAlloc, 3020, cuMemAlloc_v2) ROW(cuMemAllocPitch, 3020, cuMemAllocPitch_v2)
    ROW(cuMemAllocManaged, 6000, cuMemAllocManaged) ROW(cuMemAllocHost, 3020, cuMemAllocHost_v2) ROW(cuMemHostAlloc, 2020, cuMemHostAlloc)
    ROW(cuMemFree, 3020, cuMemFree_v2) ROW(cuMemFreeHost, 2000, cuMemFreeHost)
    ROW_2(cuMemAllocAsync, 11020, cuMemAllocAsync) ROW_2(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync)
    ROW_2(cuMemFreeAsync, 11020, cuMemFreeAsync) ROW(cuMemPoolCreate, 11020, cuMemPoolCreate)
    ROW(cuMemPoolDestroy, 11020, cuMemPoolDestroy) ROW(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute)
    ROW(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo) ROW(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle)
    ROW(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle)
    ROW(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool) ROW(cuMemSetMemPool, 13000, cuMemSetMemPool)
    ROW(cuMemCreate, 10020, cuMemCreate) ROW(cuMemRelease, 10020, cuMemRelease)
    ROW(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle) ROW(cuMemMap, 10020, cuMemMap) ROW(cuMemUnmap, 10020, cuMemUnmap)
    ROW(cuMemAddressReserve, 10020, cuMemAddressReserve) ROW(cuStreamCreate, 2000, cuStreamCreate)
    ROW(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority) ROW(cuGreenCtxStreamCreate, 12050, cuGreenCtxStreamCreate)
    ROW(cuStreamDestroy, 2000, cuStreamDestroy) ROW(cuStreamDestroy, 4000, cuStreamDestroy_v2)
    ROW_2(cuStreamSynchronize, 2000, cuStreamSynchronize) ROW(cuEventSynchronize, 2000, cuEventSynchronize)
    ROW(cuCtxSynchronize, 2000, cuCtxSynchronize) ROW(cuCtxSynchronize, 13000, cuCtxSynchronize_v2)
    ROW_2(cuStreamBeginCapture, 10000, cuStreamBeginCapture) ROW_2(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2)
    ROW_2(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph) ROW_2(cuStreamEndCapture, 10000, cuStreamEndCapture)
    ROW(cuCtxCreate, 3020, cuCtxCreate_v2) ROW(cuCtxCreate, 11040, cuCtxCreate_v3) ROW(cuCtxCreate, 12050, cuCtxCreate_v4)
    ROW(cuCtxDestroy, 2000, cuCtxDestroy) ROW(cuCtxDestroy, 4000, cuCtxDestroy_v2)
    ROW(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain) ROW(cuDevicePrimaryCtxRelease, 7000, cuDevicePrimaryCtxRelease)
    ROW(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2) ROW(cuDevicePrimaryCtxReset, 7000, cuDevicePrimaryCtxReset)
    ROW(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) ROW(cuInit, 2000, cuInit)
    ROW(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute) ROW(cuDriverGetVersion, 2020, cuDriverGetVersion)
};

int cuGetProcAddress(const char *name, void **found, int version, uint64_t flags)
{
    *found = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0 && rows[i].version <= version)
            *found = flags & 2 && rows[i].of_own_stream ? rows[i].of_own_stream : rows[i].function;
    return *found ? 0 : 500;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status)
{
    int code = cuGetProcAddress(name, found, version, flags);
    if (status)
        *status = code ? 1 : 0;
    return code;
}
