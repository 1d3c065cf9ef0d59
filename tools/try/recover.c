/* SPDX-License-Identifier: MIT */
/*
 * recover.c - the steps of `weir try` that run out of memory on purpose, played by the main thread alone when the workload has ended.
 *
 * "wait": in each pool, a block of most of the memory is freed behind a running kernel, and as much is asked for on another stream. CUDA
 * makes that stream wait for the free; without reuse.internal_dependencies it fails the request at once (both measured on an H200, driver
 * 580), and waiting for the free makes it succeed.
 * "callbacks": on each device, the application holds a reserve outside of Weir's pools and lets go of it when its callback is asked.
 */
#include "tools/common/command.h"
#include "tools/common/format.h"
#include "tools/try/try.h"

#include <stdio.h>
#include <string.h>

#define KERNEL_MOST UINT64_C(100000000) /* nanoseconds: far longer than the failed request in front of the rescue (51 ms for 120 GiB) */
#define RESERVE_LEAST (UINT64_C(128) << 20)

static struct try_step *add_step(struct try_run *run, const char *name, const struct try_pool *pool)
{
    struct try_step *step = MUST_ADD(run->steps, run->step_count, run->step_room);
    memset(step, 0, sizeof(*step));
    step->name = name;
    step->pool = pool;
    step->rung = -1;
    return step;
}

__attribute__((format(printf, 3, 4))) static void conclude(struct try_step *step, enum try_outcome outcome, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    step->outcome = outcome;
    vsnprintf(step->text, sizeof(step->text), format, args);
    va_end(args);
}

/* An unexpected error: the step could not be played as meant. */
static void break_off(struct try_run *run, struct try_step *step, const char *what, const char *why)
{
    conclude(step, TRY_UNRESCUED, "The step broke off: %s: %s.", what, why);
    try_fail(run, "step '%s' in pool '%s' on device %d: %s: %s", step->name, step->pool->policy->name, step->pool->device, what, why);
}

static bool has_rung(const struct try_pool *pool, enum policy_step rung)
{
    for (size_t i = 0; i < pool->policy->on_oom_steps.count; i++)
        if (pool->policy->on_oom_steps.items[i] == rung)
            return true;
    return false;
}

/* Waits for all streams and gives all idle memory back, so that what a device calls free is what a request can have. */
static void empty_all(struct try_run *run)
{
    for (unsigned i = 0; i < run->threads; i++) {
        for (size_t j = 0; j < run->workers[i].berth_count; j++) {
            struct try_berth *berth = &run->workers[i].berths[j];
            for (unsigned k = 0; k < berth->stream_count; k++) {
                run->gpu->stream_synchronize(berth->streams[k].handle);
                if (berth->streams[k].opened)
                    weir_pool_trim(weir_stream_pool(berth->streams[k].opened), 0, NULL, NULL);
            }
        }
    }
    for (size_t i = 0; i < run->pool_count; i++)
        weir_pool_trim(run->pools[i].pool, 0, NULL, NULL);
}

/* How often each rung has rescued a request on the device until now. */
static void read_rescues(struct try_run *run, int device, uint64_t rescues[WEIR_RUNG_COUNT])
{
    weir_stats *stats;
    memset(rescues, 0, WEIR_RUNG_COUNT * sizeof(*rescues));
    if (weir_stats_take(run->weir, NULL, &stats) != WEIR_OK)
        return;
    for (size_t i = 0; i < weir_stats_device_count(stats); i++)
        if (weir_stats_device(stats, i)->device == device)
            memcpy(rescues, weir_stats_device(stats, i)->rescues, WEIR_RUNG_COUNT * sizeof(*rescues));
    weir_stats_free(stats);
}

