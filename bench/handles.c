/* SPDX-License-Identifier: MIT */
/*
 * A pair by the raw handle of an opened stream, where 10 streams are open and where 4,000 are: among the same 10 in turn, and among all. The
 * latter also costs what memory that the processor's cache does not have costs. And opening a stream and closing it, with as many open.
 */
#include "bench/section.h"

#define FEW 10
#define MANY 4000
#define PAIRS 20000 /* for one sample */
#define SIZE 4096

static const char policy[] = "weir: 1\npools: { p: { devices: [0] } }\n";

struct crowd {
    weir *w;
    weir_stream *streams[MANY];
    weir_cuda_stream handles[MANY];
};

static void open_crowd(struct bench *bench, struct crowd *crowd, size_t count)
{
    crowd->w = shared_weir_for(bench, "handles", policy);
    for (size_t i = 0; i < count; i++) {
        BENCH_WEIR(weir_stream_create(crowd->w, 0, NULL, &error, &crowd->streams[i]));
        crowd->handles[i] = weir_stream_handle(crowd->streams[i]);
    }
}

static double time_pairs(struct crowd *crowd, size_t among, size_t pairs)
{
    void *block;
    uint64_t start = bench_now();
    for (size_t i = 0; i < pairs; i++) {
        weir_cuda_stream stream = crowd->handles[i % among];
        shared_check(weir_malloc(crowd->w, &block, SIZE, 0, stream), "weir_malloc");
        shared_check(weir_free(crowd->w, block, stream), "weir_free");
    }
    return (double)(bench_now() - start) / (double)pairs;
}

static double time_opening(struct crowd *crowd)
{
    weir_stream *stream;
    uint64_t start = bench_now();
    for (size_t i = 0; i < FEW; i++) {
        BENCH_WEIR(weir_stream_create(crowd->w, 0, NULL, &error, &stream));
        weir_stream_close(stream);
    }
    return (double)(bench_now() - start) / FEW;
}

void section_handles(struct bench *bench)
{
    static struct crowd few, many;
    struct bench_figure *same = bench_figure_new(&bench->report, "handles", "pair by a raw handle of 10, with 4,000 streams open, against 10 open");
    struct bench_figure *all = bench_figure_new(&bench->report, "handles", "pair by a raw handle of 4,000 in turn, against 10");
    struct bench_figure *opening = bench_figure_new(&bench->report, "handles", "a stream opened and closed beside 4,000, against beside 10");
    struct bench_series *base = bench_series_new(same, "10 streams"), *one = bench_series_new(same, "4,000 streams");
    struct bench_series *base_again = bench_series_new(all, "10 streams"), *each = bench_series_new(all, "4,000 streams");
    struct bench_series *lone = bench_series_new(opening, "10 streams"), *crowded = bench_series_new(opening, "4,000 streams");
    open_crowd(bench, &few, FEW);
    open_crowd(bench, &many, MANY);
    time_pairs(&few, FEW, FEW);
    time_pairs(&many, MANY, MANY);
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(base, time_pairs(&few, FEW, PAIRS));
        bench_add(one, time_pairs(&many, FEW, PAIRS));
        bench_add(base_again, time_pairs(&few, FEW, PAIRS));
        bench_add(each, time_pairs(&many, MANY, PAIRS));
        bench_add(lone, time_opening(&few));
        bench_add(crowded, time_opening(&many));
    }
    bench_show_ratio(same, one, base, BENCH_AT_MOST, 1.2);
    bench_show_ratio(all, each, base_again, BENCH_SHOWN, 0);
    bench_show_ratio(opening, crowded, lone, BENCH_SHOWN, 0);
    weir_close(few.w);
    weir_close(many.w);
}
