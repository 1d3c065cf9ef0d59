/* SPDX-License-Identifier: MIT */
/* recovery_report.c - what the report of a refusal concludes from its figures: each conclusion where it holds, and nowhere else. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/recovery.h"
#include "tests/api/scene.h"

#define MAIN(keys) "weir: 1\ndefaults: { pool: main }\npools:\n  main: { small_below: 0, " keys " }\n"
#define ARENA(keys) "weir: 1\ndefaults: { pool: main }\npools:\n  main: { backing: arena, " keys " }\n"

/* What the program has before it asks; the device has 8 GiB. */
static void *held[2048], *foreign_block;
static size_t held_count;
static gpu_pool foreign;
static gpu_stream captures; /* NULL: none does */

static void keep(weir_stream *s, uint64_t size)
{
    held[held_count++] = scene_malloc(s, size);
}

static void drop_all(weir_stream *s)
{
    size_t nodes;
    if (captures)
        ck_assert_int_eq(scene.gpu->capture_end(captures, &nodes), GPU_SUCCESS);
    captures = NULL;
    while (held_count)
        scene_free(s, held[--held_count]);
    if (!foreign)
        return;
    ck_assert_int_eq(scene.gpu->free_async(foreign_block, weir_stream_handle(s)), GPU_SUCCESS);
    scene_sync(weir_stream_handle(s));
    ck_assert_int_eq(scene.gpu->pool_destroy(foreign), GPU_SUCCESS);
    foreign = NULL;
}

static void hold(weir_stream *s, uint64_t size, const char *tag)
{
    if (tag)
        scene_ok(weir_tag_push(scene.w, tag), "weir_tag_push");
    keep(s, size);
    if (tag)
        scene_ok(weir_tag_pop(scene.w, NULL), "weir_tag_pop");
}

static void have_nothing(weir_stream *s)
{
    (void)s;
}

static void have_two_gib(weir_stream *s)
{
    hold(s, 512 * MIB, "batch");
    hold(s, 1536 * MIB, "weights");
}

static void have_seven_gib(weir_stream *s)
{
    hold(s, 5 * GIB, "optimizer");
    hold(s, 2 * GIB, NULL);
}

static uint64_t free_nothing(void *data, int device, uint64_t needed)
{
    (void)data, (void)device, (void)needed;
    return 0;
}

static void have_seven_gib_and_a_callback(weir_stream *s)
{
    unsigned id;
    scene_ok(weir_oom_add(scene.w, free_nothing, NULL, NULL, &id), "weir_oom_add");
    have_seven_gib(s);
}

static void have_three_gib_beside_four_of_others(weir_stream *s)
{
    struct gpu_pool_spec spec = { .device = 0 };
    ck_assert_int_eq(scene.gpu->pool_create(&spec, &foreign), 0);
    ck_assert_int_eq(scene.gpu->malloc_async(&foreign_block, 4 * GIB, foreign, weir_stream_handle(s)), 0);
    hold(s, 3 * GIB, NULL);
}

/* Every other block is freed: those between pin what shares a page, or a step of CUDA's pools, with them. */
static void have_gaps(weir_stream *s, unsigned pairs, uint64_t freed, uint64_t kept)
{
    static void *blocks[1024];
    for (unsigned i = 0; i < pairs; i++) {
        blocks[i] = scene_malloc(s, freed);
        keep(s, kept);
    }
    for (unsigned i = 0; i < pairs; i++)
        scene_free(s, blocks[i]);
    scene_sync(weir_stream_handle(s));
}

static void have_gaps_in_steps(weir_stream *s)
{
    have_gaps(s, 200, 31 * MIB, MIB);
}

static void have_gaps_in_pages(weir_stream *s)
{
    have_gaps(s, 1000, 3 * MIB, 3 * MIB);
}

static void have_cached_blocks(weir_stream *s)
{
    void *blocks[4];
    for (unsigned i = 0; i < 4; i++)
        blocks[i] = scene_malloc(s, 64 * MIB);
    for (unsigned i = 0; i < 4; i++)
        scene_free(s, blocks[i]);
}

