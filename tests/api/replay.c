/* SPDX-License-Identifier: MIT */
/* What `weir replay` does: a trace that was recorded on the simulator, replayed under its own policy, comes to the same figures, to the byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "tests/api/traced.h"
#include "tools/replay/policy.h"
#include "tools/replay/report.h"
#include "tools/replay/run.h"

#define BLOCKS 60
#define STEPS 3000

/* A program that asks at random, the same for the same seed. */
struct program {
    const char *keys; /* of its pool */
    unsigned streams, raw; /* opened ones, and ones that Weir was not told of */
    unsigned largest; /* MiB */
    unsigned pause; /* a thousandth of a second at most between two operations, in microseconds */
    bool synchronises, trims;
};

static const struct program programs[] = {
    { "release_threshold: all", 1, 0, 8, 100, false, false },
    { "release_threshold: 64MiB, cache: off", 1, 0, 60, 100, true, false },
    { "release_threshold: 0, small_below: 0", 2, 0, 100, 900, true, true },
    { "cache: { largest: 32MiB, per_stream: 128MiB, per_device: 160MiB }", 3, 0, 30, 50, true, true },
    { "max_size: 512MiB, small_below: 0", 2, 1, 40, 10, false, false },
    { "max_size: 700MiB, small_below: 1MiB, cache: off, on_oom: { steps: [wait, trim] }", 1, 1, 40, 10, true, false },
    { "backing: arena, release_threshold: 128MiB", 2, 0, 40, 200, true, false },
    { "backing: arena, release_threshold: all, max_size: 1GiB", 3, 0, 50, 20, false, true },
};

#define PROGRAMS (int)(sizeof programs / sizeof programs[0])

/* What the recorded process itself counted. */
struct counted {
    weir_pool_stats pool;
    weir_device_stats device;
};

static unsigned random_below(uint64_t *state, unsigned bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % bound;
}

static void run_program(const struct program *program, uint64_t seed, struct counted *counted)
{
    weir_stream *opened[4] = { NULL };
    gpu_stream raw[4] = { NULL };
    void *blocks[BLOCKS] = { NULL };
    uint64_t state = seed;
    for (unsigned i = 0; i < program->streams; i++)
        opened[i] = scene_create(NULL);
    for (unsigned i = 0; i < program->raw; i++)
        ck_assert_int_eq(scene.gpu->stream_create(0, &raw[i]), GPU_SUCCESS);
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned at = random_below(&state, BLOCKS), which = random_below(&state, program->streams + program->raw);
        uint64_t size = UINT64_C(1) << random_below(&state, 26);
        size += random_below(&state, (unsigned)size + 1);
        size = size < program->largest * MIB ? size : program->largest * MIB;
        if (program->pause)
            sim_advance(UINT64_C(1000) * random_below(&state, program->pause));
        weir_stream *s = which < program->streams ? opened[which] : NULL;
        gpu_stream handle = s ? weir_stream_handle(s) : raw[which - program->streams];
        if (blocks[at]) {
            scene_ok(s ? weir_stream_free(s, blocks[at]) : weir_free(scene.w, blocks[at], handle), "free");
            blocks[at] = NULL;
        } else if ((s ? weir_stream_malloc(s, &blocks[at], size) : weir_malloc(scene.w, &blocks[at], size, 0, handle)) != WEIR_OK) {
            blocks[at] = NULL;
        }
        if (program->synchronises && s && random_below(&state, 50) == 0)
            scene_ok(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
        if (program->trims && random_below(&state, 300) == 0)
            scene_ok(weir_pool_trim(scene.pool, 0, NULL, NULL), "weir_pool_trim");
    }
    counted->pool = scene_pool_stats("main");
    counted->device = scene_device_stats(0);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i])
            scene_ok(weir_free(scene.w, blocks[i], weir_stream_handle(opened[0])), "weir_free");
    for (unsigned i = 0; i < program->raw; i++)
        ck_assert_int_eq(scene.gpu->stream_destroy(raw[i]), GPU_SUCCESS);
}

