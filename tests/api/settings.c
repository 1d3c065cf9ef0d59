/* SPDX-License-Identifier: MIT */
/* What Weir sets on CUDA's pools, and puts back: thresholds, the current pool, default pools, peers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* The release threshold ---------------------------------------------------------------------------------------------------------------- */

static uint64_t reserved_in_all(void)
{
    struct sim_census census;
    sim_census(&census);
    return census.reserved;
}

static uint64_t threshold_of(gpu_pool pool)
{
    return fixture_attribute(pool, GPU_POOL_RELEASE_THRESHOLD);
}

/* Takes a few blocks around the border of small and large, gives all back and synchronises. */
static void breathe(weir_stream *s, unsigned *seed)
{
    void *ptrs[200];
    size_t count = 0, large = (size_t)rand_r(seed) % 6;
    while (count < large)
        ptrs[count++] = fixture_malloc(s, MIB(1) + (size_t)rand_r(seed) % MIB(63));
    for (size_t small = (size_t)rand_r(seed) % 190; small > 0; small--)
        ptrs[count++] = fixture_malloc(s, 1 + (size_t)rand_r(seed) % (MIB(1) - 1));
    while (count > 0)
        ck_assert_int_eq(weir_stream_free(s, ptrs[--count]), WEIR_OK);
    fixture_synchronize(s);
}

static const unsigned shared_thresholds[] = { 32, 64, 128, 512 };

START_TEST(pool_and_twin_together_keep_at_most_the_threshold)
{
    char policy[128];
    unsigned seed = 17;
    uint64_t threshold = MIB(shared_thresholds[_i]);
    fixture_machine(NULL);
    snprintf(policy, sizeof policy, "weir: 1\npools: { a: { release_threshold: %uMiB, cache: off } }\n", shared_thresholds[_i]);
    weir *w = fixture_open(policy);
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (unsigned round = 0; round < 100; round++) {
        breathe(s, &seed);
        ck_assert_uint_le(reserved_in_all(), threshold);
        ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved, reserved_in_all());
        ck_assert_uint_le(threshold_of(weir_pool_handle(fixture_pool(w, "a", 0))) +
                              threshold_of(weir_pool_small_handle(fixture_pool(w, "a", 0))),
                          threshold);
    }
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* The share is looked at only now and then, but always where the twin must grow. */
START_TEST(twin_keeps_what_small_blocks_made_it_grow_to)
{
    void *ptrs[100];
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { release_threshold: 512MiB, cache: off } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (int i = 0; i < COUNT(ptrs); i++)
        ptrs[i] = fixture_malloc(s, MIB(1) - 1);
    for (int i = 0; i < COUNT(ptrs); i++)
        ck_assert_int_eq(weir_stream_free(s, ptrs[i]), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_uint_eq(fixture_attribute(weir_pool_small_handle(fixture_pool(w, "a", 0)), GPU_POOL_RESERVED), MIB(128));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(what_a_cache_holds_stays_whatever_the_threshold)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { release_threshold: none } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000)), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).cached, 1024);
    ck_assert_uint_eq(reserved_in_all(), MIB(32));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(threshold_is_kept_over_a_synchronise)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { release_threshold: 128MiB } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *small = fixture_malloc(s, 1000);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(256))), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, small), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_uint_eq(reserved_in_all(), MIB(128));
    weir_close(w);
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes, left;
} plain_thresholds[] = { { "none", 0, 0 }, { "all", UINT64_MAX, MIB(288) }, { "50%", MIB(512), MIB(288) } };

START_TEST(threshold_none_keeps_nothing_and_all_everything)
{
    char policy[128];
    fixture_machine(NULL);
    snprintf(policy, sizeof policy, "weir: 1\npools: { a: { release_threshold: %s, cache: off } }\n", plain_thresholds[_i].text);
    weir *w = fixture_open(policy);
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(256))), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000)), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, plain_thresholds[_i].bytes);
    ck_assert_uint_eq(reserved_in_all(), plain_thresholds[_i].left);
    weir_close(w);
}
END_TEST

