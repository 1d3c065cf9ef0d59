/* SPDX-License-Identifier: MIT */
/* Which pool serves a request, and what a pool keeps, gives back and refuses. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/fixture.h"
#include "tests/support/suite.h"

/* Which pools there are ---------------------------------------------------------------------------------------------------------------- */

START_TEST(pool_for_all_devices_is_one_on_each)
{
    weir_pool *pools[3];
    fixture_machine("devices=3");
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    for (int device = 0; device < 3; device++) {
        pools[device] = fixture_pool(w, "a", device);
        ck_assert_int_eq(weir_pool_device(pools[device]), device);
        ck_assert_str_eq(weir_pool_name(pools[device]), "a");
    }
    ck_assert_ptr_ne(pools[0], pools[1]);
    ck_assert_ptr_ne(weir_pool_handle(pools[1]), weir_pool_handle(pools[2]));
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 3);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

static const char *const on_device_1[] = { "[1]", "[GPU-00000000-0000-0000-0000-000000000001]",
                                           "[GPU-00000000-0000-0000-0000-000000000001, 1]",
                                           "[1, GPU-00000000-0000-0000-0000-000000000001]" };

START_TEST(pool_for_one_device_is_there_alone)
{
    char policy[256];
    weir_pool *pool = NULL;
    void *ptr;
    fixture_machine("devices=2");
    snprintf(policy, sizeof policy, "weir: 1\npools: { a: { small_below: 0, devices: %s } }\n", on_device_1[_i]);
    weir *w = fixture_open(policy);
    ck_assert_int_eq(weir_pool_device(fixture_pool(w, "a", 1)), 1);
    ck_assert_int_eq(weir_pool_get(w, "a", 0, NULL, &pool), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_malloc(w, &ptr, 1, 0, NULL), WEIR_NOT_FOUND);
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    weir_close(w);
}
END_TEST

START_TEST(pool_of_an_unknown_name_is_not_found)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool = NULL;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(weir_pool_get(w, "b", 0, &error, &pool), WEIR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "'b'"));
    ck_assert_ptr_null(pool);
    weir_close(w);
}
END_TEST

START_TEST(pool_without_a_name_is_the_default_one)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\ndefaults: { pool: b }\npools: { a: {}, b: {} }\n");
    ck_assert_str_eq(weir_pool_name(fixture_pool(w, NULL, 0)), "b");
    weir_close(w);
}
END_TEST

START_TEST(snapshot_lists_every_pool_and_device_once)
{
    weir_stats *stats;
    fixture_machine("devices=3");
    weir *w = fixture_open("weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0, 2] }, b: { devices: [2], ipc: posix_fd } }\n");
    ck_assert_int_eq(weir_stats_take(w, NULL, &stats), WEIR_OK);
    ck_assert_uint_eq(weir_stats_pool_count(stats), 3);
    ck_assert_uint_eq(weir_stats_device_count(stats), 2);
    ck_assert_int_eq(weir_stats_device(stats, 0)->device, 0);
    ck_assert_int_eq(weir_stats_device(stats, 1)->device, 2);
    ck_assert_uint_eq(weir_stats_device(stats, 1)->memory, GIB(1));
    ck_assert_str_eq(weir_stats_pool(stats, 2)->name, "b");
    ck_assert_int_eq(weir_stats_pool(stats, 2)->is_exportable, 1);
    ck_assert_ptr_null(weir_stats_pool(stats, 3));
    ck_assert_ptr_null(weir_stats_device(stats, 2));
    weir_close(w);
    ck_assert_str_eq(weir_stats_pool(stats, 0)->name, "a"); /* a snapshot borrows nothing */
    weir_stats_free(stats);
}
END_TEST

