/* SPDX-License-Identifier: MIT */
/* Opened streams: whose pool serves them, how raw handles find them, what private pools live for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/fixture.h"
#include "tests/support/suite.h"

static const char two_pools[] = "weir: 1\ndefaults: { pool: a }\npools: { a: {}, b: {} }\nstreams: { decode: { pool: b } }\n";

static const char own_pools[] =
    "weir: 1\npools: { a: { small_below: 0 } }\nstreams: { infer: { pool: a, private: true } }\n";

static gpu_stream new_stream(int device)
{
    gpu_stream stream = NULL;
    ck_assert_int_eq(fixture_gpu()->stream_create(device, &stream), GPU_SUCCESS);
    return stream;
}

static weir_stream *open_handle(weir *w, int device, gpu_stream handle, const char *name)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    ck_assert_msg(weir_stream_open(w, device, handle, name, &error, &s) == WEIR_OK, "%s", error.text);
    return s;
}

/* How many pools there are on the machine. */
static size_t pools_now(void)
{
    struct sim_census census;
    sim_census(&census);
    return census.pools;
}

/* Which of the pools a and b serves a raw handle. */
static const char *server_of(weir *w, int device, gpu_stream handle)
{
    void *ptr;
    uint64_t before = fixture_figures(w, "b", device).mallocs;
    ck_assert_int_eq(weir_malloc(w, &ptr, 1000, device, handle), WEIR_OK);
    bool is_b = fixture_figures(w, "b", device).mallocs > before;
    ck_assert_int_eq(weir_free(w, ptr, handle), WEIR_OK);
    return is_b ? "b" : "a";
}

/* Routing ------------------------------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *pool;
} routes[] = { { "decode", "b" }, { NULL, "a" }, { "unheard-of", "a" }, { "", "a" } };

START_TEST(stream_is_served_by_the_pool_of_its_name)
{
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, routes[_i].name);
    ck_assert_str_eq(weir_pool_name(weir_stream_pool(s)), routes[_i].pool);
    void *ptr = fixture_malloc(s, 1000);
    ck_assert_uint_eq(fixture_figures(w, routes[_i].pool, 0).live, 1000);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_str_eq(server_of(w, 0, weir_stream_handle(s)), routes[_i].pool);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(raw_handle_of_an_opened_stream_finds_its_pool_until_close)
{
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    gpu_stream handle = new_stream(0);
    ck_assert_str_eq(server_of(w, 0, handle), "a");
    weir_stream *s = open_handle(w, 0, handle, "decode");
    ck_assert_ptr_eq(weir_stream_handle(s), handle);
    ck_assert_int_eq(weir_stream_device(s), 0);
    ck_assert_str_eq(server_of(w, 0, handle), "b");
    weir_stream_close(s);
    ck_assert_str_eq(server_of(w, 0, handle), "a");
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(recycled_handle_is_another_stream)
{
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    gpu_stream handle = new_stream(0);
    weir_stream *s = open_handle(w, 0, handle, "decode");
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    gpu_stream again = new_stream(0);
    ck_assert_ptr_eq(again, handle); /* as CUDA does */
    ck_assert_str_eq(server_of(w, 0, again), "a");
    weir_stream *second = open_handle(w, 0, again, "decode");
    ck_assert_str_eq(server_of(w, 0, again), "b");
    weir_stream_close(s);
    weir_stream_close(second);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(again), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(raw_handle_without_an_id_proves_nothing)
{
    fixture_machine("driver=11.8");
    weir *w = fixture_open(two_pools);
    gpu_stream handle = new_stream(0);
    weir_stream *s = open_handle(w, 0, handle, "decode");
    ck_assert_str_eq(server_of(w, 0, handle), "a");
    fixture_malloc(s, 1000);
    ck_assert_uint_eq(fixture_figures(w, "b", 0).live, 1000);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
}
END_TEST