START_TEST(threshold_can_be_changed_at_run_time)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { cache: off } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(256))), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000)), WEIR_OK);
    ck_assert_int_eq(weir_pool_set_release_threshold(pool, MIB(96), NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(96));
    fixture_synchronize(s);
    ck_assert_uint_eq(reserved_in_all(), MIB(96));
    ck_assert_int_eq(weir_pool_set_release_threshold(pool, 0, NULL), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_uint_eq(reserved_in_all(), 0);
    weir_close(w);
}
END_TEST

START_TEST(threshold_that_cuda_refuses_changes_nothing)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { release_threshold: 128MiB } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    weir_pool *pool = fixture_pool(w, "a", 0);
    fixture_malloc(s, 1000); /* the twin has a share now */
    uint64_t before = threshold_of(weir_pool_handle(pool)), small_before = threshold_of(weir_pool_small_handle(pool));
    sim_fail("pool_set", (unsigned)_i, GPU_UNKNOWN);
    ck_assert_int_eq(weir_pool_set_release_threshold(pool, UINT64_MAX, &error), WEIR_CUDA_ERROR);
    ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
    ck_assert_uint_eq(threshold_of(weir_pool_handle(pool)), before);
    ck_assert_uint_eq(threshold_of(weir_pool_small_handle(pool)), small_before);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).release_threshold, MIB(128));
    weir_close(w);
}
END_TEST

/* The current pool --------------------------------------------------------------------------------------------------------------------- */

static gpu_pool current_pool(int device)
{
    gpu_pool pool = NULL;
    ck_assert_int_eq(fixture_gpu()->pool_get_current(device, &pool), GPU_SUCCESS);
    return pool;
}

static gpu_pool default_pool(int device)
{
    gpu_pool pool = NULL;
    ck_assert_int_eq(fixture_gpu()->pool_get_default(device, &pool), GPU_SUCCESS);
    return pool;
}

static const char current_policy[] = "weir: 1\npools: { a: { current: true } }\n";

START_TEST(current_pool_is_ours_from_open_to_close)
{
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\ndefaults: { pool: b }\npools: { a: { current: true, devices: [1] }, b: {} }\n");
    ck_assert_ptr_eq(current_pool(0), default_pool(0));
    ck_assert_ptr_eq(current_pool(1), weir_pool_handle(fixture_pool(w, "a", 1)));
    weir_close(w);
    ck_assert_ptr_eq(current_pool(1), default_pool(1));
    fixture_expect_empty();
}
END_TEST

START_TEST(what_others_take_from_the_current_pool_is_slack)
{
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open(current_policy);
    ck_assert_int_eq(fixture_gpu()->malloc_async(&ptr, MIB(3), current_pool(0), NULL), GPU_SUCCESS);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.slack, MIB(3));
    ck_assert_uint_eq(figures.live, 0);
    ck_assert_int_eq(fixture_gpu()->free_async(ptr, NULL), GPU_SUCCESS);
    weir_close(w);
}
END_TEST

START_TEST(pool_that_the_program_made_current_meanwhile_stays)
{
    gpu_pool theirs;
    fixture_machine(NULL);
    const struct gpu *gpu = fixture_gpu();
    ck_assert_int_eq(gpu->pool_create(&(struct gpu_pool_spec){ .device = 0 }, &theirs), GPU_SUCCESS);
    weir *w = fixture_open(current_policy);
    ck_assert_int_eq(gpu->pool_set_current(0, theirs), GPU_SUCCESS);
    weir_close(w);
    ck_assert_ptr_eq(current_pool(0), theirs);
    ck_assert_int_eq(gpu->pool_destroy(theirs), GPU_SUCCESS);
}
END_TEST