/* The small twin ----------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *small_below;
    size_t size;
    bool is_small;
} twins[] = {
    { "1MiB", (1 << 20) - 1, true }, { "1MiB", 1 << 20, false }, { "1MiB", 1, true },
    { "4096", 4095, true },          { "4096", 4096, false },    { "0", 1, false },
};

START_TEST(request_smaller_than_small_below_lives_in_the_twin)
{
    char policy[128];
    fixture_machine(NULL);
    snprintf(policy, sizeof policy, "weir: 1\npools: { a: { small_below: %s, cache: off } }\n", twins[_i].small_below);
    weir *w = fixture_open(policy);
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, twins[_i].size);
    gpu_pool twin = weir_pool_small_handle(pool);
    ck_assert_int_eq(twin != NULL, strcmp(twins[_i].small_below, "0") != 0);
    if (twin)
        ck_assert_int_eq(fixture_attribute(twin, GPU_POOL_USED) > 0, twins[_i].is_small);
    ck_assert_int_eq(fixture_attribute(weir_pool_handle(pool), GPU_POOL_USED) > 0, !twins[_i].is_small);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live, twins[_i].size);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(request_below_small_below_whose_size_class_reaches_it_lives_in_the_twin)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 1MiB } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, MIB(1) - KIB(64)); /* a class of its own, the last one below */
    ck_assert_uint_eq(fixture_attribute(weir_pool_small_handle(pool), GPU_POOL_USED), MIB(1) - KIB(64));
    fixture_malloc(s, MIB(1) - KIB(64) + 1);
    ck_assert_uint_eq(fixture_attribute(weir_pool_small_handle(pool), GPU_POOL_USED), 2 * MIB(1) - KIB(64));
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(pool), GPU_POOL_USED), 0);
    weir_close(w);
}
END_TEST

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(size_0_gives_null_and_calls_nothing)
{
    void *ptr = &ptr;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    uint64_t calls = sim_calls("malloc_async");
    ck_assert_int_eq(weir_malloc(w, &ptr, 0, 0, NULL), WEIR_OK);
    ck_assert_ptr_null(ptr);
    ptr = &ptr;
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 0), WEIR_OK);
    ck_assert_ptr_null(ptr);
    ptr = &ptr;
    ck_assert_int_eq(weir_pool_malloc(fixture_pool(w, NULL, 0), &ptr, 0, NULL), WEIR_OK);
    ck_assert_ptr_null(ptr);
    ck_assert_uint_eq(sim_calls("malloc_async"), calls);
    weir_close(w);
}
END_TEST

START_TEST(freeing_null_does_nothing)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    uint64_t calls = sim_calls(NULL);
    ck_assert_int_eq(weir_free(w, NULL, NULL), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, NULL), WEIR_OK);
    ck_assert_uint_eq(sim_calls(NULL), calls);
    weir_close(w);
}
END_TEST

static void expect_not_a_block(weir *w, void *ptr)
{
    weir_error error;
    uint64_t calls = sim_calls(NULL);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_NOT_A_BLOCK);
    ck_assert_uint_eq(sim_calls(NULL), calls);
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_NOT_A_BLOCK);
}

START_TEST(double_free_is_refused_without_calling_cuda)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, 1000);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    expect_not_a_block(w, ptr);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_NOT_A_BLOCK);
    weir_close(w);
}
END_TEST

START_TEST(pointer_into_a_block_is_refused_and_harms_nothing)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    char *ptr = fixture_malloc(s, 1000);
    expect_not_a_block(w, ptr + 1);
    expect_not_a_block(w, ptr + 512);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
}
END_TEST

START_TEST(foreign_pointer_is_refused_without_calling_cuda)
{
    int local;
    void *theirs;
    gpu_pool pool;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(fixture_gpu()->pool_get_default(0, &pool), GPU_SUCCESS);
    ck_assert_int_eq(fixture_gpu()->malloc_async(&theirs, 1000, pool, NULL), GPU_SUCCESS);
    expect_not_a_block(w, &local);
    expect_not_a_block(w, theirs);
    ck_assert_int_eq(fixture_gpu()->free_async(theirs, NULL), GPU_SUCCESS);
    weir_close(w);
}
END_TEST

START_TEST(block_of_another_weir_is_refused)
{
    void *ptr;
    fixture_machine(NULL);
    weir *a = fixture_open("weir: 1\npools: { a: {} }\n");
    weir *b = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_int_eq(weir_malloc(a, &ptr, 1000, 0, NULL), WEIR_OK);
    expect_not_a_block(b, ptr);
    ck_assert_int_eq(weir_free(a, ptr, NULL), WEIR_OK);
    weir_close(a);
    weir_close(b);
}
END_TEST