static bool count_nothing(void *context, const struct trace_event *event)
{
    (void)context;
    (void)event;
    return true;
}

/* Records the program, and closes all; the trace is open then. */
static void record(const struct program *program, uint64_t seed, const char *keys, struct trace *trace, struct counted *counted)
{
    traced_open(keys, program->keys);
    run_program(program, seed, counted);
    ck_assert_uint_eq(traced_play(count_nothing, NULL), 0);
    ck_assert_msg(trace_open(trace, traced_file), "%s", trace->error);
}

static void replay(const struct script *script, struct outcome *outcome)
{
    char *policy = replay_policy_recorded(script->trace), machine[64];
    ck_assert_ptr_nonnull(policy);
    snprintf(machine, sizeof machine, "memory=%s", trace_value(script->trace, "gpu.0.memory"));
    const struct replay replay = { .script = script, .policy = policy, .machine = machine };
    replay_run(&replay, outcome);
    ck_assert_msg(outcome->is_done, "%s", outcome->why);
    free(policy);
    weir__service_by_hand(NULL);
    scene_simulate(machine);
}

START_TEST(replay_of_what_was_recorded_comes_to_the_same_figures_to_the_byte)
{
    const struct program *program = &programs[_i % PROGRAMS];
    struct counted counted;
    struct trace trace;
    struct script script;
    struct outcome outcome, again;
    record(program, 1000 + (uint64_t)_i, "level: all", &trace, &counted);
    ck_assert(script_make(&script, &trace));
    replay(&script, &outcome);
    ck_assert_uint_eq(outcome.peak_reserved, counted.pool.reserved_high);
    ck_assert_uint_eq(outcome.hits, counted.pool.cache_hits);
    ck_assert_uint_eq(outcome.requests, counted.pool.mallocs);
    ck_assert_uint_eq(outcome.refused, 0);
    ck_assert_uint_eq(outcome.recoveries, counted.device.recoveries);
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        ck_assert_uint_eq(outcome.rescues[rung], counted.device.rescues[rung]);
    ck_assert_uint_eq(script.recorded.refused, counted.pool.failures);
    const struct verdict verdict = report_judge(&script, &outcome, NULL);
    ck_assert_msg(verdict.can_judge, "%s", verdict.why);
    ck_assert(verdict.memory_error == 0);
    replay(&script, &again);
    ck_assert_mem_eq(&again, &outcome, sizeof outcome);
    script_free(&script);
    trace_close(&trace);
}
END_TEST

static const char *const automatic[] = {"release_threshold: auto", "release_threshold: auto, backing: arena"};

/* Steps with gaps after which all has gone back, the keeper by hand. */
static void record_steps(const char *keys, struct trace *trace, struct counted *counted)
{
    char text[1024];
    void *blocks[BLOCKS];
    snprintf(text, sizeof text,
             "weir: 1\nkeeper: true\nrecord: { level: all, file: '%s' }\npools: { main: { small_below: 0, cache: off, %s } }\n", traced_file,
             keys);
    weir__service_by_hand(scene.gpu);
    scene_open(text);
    weir_stream *s = scene_create(NULL);
    for (unsigned step = 0; step < 4; step++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            blocks[i] = scene_malloc(s, 24 * MIB);
            weir__service_pass(scene.gpu->now() + 3 * MILLISECOND);
        }
        for (unsigned i = 0; i < BLOCKS; i++)
            scene_free(s, blocks[i]);
        scene_ok(weir_stream_synchronize(s, NULL), "weir_stream_synchronize");
        weir__service_pass(scene.gpu->now() + 20000 * MILLISECOND);
    }
    counted->pool = scene_pool_stats("main");
    ck_assert_uint_eq(traced_play(count_nothing, NULL), 0);
    weir__service_by_hand(NULL);
    ck_assert_msg(trace_open(trace, traced_file), "%s", trace->error);
}

