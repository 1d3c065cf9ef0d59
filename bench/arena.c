/* SPDX-License-Identifier: MIT */
/*
 * The extents and pages of an arena, without a GPU: what they would map for recorded sequences of requests (--trace), with one stream and
 * with four whose frees are complete only later, and the time that their code takes, with a table of blocks. Then 10,000 random blocks.
 */
#include "bench/section.h"

#include <stdlib.h>
#include <string.h>

#include "bench/replay.h"
#include "bench/sequence.h"

#define STEP_NS 60    /* asked of a recorded sequence, for each step */
#define RANDOM_NS 250 /* and with RANDOM_LIVE blocks */
#define RANDOM_LIVE 10000
#define RANDOM_SWAPS 200000
#define SEED 29

static const size_t delays[] = {10, 100, 1000};
static const uint64_t largest[] = {64 * KIB, MIB - 512, 64 * MIB};

static uint64_t time_replay(const struct trace *trace, const struct replay_streams *streams, struct replay_result *result)
{
    uint64_t start = bench_now();
    if (!replay(trace, streams, result))
        bench_die(__FILE__, __LINE__, trace->name, "no memory for it");
    return bench_now() - start;
}

static void report_time(struct bench *bench, const struct trace *trace, double limit)
{
    struct bench_series series = {.name = "a step"};
    struct replay_result result;
    char name[96];
    for (size_t i = 0; i < bench->repetitions; i++)
        bench_add(&series, (double)time_replay(trace, NULL, &result) / (double)trace->step_count);
    snprintf(name, sizeof(name), "%s, a step of %zu", trace->name, trace->step_count);
    struct bench_figure *figure = bench_figure_of(&bench->report, "arena", name, &series);
    bench_show(figure, bench_median(&series), "ns", BENCH_AT_MOST, limit);
}

static void report_memory(struct bench *bench, const struct trace *trace, const struct replay_streams *streams)
{
    struct bench_series mapped = {.name = "mapped"}, live = {.name = "live"};
    struct replay_result result;
    char name[96];
    time_replay(trace, streams, &result);
    bench_add(&mapped, (double)result.mapped_peak);
    bench_add(&live, (double)result.live_peak);
    if (streams && streams->recent)
        snprintf(name, sizeof(name), "%s, %u streams keep recent blocks, %.0f %% of large ones hit", trace->name, (unsigned)streams->count,
                 result.large ? 100.0 * (double)result.hits / (double)result.large : 0);
    else if (streams)
        snprintf(name, sizeof(name), "%s, %u streams, %u waits, frees complete %u later", trace->name, (unsigned)streams->count,
                 (unsigned)result.waits, (unsigned)streams->delay);
    else
        snprintf(name, sizeof(name), "%s, one stream, %u pages created, %u moved", trace->name, (unsigned)result.created,
                 (unsigned)result.moved);
    struct bench_figure *figure = bench_figure_of(&bench->report, "arena", name, &mapped, &live);
    figure->unit = "bytes";
    bench_show_ratio(figure, &mapped, &live, BENCH_SHOWN, 0);
}

static void replay_file(struct bench *bench, const char *path)
{
    struct trace trace;
    char why[512];
    if (!trace_read(&trace, path, why, sizeof(why)))
        bench_die(__FILE__, __LINE__, "--trace", why);
    report_memory(bench, &trace, NULL);
    report_memory(bench, &trace, &(struct replay_streams){.count = 1, .recent = true});
    report_memory(bench, &trace, &(struct replay_streams){.count = 4, .delay = delays[COUNT_OF(delays) - 1], .recent = true});
    for (size_t i = 0; i < COUNT_OF(delays); i++)
        report_memory(bench, &trace, &(struct replay_streams){.count = 4, .delay = delays[i]});
    report_memory(bench, &trace, &(struct replay_streams){.count = 4, .delay = delays[COUNT_OF(delays) - 1], .waits = true});
    report_time(bench, &trace, STEP_NS);
    trace_clear(&trace);
}

/* So many live blocks, of which a random one is freed and another one allocated, again and again. */
static void replay_random(struct bench *bench, uint64_t max)
{
    static uint32_t live[RANDOM_LIVE];
    size_t swaps = bench->quick ? RANDOM_SWAPS / 10 : RANDOM_SWAPS;
    uint64_t state = SEED, *bytes = calloc(RANDOM_LIVE + swaps, sizeof(*bytes));
    struct trace trace = {.step_count = RANDOM_LIVE + 2 * swaps, .block_count = RANDOM_LIVE + swaps};
    struct trace_step *step = trace.steps = calloc(trace.step_count, sizeof(*step));
    char size[32];
    if (!bytes || !step)
        bench_die(__FILE__, __LINE__, "arena", "no memory for random blocks");
    snprintf(trace.name, sizeof(trace.name), "%d blocks up to %s", RANDOM_LIVE, bench_size_name(max, size));
    for (uint32_t id = 0; id < RANDOM_LIVE + swaps; id++) {
        uint32_t slot = id < RANDOM_LIVE ? id : (uint32_t)sequence_below(&state, RANDOM_LIVE);
        if (id >= RANDOM_LIVE)
            *step++ = (struct trace_step){.id = live[slot], .bytes = bytes[live[slot]], .is_free = true};
        bytes[id] = 1 + sequence_below(&state, max);
        live[slot] = id;
        *step++ = (struct trace_step){.id = id, .bytes = bytes[id]};
    }
    report_time(bench, &trace, RANDOM_NS);
    report_memory(bench, &trace, NULL);
    free(bytes);
    trace_clear(&trace);
}

void section_arena(struct bench *bench)
{
    for (size_t i = 0; i < bench->trace_count; i++)
        replay_file(bench, bench->traces[i]);
    for (size_t i = 0; i < COUNT_OF(largest); i++)
        replay_random(bench, largest[i]);
}