START_TEST(legacy_stream_of_each_device_is_a_stream_of_its_own)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    fixture_machine("devices=2");
    weir *w = fixture_open(two_pools);
    open_handle(w, 1, NULL, "decode");
    ck_assert_str_eq(server_of(w, 1, NULL), "b");
    ck_assert_str_eq(server_of(w, 1, GPU_STREAM_LEGACY), "b");
    ck_assert_str_eq(server_of(w, 0, NULL), "a");
    ck_assert_int_eq(weir_stream_open(w, 1, GPU_STREAM_LEGACY, NULL, &error, &s), WEIR_BUSY);
    open_handle(w, 0, GPU_STREAM_LEGACY, "decode");
    ck_assert_str_eq(server_of(w, 0, NULL), "b");
    weir_close(w);
}
END_TEST

START_TEST(per_thread_stream_is_refused_but_served)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    ck_assert_int_eq(weir_stream_open(w, 0, GPU_STREAM_PER_THREAD, "decode", &error, &s), WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "per-thread"));
    ck_assert_str_eq(server_of(w, 0, GPU_STREAM_PER_THREAD), "a");
    weir_close(w);
}
END_TEST

START_TEST(stream_open_already_is_busy)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    fixture_machine(NULL);
    gpu_stream handle = new_stream(0);
    weir *w = fixture_open(own_pools);
    open_handle(w, 0, handle, "infer");
    size_t pools = pools_now();
    ck_assert_int_eq(weir_stream_open(w, 0, handle, "infer", &error, &s), WEIR_BUSY);
    ck_assert_int_eq(error.status, WEIR_BUSY);
    ck_assert_ptr_null(s);
    ck_assert_uint_eq(pools_now(), pools);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

/* With ids of streams, and without. */
START_TEST(legacy_stream_is_busy_by_either_name)
{
    static const char *const drivers[] = { "driver=13.0", "driver=11.8" };
    static const gpu_stream names[] = { NULL, GPU_STREAM_LEGACY };
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    fixture_machine(drivers[_i / 4]);
    weir *w = fixture_open(two_pools);
    open_handle(w, 0, names[_i / 2 % 2], NULL);
    ck_assert_int_eq(weir_stream_open(w, 0, names[_i % 2], NULL, &error, &s), WEIR_BUSY);
    ck_assert_ptr_null(s);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(stream_can_be_open_in_two_weirs)
{
    fixture_machine(NULL);
    gpu_stream handle = new_stream(0);
    weir *a = fixture_open(two_pools), *b = fixture_open(two_pools);
    open_handle(a, 0, handle, "decode");
    open_handle(b, 0, handle, NULL);
    ck_assert_str_eq(server_of(a, 0, handle), "b");
    ck_assert_str_eq(server_of(b, 0, handle), "a");
    weir_close(a);
    weir_close(b);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
}
END_TEST

/* Which streams can be opened ----------------------------------------------------------------------------------------------------------- */

/* One that was destroyed crashes CUDA. */
START_TEST(handle_of_no_stream_cannot_be_opened)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    char no_stream;
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    ck_assert_int_eq(weir_stream_open(w, 0, (gpu_stream)(void *)&no_stream, NULL, &error, &s), WEIR_CUDA_ERROR);
    ck_assert_int_eq(error.cuda_code, GPU_INVALID_HANDLE);
    ck_assert_ptr_null(s);
    weir_close(w);
}
END_TEST

/* CUDA's id says which stream it is; its events are of one device. */
START_TEST(stream_can_be_opened_for_its_own_device_only)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s, *other = NULL;
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: all } }\n");
    gpu_stream raw;
    ck_assert_int_eq(fixture_gpu()->stream_create(1, &raw), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_create(w, 0, NULL, NULL, &s), WEIR_OK);
    ck_assert_int_eq(weir_stream_open(w, 1, weir_stream_handle(s), NULL, &error, &other), WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "of device 0, not of device 1"));
    error = (weir_error)WEIR_ERROR_INIT;
    ck_assert_int_eq(weir_stream_open(w, 0, raw, NULL, &error, &other), WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "of device 1, not of device 0"));
    ck_assert_ptr_null(other);
    ck_assert_int_eq(weir_stream_open(w, 1, raw, NULL, NULL, &other), WEIR_OK);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(raw), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

