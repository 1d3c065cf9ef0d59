/* SPDX-License-Identifier: MIT */
/*
 * calls.c - the wrappers that the program gets instead of the driver's functions. Each calls the driver's function with the same arguments,
 * returns the same result, and records what the call did.
 *
 * An event gets its number at the moment at which Weir's own recording takes it: before memory goes back, and after memory has come. So if
 * another thread gets memory that was just freed, its event has a higher number than the free. A free that fails has its number already,
 * and becomes an event that says that the block still exists.
 */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "audit/driver.h"
#include "audit/known.h"
#include "audit/session.h"
#include "lib/base/number.h"

#define SAMPLE (50 * GPU_MILLISECOND) /* the least time between two times that the driver is asked how much a pool reserves */

/* The calls that may hold up their thread, by their numbers in traces (doc/trace.md). */
enum { HELD_FREE = 1, HELD_FREE_HOST = 2, HELD_HOST_ALLOC = 3, HELD_MANAGED = 5 };

/*
 * Defines the wrapper of a function: `before` and `after` run before and after the call of the driver, whose result is `code`. is_slow: the
 * driver needs microseconds for the call, so each call is timed; of the others one in 16 is.
 */
#define WRAP(id, is_slow, parameters, arguments, before, after)                                                                            \
    static int wrap_##id parameters                                                                                                        \
    {                                                                                                                                      \
        struct session_call call = session_call_begin(is_slow);                                                                            \
        before;                                                                                                                            \
        call.asked = session_ticks(&call);                                                                                                 \
        const int code = ((__typeof__(&wrap_##id))atomic_load_explicit(&driver_real[DRIVER_##id], memory_order_acquire))arguments;         \
        call.answered = session_ticks(&call);                                                                                              \
        after;                                                                                                                             \
        session_call_end(&call);                                                                                                           \
        return code;                                                                                                                       \
    }
/* In functions of the per-thread default stream (_ptsz) a NULL stream means that stream, not the legacy one. */
#define OWN(stream) ((stream) ? (stream) : DRIVER_PER_THREAD_STREAM)

/* Where the program is --------------------------------------------------------------------------------------------------------------------- */

static int current_device(void)
{
    int device = 0;
    return session.driver.context_device && session.driver.context_device(&device) == DRIVER_SUCCESS ? device : 0;
}

static struct session_device *device_of(int device)
{
    return device >= 0 && device < SESSION_DEVICES ? &session.devices[device] : NULL;
}

static uint64_t current_context(void)
{
    void *context = NULL;
    if (session.driver.context_current && session.driver.context_current(&context) != DRIVER_SUCCESS)
        context = NULL;
    return (uintptr_t)context;
}

/* Returns the device's default pool, or NULL. The handle never changes, so the driver is asked once. */
static void *default_pool(int device)
{
    struct session_device *at = device_of(device);
    void *pool = at ? atomic_load_explicit(&at->default_pool, memory_order_relaxed) : NULL;
    if (pool || !at || !session.driver.default_pool || session.driver.default_pool(&pool, device) != DRIVER_SUCCESS)
        return pool;
    atomic_store_explicit(&at->default_pool, pool, memory_order_relaxed);
    return pool;
}

/* Returns the device of a stream. A fixed handle (legacy, per-thread) means a stream of the current device. */
static int stream_device(void *stream)
{
    struct known known;
    const bool is_fixed = (uintptr_t)stream <= (uintptr_t)DRIVER_PER_THREAD_STREAM;
    return !is_fixed && known_get(KNOWN_STREAM, (uintptr_t)stream, &known) ? known.device : current_device();
}

static bool captures(void *stream)
{
    int status = 0;
    return atomic_load_explicit(&session.captures, memory_order_relaxed) && session.driver.is_capturing &&
           session.driver.is_capturing(stream, &status) == DRIVER_SUCCESS && status != 0;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------------ */

static void note(enum weir__kind kind, uint64_t address, const struct known *block, const void *stream, uint64_t order)
{
    struct weir__event event = {
        .address = address,
        .size = block->size,
        .stream = (uintptr_t)stream,
        .order = order,
        .what = weir__event_what(kind, 0, block->pool, block->origin),
    };
    weir__record(&session.recorder, &event);
}

static void note_figures(enum weir__kind kind, unsigned pool, const void *stream, uint64_t a, uint64_t b)
{
    weir__record_figures(&session.recorder, kind, pool, stream, a, b);
}

/* Records that a call for the block held up its thread for `ns`. The event's stack is that of this call, not of the call that allocated the
   block. */
static void note_held(unsigned which, uint64_t address, const struct known *block, uint64_t ns)
{
    const uint32_t origin = weir__record_origin(&session.recorder);
    struct weir__event event = {
        .address = address,
        .size = block->size,
        .order = weir__record_order(&session.recorder),
        .after = ns,
        .what = weir__event_what(WEIR__KIND_HELD, which, block->pool, origin),
    };
    weir__record(&session.recorder, &event);
}

__attribute__((format(printf, 1, 2))) static void note_mark(const char *format, ...)
{
    char name[WEIR__NAME_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    weir__record_mark(&session.recorder, name);
}

/* Pools of the driver --------------------------------------------------------------------------------------------------------------------- */

static uint64_t ask_pool(void *pool, int attribute)
{
    uint64_t value = 0;
    bool is_told = session.driver.pool_attribute && session.driver.pool_attribute(pool, attribute, &value) == DRIVER_SUCCESS;
    return is_told ? value : 0;
}

/* Asks the driver for the pool's figures and records them. The questions are asked in relaxed capture mode, so that they end no other
   thread's capture. */
static void note_reserved(unsigned number, void *pool)
{
    int mode = DRIVER_RELAXED;
    bool is_changed = session.driver.exchange_mode && session.driver.exchange_mode(&mode) == DRIVER_SUCCESS;
    const uint64_t used = ask_pool(pool, DRIVER_USED), reserved = ask_pool(pool, DRIVER_RESERVED);
    if (is_changed)
        session.driver.exchange_mode(&mode);
    note_figures(WEIR__KIND_FIGURES, number, NULL, used, reserved);
}

/* Asks for the pool's figures if the last time is long enough ago. The driver does not report when a pool grows or shrinks, so a thread
   that has just used the pool asks now and then. */
static void sample(unsigned number, void *pool)
{
    const uint64_t now = gpu_clock_coarse();
    uint64_t before = atomic_load_explicit(&session.sampled, memory_order_relaxed);
    if (pool && now - before > SAMPLE && atomic_compare_exchange_strong(&session.sampled, &before, now))
        note_reserved(number, pool);
}

static struct known know_pool(void *pool, int device, uint64_t cap, bool is_host)
{
    char name[32];
    snprintf(name, sizeof name, "async 0x%" PRIxPTR, (uintptr_t)pool);
    struct known known = {.device = (uint8_t)device, .size = cap};
    known.pool = (uint16_t)weir__recorder_add_pool(&session.recorder, name, device, WEIR__POOL_IS_UNAWARE | (is_host ? WEIR__POOL_IS_HOST : 0));
    known_put(KNOWN_POOL, (uintptr_t)pool, &known);
    return known;
}

/* Returns what is known of a pool. A pool that was not created in this process is a device's default pool, or was imported from another
   process. */
static struct known find_pool(void *pool, int device)
{
    struct known known;
    if (pool == default_pool(device))
        return (struct known){.device = (uint8_t)device, .pool = (uint16_t)session_pool(device, SESSION_DEFAULT)};
    return known_get(KNOWN_POOL, (uintptr_t)pool, &known) ? known : know_pool(pool, device, 0, false);
}

/* Memory that comes and goes -------------------------------------------------------------------------------------------------------------- */

/* Records a call that allocated memory which belongs to no pool of the driver. */
static void came(const struct session_call *call, int code, enum session_pool kind, const uint64_t *address, uint64_t size)
{
    const int device = current_device();
    struct limit *limit = kind == SESSION_MALLOC ? &session.device_limit : &session.host_limit;
    if (code == DRIVER_OUT_OF_MEMORY && session_wants())
        note_figures(WEIR__KIND_OUT_OF_MEMORY, session_pool(device, kind), NULL, size, false);
    if (code != DRIVER_SUCCESS || !size || !session_wants())
        return;
    const struct known block = {
        .size = size,
        .of = current_context(),
        .origin = weir__record_origin(&session.recorder),
        .pool = (uint16_t)session_pool(device, kind),
        .device = (uint8_t)device,
        .held_as = kind == SESSION_HOST ? HELD_FREE_HOST : HELD_FREE,
        .is_host = kind != SESSION_MALLOC,
    };
    const uint64_t at = *address, took = session_took(call);
    known_put(KNOWN_BLOCK, at, &block);
    note(WEIR__KIND_MALLOC, at, &block, NULL, weir__record_order(&session.recorder));
    if (kind != SESSION_MALLOC && limit_is_exceeded(limit, size, took))
        note_held(kind == SESSION_HOST ? HELD_HOST_ALLOC : HELD_MANAGED, at, &block, took);
    else if (kind != SESSION_MANAGED && limit_is_fetched(at))
        limit_learn(limit, size, took);
}

/* A free, from before the driver's call (go()) until after that call (gone()). */
struct going {
    bool is_known;
    uint64_t address, order;
    struct known block;
};

static struct going go(uint64_t address)
{
    struct going going = {.address = address};
    going.is_known = session_is_on() && known_take(KNOWN_BLOCK, address, &going.block);
    going.order = going.is_known ? weir__record_order(&session.recorder) : 0;
    return going;
}

static void gone(const struct going *going, int code, const void *stream)
{
    if (!going->is_known)
        return;
    if (code != DRIVER_SUCCESS)
        known_put(KNOWN_BLOCK, going->address, &going->block);
    note(code != DRIVER_SUCCESS ? WEIR__KIND_LIVE : going->block.is_graphs ? WEIR__KIND_GRAPH_FREE : WEIR__KIND_FREE, going->address,
         &going->block, stream, going->order);
}

static void gone_after(const struct session_call *call, const struct going *going, int code)
{
    const uint64_t took = going->is_known ? session_took(call) : 0;
    const struct limit *limit = going->block.is_host ? &session.host_limit : &session.device_limit;
    gone(going, code, NULL);
    if (going->is_known && code == DRIVER_SUCCESS && limit_is_exceeded(limit, going->block.size, took))
        note_held(going->block.held_as ? going->block.held_as : HELD_FREE, going->address, &going->block, took);
}

#define CAME(id, parameters, arguments, kind, size)                                                                                        \
    WRAP(id, true, parameters, arguments, , came(&call, code, kind, address, size))
CAME(MemAlloc_v2, (uint64_t *address, size_t size), (address, size), SESSION_MALLOC, size)
CAME(MemAllocPitch_v2, (uint64_t *address, size_t *pitch, size_t width, size_t height, unsigned element),
     (address, pitch, width, height, element), SESSION_MALLOC, (code == DRIVER_SUCCESS ? *pitch : width) * height)
CAME(MemAllocManaged, (uint64_t *address, size_t size, unsigned flags), (address, size, flags), SESSION_MANAGED, size)
CAME(MemAllocHost_v2, (uint64_t *address, size_t size), (address, size), SESSION_HOST, size)
CAME(MemHostAlloc, (uint64_t *address, size_t size, unsigned flags), (address, size, flags), SESSION_HOST, size)

#define GOES(id) \
    WRAP(id, true, (uint64_t address), (address), const struct going going = go(address), gone_after(&call, &going, code))
GOES(MemFree_v2)
GOES(MemFreeHost)

/* Memory of pools -------------------------------------------------------------------------------------------------------------------------- */

/* Records a call that allocated memory of a pool, or failed to. pool NULL: the current pool of the stream's device. */
static void came_of_pool(int code, void *pool, void *stream, const uint64_t *address, uint64_t size)
{
    if ((code != DRIVER_SUCCESS && code != DRIVER_OUT_OF_MEMORY) || !size || !session_wants())
        return;
    const int device = stream_device(stream);
    struct session_device *at = device_of(device);
    if (!pool && at)
        pool = atomic_load_explicit(&at->current, memory_order_relaxed);
    if (!pool)
        pool = default_pool(device);
    const struct known of = find_pool(pool, device);
    if (code == DRIVER_OUT_OF_MEMORY) {
        const uint64_t used = ask_pool(pool, DRIVER_USED);
        note_reserved(of.pool, pool);
        note_figures(WEIR__KIND_OUT_OF_MEMORY, of.pool, stream, size, of.size && (size > of.size || used > of.size - size));
        return;
    }
    const struct known block = {
        .size = size,
        .origin = weir__record_origin(&session.recorder),
        .pool = of.pool,
        .device = (uint8_t)device,
        .is_graphs = captures(stream),
    };
    known_put(KNOWN_BLOCK, *address, &block);
    note(block.is_graphs ? WEIR__KIND_GRAPH_MALLOC : WEIR__KIND_MALLOC, *address, &block, stream, weir__record_order(&session.recorder));
    if (!block.is_graphs)
        sample(of.pool, pool);
}

#define COMES_ASYNC(id, meant)                                                                                                              \
    WRAP(id, false, (uint64_t * address, size_t size, void *stream), (address, size, stream), ,                                            \
         came_of_pool(code, NULL, meant, address, size))
COMES_ASYNC(MemAllocAsync, stream)
COMES_ASYNC(MemAllocAsync_ptsz, OWN(stream))

#define COMES_OF_POOL(id, meant)                                                                                                           \
    WRAP(id, false, (uint64_t * address, size_t size, void *pool, void *stream), (address, size, pool, stream), ,                          \
         came_of_pool(code, pool, meant, address, size))
COMES_OF_POOL(MemAllocFromPoolAsync, stream)
COMES_OF_POOL(MemAllocFromPoolAsync_ptsz, OWN(stream))

#define GOES_ASYNC(id, meant)                                                                                                              \
    WRAP(id, false, (uint64_t address, void *stream), (address, stream), const struct going going = go(address), gone(&going, code, meant))
GOES_ASYNC(MemFreeAsync, stream)
GOES_ASYNC(MemFreeAsync_ptsz, OWN(stream))

static void pool_came(int code, void *const *pool, const struct driver_pool_props *props)
{
    if (code != DRIVER_SUCCESS || !session_wants())
        return;
    const bool is_device = props->location.type == DRIVER_AT_DEVICE;
    const struct known known = know_pool(*pool, is_device ? props->location.id : 0, props->max_size, !is_device);
    note_figures(WEIR__KIND_SETTINGS, known.pool, NULL, 0, known.size);
}

static void pool_went(int code, void *pool, const struct known *known)
{
    if (code != DRIVER_SUCCESS)
        known_put(KNOWN_POOL, (uintptr_t)pool, known);
    else
        note_figures(WEIR__KIND_FIGURES, known->pool, NULL, 0, 0);
}

static void pool_set(int code, void *pool, int attribute, const void *value)
{
    if (code != DRIVER_SUCCESS || attribute != DRIVER_THRESHOLD || !session_wants())
        return;
    const struct known known = find_pool(pool, current_device());
    note_figures(WEIR__KIND_SETTINGS, known.pool, NULL, *(const uint64_t *)value, known.size);
}

static void pool_trimmed(const struct session_call *call, int code, void *pool, uint64_t before)
{
    if (code != DRIVER_SUCCESS || !session_wants())
        return;
    const struct known known = find_pool(pool, current_device());
    note_figures(WEIR__KIND_TRIM, known.pool, NULL, weir__less(before, ask_pool(pool, DRIVER_RESERVED)), session_took(call));
    note_reserved(known.pool, pool);
}

static void pool_exported(int code, const void *pool)
{
    if (code == DRIVER_SUCCESS && session_wants())
        note_mark("exports pool async 0x%" PRIxPTR, (uintptr_t)pool);
}

static void set_current(int code, int device, void *pool)
{
    struct session_device *at = device_of(device);
    if (code == DRIVER_SUCCESS && at)
        atomic_store(&at->current, pool);
}

WRAP(MemPoolCreate, true, (void **pool, const struct driver_pool_props *props), (pool, props), , pool_came(code, pool, props))
WRAP(MemPoolDestroy, true, (void *pool), (pool), struct known known;
     const bool is_known = session_is_on() && known_take(KNOWN_POOL, (uintptr_t)pool, &known), if (is_known) pool_went(code, pool, &known))
WRAP(MemPoolSetAttribute, true, (void *pool, int attribute, void *value), (pool, attribute, value), , pool_set(code, pool, attribute, value))
WRAP(MemPoolTrimTo, true, (void *pool, size_t kept), (pool, kept),
     const uint64_t reserved = session_is_on() ? ask_pool(pool, DRIVER_RESERVED) : 0, pool_trimmed(&call, code, pool, reserved))
WRAP(MemPoolExportToShareableHandle, true, (void *handle, void *pool, int type, uint64_t flags), (handle, pool, type, flags), ,
     pool_exported(code, pool))
WRAP(DeviceSetMemPool, true, (int device, void *pool), (device, pool), , set_current(code, device, pool))
WRAP(MemSetMemPool, true, (const struct driver_location *location, int type, void *pool), (location, type, pool), ,
     if (location->type == DRIVER_AT_DEVICE) set_current(code, location->id, pool))

/* Memory that the program maps itself -------------------------------------------------------------------------------------------------------- */

/* Adds to the bytes of physical memory and of its mappings, and records the new figures. physical: the memory that was created, mapped,
   unmapped or released; ns: how long the call took. */
static void count_physical(const struct known *physical, int64_t created, int64_t mapped, uint64_t ns)
{
    struct session_device *at = &session.devices[physical->device];
    const uint64_t all = atomic_fetch_add(&at->created[physical->is_host], (uint64_t)created) + (uint64_t)created;
    const uint64_t used = atomic_fetch_add(&at->mapped[physical->is_host], (uint64_t)mapped) + (uint64_t)mapped;
    if (created)
        note_figures(created > 0 ? WEIR__KIND_MAP : WEIR__KIND_UNMAP, physical->pool, NULL, physical->size, ns);
    note_figures(WEIR__KIND_FIGURES, physical->pool, NULL, used, all);
}

static void physical_came(const struct session_call *call, int code, const uint64_t *handle, size_t size, const struct driver_memory_props *props)
{
    const bool is_host = props && props->location.type != DRIVER_AT_DEVICE;
    const int device = props && !is_host ? props->location.id : 0;
    if ((code != DRIVER_SUCCESS && code != DRIVER_OUT_OF_MEMORY) || !device_of(device) || !session_wants())
        return;
    const unsigned pool = session_pool(device, is_host ? SESSION_MAPPED_HOST : SESSION_MAPPED);
    const struct known physical = {.size = size, .pool = (uint16_t)pool, .device = (uint8_t)device, .is_host = is_host, .handles = 1};
    if (code == DRIVER_OUT_OF_MEMORY) {
        note_figures(WEIR__KIND_OUT_OF_MEMORY, pool, NULL, size, false);
        return;
    }
    known_put(KNOWN_PHYSICAL, *handle, &physical);
    count_physical(&physical, (int64_t)size, 0, session_took(call));
}

/* Returns whether the physical memory is released: its last handle and its last mapping are gone. */
static bool is_gone(const struct known *physical)
{
    return physical->handles <= 0 && physical->mappings <= 0;
}

static void handle_went(const struct session_call *call, int code, uint64_t handle, struct known *physical)
{
    if (code == DRIVER_SUCCESS && is_gone(physical))
        count_physical(physical, -(int64_t)physical->size, 0, session_took(call));
    if (code == DRIVER_SUCCESS)
        return;
    physical->handles++;
    known_put(KNOWN_PHYSICAL, handle, physical);
}

static void mapped(int code, uint64_t address, size_t size, uint64_t handle)
{
    struct known physical;
    if (code != DRIVER_SUCCESS || !session_is_on() || !known_count(KNOWN_PHYSICAL, handle, 0, 1, &physical))
        return;
    const struct known mapping = {
        .size = size, .of = handle, .origin = weir__record_origin(&session.recorder), .pool = physical.pool, .device = physical.device};
    known_put(KNOWN_MAPPING, address, &mapping);
    note(WEIR__KIND_MALLOC, address, &mapping, NULL, weir__record_order(&session.recorder));
    count_physical(&physical, 0, (int64_t)size, 0);
}

/* Records each mapping that the call has unmapped; there may be several. The addresses remain reserved by the program. */
static void unmapped(const struct session_call *call, int code, uint64_t address, size_t size)
{
    struct known mapping, physical;
    for (uint64_t done = 0; code == DRIVER_SUCCESS && session_is_on() && done < size; done += mapping.size) {
        if (!known_take(KNOWN_MAPPING, address + done, &mapping))
            return;
        note(WEIR__KIND_FREE, address + done, &mapping, NULL, weir__record_order(&session.recorder));
        if (known_count(KNOWN_PHYSICAL, mapping.of, 0, -1, &physical))
            count_physical(&physical, is_gone(&physical) ? -(int64_t)physical.size : 0, -(int64_t)mapping.size, session_took(call));
    }
}

WRAP(MemCreate, true, (uint64_t * handle, size_t size, const struct driver_memory_props *props, uint64_t flags), (handle, size, props, flags), ,
     physical_came(&call, code, handle, size, props))
/* Another thread may get the same number for a new handle as soon as this handle is released, so its entry goes before the call. */
WRAP(MemRelease, true, (uint64_t handle), (handle), struct known physical;
     const bool is_known = session_is_on() && known_count(KNOWN_PHYSICAL, handle, -1, 0, &physical),
     if (is_known) handle_went(&call, code, handle, &physical))
WRAP(MemRetainAllocationHandle, true, (uint64_t * handle, void *address), (handle, address), struct known physical,
     if (code == DRIVER_SUCCESS && session_is_on()) known_count(KNOWN_PHYSICAL, *handle, 1, 0, &physical))
WRAP(MemMap, true, (uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags), (address, size, offset, handle, flags), ,
     mapped(code, address, size, handle))
WRAP(MemUnmap, true, (uint64_t address, size_t size), (address, size), , unmapped(&call, code, address, size))

/* Streams and captures ----------------------------------------------------------------------------------------------------------------------- */

static void opened(int code, void *const *stream)
{
    if (code != DRIVER_SUCCESS || !session_wants())
        return;
    const struct known known = {.device = (uint8_t)current_device()};
    known_put(KNOWN_STREAM, (uintptr_t)*stream, &known);
    note_figures(WEIR__KIND_STREAM_OPEN, 0, *stream, 0, 0);
}

static bool closes(void *stream, struct known *known)
{
    bool is_known = session_is_on() && known_take(KNOWN_STREAM, (uintptr_t)stream, known);
    if (is_known)
        note_figures(WEIR__KIND_STREAM_CLOSE, 0, stream, 0, 0);
    return is_known;
}

WRAP(StreamCreate, true, (void **stream, unsigned flags), (stream, flags), , opened(code, stream))
WRAP(StreamCreateWithPriority, true, (void **stream, unsigned flags, int priority), (stream, flags, priority), , opened(code, stream))
WRAP(GreenCtxStreamCreate, true, (void **stream, void *context, unsigned flags, int priority), (stream, context, flags, priority), ,
     opened(code, stream))
/* Another thread may get the same handle as soon as the stream is destroyed, so the stream is recorded as closed before the call. */
#define DESTROYS(id)                                                                                                                       \
    WRAP(id, true, (void *stream), (stream), struct known known; const bool is_known = closes(stream, &known),                             \
         if (is_known && code != DRIVER_SUCCESS) opened(DRIVER_SUCCESS, &stream))
DESTROYS(StreamDestroy)
DESTROYS(StreamDestroy_v2)

static void synchronised(const struct session_call *call, int code, const void *stream)
{
    if (code == DRIVER_SUCCESS && session_is_on())
        note_figures(WEIR__KIND_SYNCHRONISE, 0, stream, session_took(call), 0);
}

/* A wait for an event or for a whole context is recorded without a stream. */
#define SYNCHRONISES(id, parameters, arguments, meant) WRAP(id, true, parameters, arguments, , synchronised(&call, code, meant))
SYNCHRONISES(StreamSynchronize, (void *stream), (stream), stream)
SYNCHRONISES(StreamSynchronize_ptsz, (void *stream), (stream), OWN(stream))
SYNCHRONISES(EventSynchronize, (void *event), (event), NULL)
SYNCHRONISES(CtxSynchronize, (void), (), NULL)
SYNCHRONISES(CtxSynchronize_v2, (void *context), (context), NULL)

/* session.captures counts the captures under way: while there is one, streams are asked whether they capture. If the count is too high the
   only harm is needless questions. */
#define CAPTURES(id, parameters, arguments)                                                                                                \
    WRAP(id, true, parameters, arguments, atomic_fetch_add(&session.captures, 1),                                                          \
         if (code != DRIVER_SUCCESS) atomic_fetch_sub(&session.captures, 1))
CAPTURES(StreamBeginCapture, (void *stream), (stream))
CAPTURES(StreamBeginCapture_ptsz, (void *stream), (stream))
CAPTURES(StreamBeginCapture_v2, (void *stream, int mode), (stream, mode))
CAPTURES(StreamBeginCapture_v2_ptsz, (void *stream, int mode), (stream, mode))
#define TO_GRAPH (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode)
CAPTURES(StreamBeginCaptureToGraph, TO_GRAPH, (stream, graph, nodes, edges, count, mode))
CAPTURES(StreamBeginCaptureToGraph_ptsz, TO_GRAPH, (stream, graph, nodes, edges, count, mode))

/* An invalidated capture ends although the call returns an error of captures. A capture that only another thread may end
   (DRIVER_WRONG_THREAD) goes on. */
#define CAPTURED(id)                                                                                                                       \
    WRAP(id, true, (void *stream, void **graph), (stream, graph), ,                                                                        \
         if (code == DRIVER_SUCCESS || (code >= DRIVER_FIRST_OF_CAPTURES && code != DRIVER_WRONG_THREAD))                                  \
             atomic_fetch_sub(&session.captures, 1))
CAPTURED(StreamEndCapture)
CAPTURED(StreamEndCapture_ptsz)

/* Contexts ------------------------------------------------------------------------------------------------------------------------------------ */

/* A context that is destroyed. has_pools: blocks of the device's pools go too, as the context is the device's primary one. */
struct meant {
    uint64_t context;
    int device;
    bool has_pools;
};

static bool is_of_context(const struct known *known, const void *data)
{
    const struct meant *meant = data;
    return known->of ? known->of == meant->context : meant->has_pools && known->device == meant->device;
}

/* Records a block that was freed because its context was destroyed. */
static void went_with_it(uint64_t address, const struct known *block)
{
    note(block->is_graphs ? WEIR__KIND_GRAPH_FREE : WEIR__KIND_FREE, address, block, NULL, weir__record_order(&session.recorder));
}

static void destroyed(int code, uint64_t context, int device, bool has_pools)
{
    const struct meant meant = {context, device, has_pools};
    if (code != DRIVER_SUCCESS || !session_is_on())
        return;
    note_mark("context 0x%" PRIx64 " is destroyed", context);
    known_take_all(KNOWN_BLOCK, is_of_context, &meant, went_with_it);
}

static void created(int code, void *const *context, int device)
{
    if (code == DRIVER_SUCCESS && session_is_on())
        note_mark("context 0x%" PRIxPTR " is created on device %d", (uintptr_t)*context, device);
}

static void retained(int code, void *const *context, int device)
{
    struct session_device *at = device_of(device);
    if (code == DRIVER_SUCCESS && at)
        atomic_store(&at->primary, *context);
}

/* Records the end of a device's primary context if this call ended it. The driver is asked afterwards, since other owners may have retained
   the context. */
static void let_go(int code, int device)
{
    unsigned flags;
    int is_active = 1;
    struct session_device *at = device_of(device);
    if (session_is_on() && at && session.driver.primary_state &&
        session.driver.primary_state(device, &flags, &is_active) == DRIVER_SUCCESS && !is_active)
        destroyed(code, (uintptr_t)atomic_load(&at->primary), device, true);
}

WRAP(CtxCreate_v2, true, (void **context, unsigned flags, int device), (context, flags, device), , created(code, context, device))
WRAP(CtxCreate_v3, true, (void **context, void *list, int count, unsigned flags, int device), (context, list, count, flags, device), ,
     created(code, context, device))
WRAP(CtxCreate_v4, true, (void **context, void *asked, unsigned flags, int device), (context, asked, flags, device), ,
     created(code, context, device))
WRAP(CtxDestroy, true, (void *context), (context), , destroyed(code, (uintptr_t)context, 0, false))
WRAP(CtxDestroy_v2, true, (void *context), (context), , destroyed(code, (uintptr_t)context, 0, false))
WRAP(DevicePrimaryCtxRetain, true, (void **context, int device), (context, device), , retained(code, context, device))
#define LETS_GO(id) WRAP(id, true, (int device), (device), , let_go(code, device))
LETS_GO(DevicePrimaryCtxRelease)
LETS_GO(DevicePrimaryCtxRelease_v2)
LETS_GO(DevicePrimaryCtxReset)
LETS_GO(DevicePrimaryCtxReset_v2)

/* Looking up ----------------------------------------------------------------------------------------------------------------------------------- */

typedef int get_fn(const char *name, void **found, int version, uint64_t flags);
typedef int get_v2_fn(const char *name, void **found, int version, uint64_t flags, int *status);

struct question {
    void *ask; /* the driver's own function, of type get_fn or get_v2_fn */
    uint64_t flags;
};

/* Asks the driver the same question for another version. Returns NULL if the driver has no such function. */
static void *ask_again(void *data, const char *name, int version)
{
    const struct question *question = data;
    void *found = NULL;
    return ((get_fn *)question->ask)(name, &found, version, question->flags) == DRIVER_SUCCESS ? found : NULL;
}

static void *ask_v2_again(void *data, const char *name, int version)
{
    const struct question *question = data;
    void *found = NULL;
    int status;
    return ((get_v2_fn *)question->ask)(name, &found, version, question->flags, &status) == DRIVER_SUCCESS ? found : NULL;
}

/* The two wrappers of cuGetProcAddress. Their calls are not counted or timed: a CUDA runtime makes hundreds of them when it starts. */
static int wrap_GetProcAddress(const char *name, void **found, int version, uint64_t flags)
{
    struct question question = {atomic_load(&driver_real[DRIVER_GetProcAddress]), flags};
    const int code = ((get_fn *)question.ask)(name, found, version, flags);
    if (code == DRIVER_SUCCESS && found && *found)
        *found = driver_looked_up(name, *found, flags & DRIVER_PER_THREAD_STREAMS, ask_again, &question);
    return code;
}

static int wrap_GetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status)
{
    struct question question = {atomic_load(&driver_real[DRIVER_GetProcAddress_v2]), flags};
    const int code = ((get_v2_fn *)question.ask)(name, found, version, flags, status);
    if (code == DRIVER_SUCCESS && found && *found)
        *found = driver_looked_up(name, *found, flags & DRIVER_PER_THREAD_STREAMS, ask_v2_again, &question);
    return code;
}

void *const driver_wrapper[DRIVER_FUNCTION_COUNT] = {
#define X(id, name, version) [DRIVER_##id] = (void *)wrap_##id,
    DRIVER_FUNCTIONS(X)
#undef X
};
