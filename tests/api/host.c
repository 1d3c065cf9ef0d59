/* SPDX-License-Identifier: MIT */
/* What lib/attach.h has for hosts: one device of many, orphans, captures that only the host knows of, a cap, a list of all blocks. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/alloc/free.h"
#include "lib/alloc/orphans.h"
#include "lib/alloc/quiet.h"
#include "lib/gpu/clock.h"
#include "lib/pool/settings.h"
#include "share/open.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static weir *open_on(int device)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    options.policy_text = "weir: 1\npools: { a: { devices: all, small_below: 0 } }\n";
    options.gpu = "sim";
    ck_assert_msg(weir__open_on(&options, device, &error, &w) == WEIR_OK, "%s", error.text);
    return w;
}

/* One device --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(only_the_device_of_the_host_gets_pools)
{
    struct sim_census census;
    weir_pool *pool;
    void *ptr;
    fixture_machine("devices=3");
    weir *w = open_on(1);
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    ck_assert_int_eq(weir_pool_get(w, NULL, 1, NULL, &pool), WEIR_OK);
    ck_assert_int_eq(weir_pool_get(w, NULL, 0, NULL, &pool), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_malloc(w, &ptr, 512, 2, NULL), WEIR_NOT_FOUND);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(device_that_does_not_exist_is_not_found)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    fixture_machine("devices=2");
    options.policy_text = "weir: 1\npools: { a: {} }\n";
    options.gpu = "sim";
    ck_assert_int_eq(weir__open_on(&options, 2, &error, &w), WEIR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "no device 2"));
    ck_assert_ptr_null(w);
    fixture_expect_empty();
}
END_TEST

/* Orphans ------------------------------------------------------------------------------------------------------------------------------ */

static const uint64_t sizes[] = { 700, MIB(3) }; /* with a size class, and without */

START_TEST(orphan_is_live_no_more_and_goes_back_with_a_trim)
{
    uint64_t released = 0;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, sizes[_i]);
    uint64_t used = fixture_figures(w, "a", 0).used;
    ck_assert_int_eq(weir__block_orphan(w, ptr, NULL, 0, NULL), WEIR_OK);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, 0);
    ck_assert_uint_eq(figures.live_blocks, 0);
    ck_assert_uint_eq(figures.cached, used);
    ck_assert_uint_eq(figures.used, used);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_NOT_A_BLOCK);
    ck_assert_int_eq(weir_pool_trim(weir_stream_pool(s), 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, MIB(32));
    figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.used, 0);
    ck_assert_uint_eq(figures.cached, 0);
    ck_assert_uint_eq(figures.mallocs, figures.frees);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(orphan_serves_nobody_before_all_work_of_the_device_is_done)
{
    void *again;
    fixture_machine("memory=64MiB");
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0, on_oom: { deadline: 1ms } } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(40));
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), 10000000), GPU_SUCCESS);
    ck_assert_int_eq(weir__block_orphan(w, ptr, NULL, 0, NULL), WEIR_OK);
    ck_assert_int_eq(weir_stream_malloc(s, &again, MIB(40)), WEIR_OUT_OF_MEMORY);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(ladder_frees_orphans)
{
    fixture_machine("memory=64MiB");
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir__block_orphan(w, fixture_malloc(s, MIB(40)), NULL, 0, NULL), WEIR_OK);
    void *ptr = fixture_malloc(s, MIB(40));
    ck_assert_uint_eq(sim_calls("device_synchronize"), 0);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Each has work of 10 ms, and the block is used on both. */
START_TEST(orphan_of_two_streams_is_waited_for_by_a_trim)
{
    weir_stream *users[2];
    struct weir__line *lines[2];
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    for (int i = 0; i < 2; i++) {
        users[i] = fixture_stream(w, 0, NULL);
        lines[i] = users[i]->line;
    }
    void *ptr = fixture_malloc(users[0], sizes[_i]);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(users[i]), 10000000), GPU_SUCCESS);
    uint64_t before = fixture_gpu()->now();
    ck_assert_int_eq(weir__block_orphan(w, ptr, lines, 2, NULL), WEIR_OK);
    ck_assert_uint_eq(weir__orphans_bytes(&w->devices[0], NULL), fixture_figures(w, "a", 0).cached);
    ck_assert_int_eq(weir_pool_trim(weir_stream_pool(users[0]), 0, NULL, NULL), WEIR_OK);
    ck_assert_uint_ge(fixture_gpu()->now() - before, 10000000);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).used, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* The one whose work the block need not wait for: what it does with the block comes behind. */
