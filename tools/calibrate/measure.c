/* SPDX-License-Identifier: MIT */
#include "tools/calibrate/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/calibrate/fit.h"
#include "tools/common/complain.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define STEP (32 * MIB) /* by which CUDA's pools grow */
#define SMALL (64 * KIB)
#define SAMPLES_MAX 1024
#define LEAST (256 * MIB) /* free on the device */

/* What the measurements of one device stand on: a pool, a stream, an event, and the clock. */
struct bench {
    const struct gpu *gpu;
    int device;
    uint64_t block;   /* bytes that growth is measured with: a GiB, or less on a small device */
    uint64_t reading; /* nanoseconds that two looks at the clock take */
    uint64_t begun;   /* and the first growth of all */
    gpu_pool pool;    /* has `block` bytes of memory and keeps them */
    gpu_stream stream;
    gpu_event event;
    struct costs *result;
    /* What calls hand on to the next. */
    void *ptr;
    gpu_pool other;
    enum gpu_capture_mode mode;
    void *range;
    gpu_page page;
    uint64_t page_size;
};

/* A call of the GPU. Returns its code. */
typedef int bench_call(struct bench *bench);

/* Defines one: do_NAME() makes that call of bench->gpu. */
#define BENCH_CALL(name, ...)                                                                                                              \
    static int do_##name(struct bench *bench)                                                                                              \
    {                                                                                                                                      \
        return bench->gpu->__VA_ARGS__;                                                                                                    \
    }

static void bench_found(struct bench *bench, enum cost_id id, struct gpu_cost cost)
{
    bench->result->values[id] = cost;
    bench->result->is_measured[id] = true;
}

/* Whether the code is of success; complains if not. */
static bool bench_is_good(const struct bench *bench, int code, const char *what)
{
    if (code == GPU_SUCCESS)
        return true;
    complain("device %d: %s: %s (%s)", bench->device, what, bench->gpu->code_text(code), bench->gpu->code_name(code));
    return false;
}

/* What the call took, in nanoseconds, without the looks at the clock. *code: what it returned. */
static uint64_t bench_time(struct bench *bench, bench_call *call, int *code)
{
    uint64_t begun = bench->gpu->now();
    *code = call(bench);
    uint64_t time = bench->gpu->now() - begun;
    return time > bench->reading ? time - bench->reading : 0;
}

/* Calls --------------------------------------------------------------------------------------------------------------------------------- */

BENCH_CALL(malloc, malloc_async(&bench->ptr, SMALL, bench->pool, bench->stream))
BENCH_CALL(free, free_async(bench->ptr, bench->stream))
BENCH_CALL(trim, pool_trim(bench->pool, UINT64_MAX))
BENCH_CALL(pool_create, pool_create(&(struct gpu_pool_spec){ .device = bench->device }, &bench->other))
BENCH_CALL(pool_destroy, pool_destroy(bench->other))
BENCH_CALL(pool_get, pool_get(bench->pool, GPU_POOL_RELEASE_THRESHOLD, &(uint64_t){ 0 }))
BENCH_CALL(pool_set, pool_set(bench->pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX))
BENCH_CALL(stream_synchronize, stream_synchronize(bench->stream))
BENCH_CALL(device_synchronize, device_synchronize(bench->device))
BENCH_CALL(wait_event, stream_wait_event(bench->stream, bench->event))
BENCH_CALL(capture_status, stream_capture_status(bench->stream, &(enum gpu_capture_status){ 0 }))
BENCH_CALL(stream_id, stream_id(bench->stream, &(uint64_t){ 0 }))
BENCH_CALL(exchange_mode, exchange_capture_mode(&bench->mode))
BENCH_CALL(record, event_record(bench->event, bench->stream))
BENCH_CALL(query, event_query(bench->event))
BENCH_CALL(current_device, get_current_device(&(int){ 0 }))
BENCH_CALL(device_memory, device_memory(bench->device, &(uint64_t){ 0 }, &(uint64_t){ 0 }))

static int do_record_and_wait(struct bench *bench)
{
    int code = do_record(bench);
    return code ? code : do_stream_synchronize(bench);
}