START_TEST(default_stream_can_be_opened_for_every_device)
{
    weir_stream *s;
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: all } }\n");
    ck_assert_int_eq(weir_stream_open(w, 0, _i ? GPU_STREAM_LEGACY : NULL, NULL, NULL, &s), WEIR_OK);
    ck_assert_int_eq(weir_stream_open(w, 1, _i ? GPU_STREAM_LEGACY : NULL, NULL, NULL, &s), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(stream_whose_pool_is_not_on_its_device_is_not_found)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = NULL;
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\ndefaults: { pool: a }\npools: { a: {}, b: { devices: [0] } }\nstreams: { decode: { pool: b } }\n");
    ck_assert_int_eq(weir_stream_create(w, 1, "decode", &error, &s), WEIR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "pools.b.devices"));
    ck_assert_ptr_null(s);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(stream_of_one_device_takes_memory_of_another)
{
    void *ptr;
    fixture_machine("devices=2");
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, "decode");
    ck_assert_int_eq(weir_malloc(w, &ptr, 1000, 1, weir_stream_handle(s)), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 1).live, 1000); /* the name counts on the stream's own device */
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 1).live, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_asked_by_name_serves_whatever_the_stream)
{
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, "decode");
    ck_assert_int_eq(weir_pool_malloc(fixture_pool(w, "a", 0), &ptr, 1000, weir_stream_handle(s)), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live, 1000);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
}
END_TEST

START_TEST(block_can_be_freed_on_any_stream)
{
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { peer_access: all } }\n");
    weir_stream *from = fixture_stream(w, 0, NULL), *other = fixture_stream(w, 0, NULL), *far = fixture_stream(w, 1, NULL);
    gpu_stream raw = new_stream(0);
    ck_assert_int_eq(weir_stream_free(other, fixture_malloc(from, MIB(40))), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(far, fixture_malloc(from, MIB(40))), WEIR_OK);
    ck_assert_int_eq(weir_free(w, fixture_malloc(from, MIB(40)), raw), WEIR_OK);
    ck_assert_int_eq(weir_free(w, fixture_malloc(from, MIB(40)), NULL), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_blocks, 0);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(raw), GPU_SUCCESS);
    sim_advance(GIB(1));
    fixture_expect_empty();
}
END_TEST

/* Private pools ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(each_private_stream_has_a_pool_of_its_own)
{
    weir_stats *stats;
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    weir_stream *first = fixture_stream(w, 0, "infer"), *second = fixture_stream(w, 0, "infer");
    ck_assert_ptr_ne(weir_stream_pool(first), weir_stream_pool(second));
    ck_assert_ptr_ne(weir_stream_pool(first), fixture_pool(w, "a", 0));
    ck_assert_uint_eq(pools_now(), 3);
    fixture_malloc(second, 1000);
    ck_assert_int_eq(weir_stats_take(w, NULL, &stats), WEIR_OK);
    ck_assert_uint_eq(weir_stats_pool_count(stats), 3);
    ck_assert_int_eq(weir_stats_pool(stats, 0)->is_private, 0);
    ck_assert_int_eq(weir_stats_pool(stats, 2)->is_private, 1);
    ck_assert_str_eq(weir_stats_pool(stats, 2)->name, "a");
    ck_assert_uint_eq(weir_stats_pool(stats, 1)->live + weir_stats_pool(stats, 2)->live, 1000);
    weir_stats_free(stats);
    weir_close(w);
}
END_TEST

START_TEST(private_pool_is_made_as_its_entry_says)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { max_size: 64MiB, initial_size: 32MiB, release_threshold: 32MiB } }\n"
                           "streams: { infer: { private: true } }\n");
    weir_stream *s = fixture_stream(w, 0, "infer");
    void *ptr = NULL;
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(weir_stream_pool(s)), GPU_POOL_RESERVED), MIB(32));
    ck_assert_ptr_nonnull(weir_pool_small_handle(weir_stream_pool(s)));
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, MIB(65)), WEIR_OUT_OF_MEMORY);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(private_pool_serves_the_raw_handle_too)
{
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    weir_stream *s = fixture_stream(w, 0, "infer");
    ck_assert_int_eq(weir_malloc(w, &ptr, 1000, 0, weir_stream_handle(s)), WEIR_OK);
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(weir_stream_pool(s)), GPU_POOL_USED), 1024); /* its size class */
    ck_assert_int_eq(weir_free(w, ptr, weir_stream_handle(s)), WEIR_OK);
    weir_close(w);
}
END_TEST