START_TEST(replay_gives_back_and_grows_again_as_the_recorded_keeper_did)
{
    struct counted counted;
    struct trace trace;
    struct script script;
    struct outcome outcome, again;
    record_steps(automatic[_i], &trace, &counted);
    ck_assert_uint_ge(counted.pool.kept_unused, 3 * GIB);
    ck_assert(script_make(&script, &trace));
    replay(&script, &outcome);
    ck_assert_uint_eq(outcome.peak_reserved, counted.pool.reserved_high);
    ck_assert_uint_ge(outcome.grown, 4 * counted.pool.reserved_high - 3 * 32 * MIB);
    /* The keeper had the program's thread here, so the recording takes its time for the program's. */
    ck_assert(report_judge(&script, &outcome, NULL).memory_error == 0);
    replay(&script, &again);
    ck_assert_mem_eq(&again, &outcome, sizeof outcome);
    script_free(&script);
    trace_close(&trace);
}
END_TEST

/* A block that the cache of that stream serves again, in the stream's own pool. Returns the stream's handle. */
static weir_cuda_stream use_stream(const char *name, const char *tag)
{
    weir_stream *s = scene_create(name);
    weir_cuda_stream handle = weir_stream_handle(s);
    scene_ok(weir_tag_push(scene.w, tag), "weir_tag_push");
    for (unsigned i = 0; i < 4; i++)
        scene_free(s, scene_malloc(s, MIB));
    scene_ok(weir_tag_pop(scene.w, NULL), "weir_tag_pop");
    weir_stream_close(s);
    return handle;
}

START_TEST(stream_with_the_handle_of_a_former_one_has_a_name_of_its_own)
{
    char text[1024];
    static const char *const names[] = { "a", "b" }, *const tags[] = { "first", "second" };
    size_t opened = 0, requests = 0;
    struct trace trace;
    struct script script;
    struct outcome outcome;
    snprintf(text, sizeof text,
             "weir: 1\nrecord: { level: all, file: '%s' }\ndefaults: { pool: one }\n"
             "pools: { one: { release_threshold: all }, two: { release_threshold: all } }\nstreams: { a: { pool: one }, b: { pool: two } }\n",
             traced_file);
    scene_open(text);
    weir_cuda_stream first = use_stream("a", "first");
    ck_assert_ptr_eq(use_stream("b", "second"), first);
    const uint64_t hits = scene_pool_stats("one").cache_hits + scene_pool_stats("two").cache_hits;
    ck_assert_uint_eq(hits, 6);
    ck_assert_uint_eq(traced_play(count_nothing, NULL), 0);
    ck_assert_msg(trace_open(&trace, traced_file), "%s", trace.error);
    ck_assert(script_make(&script, &trace));
    for (size_t i = 0; i < script.count; i++) {
        const struct script_op *op = &script.ops[i];
        const struct script_label *label = op->label ? &script.labels[op->label - 1] : NULL;
        if (op->what == SCRIPT_OPEN)
            ck_assert(label->is_stream && strcmp(label->text, names[opened++]) == 0);
        else if (op->what == SCRIPT_MALLOC)
            ck_assert(!label->is_stream && strcmp(label->text, tags[requests++ / 4]) == 0);
        else
            ck_assert_ptr_null(label);
    }
    ck_assert_uint_eq(opened, 2);
    ck_assert_uint_eq(requests, 8);
    replay(&script, &outcome);
    ck_assert_uint_eq(outcome.hits, hits);
    script_free(&script);
    trace_close(&trace);
}
END_TEST

int main(void)
{
    if (!scene_is_sim())
        return suite_skip("WEIR_GPU is not sim: what is replayed is recorded on the simulator");
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("replay");
    TCase *tcase = suite_case(suite, "replay", 60);
    tcase_add_checked_fixture(tcase, traced_begin, traced_end);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, replay_of_what_was_recorded_comes_to_the_same_figures_to_the_byte, 0, 4 * PROGRAMS);
    tcase_add_loop_test(tcase, replay_gives_back_and_grows_again_as_the_recorded_keeper_did, 0,
                        (int)(sizeof automatic / sizeof automatic[0]));
    tcase_add_test(tcase, stream_with_the_handle_of_a_former_one_has_a_name_of_its_own);
    return suite_run(suite);
}