START_TEST(block_that_cuda_refuses_to_free_stays_live)
{
    weir_error error;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { cache: off } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, 1000);
    sim_fail("free_async", 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_CUDA_ERROR);
    weir_last_error(&error);
    ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_blocks, 1);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_blocks, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(block_freed_behind_our_back_is_logged_and_counted_once_its_address_returns)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, 1000);
    ck_assert_int_eq(fixture_gpu()->free_async(ptr, weir_stream_handle(s)), GPU_SUCCESS);
    ck_assert_ptr_eq(fixture_malloc(s, 1000), ptr);
    ck_assert_ptr_nonnull(strstr(fixture_log(), "freed without Weir"));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_blocks, 1);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live, 1000);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live, 0);
    weir_close(w);
}
END_TEST

START_TEST(block_is_aligned_to_512_bytes)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (size_t size = 1; size < 5000; size += 333)
        ck_assert_uint_eq((uintptr_t)fixture_malloc(s, size) % 512, 0);
    weir_close(w);
}
END_TEST

START_TEST(legacy_stream_means_that_of_the_memorys_device)
{
    void *ptr;
    int current;
    fixture_machine("devices=2");
    const struct gpu *gpu = fixture_gpu();
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0, release_threshold: none } }\n");
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(32), 1, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    ck_assert_int_eq(gpu->get_current_device(&current), GPU_SUCCESS);
    ck_assert_int_eq(current, 0);
    /* Had the free gone to device 0's stream, this would give the memory back. */
    ck_assert_int_eq(gpu->stream_synchronize(NULL), GPU_SUCCESS);
    ck_assert_uint_eq(fixture_figures(w, "a", 1).reserved, MIB(32));
    ck_assert_int_eq(gpu->set_current_device(1), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_synchronize(NULL), GPU_SUCCESS);
    ck_assert_uint_eq(fixture_figures(w, "a", 1).reserved, 0);
    ck_assert_int_eq(gpu->set_current_device(0), GPU_SUCCESS);
    weir_close(w);
}
END_TEST

/* Size at open ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(initial_size_is_reserved_at_open)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { initial_size: 256MiB } }\n");
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.reserved, MIB(256));
    ck_assert_uint_eq(figures.idle, MIB(256));
    ck_assert_uint_eq(figures.mallocs, 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, MIB(256));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved, MIB(256));
    weir_close(w);
}
END_TEST

START_TEST(initial_size_in_percent_is_of_the_devices_memory)
{
    fixture_machine("memory=2GiB");
    weir *w = fixture_open("weir: 1\npools: { a: { initial_size: 25%, release_threshold: 50%, max_size: 50% } }\n");
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.reserved, MIB(512));
    ck_assert_uint_eq(figures.release_threshold, GIB(1));
    ck_assert_uint_eq(figures.max_size, GIB(1));
    weir_close(w);
}
END_TEST

START_TEST(initial_size_up_to_threshold_and_cap_is_kept)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { initial_size: 256MiB, release_threshold: 256MiB, max_size: 256MiB } }\n");
    ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved, MIB(256));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Trim --------------------------------------------------------------------------------------------------------------------------------- */

/* A pool with 256 MiB, and a twin with 64 MiB, all idle and seen. */
static weir *open_idle(const char *policy, weir_stream **s)
{
    void *ptrs[65];
    weir *w = fixture_open(policy);
    *s = fixture_stream(w, 0, NULL);
    for (size_t i = 0; i < 64; i++)
        ptrs[i] = fixture_malloc(*s, MIB(1) - 512 * (i == 63));
    ptrs[64] = fixture_malloc(*s, MIB(256));
    for (size_t i = 0; i < 65; i++)
        ck_assert_int_eq(weir_stream_free(*s, ptrs[i]), WEIR_OK);
    fixture_synchronize(*s);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).idle, MIB(320));
    return w;
}

static const struct {
    uint64_t keep, left;
} trims[] = {
    { 0, 0 }, { MIB(32), MIB(32) }, { MIB(64), MIB(64) }, { MIB(128), MIB(128) }, { MIB(320), MIB(320) }, { UINT64_MAX, MIB(320) },
};