static uint64_t threshold_of(weir_pool *pool)
{
    return fixture_attribute(weir_pool_handle(pool), GPU_POOL_RELEASE_THRESHOLD);
}

START_TEST(private_pool_serves_the_next_private_stream_of_its_entry)
{
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    weir_stream *s = fixture_stream(w, 0, "infer");
    weir_pool *pool = weir_stream_pool(s);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000)), WEIR_OK);
    weir_stream_close(s);
    ck_assert_uint_eq(pools_now(), 2);
    ck_assert_uint_eq(threshold_of(pool), 0); /* what it held goes back meanwhile */
    s = fixture_stream(w, 0, "infer");
    ck_assert_ptr_eq(weir_stream_pool(s), pool);
    ck_assert_uint_eq(threshold_of(pool), UINT64_MAX);
    weir_stream *another = fixture_stream(w, 0, "infer");
    ck_assert_ptr_ne(weir_stream_pool(another), pool);
    ck_assert_uint_eq(pools_now(), 3);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(private_pool_is_its_streams_until_the_last_block_is_freed)
{
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    weir_stream *s = fixture_stream(w, 0, "infer"), *other = fixture_stream(w, 0, NULL);
    weir_pool *pool = weir_stream_pool(s);
    void *first = fixture_malloc(s, 1000), *second = fixture_malloc(s, 2000);
    weir_stream_close(s);
    ck_assert_int_eq(weir_stream_free(other, first), WEIR_OK);
    ck_assert_uint_eq(threshold_of(pool), UINT64_MAX);
    s = fixture_stream(w, 0, "infer");
    ck_assert_ptr_ne(weir_stream_pool(s), pool);
    ck_assert_int_eq(weir_stream_free(other, second), WEIR_OK);
    ck_assert_uint_eq(threshold_of(pool), 0);
    ck_assert_str_eq(fixture_log(), "");
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* CUDA crashes where a pool with pending frees is destroyed beside requests of other threads (measured), so it must not be. */
START_TEST(pool_is_destroyed_only_after_its_last_free_is_complete)
{
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    weir_stream *s = fixture_stream(w, 0, "infer"), *other = fixture_stream(w, 0, NULL);
    void *block = fixture_malloc(s, MIB(64));
    weir_stream_close(s);
    uint64_t before = fixture_gpu()->now();
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(other), 1000000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(other, block), WEIR_OK);
    ck_assert_uint_eq(sim_calls("pool_destroy"), 0);
    weir_close(w); /* waits for the stream that is open */
    ck_assert_uint_ge(fixture_gpu()->now(), before + 1000000000);
    ck_assert_uint_eq(sim_calls("pool_destroy"), 2);
}
END_TEST