START_TEST(pool_that_was_current_before_is_so_again)
{
    gpu_pool theirs;
    fixture_machine(NULL);
    const struct gpu *gpu = fixture_gpu();
    ck_assert_int_eq(gpu->pool_create(&(struct gpu_pool_spec){ .device = 0 }, &theirs), GPU_SUCCESS);
    ck_assert_int_eq(gpu->pool_set_current(0, theirs), GPU_SUCCESS);
    weir *w = fixture_open(current_policy);
    weir_close(w);
    ck_assert_ptr_eq(current_pool(0), theirs);
    ck_assert_int_eq(gpu->pool_destroy(theirs), GPU_SUCCESS);
}
END_TEST

static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

START_TEST(weirs_closed_in_any_order_leave_the_newest_one_current)
{
    weir *weirs[3];
    gpu_pool handles[3];
    fixture_machine(NULL);
    for (int i = 0; i < 3; i++) {
        weirs[i] = fixture_open(current_policy);
        handles[i] = weir_pool_handle(fixture_pool(weirs[i], "a", 0));
        ck_assert_ptr_eq(current_pool(0), handles[i]);
    }
    for (int i = 0; i < 3; i++) {
        int closed = orders[_i][i];
        weir_close(weirs[closed]);
        handles[closed] = NULL;
        gpu_pool newest = handles[2] ? handles[2] : handles[1] ? handles[1] : handles[0] ? handles[0] : default_pool(0);
        ck_assert_ptr_eq(current_pool(0), newest);
    }
    fixture_expect_empty();
}
END_TEST

/* Default pools ------------------------------------------------------------------------------------------------------------------------ */

static const char default_policy[] = "weir: 1\npools:\n  a:\n    backing: default\n    small_below: 0\n    release_threshold: 64MiB\n"
                                     "    reuse: { opportunistic: false }\n";

START_TEST(default_pool_is_configured_and_put_back)
{
    fixture_machine(NULL);
    weir *w = fixture_open(default_policy);
    gpu_pool pool = weir_pool_handle(fixture_pool(w, "a", 0));
    ck_assert_ptr_eq(pool, default_pool(0));
    ck_assert_uint_eq(threshold_of(pool), MIB(64));
    ck_assert_uint_eq(fixture_attribute(pool, GPU_POOL_REUSE_OPPORTUNISTIC), 0);
    weir_close(w);
    ck_assert_uint_eq(threshold_of(pool), 0);
    ck_assert_uint_eq(fixture_attribute(pool, GPU_POOL_REUSE_OPPORTUNISTIC), 1);
    ck_assert_ptr_eq(default_pool(0), pool);
    fixture_expect_empty();
}
END_TEST

START_TEST(setting_of_a_default_pool_that_the_program_changed_meanwhile_stays)
{
    fixture_machine(NULL);
    weir *w = fixture_open(default_policy);
    gpu_pool pool = default_pool(0);
    ck_assert_int_eq(fixture_gpu()->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, MIB(320)), GPU_SUCCESS);
    weir_close(w);
    ck_assert_uint_eq(threshold_of(pool), MIB(320));
    ck_assert_uint_eq(fixture_attribute(pool, GPU_POOL_REUSE_OPPORTUNISTIC), 1);
}
END_TEST

START_TEST(default_pool_can_have_a_twin)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { backing: default, release_threshold: 128MiB } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, 1000);
    ck_assert_uint_eq(fixture_attribute(default_pool(0), GPU_POOL_USED), 0);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
    ck_assert_uint_eq(threshold_of(default_pool(0)), 0);
    fixture_expect_empty();
}
END_TEST

