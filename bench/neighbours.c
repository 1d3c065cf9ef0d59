/* SPDX-License-Identifier: MIT */
/*
 * Memory that one process keeps and another needs. This process asks for most of the device while another holds most of it, idle: what the
 * whole request takes, and what the other's part of it is, beside the raw calls that do the same. Then the parts in files of their own.
 *
 * Everything goes through the waist, so that the section runs on the simulator as well (WEIR_GPU=sim WEIR_SIM=name=X); its times mean
 * nothing there.
 */
#include "config.h"

#include "bench/neighbours.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "lib/gpu/clock.h"
#include "share/wire/directory.h"
#include "share/wire/query.h"

#define BLOCKS 10 /* that the holder's memory comes in */

void neighbours_show(struct bench *bench, const char *name, const struct bench_series *series, size_t count, double value,
                     const char *unit, enum bench_bound bound, double limit)
{
    struct bench_figure *figure = bench_figure_new(&bench->report, "neighbours", name);
    for (size_t i = 0; i < count; i++)
        *bench_series_new(figure, series[i].name) = series[i];
    if (strcmp(unit, "wake-ups") == 0)
        figure->unit = unit;
    bench_show(figure, value, unit, bound, limit);
}

/* Asking by hand ----------------------------------------------------------------------------------------------------------------------- */

struct gift {
    uint64_t bytes, took_us;
};

static bool take_gift(struct share_query *query, const struct wire_message *answer)
{
    struct gift *gift = query->data;
    *gift = (struct gift){answer->u.gave.bytes, answer->u.gave.took_us};
    return answer->type == WIRE_GAVE;
}

static void find_socket(const struct worker *neighbour, char path[SHARE_PATH_SIZE])
{
    char wanted[32], (*paths)[SHARE_PATH_SIZE];
    size_t count;
    snprintf(wanted, sizeof(wanted), "/%d.", neighbour->pid);
    path[0] = '\0';
    share_control_sockets(false, weir__service_now() + SHARE_LIST_TIME, &paths, &count);
    for (size_t i = 0; i < count; i++)
        if (strstr(paths[i], wanted))
            memcpy(path, paths[i], SHARE_PATH_SIZE);
    free(paths);
}

/* As the rung does, and again where that is too often. */
static struct gift ask_for(const struct bench *bench, const struct worker *neighbour, uint64_t bytes)
{
    struct gpu_device_info info;
    struct gift gift = {0, 0};
    char path[SHARE_PATH_SIZE];
    struct share_query query = {.path = path, .take = take_gift, .data = &gift};
    BENCH_GPU(bench->gpu, device_info(0, &info));
    find_socket(neighbour, path);
    query.question.type = WIRE_GIVE;
    query.question.u.give.bytes = bytes;
    query.question.u.give.deadline_ms = WORKER_PATIENCE;
    snprintf(query.question.u.give.uuid, WIRE_UUID_SIZE, "%s", info.uuid);
    uint64_t deadline = weir__service_now() + WORKER_PATIENCE * GPU_MILLISECOND;
    do {
        share_queries_run(&query, 1, deadline);
        if (query.status == WEIR_BUSY)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    } while (query.status == WEIR_BUSY && weir__service_now() < deadline);
    if (query.status != WEIR_OK)
        bench_die(__FILE__, __LINE__, "asking the neighbour", query.text);
    return gift;
}

/* The rescue --------------------------------------------------------------------------------------------------------------------------- */

enum { REQUEST, PART, TRIM, GROWTH, FAILURE, SERIES };

struct rescue {
    struct bench *bench;
    struct worker holder;
    weir *w;
    weir_stream *stream;
    gpu_pool pool;
    uint64_t wanted, block; /* bytes of the request, and of each of the holder's blocks */
    struct bench_series series[SERIES];
};

static void fill_holder(const struct rescue *rescue, bool raw)
{
    struct worker_order take = {.task = NEIGHBOUR_TAKE, .raw = raw, .count = BLOCKS, .bytes = rescue->block};
    if (worker_ask(&rescue->holder, &take, -1).values[0] > 0)
        bench_die(__FILE__, __LINE__, "the neighbour", "has no room for what it is to hold: is the device in use by others?");
    worker_ask(&rescue->holder, &(struct worker_order){.task = NEIGHBOUR_DROP, .raw = raw}, -1);
}

static double empty_holder(const struct rescue *rescue, bool raw, uint64_t keep)
{
    return worker_ask(&rescue->holder, &(struct worker_order){.task = NEIGHBOUR_EMPTY, .raw = raw, .bytes = keep}, -1).values[0];
}

static uint64_t bytes_got(const struct rescue *rescue)
{
    weir_stats *stats;
    BENCH_WEIR(weir_stats_take(rescue->w, &error, &stats));
    uint64_t got = weir_stats_device(stats, 0)->bytes_got;
    weir_stats_free(stats);
    return got;
}

/* Both return what it took. */
static double request_raw(const struct rescue *rescue, bool fails)
{
    const struct gpu *gpu = rescue->bench->gpu;
    gpu_stream stream = weir_stream_handle(rescue->stream);
    void *ptr;
    uint64_t start = bench_now();
    int code = gpu->malloc_async(&ptr, rescue->wanted, rescue->pool, stream);
    double took = (double)(bench_now() - start);
    if (code != (fails ? GPU_OUT_OF_MEMORY : GPU_SUCCESS))
        bench_die(__FILE__, __LINE__, fails ? "a raw request that has to fail" : "a raw request", gpu->code_text(code));
    if (!fails) {
        BENCH_GPU(gpu, free_async(ptr, stream));
        BENCH_GPU(gpu, stream_synchronize(stream));
    }
    /* What the device had left stays with the pool of a request that failed. */
    BENCH_GPU(gpu, pool_trim(rescue->pool, 0));
    return took;
}