START_TEST(trim_leaves_keep_in_pool_and_twin_together)
{
    uint64_t released = 1;
    weir_stream *s;
    fixture_machine(NULL);
    weir *w = open_idle("weir: 1\npools: { a: { small_below: 2MiB, cache: off } }\n", &s);
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), trims[_i].keep, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved, trims[_i].left);
    ck_assert_uint_eq(released, MIB(320) - trims[_i].left);
    weir_close(w);
}
END_TEST

START_TEST(trim_counts_what_caches_held_as_idle)
{
    uint64_t released = 1;
    void *ptrs[40];
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 2MiB } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (size_t i = 0; i < 40; i++)
        ptrs[i] = fixture_malloc(s, MIB(1));
    for (size_t i = 0; i < 40; i++)
        ck_assert_int_eq(weir_stream_free(s, ptrs[i]), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).cached, MIB(40));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).idle, MIB(24));
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), MIB(32), NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, MIB(32));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).cached, 0);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).idle, MIB(32));
    weir_close(w);
}
END_TEST

START_TEST(trim_takes_no_live_memory)
{
    unsigned char data[16] = { 0 };
    weir_stream *s;
    fixture_machine(NULL);
    weir *w = open_idle("weir: 1\npools: { a: { small_below: 2MiB, cache: off } }\n", &s);
    void *ptr = fixture_malloc(s, MIB(64));
    ck_assert_int_eq(fixture_gpu()->set_async(ptr, 7, MIB(64), weir_stream_handle(s)), GPU_SUCCESS);
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), 0, NULL, NULL), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->copy_async(data, (char *)ptr + MIB(64) - 16, 16, weir_stream_handle(s)), GPU_SUCCESS);
    fixture_synchronize(s);
    ck_assert_int_eq(data[15], 7);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved, MIB(64));
    weir_close(w);
}
END_TEST

START_TEST(trim_gives_nothing_back_before_the_free_is_complete)
{
    uint64_t released = 1;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(64));
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), 1000000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, 0);
    fixture_gpu()->pause(1000000000);
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, MIB(64));
    weir_close(w);
}
END_TEST