START_TEST(pool_with_frees_pending_on_an_unknown_stream_is_destroyed_later)
{
    void *block;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n");
    gpu_stream stream = new_stream(0);
    ck_assert_int_eq(weir_malloc(w, &block, MIB(1), 0, stream), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->delay(stream, 1000000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, block, stream), WEIR_OK);
    weir_close(w);
    ck_assert_uint_eq(sim_calls("pool_destroy"), 0);
    ck_assert_int_eq(fixture_gpu()->stream_synchronize(stream), GPU_SUCCESS); /* its memory goes back now */
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.reserved, 0);
    weir_close(fixture_open("weir: 1\npools: { a: { small_below: 0 } }\n"));
    ck_assert_uint_eq(sim_calls("pool_destroy"), 2);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(stream), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

START_TEST(private_pool_with_peers_stays_until_the_weir_is_closed)
{
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: [0], peer_access: [1] } }\nstreams: { infer: { private: true } }\n");
    size_t before = pools_now();
    weir_stream_close(fixture_stream(w, 0, "infer"));
    ck_assert_uint_eq(pools_now(), before + 2); /* pool and twin: a peer's kernel may still read */
    fixture_figures(w, "a", 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(private_pool_with_live_blocks_is_logged_at_close_of_the_weir)
{
    void *ptr;
    gpu_stream handle;
    fixture_machine(NULL);
    handle = new_stream(0);
    weir *w = fixture_open(own_pools);
    weir_stream *s = open_handle(w, 0, handle, "infer");
    ptr = fixture_malloc(s, 1000);
    weir_close(w);
    ck_assert_ptr_nonnull(strstr(fixture_log(), "1 live block"));
    ck_assert_int_eq(fixture_gpu()->free_async(ptr, handle), GPU_SUCCESS);
    ck_assert_int_eq(fixture_gpu()->stream_synchronize(handle), GPU_SUCCESS);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

/* Created streams ---------------------------------------------------------------------------------------------------------------------- */

static size_t streams_now(void)
{
    struct sim_census census;
    sim_census(&census);
    return census.streams;
}

START_TEST(created_stream_lives_until_the_weir_is_closed_and_an_opened_one_longer)
{
    fixture_machine(NULL);
    gpu_stream handle = new_stream(0);
    weir *w = fixture_open(two_pools);
    weir_stream *opened = open_handle(w, 0, handle, NULL), *created = fixture_stream(w, 0, NULL);
    ck_assert_uint_eq(streams_now(), 2);
    weir_stream_close(created);
    weir_stream_close(opened);
    ck_assert_uint_eq(streams_now(), 2);
    weir_close(w);
    ck_assert_uint_eq(streams_now(), 1);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(handle), GPU_SUCCESS);
}
END_TEST

/* The block outlives its stream, as a destructor has it that runs late. */
static const struct {
    const char *policy;
    size_t size;
} late[] = { { two_pools, KIB(64) }, { two_pools, MIB(40) }, { "weir: 1\ndefaults: { pool: a }\npools: { a: { backing: arena }, b: {} }\n", MIB(40) } };

START_TEST(handle_of_a_closed_stream_of_weirs_own_still_serves)
{
    void *ptr, *other;
    weir_stream *again;
    fixture_machine(NULL);
    weir *w = fixture_open(late[_i].policy);
    weir_stream *s = fixture_stream(w, 0, NULL);
    gpu_stream handle = weir_stream_handle(s);
    ptr = fixture_malloc(s, late[_i].size);
    other = fixture_malloc(s, late[_i].size);
    weir_stream_close(s);
    ck_assert_int_eq(weir_free(w, ptr, handle), WEIR_OK);
    ck_assert_int_eq(weir_free(w, other, NULL), WEIR_OK);
    ck_assert_int_eq(weir_malloc(w, &ptr, late[_i].size, 0, handle), WEIR_OK);
    ck_assert_int_eq(weir_pool_malloc(fixture_pool(w, "b", 0), &other, late[_i].size, handle), WEIR_OK);
    ck_assert_int_eq(weir_free(w, ptr, handle), WEIR_OK);
    ck_assert_int_eq(weir_stream_open(w, 0, handle, NULL, NULL, &again), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(again, other), WEIR_OK);
    weir_stream_close(again);
    weir_close(w);
    ck_assert_str_eq(fixture_log(), "");
    fixture_expect_empty();
}
END_TEST

/* What was freed on it goes back with the weir. */
START_TEST(work_on_a_closed_stream_of_weirs_own_is_waited_for_at_the_end)
{
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, NULL);
    gpu_stream handle = weir_stream_handle(s);
    void *ptr = fixture_malloc(s, MIB(1));
    weir_stream_close(s);
    ck_assert_int_eq(fixture_gpu()->delay(handle, 5000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, ptr, handle), WEIR_OK);
    weir_close(w);
    ck_assert_uint_eq(pools_now(), 0);
    ck_assert_uint_eq(streams_now(), 0);
}
END_TEST