/* Each of `samples` times: before, the call that is timed, after. */
static const struct row {
    enum cost_id id;
    bench_call *before, *call, *after;
    unsigned samples;
} rows[] = {
    { COST_malloc_async, NULL, do_malloc, do_free, 1001 },
    { COST_free_async, do_malloc, do_free, NULL, 1001 },
    { COST_pool_trim, NULL, do_trim, NULL, 101 },
    { COST_pool_create, NULL, do_pool_create, do_pool_destroy, 31 },
    { COST_pool_get, NULL, do_pool_get, NULL, 1001 },
    { COST_pool_set, NULL, do_pool_set, NULL, 1001 },
    { COST_stream_synchronize, NULL, do_stream_synchronize, NULL, 1001 },
    { COST_device_synchronize, NULL, do_device_synchronize, NULL, 101 },
    { COST_event_record, NULL, do_record, do_stream_synchronize, 1001 },
    { COST_event_query, do_record_and_wait, do_query, NULL, 1001 },
    { COST_stream_wait_event, do_record_and_wait, do_wait_event, NULL, 1001 },
    { COST_stream_capture_status, NULL, do_capture_status, NULL, 1001 },
    { COST_stream_id, NULL, do_stream_id, NULL, 1001 },
    { COST_exchange_capture_mode, NULL, do_exchange_mode, do_exchange_mode, 1001 },
    { COST_get_current_device, NULL, do_current_device, NULL, 1001 },
    { COST_device_memory, NULL, do_device_memory, NULL, 101 },
};

static bool measure_row(struct bench *bench, const struct row *row)
{
    uint64_t times[SAMPLES_MAX];
    for (unsigned i = 0; i < row->samples; i++) {
        int code = row->before ? row->before(bench) : GPU_SUCCESS;
        if (code == GPU_SUCCESS)
            times[i] = bench_time(bench, row->call, &code);
        if (code == GPU_SUCCESS && row->after)
            code = row->after(bench);
        if (!bench_is_good(bench, code, cost_rows[row->id].key))
            return false;
    }
    bench_found(bench, row->id, (struct gpu_cost){ .call = median(times, row->samples) });
    return true;
}

/* What costs the same whatever its size; first, as the others take it off theirs. */
static bool measure_calls(struct bench *bench)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool can = rows[i].id != COST_stream_id || bench->gpu->supports(bench->device, GPU_FEATURE_STREAM_ID, NULL, 0);
        if (can && !measure_row(bench, &rows[i]))
            return false;
    }
    return true;
}

/* Pools that grow by memory which they have not had, and give it back ------------------------------------------------------------------- */

#define GROWTHS 7
#define GROWTHS_HOST 3 /* each takes a good part of a second on a GPU */

struct round {
    uint64_t first, step, growth, trim; /* nanoseconds: the first step, another one, `block` more, that back */
};

BENCH_CALL(step, malloc_async(&bench->ptr, STEP, bench->other, bench->stream))
BENCH_CALL(grow, malloc_async(&bench->ptr, bench->block, bench->other, bench->stream))
BENCH_CALL(give, pool_trim(bench->other, 0))

static int give_back(struct bench *bench, void *ptr)
{
    int code = bench->gpu->free_async(ptr, bench->stream);
    return code ? code : bench->gpu->stream_synchronize(bench->stream);
}