START_TEST(trim_that_cuda_refuses_reports_it)
{
    weir_error error = WEIR_ERROR_INIT;
    uint64_t released = 42;
    weir_stream *s;
    fixture_machine(NULL);
    weir *w = open_idle("weir: 1\npools: { a: { small_below: 2MiB, cache: off } }\n", &s);
    sim_fail("pool_trim", 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_pool_trim(fixture_pool(w, "a", 0), 0, &error, &released), WEIR_CUDA_ERROR);
    ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
    ck_assert_uint_eq(released, 42);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* The cap ------------------------------------------------------------------------------------------------------------------------------ */

/* Machines with a driver that enforces a cap and one that does not, with and without a twin. */
static const struct {
    const char *machine, *policy;
} caps[] = {
    { NULL, "weir: 1\npools: { a: { max_size: 256MiB, small_below: 0 } }\n" },
    { NULL, "weir: 1\npools: { a: { max_size: 256MiB, small_below: 2MiB } }\n" },
    { "driver=12.0", "weir: 1\npools: { a: { max_size: 256MiB, small_below: 0 } }\n" },
    { "driver=12.0", "weir: 1\npools: { a: { max_size: 256MiB, small_below: 2MiB } }\n" },
};

START_TEST(requests_up_to_the_cap_are_served_and_no_more)
{
    void *ptrs[256], *more = NULL;
    fixture_machine(caps[_i].machine);
    weir *w = fixture_open(caps[_i].policy);
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (size_t i = 0; i < 128; i++)
        ptrs[i] = fixture_malloc(s, MIB(1));
    void *rest = fixture_malloc(s, MIB(128));
    ck_assert_int_eq(weir_stream_malloc(s, &more, 1), WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_null(more);
    ck_assert_uint_le(fixture_figures(w, "a", 0).reserved, MIB(256));
    ck_assert_uint_eq(fixture_figures(w, "a", 0).failures, 1);
    ck_assert_int_eq(weir_stream_free(s, rest), WEIR_OK);
    more = fixture_malloc(s, MIB(64));
    ck_assert_int_eq(weir_stream_free(s, more), WEIR_OK);
    for (size_t i = 0; i < 128; i++)
        ck_assert_int_eq(weir_stream_free(s, ptrs[i]), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(reserved_memory_never_stays_above_the_cap)
{
    void *ptr = NULL;
    fixture_machine(caps[_i].machine);
    weir *w = fixture_open(caps[_i].policy);
    weir_stream *s = fixture_stream(w, 0, NULL);
    /* 7 × 33 MiB need 7 × 64 MiB if each grows the pool by whole steps; whatever is refused, the cap holds. */
    for (unsigned i = 0; i < 10; i++) {
        weir_status status = weir_stream_malloc(s, &ptr, MIB(33));
        ck_assert(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY);
        ck_assert_uint_le(fixture_figures(w, "a", 0).reserved, MIB(256));
    }
    weir_close(w);
}
END_TEST

START_TEST(refusal_at_the_cap_spoils_no_later_request_that_fits)
{
    void *ptr = NULL;
    fixture_machine("driver=12.0");
    weir *w = fixture_open("weir: 1\npools: { a: { max_size: 100MiB, small_below: 0, on_oom: { steps: [] } } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *first = fixture_malloc(s, MIB(64));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB(34)), WEIR_OUT_OF_MEMORY); /* would reserve 128 MiB */
    ck_assert_int_eq(weir_stream_free(s, first), WEIR_OK);
    fixture_synchronize(s);
    ptr = fixture_malloc(s, MIB(32));
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Other places, other settings --------------------------------------------------------------------------------------------------------- */

static const char *const host_locations[] = { "host", "host_numa:0" };

START_TEST(host_pool_takes_nothing_from_the_device)
{
    char policy[128];
    uint64_t free_bytes, total;
    fixture_machine("memory=1GiB");
    snprintf(policy, sizeof policy, "weir: 1\npools: { a: { location: %s, initial_size: 64MiB } }\n", host_locations[_i]);
    weir *w = fixture_open(policy);
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(256));
    ck_assert_int_eq(fixture_gpu()->device_memory(0, &free_bytes, &total), GPU_SUCCESS);
    ck_assert_uint_eq(free_bytes, total);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live, MIB(256));
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(host_node_that_does_not_exist_is_refused)
{
    fixture_machine("numa=1");
    weir_error error = fixture_refuse("weir: 1\npools:\n  a:\n    location: host_numa:7\n", WEIR_CUDA_ERROR);
    ck_assert_ptr_nonnull(strstr(error.text, "pool 'a'"));
}
END_TEST

START_TEST(reuse_settings_reach_pool_and_twin)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools:\n  a:\n    reuse: { event_dependencies: false, opportunistic: false }\n");
    gpu_pool handles[] = { weir_pool_handle(fixture_pool(w, "a", 0)), weir_pool_small_handle(fixture_pool(w, "a", 0)) };
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(fixture_attribute(handles[i], GPU_POOL_REUSE_EVENT_DEPENDENCIES), 0);
        ck_assert_uint_eq(fixture_attribute(handles[i], GPU_POOL_REUSE_OPPORTUNISTIC), 0);
        ck_assert_uint_eq(fixture_attribute(handles[i], GPU_POOL_REUSE_INTERNAL_DEPENDENCIES), 1);
    }
    weir_close(w);
}
END_TEST

START_TEST(exportable_pool_has_a_descriptor_and_no_twin)
{
    int fd = -1;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { ipc: posix_fd } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_int_eq(fixture_figures(w, "a", 0).is_exportable, 1);
    ck_assert_ptr_null(weir_pool_small_handle(pool));
    ck_assert_int_eq(fixture_gpu()->pool_export(weir_pool_handle(pool), &fd), GPU_SUCCESS);
    close(fd);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(exportable_pool_has_figures_like_any_other)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { ipc: posix_fd } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(100));
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.used, MIB(100));
    ck_assert_uint_eq(figures.reserved, MIB(128));
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.used, 0);
    ck_assert_uint_eq(figures.idle, MIB(128));
    fixture_synchronize(s);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).reserved, 0);
    weir_close(w);
}
END_TEST

