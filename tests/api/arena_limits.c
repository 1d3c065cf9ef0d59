/* SPDX-License-Identifier: MIT */
/* arena_limits.c - pools with `backing: arena` and `auto` where the process, not the device, runs out: of addresses, and of host memory. */
#include <stdio.h>
#include <string.h>

#include "tests/api/scene.h"
#include "tests/support/fail_malloc.h"

#define PAGE (2 * MIB)
#define MACHINE "memory=2GiB"
#define LACKING MACHINE ",addresses=2047MiB"

static char log_text[4096];

static void keep_line(void *data, weir_log_level level, const char *line)
{
    size_t len = strlen(log_text);
    (void)data;
    (void)level;
    snprintf(log_text + len, sizeof log_text - len, "%s\n", line);
}

static weir_status open_weir(const char *policy, weir_error *error)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.log = keep_line;
    return weir_open(&options, error, &scene.w);
}

/* How many lines of the log have that text. */
static unsigned lines_with(const char *text)
{
    unsigned count = 0;
    for (const char *at = log_text; (at = strstr(at, text)); at += strlen(text))
        count++;
    return count;
}

START_TEST(process_with_few_addresses_gets_an_arena_of_a_smaller_range)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_simulate(MACHINE ",addresses=3GiB"); /* of 8 GiB */
    ck_assert_msg(open_weir("weir: 1\npools: { main: { backing: arena } }\n", &error) == WEIR_OK, "%s", error.text);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 64 * MIB));
}
END_TEST

START_TEST(arena_without_addresses_is_refused_by_name_with_the_remedy)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_simulate(LACKING);
    ck_assert_int_eq(open_weir("weir: 1\npools: { main: { backing: arena } }\n", &error), WEIR_NO_HOST_MEMORY);
    static const char *const words[] = {"pools.main.backing", "addresses", "8 GiB", "2 GiB", "ulimit -v", "backing: auto"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(error.text, words[i]) != NULL, "'%s' is not in: %s", words[i], error.text);
}
END_TEST

/* Why there can be no arena. */
static const struct {
    const char *label, *machine, *words;
} wants[] = {
    {"no addresses", LACKING, "addresses"},
    {"no virtual memory management", MACHINE ",mapping=no", "virtual memory management"},
};

START_TEST(auto_without_an_arena_is_a_pool_of_cudas_and_says_so_once)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats;
    scene_simulate(wants[_i].machine);
    weir_status status = open_weir("weir: 1\npools: { main: { backing: auto, cache: off, release_threshold: all } }\n", &error);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    void *large = scene_malloc(s, 64 * MIB), *small = scene_malloc(other, 1000);
    ck_assert_msg(lines_with(wants[_i].words) == 1, "%s", log_text);
    scene_ok(weir_stats_take(scene.w, NULL, &stats), "a snapshot");
    ck_assert_int_eq(weir_stats_pool(stats, 0)->is_arena, 0);
    ck_assert_uint_eq(weir_stats_pool(stats, 0)->reserved, 96 * MIB); /* the small twin has its own step */
    weir_stats_free(stats);
    scene_free(s, large);
    scene_free(other, small);
}
END_TEST

/* Its pool is made when the stream is opened, when arenas may be there already. */
START_TEST(private_pool_without_addresses_says_so_too)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_simulate(MACHINE ",addresses=9GiB");
    ck_assert_msg(open_weir("weir: 1\npools: { main: { backing: auto } }\nstreams: { own: { pool: main, private: true } }\n", &error) ==
                      WEIR_OK,
                  "%s", error.text);
    ck_assert_str_eq(log_text, "");
    weir_stream *s = scene_create("own");
    ck_assert_uint_eq(lines_with("addresses"), 1);
    scene_free(s, scene_malloc(s, 64 * MIB));
}
END_TEST

/* Three quarters of the range are for large requests. */
START_TEST(request_without_addresses_says_so_and_takes_nothing_from_others)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *other;
    void *ptr;
    scene_simulate(MACHINE ",addresses=2GiB");
    scene_open("weir: 1\ndefaults: { pool: main }\npools: { main: { backing: arena, cache: off, on_oom: { steps: [] } },\n"
               "  other: { cache: off, release_threshold: all, small_below: 0 } }\n");
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "a pool");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_pool_malloc(other, 64 * MIB, weir_stream_handle(s)));
    scene_ok(weir_stream_synchronize(s, NULL), "a synchronise");
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 1700 * MIB), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "addresses") != NULL, "%s", error.text);
    ck_assert_uint_eq(scene_pool_stats("other").reserved, 64 * MIB);
}
END_TEST

/* Whether the arena is closed, and whether the line of a stream that was never named or its debt lacks memory. */
START_TEST(free_without_host_memory_is_no_want_of_the_devices)
{
    weir_error error = WEIR_ERROR_INIT;
    if (!fail_malloc_works())
        return;
    scene_open("weir: 1\npools: { main: { backing: arena, cache: off } }\n");
    gpu_stream stream = scene_stream(0);
    void *ptr = scene_malloc_on(scene_stream(0), PAGE);
    if (_i & 1)
        scene_close();
    fail_malloc_at(_i & 2 ? 2 : 1);
    weir_status status = weir_free(scene.w, ptr, stream);
    fail_malloc_at(0);
    ck_assert_int_eq(status, WEIR_NO_HOST_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "stays live") != NULL, "%s", error.text);
    scene_ok(weir_free(scene.w, ptr, stream), "a free");
    scene_sync(stream);
}
END_TEST

int main(void)
{
    if (!scene_is_sim())
        return suite_skip("only the simulator runs out of addresses at will");
    Suite *suite = suite_create("arena_limits");
    TCase *tcase = suite_case(suite, "arena_limits", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, process_with_few_addresses_gets_an_arena_of_a_smaller_range,
              arena_without_addresses_is_refused_by_name_with_the_remedy);
    tcase_add_loop_test(tcase, auto_without_an_arena_is_a_pool_of_cudas_and_says_so_once, 0, (int)(sizeof wants / sizeof *wants));
    suite_add(tcase, private_pool_without_addresses_says_so_too, request_without_addresses_says_so_and_takes_nothing_from_others);
    tcase_add_loop_test(tcase, free_without_host_memory_is_no_want_of_the_devices, 0, 4);
    return suite_run(suite);
}