/* In a pool that is new, so that only its growth serves them. */
static int grow_once(struct bench *bench, struct round *round)
{
    int code = bench->gpu->pool_set(bench->other, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    if (!code)
        round->first = bench_time(bench, do_step, &code);
    if (code)
        return code;
    void *first = bench->ptr, *second = NULL;
    round->step = bench_time(bench, do_step, &code);
    if (!code) {
        second = bench->ptr;
        round->growth = bench_time(bench, do_grow, &code);
    }
    if (!code)
        code = give_back(bench, bench->ptr);
    if (!code)
        round->trim = bench_time(bench, do_give, &code);
    int ended = second ? give_back(bench, second) : GPU_SUCCESS;
    code = code ? code : ended;
    ended = give_back(bench, first);
    return code ? code : ended;
}

static uint64_t without(uint64_t time, uint64_t part)
{
    return time > part ? time - part : 0;
}

/* Nanoseconds for each GiB. */
static uint64_t rate(uint64_t time, uint64_t bytes)
{
    return (uint64_t)((double)time * (double)GIB / (double)bytes + 0.5);
}

static bool measure_growths(struct bench *bench, enum gpu_location location, unsigned count, struct round *medians)
{
    uint64_t first[GROWTHS], step[GROWTHS], growth[GROWTHS], trim[GROWTHS];
    const struct gpu_pool_spec spec = { .device = bench->device, .location = location };
    for (unsigned i = 0; i < count; i++) {
        struct round round = { 0 };
        int code = bench->gpu->pool_create(&spec, &bench->other);
        if (!code) {
            code = grow_once(bench, &round);
            int ended = bench->gpu->pool_destroy(bench->other);
            code = code ? code : ended;
        }
        if (!bench_is_good(bench, code, location == GPU_LOCATION_HOST ? "growth of a pool on the host" : "growth of a pool"))
            return false;
        first[i] = round.first;
        step[i] = round.step;
        growth[i] = round.growth;
        trim[i] = round.trim;
    }
    *medians = (struct round){ .first = median(first, count), .step = median(step, count), .growth = median(growth, count), .trim = median(trim, count) };
    return true;
}

/* A line through a step and a block: what each growth costs, and what each GiB of it. */
static struct gpu_cost line_of(const struct bench *bench, const struct round *round, uint64_t call)
{
    const struct sample samples[] = { { STEP, without(round->step, call) }, { bench->block, without(round->growth, call) } };
    return fit_cost(samples, sizeof samples / sizeof samples[0]);
}

static void found_growth(struct bench *bench, const struct round *round, uint64_t call)
{
    struct gpu_cost grow = line_of(bench, round, call);
    uint64_t first = without(round->first, round->step);
    bench_found(bench, COST_grow, (struct gpu_cost){ .gib = grow.gib });
    bench_found(bench, COST_grow_each, (struct gpu_cost){ .call = grow.call });
    bench_found(bench, COST_first, (struct gpu_cost){ .call = first });
    bench_found(bench, COST_first_of_all, (struct gpu_cost){ .call = without(bench->begun, round->first) });
}

static bool measure_growth(struct bench *bench)
{
    struct round round;
    const struct gpu_cost *calls = bench->result->values;
    if (!measure_growths(bench, GPU_LOCATION_DEVICE, GROWTHS, &round))
        return false;
    found_growth(bench, &round, calls[COST_malloc_async].call);
    bench_found(bench, COST_trim, (struct gpu_cost){ .gib = rate(without(round.trim, calls[COST_pool_trim].call), bench->block) });
    if (!bench->gpu->supports(bench->device, GPU_FEATURE_POOL_HOST, NULL, 0))
        return true;
    if (!measure_growths(bench, GPU_LOCATION_HOST, GROWTHS_HOST, &round))
        return false;
    uint64_t host = rate(without(round.growth, calls[COST_malloc_async].call), bench->block);
    bench_found(bench, COST_grow_host, (struct gpu_cost){ .gib = host });
    return true;
}

/* Pages that are mapped into a range of addresses, by their size ------------------------------------------------------------------------ */

#define PAGES_MAX 64
#define PAGE_SIZES 5
#define PAGE_CALLS 5 /* COST_page_create and those behind it */

static const struct {
    uint64_t size;
    unsigned rounds;
} page_sizes[PAGE_SIZES] = { { 2 * MIB, PAGES_MAX }, { 32 * MIB, 32 }, { 64 * MIB, 32 }, { 256 * MIB, 16 }, { GIB, 9 } };

BENCH_CALL(create, page_create(bench->device, bench->page_size, &bench->page))
BENCH_CALL(map, page_map(bench->range, bench->page_size, bench->page))
BENCH_CALL(access, page_set_access(bench->range, bench->page_size, &bench->device, 1))
BENCH_CALL(unmap, page_unmap(bench->range, bench->page_size))
BENCH_CALL(release, page_release(bench->page))

static bench_call *const page_calls[PAGE_CALLS] = { do_create, do_map, do_access, do_unmap, do_release };

/* What a call that failed has left. */
static void undo(struct bench *bench, size_t failed)
{
    if (failed == 2 || failed == 3)
        do_unmap(bench);
    if (failed > 0)
        do_release(bench);
}

/* Each page at addresses that had none before, as an arena maps them. */
static int map_pages(struct bench *bench, unsigned rounds, uint64_t found[static PAGE_CALLS])
{
    uint64_t times[PAGE_CALLS][PAGES_MAX];
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < PAGE_CALLS; i++) {
            int code;
            times[i][round] = bench_time(bench, page_calls[i], &code);
            if (code) {
                undo(bench, i);
                return code;
            }
        }
        bench->range = (char *)bench->range + bench->page_size;
    }
    for (size_t i = 0; i < PAGE_CALLS; i++)
        found[i] = median(times[i], rounds);
    return GPU_SUCCESS;
}

static int measure_size(struct bench *bench, unsigned rounds, uint64_t found[static PAGE_CALLS])
{
    void *range;
    uint64_t bytes = rounds * bench->page_size;
    int code = bench->gpu->range_reserve(bench->device, bytes, &range);
    if (code)
        return code;
    bench->range = range;
    code = map_pages(bench, rounds, found);
    int ended = bench->gpu->range_free(range, bytes);
    return code ? code : ended;
}