START_TEST(exportable_pool_gives_back_at_trim_and_says_how_much)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { ipc: posix_fd } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    uint64_t released = 0;
    ck_assert_int_eq(fixture_gpu()->pool_set(weir_pool_handle(pool), GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(100))), WEIR_OK);
    fixture_synchronize(s);
    ck_assert_int_eq(weir_pool_trim(pool, 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(released, MIB(128));
    weir_close(w);
}
END_TEST

START_TEST(threshold_of_an_exportable_pool_cannot_be_set)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { ipc: posix_fd } }\n");
    ck_assert_int_eq(weir_pool_set_release_threshold(fixture_pool(w, "a", 0), 0, &error), WEIR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "pool 'a' is exportable: memory of blocks that were exported never goes back"));
    weir_close(w);
}
END_TEST

START_TEST(figures_of_an_old_driver_count_what_weir_gave_out)
{
    fixture_machine("driver=11.2");
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, 1000);
    fixture_malloc(s, MIB(3));
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, MIB(3) + 1000);
    ck_assert_uint_eq(figures.reserved, MIB(3) + 1000);
    weir_close(w);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void add_blocks(Suite *suite)
{
    TCase *tcase = suite_case(suite, "blocks", 0);
    tcase_add_loop_test(tcase, request_smaller_than_small_below_lives_in_the_twin, 0, COUNT(twins));
    suite_add(tcase, request_below_small_below_whose_size_class_reaches_it_lives_in_the_twin, size_0_gives_null_and_calls_nothing,
              freeing_null_does_nothing, double_free_is_refused_without_calling_cuda, pointer_into_a_block_is_refused_and_harms_nothing,
              foreign_pointer_is_refused_without_calling_cuda, block_of_another_weir_is_refused, block_that_cuda_refuses_to_free_stays_live,
              block_freed_behind_our_back_is_logged_and_counted_once_its_address_returns, block_is_aligned_to_512_bytes,
              legacy_stream_means_that_of_the_memorys_device);
}

int main(void)
{
    Suite *suite = suite_create("pools");
    TCase *tcase = suite_case(suite, "lookup", 0);
    suite_add(tcase, pool_for_all_devices_is_one_on_each);
    tcase_add_loop_test(tcase, pool_for_one_device_is_there_alone, 0, COUNT(on_device_1));
    suite_add(tcase, pool_of_an_unknown_name_is_not_found, pool_without_a_name_is_the_default_one,
              snapshot_lists_every_pool_and_device_once);
    add_blocks(suite);

    tcase = suite_case(suite, "size", 0);
    suite_add(tcase, initial_size_is_reserved_at_open, initial_size_in_percent_is_of_the_devices_memory,
              initial_size_up_to_threshold_and_cap_is_kept);
    tcase_add_loop_test(tcase, trim_leaves_keep_in_pool_and_twin_together, 0, COUNT(trims));
    suite_add(tcase, trim_counts_what_caches_held_as_idle, trim_takes_no_live_memory, trim_gives_nothing_back_before_the_free_is_complete,
              trim_that_cuda_refuses_reports_it);
    tcase_add_loop_test(tcase, requests_up_to_the_cap_are_served_and_no_more, 0, COUNT(caps));
    tcase_add_loop_test(tcase, reserved_memory_never_stays_above_the_cap, 0, COUNT(caps));
    suite_add(tcase, refusal_at_the_cap_spoils_no_later_request_that_fits);

    tcase = suite_case(suite, "settings", 0);
    tcase_add_loop_test(tcase, host_pool_takes_nothing_from_the_device, 0, COUNT(host_locations));
    suite_add(tcase, host_node_that_does_not_exist_is_refused, reuse_settings_reach_pool_and_twin,
              exportable_pool_has_a_descriptor_and_no_twin, exportable_pool_has_figures_like_any_other,
              exportable_pool_gives_back_at_trim_and_says_how_much, threshold_of_an_exportable_pool_cannot_be_set,
              figures_of_an_old_driver_count_what_weir_gave_out);
    return suite_run(suite);
}