START_TEST(created_streams_are_used_again)
{
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    for (unsigned i = 0; i < 5000; i++) {
        weir_stream *s = fixture_stream(w, 0, i % 2 ? "infer" : NULL), *other = fixture_stream(w, 0, NULL);
        ck_assert_ptr_ne(weir_stream_handle(s), weir_stream_handle(other));
        ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000 + i)), WEIR_OK);
        weir_stream_close(i % 3 ? s : other);
        weir_stream_close(i % 3 ? other : s);
    }
    ck_assert_uint_eq(sim_calls("stream_create"), 2);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(created_stream_of_another_device_is_another_one)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(two_pools);
    weir_stream_close(fixture_stream(w, 1, NULL));
    fixture_stream(w, 0, NULL);
    ck_assert_uint_eq(sim_calls("stream_create"), 2);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(closed_stream_opened_by_its_handle_is_given_to_nobody_else)
{
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, NULL);
    gpu_stream handle = weir_stream_handle(s);
    weir_stream_close(s);
    weir_stream *opened = open_handle(w, 0, handle, "decode"), *other = fixture_stream(w, 0, NULL);
    ck_assert_ptr_ne(weir_stream_handle(other), handle);
    ck_assert_str_eq(server_of(w, 0, handle), "b");
    weir_stream_close(opened);
    ck_assert_ptr_eq(weir_stream_handle(fixture_stream(w, 0, NULL)), handle);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(closed_stream_that_captures_is_given_to_nobody)
{
    size_t nodes;
    fixture_machine(NULL);
    const struct gpu *gpu = fixture_gpu();
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, NULL);
    gpu_stream handle = weir_stream_handle(s);
    weir_stream_close(s);
    ck_assert_int_eq(gpu->capture_begin(handle, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    ck_assert_ptr_ne(weir_stream_handle(fixture_stream(w, 0, NULL)), handle);
    ck_assert_int_eq(gpu->capture_end(handle, &nodes), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(created_stream_that_cannot_be_waited_for_is_destroyed_at_close)
{
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, NULL);
    sim_fail("stream_synchronize", 1, GPU_UNKNOWN);
    weir_stream_close(s);
    ck_assert_uint_eq(streams_now(), 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(closing_waits_for_a_created_stream_only)
{
    fixture_machine(NULL);
    const struct gpu *gpu = fixture_gpu();
    gpu_stream handle = new_stream(0);
    weir *w = fixture_open(two_pools);
    weir_stream *opened = open_handle(w, 0, handle, NULL), *created = fixture_stream(w, 0, NULL);
    uint64_t start = gpu->now();
    ck_assert_int_eq(gpu->delay(handle, 5000000), GPU_SUCCESS);
    weir_stream_close(opened);
    ck_assert_uint_lt(gpu->now() - start, 5000000);
    ck_assert_int_eq(gpu->delay(weir_stream_handle(created), 5000000), GPU_SUCCESS);
    weir_stream_close(created);
    ck_assert_uint_ge(gpu->now() - start, 5000000);
    ck_assert_int_eq(gpu->stream_destroy(handle), GPU_SUCCESS);
    weir_close(w);
}
END_TEST

START_TEST(synchronise_waits_for_the_work_of_the_stream)
{
    fixture_machine("devices=2");
    const struct gpu *gpu = fixture_gpu();
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, NULL), *legacy = open_handle(w, 1, NULL, NULL);
    uint64_t start = gpu->now();
    ck_assert_int_eq(gpu->delay(weir_stream_handle(s), 7000000), GPU_SUCCESS);
    fixture_synchronize(s);
    ck_assert_uint_ge(gpu->now() - start, 7000000);

    start = gpu->now();
    ck_assert_int_eq(gpu->set_current_device(1), GPU_SUCCESS);
    ck_assert_int_eq(gpu->delay(NULL, 7000000), GPU_SUCCESS);
    ck_assert_int_eq(gpu->set_current_device(0), GPU_SUCCESS);
    fixture_synchronize(legacy);
    ck_assert_uint_ge(gpu->now() - start, 7000000);
    weir_close(w);
}
END_TEST

START_TEST(synchronise_that_cuda_refuses_reports_it)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir *w = fixture_open(two_pools);
    weir_stream *s = fixture_stream(w, 0, NULL);
    sim_fail("stream_synchronize", 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_stream_synchronize(s, &error), WEIR_CUDA_ERROR);
    ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
    weir_close(w);
}
END_TEST

/* Streams opened, used and closed by many threads, private ones too, while another looks at the figures. */
#define THREADS 4

static void *come_and_go(void *data)
{
    weir *w = data;
    for (unsigned i = 0; i < 100; i++) {
        weir_stream *s;
        void *ptr = NULL, *raw = NULL;
        if (weir_stream_create(w, 0, i % 2 ? "infer" : NULL, NULL, &s) != WEIR_OK)
            return w;
        if (weir_stream_malloc(s, &ptr, 1000 + i) != WEIR_OK || weir_malloc(w, &raw, 2000, 0, weir_stream_handle(s)) != WEIR_OK ||
            weir_stream_free(s, ptr) != WEIR_OK)
            return w;
        weir_stream_close(s);
        if (weir_free(w, raw, NULL) != WEIR_OK)
            return w;
    }
    return NULL;
}

static void *look(void *data)
{
    for (unsigned i = 0; i < 200; i++)
        fixture_figures(data, "a", 0);
    return NULL;
}

START_TEST(streams_come_and_go_in_many_threads)
{
    pthread_t threads[THREADS + 1];
    void *failed = NULL;
    fixture_machine(NULL);
    weir *w = fixture_open(own_pools);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, w), 0);
    ck_assert_int_eq(pthread_create(&threads[THREADS], NULL, look, w), 0);
    for (int i = 0; i <= THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed = failed ? failed : result;
    }
    ck_assert_ptr_null(failed);
    ck_assert_uint_le(pools_now(), THREADS + 2); /* each thread had one at a time, and a snapshot may have held one back */
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_blocks, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* What was written and what was meant ---------------------------------------------------------------------------------------------------- */

#define NAMED "weir: 1\ndefaults: { pool: main }\npools: { main: {}, frames: {} }\n" \
              "streams: { decode: { pool: frames }, encode-left: { pool: frames } }\n"

static const struct {
    const char *name, *said; /* NULL: no warning */
} names[] = {
    { "decod", "a stream was opened as 'decod', which is none of the policy's streams, and gets the default pool 'main'; did you mean 'decode'?" },
    { "Decode", "did you mean 'decode'?" },
    { "encode_left", "did you mean 'encode-left'?" },
    { "something-else", NULL }, /* no warning, since a program may name streams of which the policy does not speak */
    { "decode", NULL },
    { NULL, NULL },
};

START_TEST(name_that_the_policy_does_not_have_is_logged_with_the_nearest)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fixture_machine(NULL);
        weir *w = fixture_open(NAMED);
        fixture_log();
        weir_stream *stream = fixture_stream(w, 0, names[i].name);
        const char *log = fixture_log();
        if (names[i].said)
            ck_assert_msg(strstr(log, names[i].said) != NULL, "'%s' is not in: %s", names[i].said, log);
        else
            ck_assert_str_eq(log, "");
        weir_stream_close(stream);
        weir_close(w);
    }
}
END_TEST