/* Each call of a page of each size there is room for. Returns how many sizes these are; 0 after a complaint. */
static size_t measure_sizes(struct bench *bench, struct sample samples[static PAGE_CALLS][PAGE_SIZES])
{
    size_t count = 0;
    for (; count < PAGE_SIZES && page_sizes[count].size <= bench->block; count++) {
        uint64_t found[PAGE_CALLS] = {0};
        bench->page_size = page_sizes[count].size;
        if (!bench_is_good(bench, measure_size(bench, page_sizes[count].rounds, found), "pages"))
            return 0;
        for (size_t call = 0; call < PAGE_CALLS; call++)
            samples[call][count] = (struct sample){ .size = bench->page_size, .time = found[call] };
    }
    return count;
}

static bool measure_pages(struct bench *bench)
{
    struct sample samples[PAGE_CALLS][PAGE_SIZES];
    if (!bench->gpu->supports(bench->device, GPU_FEATURE_MAPPING, NULL, 0))
        return true;
    size_t count = measure_sizes(bench, samples);
    for (int call = 0; call < PAGE_CALLS && count; call++)
        bench_found(bench, (enum cost_id)(COST_page_create + call), fit_cost(samples[call], count));
    return count > 0;
}

/* The whole ----------------------------------------------------------------------------------------------------------------------------- */

static int do_nothing(struct bench *bench)
{
    (void)bench;
    return GPU_SUCCESS;
}

static uint64_t time_of_reading(struct bench *bench)
{
    uint64_t times[SAMPLES_MAX];
    int code;
    for (size_t i = 0; i < SAMPLES_MAX; i++)
        times[i] = bench_time(bench, do_nothing, &code);
    return median(times, SAMPLES_MAX);
}

/* Half of what is free at most; a power of two, as rates then come out whole. */
static bool choose_block(struct bench *bench)
{
    uint64_t free_bytes, total;
    if (!bench_is_good(bench, bench->gpu->device_memory(bench->device, &free_bytes, &total), "free memory"))
        return false;
    if (free_bytes < LEAST) {
        complain("device %d: only %llu MiB are free, and measuring needs 256: end what uses it, or name another --device", bench->device,
                 (unsigned long long)(free_bytes / MIB));
        return false;
    }
    for (bench->block = GIB; bench->block > free_bytes / 2; bench->block /= 2)
        ;
    return true;
}

BENCH_CALL(begin, malloc_async(&bench->ptr, STEP, bench->pool, bench->stream))

/* The pool has its memory before anything else is timed. */
static int warm(struct bench *bench)
{
    int code = bench->gpu->pool_set(bench->pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    if (!code)
        bench->begun = bench_time(bench, do_begin, &code);
    if (!code)
        code = bench->gpu->free_async(bench->ptr, bench->stream);
    return code ? code : bench->gpu->stream_synchronize(bench->stream);
}

/* With a pool, a stream and an event, which are there. */
static bool measure(struct bench *bench)
{
    bench->reading = time_of_reading(bench);
    return bench_is_good(bench, warm(bench), "a pool") && measure_calls(bench) && measure_growth(bench) && measure_pages(bench) &&
           measure_arena(bench->gpu, bench->device, bench->result);
}

bool measure_describe(const struct gpu *gpu, int device, struct costs *costs)
{
    struct bench bench = { .gpu = gpu, .device = device };
    struct gpu_device_info info;
    int driver, toolkit;
    if (!bench_is_good(&bench, gpu->device_info(device, &info), "its name") ||
        !bench_is_good(&bench, gpu->versions(&driver, &toolkit), "the driver's version"))
        return false;
    snprintf(costs->gpu, sizeof costs->gpu, "%s", info.name);
    snprintf(costs->uuid, sizeof costs->uuid, "%s", info.uuid);
    snprintf(costs->driver, sizeof costs->driver, "%d.%d", driver / 1000, driver % 1000 / 10);
    return true;
}

bool measure_all(const struct gpu *gpu, int device, struct costs *costs)
{
    char why[256];
    struct bench bench = { .gpu = gpu, .device = device, .mode = GPU_CAPTURE_MODE_RELAXED, .result = costs };
    const struct gpu_pool_spec spec = { .device = device };
    costs_init(costs);
    if (!gpu->supports(device, GPU_FEATURE_POOLS, why, sizeof why)) {
        complain("device %d: %s", device, why);
        return false;
    }
    bool good = measure_describe(gpu, device, costs) && bench_is_good(&bench, gpu->set_current_device(device), "made current") &&
                choose_block(&bench) && bench_is_good(&bench, gpu->stream_create(device, &bench.stream), "a stream") &&
                bench_is_good(&bench, gpu->event_create(device, &bench.event), "an event") &&
                bench_is_good(&bench, gpu->pool_create(&spec, &bench.pool), "a pool") && measure(&bench);
    if (bench.pool)
        gpu->pool_destroy(bench.pool);
    if (bench.event)
        gpu->event_destroy(bench.event);
    if (bench.stream)
        gpu->stream_destroy(bench.stream);
    return good;
}