START_TEST(orphan_serves_its_only_user_while_that_works)
{
    fixture_machine("memory=64MiB");
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0, on_oom: { deadline: 1ms } } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL), *other = fixture_stream(w, 0, NULL);
    struct weir__line *line = s->line;
    void *again, *ptr = fixture_malloc(s, MIB(40));
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), 10000000000), GPU_SUCCESS);
    ck_assert_int_eq(weir__block_orphan(w, ptr, &line, 1, NULL), WEIR_OK);
    ck_assert_int_eq(weir_stream_malloc(other, &again, MIB(40)), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(_i ? weir_malloc(w, &again, MIB(40), 0, weir_stream_handle(s)) : weir_stream_malloc(s, &again, MIB(40)), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, again), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(what_is_no_live_block_cannot_be_an_orphan)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    char *ptr = fixture_malloc(s, MIB(2));
    ck_assert_int_eq(weir__block_orphan(w, ptr + 512, NULL, 0, NULL), WEIR_NOT_A_BLOCK);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_int_eq(weir__block_orphan(w, ptr, NULL, 0, NULL), WEIR_NOT_A_BLOCK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(block_of_a_graph_cannot_be_an_orphan_and_stays)
{
    size_t nodes;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    gpu_stream handle = weir_stream_handle(s);
    ck_assert_int_eq(fixture_gpu()->capture_begin(handle, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    void *ptr = fixture_malloc(s, MIB(2));
    ck_assert_int_eq(weir__block_orphan(w, ptr, NULL, 0, NULL), WEIR_INVALID);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->capture_end(handle, &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 2);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Captures ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(device_is_not_looked_at_during_a_capture_of_the_host)
{
    uint64_t released = 0;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir__block_orphan(w, fixture_malloc(s, MIB(2)), NULL, 0, NULL), WEIR_OK);
    weir__captures_begin();
    ck_assert_int_eq(weir_pool_trim(weir_stream_pool(s), 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, 0);
    ck_assert_uint_eq(sim_calls("event_record_device"), 0);
    weir__captures_end();
    ck_assert_int_eq(weir_pool_trim(weir_stream_pool(s), 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, MIB(32));
    weir_close(w);
}
END_TEST

/* A capture of the host that begins before a request has to wait for orphans, and ends while it looks for memory. */
static void *capture_until_refused(void *data)
{
    atomic_bool *has_begun = data;
    uint64_t requests = sim_calls(NULL);
    weir__captures_begin();
    atomic_store(has_begun, true);
    while (sim_calls(NULL) == requests)
        sched_yield();
    weir__captures_end();
    return NULL;
}

START_TEST(request_waits_for_orphans_until_the_capture_of_another_thread_is_over)
{
    pthread_t thread;
    atomic_bool has_begun = false;
    char settings[64];
    snprintf(settings, sizeof settings, "memory=512MiB,name=capture-%d", (int)getpid());
    fixture_machine(settings);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0, on_oom: { deadline: 100s } } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir__block_orphan(w, fixture_malloc(s, MIB(500)), NULL, 0, NULL), WEIR_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, capture_until_refused, &has_begun), 0);
    while (!atomic_load(&has_begun))
        sched_yield();
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(400))), WEIR_OK);
    pthread_join(thread, NULL);
    weir_close(w);
    fixture_expect_empty();
    fixture_machine(NULL);
}
END_TEST

START_TEST(request_does_not_wait_for_the_end_of_its_own_threads_capture)
{
    void *ptr;
    fixture_machine("memory=512MiB");
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0, on_oom: { deadline: 100s } } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir__block_orphan(w, fixture_malloc(s, MIB(500)), NULL, 0, NULL), WEIR_OK);
    weir__captures_begin();
    uint64_t began = fixture_gpu()->now();
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB(400)), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_lt(fixture_gpu()->now() - began, GPU_SECOND);
    weir__captures_end();
    weir_stream_free(s, fixture_malloc(s, MIB(400)));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Two devices and many orphans -------------------------------------------------------------------------------------------------------- */

struct orphanage {
    weir *w;
    atomic_uint wrong;
    atomic_bool is_over;
};

/* Each thread has a stream on each device, and gives up blocks of the one that the other's work could use. */
static void *orphan_blocks(void *data)
{
    struct orphanage *orphanage = data;
    for (unsigned round = 0; round < 60; round++)
        for (int device = 0; device < 2; device++) {
            weir_stream *s;
            void *ptr;
            if (weir_stream_create(orphanage->w, device, NULL, NULL, &s) != WEIR_OK) {
                atomic_fetch_add(&orphanage->wrong, 1);
                continue;
            }
            if (weir_stream_malloc(s, &ptr, round % 2 ? MIB(24) : KIB(64)) == WEIR_OK)
                atomic_fetch_add(&orphanage->wrong, weir__block_orphan(orphanage->w, ptr, NULL, 0, NULL) != WEIR_OK);
            else
                atomic_fetch_add(&orphanage->wrong, 1);
            fixture_gpu()->delay(weir_stream_handle(s), 1000);
            weir_stream_close(s);
        }
    return NULL;
}

static void *trim_and_capture(void *data)
{
    struct orphanage *orphanage = data;
    while (!atomic_load(&orphanage->is_over))
        for (int device = 0; device < 2; device++) {
            weir__captures_begin();
            weir__captures_end();
            weir_pool_trim(fixture_pool(orphanage->w, "a", device), 0, NULL, NULL);
        }
    return NULL;
}

