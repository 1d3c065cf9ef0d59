/* SPDX-License-Identifier: MIT */
/* What the recorder costs a pair, of a cache and of one that goes to CUDA, at each level; and what a trace costs an event. Needs no GPU. */
#include "config.h"

#include "bench/section.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/trace/traced.h"
#include "lib/trace/writer.h"

#define SIZE (64 * KIB)
#define ASKED_CACHED_NS 15
#define ASKED_POOL 1.03
#define ASKED_EVENT_NS 40
#define ASKED_EVENT_BYTES 3

enum { OFF, POOL, ALL, STACKS, LEVELS };
static const char *const names[LEVELS] = {"off", "pool", "all", "stacks"};
static const char *const values[LEVELS] = {"level: off", "level: pool", "level: all, ring: 64MiB", "level: all, stacks: true"};

struct level {
    weir *w;
    weir_stream *stream;
    struct bench_series series;
};

static void open_levels(const struct bench *bench, const char *cache, struct level levels[static LEVELS])
{
    for (size_t i = 0; i < LEVELS; i++) {
        char policy[256];
        snprintf(policy, sizeof policy, "weir: 1\nrecord: { %s }\npools: { p: { release_threshold: all, cache: %s } }\n", values[i], cache);
        levels[i] = (struct level){.w = shared_weir(bench->gpu->name, policy), .series = {.name = names[i]}};
        BENCH_WEIR(weir_stream_create(levels[i].w, 0, NULL, &error, &levels[i].stream));
    }
}

static void close_levels(struct level levels[static LEVELS])
{
    for (size_t i = 0; i < LEVELS; i++) {
        weir_stream_close(levels[i].stream);
        weir_close(levels[i].w);
    }
}

static double pair_ns(const struct level *level, size_t pairs)
{
    weir_status status = WEIR_OK;
    void *block;
    uint64_t start = bench_now();
    for (size_t i = 0; i < pairs && status == WEIR_OK; i++) {
        status = weir_stream_malloc(level->stream, &block, SIZE);
        if (status == WEIR_OK)
            status = weir_stream_free(level->stream, block);
    }
    uint64_t took = bench_now() - start;
    shared_check(status, "a pair");
    return (double)took / (double)pairs;
}

static struct bench_figure *measure(struct bench *bench, const char *name, struct level levels[static LEVELS], size_t pairs)
{
    for (size_t i = 0; i < LEVELS; i++)
        pair_ns(&levels[i], pairs / 10);
    for (size_t repetition = 0; repetition < bench->repetitions; repetition++)
        for (size_t i = 0; i < LEVELS; i++)
            bench_add(&levels[i].series, pair_ns(&levels[i], pairs));
    struct bench_figure *figure = bench_figure_new(&bench->report, "record", name);
    for (size_t i = 0; i < LEVELS; i++)
        *bench_series_new(figure, names[i]) = levels[i].series;
    return figure;
}

/* A file that is gone once it is closed. */
static int scratch_file(void)
{
    char path[] = "/tmp/weir-bench-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        bench_die(__FILE__, __LINE__, "mkostemp", "no file can be made in /tmp");
    unlink(path);
    return fd;
}

/* What is in one ring goes into a file, with the thread that writes it alone on its core. */
static void measure_file(struct bench *bench, const struct level *level)
{
    struct bench_series time = {.name = "ns"}, bytes = {.name = "bytes"};
    for (size_t i = 0; i < bench->repetitions; i++) {
        struct weir__trace *trace;
        pair_ns(level, 600000);
        uint64_t start = bench_now();
        BENCH_WEIR(weir__trace_start(level->w, scratch_file(), WEIR__TRACE_UNTIL_NOW, "bench", &error, &trace));
        struct weir__trace_result result = weir__trace_end(trace);
        if (!result.events || result.error)
            bench_die(__FILE__, __LINE__, "weir__trace_end", "the trace has no events, or could not be written");
        bench_add(&time, (double)(bench_now() - start) / (double)result.events);
        bench_add(&bytes, (double)result.bytes / (double)result.events);
    }
    struct bench_figure *figure = bench_figure_new(&bench->report, "record", "an event of a pair, into a file");
    *bench_series_new(figure, "ns") = time;
    bench_show(figure, bench_median(&time), "ns", BENCH_AT_MOST, ASKED_EVENT_NS);
    figure = bench_figure_new(&bench->report, "record", "bytes of an event");
    *bench_series_new(figure, "bytes") = bytes;
    bench_show(figure, bench_median(&bytes), "B", BENCH_AT_MOST, ASKED_EVENT_BYTES);
}

void section_record(struct bench *bench)
{
    static struct level levels[LEVELS];
    open_levels(bench, "{ capture_check: false }", levels);
    struct bench_figure *figure = measure(bench, "cached pair: all above off", levels, bench->quick ? 100000 : 1000000);
    bench_show(figure, bench_median(&levels[ALL].series) - bench_median(&levels[OFF].series), "ns", BENCH_AT_MOST, ASKED_CACHED_NS);
    measure_file(bench, &levels[ALL]);
    close_levels(levels);
    open_levels(bench, "off", levels);
    figure = measure(bench, "pair that goes to CUDA: pool / off", levels, bench->quick ? 20000 : 200000);
    bench_show(figure, bench_median(&levels[POOL].series) / bench_median(&levels[OFF].series), "x", BENCH_AT_MOST, ASKED_POOL);
    close_levels(levels);
}