/* The request that each step is about: notes how long it took and what rescued it, if anything did, and frees what it got. */
static void request(struct try_run *run, struct try_step *step, const struct try_stream *stream)
{
    void *ptr;
    uint64_t before[WEIR_RUNG_COUNT], after[WEIR_RUNG_COUNT];
    read_rescues(run, step->pool->device, before);
    uint64_t start = run->gpu->now();
    weir_status status = try_malloc(step->pool, stream, &ptr, step->bytes);
    step->nanoseconds = run->gpu->now() - start;
    read_rescues(run, step->pool->device, after);
    for (int rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        if (after[rung] > before[rung])
            step->rung = rung;
    if (status == WEIR_OK) {
        step->outcome = step->rung < 0 ? TRY_SERVED : TRY_RESCUED;
        try_free(run, stream, ptr);
        return;
    }
    weir_error error = WEIR_ERROR_INIT;
    weir_last_error(&error);
    step->outcome = TRY_UNRESCUED;
    step->report = must(strdup(error.text));
}

/* The rest of the sentence about a rung that has helped, for "Weir …". */
static const char *const rung_deeds[WEIR_RUNG_COUNT] = {
    [WEIR_RUNG_FLUSH] = "returned cached blocks",
    [WEIR_RUNG_WAIT] = "waited for the pending free",
    [WEIR_RUNG_TRIM] = "trimmed idle memory from its pools",
    [WEIR_RUNG_CALLBACKS] = "had the application's callback free the reserve",
    [WEIR_RUNG_NEIGHBOURS] = "had other processes give what they did not use",
};

/* Puts steps and deadline of the pool into words, for what to change. */
static void ladder_text(const struct try_pool *pool, char *text, size_t len)
{
    size_t used = (size_t)snprintf(text, len, "[");
    for (size_t i = 0; i < pool->policy->on_oom_steps.count && used < len; i++)
        used += (size_t)snprintf(text + used, len - used, "%s%s", i ? ", " : "", policy_step_name(pool->policy->on_oom_steps.items[i]));
    if (used < len)
        snprintf(text + used, len - used, "], deadline %s", TIME_TEXT(pool->policy->on_oom_deadline));
}

/* Says what became of the request. scene: what was prepared for it; deed: what the driver did if it needed no help, for "CUDA …". */
static void describe(struct try_run *run, struct try_step *step, const char *scene, const char *deed, const char *remedy)
{
    char ladder[128];
    const char *size = SIZE_TEXT(step->bytes), *time = TIME_TEXT(step->nanoseconds);
    ladder_text(step->pool, ladder, sizeof(ladder));
    if (step->outcome == TRY_RESCUED) {
        conclude(step, TRY_RESCUED, "A request for %s failed %s. Weir %s, and served it after %s (rung: %s).", size, scene,
                 rung_deeds[step->rung], time, weir_rung_name((weir_rung)step->rung));
    } else if (step->outcome == TRY_SERVED) {
        conclude(step, TRY_SERVED, "A request for %s was made %s. CUDA %s. That took %s and no rung.", size, scene, deed, time);
    } else {
        conclude(step, TRY_UNRESCUED, "A request for %s failed %s, and after %s nothing had rescued it. The pool's on_oom is %s; %s.", size,
                 scene, time, ladder, remedy);
        try_fail(run, "pool '%s' on device %d: a request for %s failed %s, and was not rescued; %s", step->pool->policy->name,
                 step->pool->device, size, scene, remedy);
    }
}

/* How long the kernel shall run: so long that the request surely comes while it runs, but well within the deadline of the ladder. */
static uint64_t kernel_time(const struct try_pool *pool)
{
    uint64_t half = pool->policy->on_oom_deadline / 2;
    return half < KERNEL_MOST ? half : KERNEL_MOST;
}

/* A block of most, and more than half, of what the pool can have, into *ptr; sets the size. */
static bool fill(struct try_step *step, const struct try_stream *stream, uint64_t capacity, void **ptr)
{
    for (unsigned percent = 85; percent >= 55; percent -= 10) {
        step->bytes = capacity / 100 * percent;
        /* Whole units of the driver, where there are some, so that rounding takes no part in what follows. */
        uint64_t unit = step->bytes >= 8 * TRY_POOL_STEP ? TRY_POOL_STEP : TRY_SMALLEST;
        if (step->bytes >= unit)
            step->bytes -= step->bytes % unit;
        if (step->bytes * 2 > capacity && try_malloc(step->pool, stream, ptr, step->bytes) == WEIR_OK)
            return true;
    }
    return false;
}

/* The step proper: stream a holds the memory, frees it behind a kernel, and stream b asks for as much. */
static void play_wait(struct try_run *run, struct try_step *step, uint64_t capacity, struct try_stream *a, struct try_stream *b)
{
    const struct gpu *gpu = run->gpu;
    char scene[160];
    void *ptr;
    /* Before memory is short: a first kernel makes the driver load code. */
    int code = gpu->delay(a->handle, 1000);
    if (code == GPU_SUCCESS)
        code = gpu->stream_synchronize(a->handle);
    if (code != GPU_SUCCESS) {
        break_off(run, step, "the first kernel failed", gpu->code_text(code));
        return;
    }
    if (!fill(step, a, capacity, &ptr)) {
        weir_error error = WEIR_ERROR_INIT;
        weir_last_error(&error);
        break_off(run, step, "the pool could not serve most of its memory even while it was empty", error.text);
        return;
    }
    uint64_t kernel = kernel_time(step->pool);
    code = gpu->delay(a->handle, kernel);
    weir_status status = try_free(run, a, ptr);
    if (code != GPU_SUCCESS || status != WEIR_OK) {
        break_off(run, step, "the kernel or the free behind it failed", code ? gpu->code_text(code) : weir_status_text(status));
        return;
    }
    request(run, step, b);
    snprintf(scene, sizeof(scene), "while as much was about to be freed on another stream, behind a kernel that runs for %s",
             TIME_TEXT(kernel));
    describe(run, step, scene, "served it by itself: it made the requesting stream wait for the free",
             has_rung(step->pool, POLICY_STEP_WAIT) ? "a longer deadline may help" : "'wait' in its steps would help");
    gpu->stream_synchronize(a->handle);
    gpu->stream_synchronize(b->handle);
}

/* What the pool can have now: the device's free memory, or less by its cap. 0: nothing bounds it but the host. */
static uint64_t capacity_of(struct try_run *run, const struct try_pool *pool)
{
    uint64_t free_bytes = 0, total_bytes;
    if (pool->policy->location.kind == POLICY_LOCATION_DEVICE)
        run->gpu->device_memory(pool->device, &free_bytes, &total_bytes);
    if (pool->max_size && (free_bytes == 0 || pool->max_size < free_bytes))
        return pool->max_size;
    return free_bytes;
}

/* A stream under the first name that the policy has for the pool. */
static bool open_stream(struct try_run *run, const struct try_pool *pool, struct try_stream *stream)
{
    const char *names[POLICY_STREAMS_MAX];
    return try_stream_open(run, pool, try_stream_names(run, pool, false, names) ? names[0] : NULL, stream);
}

static void wait_step(struct try_run *run, const struct try_pool *pool)
{
    struct try_step *step = add_step(run, "wait", pool);
    empty_all(run);
    uint64_t capacity = capacity_of(run, pool);
    if (capacity == 0) {
        conclude(step, TRY_SKIPPED, "Nothing but the host bounds this pool: it has no max_size and does not live in device memory.");
        return;
    }
    if (capacity < 2 * TRY_SMALLEST) {
        conclude(step, TRY_SKIPPED, "There are only %s to have.", SIZE_TEXT(capacity));
        return;
    }
    if (pool->largest < capacity / 2 + 1) {
        conclude(step, TRY_SKIPPED,
                 "No block of this pool may be larger than %s (ipc_max_block), so that two fit into the %s that it can have.",
                 SIZE_TEXT(pool->largest), SIZE_TEXT(capacity));
        return;
    }
    struct try_stream a = {0}, b = {0};
    if (open_stream(run, pool, &a) && open_stream(run, pool, &b))
        play_wait(run, step, capacity, &a, &b);
    else
        conclude(step, TRY_UNRESCUED, "Its streams could not be opened.");
    try_stream_close(run, &b);
    try_stream_close(run, &a);
}

/* Memory that the application holds outside of Weir's pools. */
struct reserve {
    struct try_run *run;
    int device;
    gpu_pool pool;
    gpu_stream stream;
    void *block;
    uint64_t bytes;
};

static uint64_t release_reserve(struct reserve *reserve)
{
    const struct gpu *gpu = reserve->run->gpu;
    if (!reserve->block)
        return 0;
    gpu->free_async(reserve->block, reserve->stream);
    reserve->block = NULL;
    gpu->stream_synchronize(reserve->stream);
    gpu->pool_trim(reserve->pool, 0);
    return reserve->bytes;
}

static uint64_t on_oom(void *data, int device, uint64_t needed)
{
    struct reserve *reserve = data;
    (void)needed; /* the reserve goes as a whole */
    return device == reserve->device ? release_reserve(reserve) : 0;
}

static void close_reserve(struct reserve *reserve)
{
    release_reserve(reserve);
    if (reserve->stream)
        reserve->run->gpu->stream_destroy(reserve->stream);
    if (reserve->pool)
        reserve->run->gpu->pool_destroy(reserve->pool);
}

/* Takes so much of the device that what is left is half of the request. */
static int open_reserve(struct reserve *reserve, uint64_t free_bytes, uint64_t request_bytes)
{
    const struct gpu *gpu = reserve->run->gpu;
    const struct gpu_pool_spec spec = {.device = reserve->device, .location = GPU_LOCATION_DEVICE};
    reserve->bytes = free_bytes - request_bytes / 2;
    reserve->bytes -= reserve->bytes % TRY_POOL_STEP;
    int code = gpu->pool_create(&spec, &reserve->pool);
    if (code == GPU_SUCCESS)
        code = gpu->stream_create(reserve->device, &reserve->stream);
    if (code == GPU_SUCCESS)
        code = gpu->malloc_async(&reserve->block, reserve->bytes, reserve->pool, reserve->stream);
    if (code == GPU_SUCCESS)
        code = gpu->stream_synchronize(reserve->stream);
    return code;
}

static void play_callbacks(struct try_run *run, struct try_step *step, uint64_t free_bytes)
{
    struct reserve reserve = {.run = run, .device = step->pool->device};
    struct try_stream stream;
    weir_error error = WEIR_ERROR_INIT;
    unsigned id;
    char scene[160];
    if (!open_stream(run, step->pool, &stream)) {
        conclude(step, TRY_UNRESCUED, "Its stream could not be opened.");
        return;
    }
    int code = open_reserve(&reserve, free_bytes, step->bytes);
    if (code != GPU_SUCCESS) {
        break_off(run, step, "the application's reserve could not be allocated", run->gpu->code_text(code));
    } else if (weir_oom_add(run->weir, on_oom, &reserve, &error, &id) != WEIR_OK) {
        break_off(run, step, "the callback could not be registered", error.text);
    } else {
        request(run, step, &stream);
        if (weir_oom_remove(run->weir, id, &error) != WEIR_OK)
            try_fail(run, "the callback could not be removed: %s", error.text);
        snprintf(scene, sizeof(scene), "while the application held %s in reserve", SIZE_TEXT(reserve.bytes));
        describe(run, step, scene, "served it by itself", "a longer deadline may help");
    }
    run->gpu->stream_synchronize(stream.handle);
    close_reserve(&reserve);
    try_stream_close(run, &stream);
}

/* The pool to play with on the device: one whose ladder asks callbacks, best the one that can ask for most. */
static const struct try_pool *choose_pool(struct try_run *run, int device)
{
    const struct try_pool *best = NULL;
    for (size_t i = 0; i < run->pool_count; i++) {
        const struct try_pool *pool = &run->pools[i];
        if (pool->device != device || pool->policy->location.kind != POLICY_LOCATION_DEVICE || !has_rung(pool, POLICY_STEP_CALLBACKS))
            continue;
        if (!best || (best->max_size && (!pool->max_size || pool->max_size > best->max_size)))
            best = pool;
    }
    return best;
}

static void callbacks_step(struct try_run *run, const struct try_pool *first)
{
    const struct try_pool *pool = choose_pool(run, first->device);
    struct try_step *step = add_step(run, "callbacks", pool ? pool : first);
    if (!pool) {
        conclude(step, TRY_SKIPPED, "No pool in this device's memory has 'callbacks' in its on_oom.steps.");
        return;
    }
    empty_all(run);
    uint64_t free_bytes = 0, total_bytes;
    run->gpu->device_memory(pool->device, &free_bytes, &total_bytes);
    step->bytes = free_bytes / 10 * 6;
    /* Below the cap, since at a cap no callback is asked: it is the device that shall be full. */
    if (pool->max_size && step->bytes > pool->max_size / 10 * 8)
        step->bytes = pool->max_size / 10 * 8;
    if (step->bytes > pool->largest)
        step->bytes = pool->largest;
    step->bytes -= step->bytes % TRY_POOL_STEP;
    if (step->bytes < RESERVE_LEAST) {
        conclude(step, TRY_SKIPPED, "The pool can have too little (%s) for the device to run out of memory first.",
                 SIZE_TEXT(pool->largest < RESERVE_LEAST ? pool->largest
                           : pool->max_size              ? pool->max_size
                                                         : free_bytes));
        step->bytes = 0;
        return;
    }
    play_callbacks(run, step, free_bytes);
}

void try_recover(struct try_run *run)
{
    for (size_t i = 0; i < run->pool_count; i++) {
        /* Callbacks are of the device: they are tried once, before its first wait step. */
        bool is_first = true;
        for (size_t j = 0; j < i; j++)
            is_first = is_first && run->pools[j].device != run->pools[i].device;
        if (is_first)
            callbacks_step(run, &run->pools[i]);
        wait_step(run, &run->pools[i]);
    }
}