START_TEST(name_is_logged_once_and_none_where_the_policy_has_no_streams)
{
    fixture_machine(NULL);
    weir *w = fixture_open(NAMED);
    weir_stream_close(fixture_stream(w, 0, "decod"));
    fixture_log();
    weir_stream_close(fixture_stream(w, 0, "decod"));
    ck_assert_str_eq(fixture_log(), "");
    weir_close(w);
    fixture_log();
    w = fixture_open("weir: 1\npools: { main: {} }\n");
    weir_stream_close(fixture_stream(w, 0, "decod"));
    weir_close(w);
    ck_assert_str_eq(fixture_log(), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("streams");
    TCase *tcase = suite_case(suite, "routing", 0);
    tcase_add_loop_test(tcase, stream_is_served_by_the_pool_of_its_name, 0, (int)(sizeof routes / sizeof routes[0]));
    suite_add(tcase, raw_handle_of_an_opened_stream_finds_its_pool_until_close, recycled_handle_is_another_stream,
              raw_handle_without_an_id_proves_nothing, legacy_stream_of_each_device_is_a_stream_of_its_own,
              per_thread_stream_is_refused_but_served, stream_open_already_is_busy, stream_can_be_open_in_two_weirs);
    tcase_add_loop_test(tcase, legacy_stream_is_busy_by_either_name, 0, 8);
    suite_add(tcase, handle_of_no_stream_cannot_be_opened, stream_can_be_opened_for_its_own_device_only);
    tcase_add_loop_test(tcase, default_stream_can_be_opened_for_every_device, 0, 2);
    suite_add(tcase, stream_whose_pool_is_not_on_its_device_is_not_found, stream_of_one_device_takes_memory_of_another,
              pool_asked_by_name_serves_whatever_the_stream, block_can_be_freed_on_any_stream);

    tcase = suite_case(suite, "names", 0);
    suite_add(tcase, name_that_the_policy_does_not_have_is_logged_with_the_nearest,
              name_is_logged_once_and_none_where_the_policy_has_no_streams);

    tcase = suite_case(suite, "private", 0);
    suite_add(tcase, each_private_stream_has_a_pool_of_its_own, private_pool_is_made_as_its_entry_says,
              private_pool_serves_the_raw_handle_too, private_pool_serves_the_next_private_stream_of_its_entry,
              private_pool_is_its_streams_until_the_last_block_is_freed, pool_is_destroyed_only_after_its_last_free_is_complete,
              pool_with_frees_pending_on_an_unknown_stream_is_destroyed_later, private_pool_with_peers_stays_until_the_weir_is_closed,
              private_pool_with_live_blocks_is_logged_at_close_of_the_weir);

    tcase = suite_case(suite, "created", 0);
    tcase_add_loop_test(tcase, handle_of_a_closed_stream_of_weirs_own_still_serves, 0, (int)(sizeof late / sizeof *late));
    suite_add(tcase, created_stream_lives_until_the_weir_is_closed_and_an_opened_one_longer,
              work_on_a_closed_stream_of_weirs_own_is_waited_for_at_the_end, created_streams_are_used_again,
              created_stream_of_another_device_is_another_one, closed_stream_opened_by_its_handle_is_given_to_nobody_else,
              closed_stream_that_captures_is_given_to_nobody, created_stream_that_cannot_be_waited_for_is_destroyed_at_close,
              closing_waits_for_a_created_stream_only, synchronise_waits_for_the_work_of_the_stream,
              synchronise_that_cuda_refuses_reports_it, streams_come_and_go_in_many_threads);
    return suite_run(suite);
}