/* Its cache can go nowhere before the capture ends. */
static void have_cached_blocks_of_a_capture(weir_stream *s)
{
    (void)s;
    weir_stream *capturing = scene_create(NULL);
    have_cached_blocks(capturing);
    ck_assert_int_eq(scene.gpu->capture_begin(weir_stream_handle(capturing), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    captures = weir_stream_handle(capturing);
}

static void have_a_free_behind_a_kernel(weir_stream *s)
{
    (void)s;
    gpu_stream busy = scene_stream(0);
    void *block = scene_malloc_on(busy, 6 * GIB);
    scene_delay(busy, 900);
    scene_free_on(busy, block);
}

#define NO_POLICY "no policy could have served this"

static const struct situation {
    const char *policy;
    void (*prepare)(weir_stream *s);
    uint64_t asked;
    const char *said, *unsaid;
} situations[] = {
    { MAIN("max_size: 1GiB"), have_nothing, 3 * GIB, "\n  max_size of pool 'main', 1 GiB, is 2 GiB below what was asked\n", "needed" },
    { MAIN("max_size: 3GiB"), have_two_gib, 2 * GIB,
      "\n  max_size of pool 'main', 3 GiB, is 1 GiB below what was needed: 2 GiB are live in it, 1.50 GiB of them tag 'weights', and 2 GiB "
      "were asked\n",
      NO_POLICY },
    { MAIN("cache: off"), have_seven_gib, 2 * GIB,
      "\n  7 GiB are live, 5 GiB of them tag 'optimizer': with 2 GiB more that is 1 GiB above all that the device has, so " NO_POLICY
      " from it\n",
      "idle but" },
    { MAIN("cache: off"), have_seven_gib_and_a_callback, 2 * GIB, NO_POLICY, "idle but" },
    { MAIN("on_oom: { steps: [wait, trim] }"), have_seven_gib_and_a_callback, 2 * GIB, "above all that the device has\n", NO_POLICY },
    { MAIN("cache: off"), have_three_gib_beside_four_of_others, 2 * GIB,
      "\n  3 GiB are live: with 2 GiB more that is 1 GiB above what the device has beside 4 GiB that are in none of these pools", NO_POLICY },
    { MAIN("cache: off"), have_gaps_in_steps, 6 * GIB, "GiB were idle that the trim could not give back", "above" },
    { ARENA("cache: off"), have_gaps_in_pages, 4 * GIB, "GiB are idle but pinned", "the trim could not" },
    { MAIN("max_size: 2GiB, cache: { per_stream: 512MiB, largest: 64MiB }, on_oom: { steps: [trim] }"), have_cached_blocks, 1920 * MIB,
      "\n  256 MiB are in caches; on_oom.steps has no flush\n", "max_size of pool" },
    { MAIN("max_size: 2GiB, cache: { per_stream: 512MiB, largest: 64MiB }"), have_cached_blocks_of_a_capture, 1920 * MIB,
      "\n  256 MiB are in caches of streams that capture\n", "in caches\n" },
    { MAIN(ALONE ", on_oom: { steps: [flush, trim] }"), have_a_free_behind_a_kernel, 4 * GIB,
      "\n  6 GiB were freed behind work that is not known to be done; on_oom.steps has no wait\n", NO_POLICY },
    { MAIN("cache: off, on_oom: { steps: [wait] }"), have_gaps_in_steps, 6 * GIB, "GiB are idle; on_oom.steps has no trim\n", "the trim could" },
};

START_TEST(report_concludes_what_its_figures_say)
{
    const struct situation *situation = &situations[_i];
    weir_error error;
    void *ptr;
    scene_open(situation->policy);
    weir_stream *s = scene_create(NULL);
    situation->prepare(s);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, situation->asked), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, situation->said) != NULL, "no \"%s\" in: %s", situation->said, error.text);
    ck_assert_msg(strstr(error.text, situation->unsaid) == NULL, "\"%s\" in: %s", situation->unsaid, error.text);
    const char *device = strstr(error.text, "\n  device 0: "), *said = strstr(error.text, situation->said);
    const char *pool = strstr(error.text, "\n  pool 'main': ");
    ck_assert_msg(device && pool && device < said && said < pool, "%s", error.text);
    drop_all(s);
}
END_TEST

/* The first line of what is said of a refused request on that stream. */
static const char *headline(weir_stream *s)
{
    static weir_error error;
    void *ptr;
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 2 * GIB), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    error.text[strcspn(error.text, "\n")] = '\0';
    return error.text;
}

START_TEST(report_names_the_stream_as_the_program_did)
{
    char expected[256];
    void *ptr;
    weir_error error;
    scene_open(MAIN("max_size: 1GiB, on_oom: { steps: [] }"));
    weir_stream *unnamed = scene_create(NULL), *decode = scene_create("decode"), *hostile = scene_create("a\x1b[31m\nb");
    ck_assert_ptr_nonnull(strstr(headline(unnamed), "on device 0: "));
    ck_assert_ptr_nonnull(strstr(headline(decode), "on device 0, stream 'decode': "));
    ck_assert_ptr_nonnull(strstr(headline(hostile), ", stream 'a?[31m?b': "));
    weir_stream *second = scene_create("decode");
    snprintf(expected, sizeof expected, ", stream 'decode' (0x%" PRIxPTR "): ", (uintptr_t)weir_stream_handle(decode));
    ck_assert_ptr_nonnull(strstr(headline(decode), expected));
    weir_stream_close(second);
    ck_assert_ptr_nonnull(strstr(headline(decode), ", stream 'decode': "));
    /* By its raw handle, too. */
    ck_assert_int_eq(weir_malloc(scene.w, &ptr, 2 * GIB, 0, weir_stream_handle(decode)), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_ptr_nonnull(strstr(error.text, ", stream 'decode': "));
}
END_TEST

void add_report_cases(Suite *suite)
{
    TCase *report = suite_case(suite, "report", 60);
    tcase_add_checked_fixture(report, scene_begin, scene_end);
    tcase_add_loop_test(report, report_concludes_what_its_figures_say, 0, sizeof situations / sizeof *situations);
    suite_add(report, report_names_the_stream_as_the_program_did);
}