static double request(const struct rescue *rescue)
{
    void *ptr = NULL;
    uint64_t start = bench_now();
    shared_check(weir_stream_malloc(rescue->stream, &ptr, rescue->wanted), "a request that a neighbour has to rescue");
    double took = (double)(bench_now() - start);
    shared_check(weir_stream_free(rescue->stream, ptr), "weir_stream_free");
    BENCH_WEIR(weir_stream_synchronize(rescue->stream, &error));
    shared_empty(weir_stream_pool(rescue->stream));
    return took;
}

static void repeat_rescue(struct rescue *rescue)
{
    uint64_t before = bytes_got(rescue);
    fill_holder(rescue, false);
    bench_add(&rescue->series[FAILURE], request_raw(rescue, true));
    bench_add(&rescue->series[REQUEST], request(rescue));
    uint64_t given = bytes_got(rescue) - before;
    if (!given)
        bench_die(__FILE__, __LINE__, "the request", "was served without the neighbour: it shows nothing");
    empty_holder(rescue, false, 0);
    bench_add(&rescue->series[GROWTH], request_raw(rescue, false));
    fill_holder(rescue, false);
    bench_add(&rescue->series[PART], (double)ask_for(rescue->bench, &rescue->holder, given).took_us * 1000);
    empty_holder(rescue, false, 0);
    fill_holder(rescue, true);
    bench_add(&rescue->series[TRIM], empty_holder(rescue, true, BLOCKS * rescue->block - given));
    empty_holder(rescue, true, 0);
}

static void open_rescue(struct rescue *rescue, struct bench *bench)
{
    static const char *const names[SERIES] = {"weir, whole request", "weir, neighbour's part", "raw trim", "raw growth",
                                              "raw attempt that fails"};
    struct gpu_pool_spec spec = {.device = 0, .location = GPU_LOCATION_DEVICE};
    memset(rescue, 0, sizeof(*rescue));
    rescue->bench = bench;
    rescue->wanted = shared_big_size(bench->memory, 120 * GIB, 85);
    rescue->block = shared_big_size(bench->memory, 100 * GIB, 70) / BLOCKS / NEIGHBOURS_STEP * NEIGHBOURS_STEP;
    for (size_t i = 0; i < SERIES; i++)
        rescue->series[i].name = names[i];
    worker_start(&rescue->holder, WORKER_NEIGHBOUR);
    rescue->w = shared_weir_for(bench, "neighbours", NEIGHBOUR_POLICY);
    BENCH_WEIR(weir_stream_create(rescue->w, 0, NULL, &error, &rescue->stream));
    BENCH_GPU(bench->gpu, pool_create(&spec, &rescue->pool));
    BENCH_GPU(bench->gpu, pool_set(rescue->pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX));
}

static void close_rescue(const struct rescue *rescue)
{
    worker_end(&rescue->holder, 1);
    weir_stream_close(rescue->stream);
    weir_close(rescue->w);
    BENCH_GPU(rescue->bench->gpu, pool_destroy(rescue->pool));
}

static void show_rescue(const struct rescue *rescue)
{
    const struct bench_series *series = rescue->series;
    double part = bench_median(&series[PART]), trim = bench_median(&series[TRIM]);
    double allowed = part + 1.2 * bench_median(&series[GROWTH]) + bench_median(&series[FAILURE]);
    char name[96], size[32];
    bench_size_name(rescue->wanted, size);
    snprintf(name, sizeof(name), "%s rescue: neighbour's part, less 1.2 x its raw trim", size);
    neighbours_show(rescue->bench, name, &series[PART], 2, (part - 1.2 * trim) / 1e6, "ms", BENCH_AT_MOST, 5);
    snprintf(name, sizeof(name), "%s rescue: of its part + 1.2 x growth + one failure", size);
    neighbours_show(rescue->bench, name, series, SERIES, bench_median(&series[REQUEST]) / allowed, "x", BENCH_AT_MOST, 1);
}

static void measure_rescue(struct bench *bench)
{
    static struct rescue rescue;
    open_rescue(&rescue, bench);
    for (size_t i = 0; i < bench->repetitions; i++)
        repeat_rescue(&rescue);
    close_rescue(&rescue);
    show_rescue(&rescue);
}

/* What the processes left there: the folders of their sockets. */
static void remove_directory(const char *directory)
{
    static const char *const folders[] = {"/weir/control", "/weir", ""};
    char path[64];
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        snprintf(path, sizeof(path), "%s%s", directory, folders[i]);
        if (rmdir(path) != 0)
            bench_die(__FILE__, __LINE__, path, strerror(errno));
    }
}

/* Nobody but those who are started here is a neighbour: sockets lie in a directory of their own. */
void section_neighbours(struct bench *bench)
{
    char directory[] = "/tmp/weir-bench-XXXXXX";
    const char *former = getenv("WEIR_CONTROL_DIR");
    char *saved = former ? strdup(former) : NULL;
    if (!mkdtemp(directory))
        bench_die(__FILE__, __LINE__, directory, strerror(errno));
    setenv("WEIR_CONTROL_DIR", directory, 1);
    neighbours_fast_path(bench);
    measure_rescue(bench);
    neighbours_rounds(bench);
    neighbours_ps(bench);
    if (saved)
        setenv("WEIR_CONTROL_DIR", saved, 1);
    else
        unsetenv("WEIR_CONTROL_DIR");
    free(saved);
    remove_directory(directory);
}
