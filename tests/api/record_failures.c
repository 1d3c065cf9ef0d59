/* SPDX-License-Identifier: MIT */
/* record_failures.c - the recorder where host memory fails, at each allocation: nothing is left, and nothing is wrong. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/record/unwind.h"
#include "tests/api/traced.h"
#include "tests/support/fail_malloc.h"

static char policy[1024];

static void write_policy(void)
{
    snprintf(policy, sizeof policy,
             "weir: 1\nrecord: { level: all, ring: 64KiB, stacks: true, dump: '%s', file: '%s/all.weir' }\n"
             "pools: { main: { max_size: 256MiB, on_oom: { steps: [flush] } } }\n",
             traced_directory, traced_directory);
}

static void empty_directory(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -f '%s'/*", traced_directory);
    ck_assert_int_eq(system(command), 0);
}

static void count_leak(void *data, const weir_leak *leak)
{
    *(uint64_t *)data += leak->blocks;
}

/* The figures of tags must add up whatever failed. */
static bool tags_are_zero(weir *w)
{
    weir_stats *stats;
    bool are_zero = true;
    if (weir_stats_take(w, NULL, &stats) != WEIR_OK)
        return true;
    for (size_t i = 0; i < weir_stats_tag_count(stats); i++)
        are_zero = are_zero && !weir_stats_tag(stats, i)->live && !weir_stats_tag(stats, i)->live_blocks;
    weir_stats_free(stats);
    return are_zero;
}

static bool use_blocks(weir *w, weir_stream *s)
{
    void *blocks[8] = { NULL }, *large;
    uint64_t leaks = 0, live = 0;
    bool is_right = true;
    weir_status tagged = weir_tag_push(w, "tag");
    for (size_t i = 0; i < 8; i++)
        live += weir_stream_malloc(s, &blocks[i], i < 4 ? 4096 : 8 * MIB) == WEIR_OK;
    is_right = weir_stream_malloc(s, &large, GIB) != WEIR_OK && is_right;
    is_right = (weir_leaks(w, -1, count_leak, &leaks, NULL) != WEIR_OK || leaks == live) && is_right;
    is_right = weir_mark(w, "a name of more than twenty-four bytes") == WEIR_OK && is_right;
    for (size_t i = 0; i < 8; i++)
        for (int tries = 0; blocks[i] && weir_stream_free(s, blocks[i]) != WEIR_OK && tries < 2; tries++)
            continue;
    if (tagged == WEIR_OK)
        is_right = weir_tag_pop(w, "tag") == WEIR_OK && is_right;
    return tags_are_zero(w) && is_right;
}

static bool scenario(void)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_stream *s;
    weir *w;
    options.policy_text = policy;
    if (weir_open(&options, NULL, &w) != WEIR_OK)
        return access(traced_file, F_OK) != 0;
    bool is_right = weir_stream_create(w, 0, "s", NULL, &s) != WEIR_OK || use_blocks(w, s);
    weir_close(w);
    return is_right;
}

START_TEST(allocation_that_fails_costs_no_figure_and_leaves_nothing)
{
    if (!fail_malloc_works())
        return; /* a sanitizer or valgrind has the allocator to itself */
    write_policy();
    for (int i = 0; i < 2; i++) {
        ck_assert(scenario());
        empty_directory();
    }
    int fds = suite_count_fds();
    long live = fail_malloc_live();
    for (unsigned nth = 1;; nth += suite_lone_stride()) {
        fail_malloc_at(nth);
        bool is_right = scenario();
        fail_malloc_at(0);
        ck_assert_msg(is_right, "a figure is wrong after allocation %u failed", nth);
        empty_directory();
        ck_assert_msg(fail_malloc_live() == live, "%ld blocks of host memory after allocation %u failed, %ld before", fail_malloc_live(),
                      nth, live);
        ck_assert_int_eq(suite_count_fds(), fds);
        if (!fail_malloc_happened()) {
            ck_assert_uint_gt(nth, 100);
            break;
        }
    }
}
END_TEST

static void *free_without_ring(void *data)
{
    void **block = data;
    fail_malloc_here_at(1);
    scene_free(block[0], block[1]);
    fail_malloc_here_at(0);
    return NULL;
}

START_TEST(cached_call_without_room_for_its_event_counts_as_lost)
{
    struct trace trace;
    pthread_t thread;
    if (!fail_malloc_works())
        return;
    write_policy();
    scene_open(policy);
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 4096)); /* the cache has room from now on */
    void *block[] = {s, scene_malloc(s, 4096)};
    ck_assert_int_eq(pthread_create(&thread, NULL, free_without_ring, block), 0);
    pthread_join(thread, NULL);
    ck_assert(fail_malloc_happened());
    scene_close();
    ck_assert_msg(trace_open(&trace, traced_file), "%s", trace.error);
    ck_assert_uint_eq(trace.losses.events, 1);
    trace_close(&trace);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    weir__unwind_prepare();
    Suite *suite = suite_create("record_failures");
    TCase *tcase = suite_case(suite, "record_failures", 300);
    tcase_add_checked_fixture(tcase, traced_begin, traced_end);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    suite_add(tcase, allocation_that_fails_costs_no_figure_and_leaves_nothing, cached_call_without_room_for_its_event_counts_as_lost);
    return suite_run(suite);
}