/* The orphans alone would fill the devices many times over. A request that waits for them must not use up its deadline while the thread that
   captures does not run, so the machine has a name: its clock passes by itself. */
START_TEST(orphans_of_many_threads_and_two_devices_all_go_back)
{
    struct orphanage orphanage = { .is_over = false };
    pthread_t threads[3], trimmer;
    char settings[64];
    snprintf(settings, sizeof settings, "devices=2,memory=512MiB,name=orphans-%d", (int)getpid());
    fixture_machine(settings);
    orphanage.w = fixture_open("weir: 1\npools: { a: { devices: all, small_below: 0, on_oom: { deadline: 100s } } }\n");
    ck_assert_int_eq(pthread_create(&trimmer, NULL, trim_and_capture, &orphanage), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, orphan_blocks, &orphanage), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&orphanage.is_over, true);
    pthread_join(trimmer, NULL);
    ck_assert_uint_eq(atomic_load(&orphanage.wrong), 0);
    for (int device = 0; device < 2; device++) {
        weir_pool_trim(fixture_pool(orphanage.w, "a", device), 0, NULL, NULL);
        ck_assert_uint_eq(fixture_figures(orphanage.w, "a", device).used, 0);
    }
    weir_close(orphanage.w);
    fixture_expect_empty();
    fixture_machine(NULL);
}
END_TEST

/* The cap ------------------------------------------------------------------------------------------------------------------------------ */

static uint64_t cap_of(weir *w)
{
    return fixture_figures(w, "a", 0).max_size;
}

START_TEST(lower_one_of_limit_and_max_size_counts)
{
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { max_size: 256MiB } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    weir__pool_set_limit(weir_stream_pool(s), MIB(512));
    ck_assert_uint_eq(cap_of(w), MIB(256));
    weir__pool_set_limit(weir_stream_pool(s), MIB(128));
    ck_assert_uint_eq(cap_of(w), MIB(128));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB(129)), WEIR_OUT_OF_MEMORY);
    fixture_malloc(s, MIB(96));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB(96)), WEIR_OUT_OF_MEMORY);
    weir__pool_set_limit(weir_stream_pool(s), 0);
    ck_assert_uint_eq(cap_of(w), MIB(256));
    fixture_malloc(s, MIB(96));
    weir_close(w);
}
END_TEST

START_TEST(limit_outlasts_a_change_of_the_policy)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { max_size: 256MiB } }\n");
    weir__pool_set_limit(fixture_pool(w, "a", 0), MIB(128));
    ck_assert_int_eq(weir__policy_set(w, "pools.a.max_size=192MiB", NULL), WEIR_OK);
    ck_assert_uint_eq(cap_of(w), MIB(128));
    weir__pool_set_limit(fixture_pool(w, "a", 0), 0);
    ck_assert_uint_eq(cap_of(w), MIB(192));
    weir_close(w);
}
END_TEST

/* All blocks --------------------------------------------------------------------------------------------------------------------------- */

struct sum {
    uint64_t count, bytes;
};

static void add(const void *ptr, uint64_t size, void *data)
{
    struct sum *sum = data;
    ck_assert_ptr_nonnull(ptr);
    sum->count++;
    sum->bytes += size;
}

START_TEST(each_live_block_of_the_device_is_told_once)
{
    struct sum sum = { 0 };
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL), *other = fixture_stream(w, 1, NULL);
    void *last = NULL;
    for (unsigned i = 1; i <= 100; i++)
        last = fixture_malloc(s, i * 1000);
    fixture_malloc(s, MIB(5));
    fixture_malloc(other, MIB(7));
    ck_assert_int_eq(weir_stream_free(s, last), WEIR_OK);
    weir__blocks_each(w, 0, add, &sum);
    ck_assert_uint_eq(sum.count, 100);
    ck_assert_uint_eq(sum.bytes, fixture_figures(w, "a", 0).live);
    weir_close(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host");
    TCase *tcase = suite_case(suite, "host", 60);
    suite_add(tcase, only_the_device_of_the_host_gets_pools, device_that_does_not_exist_is_not_found);
    tcase_add_loop_test(tcase, orphan_is_live_no_more_and_goes_back_with_a_trim, 0, 2);
    tcase_add_loop_test(tcase, orphan_of_two_streams_is_waited_for_by_a_trim, 0, 2);
    tcase_add_loop_test(tcase, orphan_serves_its_only_user_while_that_works, 0, 2);
    suite_add(tcase, orphan_serves_nobody_before_all_work_of_the_device_is_done, ladder_frees_orphans,
              what_is_no_live_block_cannot_be_an_orphan, block_of_a_graph_cannot_be_an_orphan_and_stays,
              device_is_not_looked_at_during_a_capture_of_the_host,
              request_waits_for_orphans_until_the_capture_of_another_thread_is_over,
              request_does_not_wait_for_the_end_of_its_own_threads_capture, orphans_of_many_threads_and_two_devices_all_go_back,
              lower_one_of_limit_and_max_size_counts, limit_outlasts_a_change_of_the_policy, each_live_block_of_the_device_is_told_once);
    return suite_run(suite);
}