START_TEST(default_pool_keeps_what_others_have_in_it)
{
    void *theirs;
    fixture_machine(NULL);
    const struct gpu *gpu = fixture_gpu();
    ck_assert_int_eq(gpu->malloc_async(&theirs, MIB(5), default_pool(0), NULL), GPU_SUCCESS);
    weir *w = fixture_open(default_policy);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).slack, MIB(5));
    weir_close(w);
    ck_assert_uint_eq(fixture_attribute(default_pool(0), GPU_POOL_USED), MIB(5));
    ck_assert_int_eq(gpu->free_async(theirs, NULL), GPU_SUCCESS);
}
END_TEST

/* Peers -------------------------------------------------------------------------------------------------------------------------------- */

static enum gpu_access access_of(gpu_pool pool, int device)
{
    enum gpu_access access = GPU_ACCESS_NONE;
    ck_assert_int_eq(fixture_gpu()->pool_get_access(pool, device, &access), GPU_SUCCESS);
    return access;
}

static void expect_access(const weir_pool *pool, int device, enum gpu_access access)
{
    ck_assert_int_eq(access_of(weir_pool_handle(pool), device), access);
    ck_assert_int_eq(access_of(weir_pool_small_handle(pool), device), access);
}

START_TEST(peers_named_get_access_to_pool_and_twin_and_others_none)
{
    fixture_machine("devices=4");
    weir *w = fixture_open("weir: 1\npools:\n  a:\n    devices: [0]\n"
                           "    peer_access: [1, GPU-00000000-0000-0000-0000-000000000003]\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    expect_access(pool, 1, GPU_ACCESS_READ_WRITE);
    expect_access(pool, 2, GPU_ACCESS_NONE);
    expect_access(pool, 3, GPU_ACCESS_READ_WRITE);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(peer_can_write_what_it_was_granted)
{
    unsigned char data = 0;
    fixture_machine("devices=2");
    const struct gpu *gpu = fixture_gpu();
    weir *w = fixture_open("weir: 1\npools: { a: { peer_access: all } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL), *peer = fixture_stream(w, 1, NULL);
    unsigned char *ptr = fixture_malloc(s, 1000);
    ck_assert_int_eq(gpu->set_async(ptr, 9, 1000, weir_stream_handle(peer)), GPU_SUCCESS);
    ck_assert_int_eq(gpu->copy_async(&data, ptr + 999, 1, weir_stream_handle(peer)), GPU_SUCCESS);
    fixture_synchronize(peer);
    ck_assert_int_eq(data, 9);
    ck_assert_int_eq(weir_stream_free(peer, ptr), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(all_peers_are_those_that_can_be_reached)
{
    fixture_machine("devices=4,peers=0-1+0-3");
    weir *w = fixture_open("weir: 1\npools: { a: { peer_access: all, devices: [0, 2] } }\n");
    expect_access(fixture_pool(w, "a", 0), 1, GPU_ACCESS_READ_WRITE);
    expect_access(fixture_pool(w, "a", 0), 2, GPU_ACCESS_NONE);
    expect_access(fixture_pool(w, "a", 0), 3, GPU_ACCESS_READ_WRITE);
    expect_access(fixture_pool(w, "a", 2), 0, GPU_ACCESS_NONE);
    weir_close(w);
}
END_TEST

START_TEST(access_is_asked_one_peer_at_a_time_and_never_for_the_owner)
{
    fixture_machine("devices=3");
    uint64_t before = sim_calls("pool_set_access");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: all, peer_access: [0, 1], small_below: 0 } }\n");
    ck_assert_uint_eq(sim_calls("pool_set_access") - before, 4); /* 0: 1; 1: 0; 2: 0 and 1 */
    weir_close(w);
}
END_TEST

START_TEST(access_is_withdrawn_before_the_pool_goes)
{
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { backing: default, devices: [0], peer_access: [1], small_below: 0 } }\n");
    ck_assert_int_eq(access_of(default_pool(0), 1), GPU_ACCESS_READ_WRITE);
    weir_close(w);
    ck_assert_int_eq(access_of(default_pool(0), 1), GPU_ACCESS_NONE);

    w = fixture_open("weir: 1\npools: { a: { devices: [0], peer_access: [1] } }\n");
    uint64_t before = sim_calls("pool_set_access");
    weir_close(w);
    ck_assert_uint_eq(sim_calls("pool_set_access") - before, 2); /* pool and twin */
}
END_TEST

START_TEST(peers_keep_access_to_blocks_that_live_on)
{
    unsigned char data = 0;
    gpu_stream stream;
    void *ptr;
    fixture_machine("devices=2");
    const struct gpu *gpu = fixture_gpu();
    ck_assert_int_eq(gpu->stream_create(1, &stream), GPU_SUCCESS);
    weir *w = fixture_open("weir: 1\npools: { a: { devices: [0], peer_access: [1], small_below: 0 } }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, 1000, 0, NULL), WEIR_OK);
    weir_close(w);
    ck_assert_int_eq(gpu->set_async(ptr, 9, 1000, stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->copy_async(&data, ptr, 1, stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_synchronize(stream), GPU_SUCCESS);
    ck_assert_int_eq(data, 9);
    ck_assert_int_eq(gpu->free_async(ptr, stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_synchronize(stream), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_destroy(stream), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

START_TEST(access_that_cuda_refuses_refuses_the_policy)
{
    fixture_machine("devices=2");
    sim_fail("pool_set_access", 2, GPU_PEER_ACCESS_UNSUPPORTED);
    weir_error error = fixture_refuse("weir: 1\npools: { a: { devices: [0], peer_access: [1] } }\n", WEIR_NOT_SUPPORTED);
    ck_assert_int_eq(error.cuda_code, GPU_PEER_ACCESS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "pools.a.peer_access"));
}
END_TEST

START_TEST(host_pool_has_peers_too)
{
    fixture_machine("devices=2,peers=none");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: [0], location: host, peer_access: [1] } }\n");
    expect_access(fixture_pool(w, "a", 0), 1, GPU_ACCESS_READ_WRITE);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *tcase = suite_case(suite, "threshold", 0);
    tcase_add_loop_test(tcase, pool_and_twin_together_keep_at_most_the_threshold, 0, COUNT(shared_thresholds));
    suite_add(tcase, twin_keeps_what_small_blocks_made_it_grow_to, what_a_cache_holds_stays_whatever_the_threshold,
              threshold_is_kept_over_a_synchronise);
    tcase_add_loop_test(tcase, threshold_none_keeps_nothing_and_all_everything, 0, COUNT(plain_thresholds));
    suite_add(tcase, threshold_can_be_changed_at_run_time);
    tcase_add_loop_test(tcase, threshold_that_cuda_refuses_changes_nothing, 1, 3);

    tcase = suite_case(suite, "current", 0);
    suite_add(tcase, current_pool_is_ours_from_open_to_close, what_others_take_from_the_current_pool_is_slack,
              pool_that_the_program_made_current_meanwhile_stays, pool_that_was_current_before_is_so_again);
    tcase_add_loop_test(tcase, weirs_closed_in_any_order_leave_the_newest_one_current, 0, COUNT(orders));

    tcase = suite_case(suite, "default", 0);
    suite_add(tcase, default_pool_is_configured_and_put_back, setting_of_a_default_pool_that_the_program_changed_meanwhile_stays,
              default_pool_can_have_a_twin, default_pool_keeps_what_others_have_in_it);

    tcase = suite_case(suite, "peers", 0);
    suite_add(tcase, peers_named_get_access_to_pool_and_twin_and_others_none, peer_can_write_what_it_was_granted,
              all_peers_are_those_that_can_be_reached, access_is_asked_one_peer_at_a_time_and_never_for_the_owner,
              access_is_withdrawn_before_the_pool_goes, peers_keep_access_to_blocks_that_live_on,
              access_that_cuda_refuses_refuses_the_policy, host_pool_has_peers_too);
    return suite_run(suite);
}
