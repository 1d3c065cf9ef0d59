/* SPDX-License-Identifier: MIT */
/* leave.c - the key `leave_free`: how much of the device stays free when a pool grows, and what a request finds that needs more. */
#include <stdio.h>
#include <string.h>

#include "include/weir_sleep.h"
#include "tests/api/hook.h"
#include "tests/api/scene.h"

#define MOST 4096
#define STEP (32 * MIB)

static const struct {
    const char *label, *pool;
} pools[] = {
    {"CUDA's", "release_threshold: all"},
    {"CUDA's without a twin", "small_below: 0"},
    {"CUDA's without caches", "cache: off"},
    {"CUDA's under a cap that it never comes to", "max_size: 100%"},
    {"CUDA's that keeps nothing", "release_threshold: none, cache: off"},
    {"the driver's", "backing: default"},
    {"an arena", "backing: arena"},
    {"an arena without caches", "backing: arena, cache: off, release_threshold: none"},
};
#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

static void open_leaving(const char *pool, const char *leave)
{
    char text[512];
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s, leave_free: %s, on_oom: { deadline: 10s } } }\n", pool, leave);
    scene_open(text);
}

static uint64_t free_bytes(void)
{
    uint64_t bytes, total;
    ck_assert_int_eq(scene.gpu->device_memory(0, &bytes, &total), GPU_SUCCESS);
    return bytes;
}

/* A request that must be refused for the sake of what is to stay free. */
static void refuse(weir_stream *s, uint64_t size)
{
    weir_error error;
    void *ptr;
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, size), WEIR_OUT_OF_MEMORY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "less than leave_free, 1 GiB, left"), "%s", error.text);
    const char *beside = strstr(error.text, "the device has beside "); /* nobody else has what is left free */
    ck_assert_msg(!beside || strstr(beside, "beside leave_free, 1 GiB, and "), "%s", error.text);
}

/* Blocks of which size are asked for until one is refused, each size in turn. */
static const uint64_t sizes[] = {640 * MIB, 96 * MIB, 5 * MIB, MIB, 100 << 10};

START_TEST(pool_stops_growing_where_the_device_has_no_more_than_that)
{
    static void *blocks[MOST];
    size_t count = 0;
    bool is_cudas = _i < 6;
    open_leaving(pools[_i].pool, "1GiB");
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < COUNT(sizes) && count < MOST; i++)
        while (count < MOST && weir_stream_malloc(s, &blocks[count], sizes[i]) == WEIR_OK) {
            count++;
            ck_assert_uint_ge(free_bytes(), GIB);
        }
    ck_assert_uint_lt(count, MOST);
    ck_assert_uint_lt(free_bytes(), GIB + (is_cudas ? 2 * STEP : 2 * MIB));
    refuse(s, 640 * MIB);
    ck_assert_uint_ge(free_bytes(), GIB);
    /* What the pool has it may use. */
    scene_free(s, blocks[0]);
    blocks[0] = scene_malloc(s, 640 * MIB);
    ck_assert_uint_ge(free_bytes(), GIB);
    while (count)
        scene_free(s, blocks[--count]);
}
END_TEST

START_TEST(what_is_obtainable_is_served_and_no_more)
{
    open_leaving(pools[_i].pool, "1GiB");
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, 2 * GIB);
    uint64_t obtainable = scene_pool_stats("main").obtainable;
    ck_assert_uint_ge(obtainable, scene.memory - 3 * GIB - 2 * STEP);
    ck_assert_uint_le(obtainable, scene.memory - 3 * GIB);
    void *second = scene_malloc(s, obtainable);
    ck_assert_uint_ge(free_bytes(), GIB);
    refuse(s, 2 * STEP);
    scene_free(s, second);
    scene_free(s, first);
}
END_TEST

/* CUDA would grow rather than wait for the kernel. */
START_TEST(pending_memory_is_waited_for_before_the_pool_grows_too_far)
{
    open_leaving(pools[_i].pool, "1GiB");
    weir_stream *s = scene_create(NULL), *other = scene_create(NULL);
    uint64_t most = (scene.memory - GIB) / STEP * STEP - 2 * STEP, half = most / 2 / STEP * STEP;
    void *first = scene_malloc(s, half), *second = scene_malloc(s, half);
    scene_delay(weir_stream_handle(s), 100);
    scene_free(s, first);
    void *third = scene_malloc(other, half);
    scene_sync(weir_stream_handle(s));
    scene_sync(weir_stream_handle(other));
    ck_assert_uint_ge(free_bytes(), GIB);
    scene_free(s, second);
    scene_free(other, third);
}
END_TEST

START_TEST(idle_memory_of_another_pool_is_taken)
{
    char text[512];
    snprintf(text, sizeof text,
             "weir: 1\ndefaults: { pool: main }\npools:\n  main: { %s, leave_free: 1GiB }\n  other: { %s, release_threshold: all }\n", pools[_i].pool,
             _i % 2 ? "backing: arena" : "small_below: 0");
    scene_open(text);
    weir_pool *other;
    scene_ok(weir_pool_get(scene.w, "other", 0, NULL, &other), "weir_pool_get");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_pool_malloc(other, scene.memory - GIB, weir_stream_handle(s));
    scene_free_on(weir_stream_handle(s), ptr);
    scene_sync(weir_stream_handle(s));
    ptr = scene_malloc(s, 3 * GIB);
    ck_assert_uint_ge(free_bytes(), GIB);
    scene_free(s, ptr);
}
END_TEST

START_TEST(reload_changes_it)
{
    char text[512];
    open_leaving(pools[_i].pool, "1GiB");
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, scene.memory - 3 * GIB);
    refuse(s, 2 * GIB + STEP);
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s, leave_free: none, on_oom: { deadline: 10s } } }\n", pools[_i].pool);
    scene_reload(text);
    ck_assert_uint_eq(scene_pool_stats("main").leave_free, 0);
    void *second = scene_malloc(s, 2 * GIB + STEP);
    ck_assert_uint_lt(free_bytes(), GIB);
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s, leave_free: 1GiB, on_oom: { deadline: 10s } } }\n", pools[_i].pool);
    scene_reload(text);
    refuse(s, 2 * STEP);
    scene_free(s, second);
    scene_free(s, first);
}
END_TEST

/* Another process takes memory between the question and the page. */
static struct gpu hooked;
static gpu_page taken;
static unsigned pages_before; /* pages that are made before it does */

static int create_beside_another(int device, uint64_t size, gpu_page *page)
{
    int code = hook_base()->page_create(device, size, page);
    if (code == GPU_SUCCESS && !taken && pages_before-- == 0)
        ck_assert_int_eq(hook_base()->page_create(device, GIB, &taken), GPU_SUCCESS);
    return code;
}

START_TEST(page_goes_back_where_another_took_the_memory_meanwhile)
{
    open_leaving("backing: arena, cache: off", "1GiB");
    weir_stream *s = scene_create(NULL);
    void *first = scene_malloc(s, scene.memory - 5 * GIB / 2);
    hooked = *hook_base();
    hooked.page_create = create_beside_another;
    hook_set(&hooked);
    refuse(s, GIB);
    hook_set(NULL);
    ck_assert_uint_ge(free_bytes(), GIB);
    ck_assert_uint_eq(scene_pool_stats("main").reserved, scene_pool_stats("main").live);
    scene.gpu->page_release(taken);
    taken = 0;
    scene_free(s, scene_malloc(s, GIB));
    scene_free(s, first);
}
END_TEST

START_TEST(wake_leaves_as_much_where_another_takes_memory_meanwhile)
{
    open_leaving("backing: arena, cache: off", "1GiB");
    weir_stream *s = scene_create(NULL);
    void *ptr = scene_malloc(s, 128 * MIB);
    scene_ok(weir_pool_sleep(scene.pool, 0, 1000, NULL, NULL), "a sleep");
    gpu_page page;
    ck_assert_int_eq(scene.gpu->page_create(0, free_bytes() - 3 * GIB / 2, &page), GPU_SUCCESS);
    hooked = *hook_base();
    hooked.page_create = create_beside_another;
    pages_before = 1; /* the other process comes with the last of two */
    hook_set(&hooked);
    ck_assert_int_eq(weir_pool_wake(scene.pool, 0, NULL, NULL), WEIR_OUT_OF_MEMORY);
    hook_set(NULL);
    ck_assert_uint_eq(free_bytes(), GIB / 2);
    ck_assert_int_eq(scene.gpu->page_release(taken), GPU_SUCCESS);
    taken = 0;
    scene_ok(weir_pool_wake(scene.pool, 0, NULL, NULL), "a wake");
    ck_assert_int_eq(scene.gpu->page_release(page), GPU_SUCCESS);
    scene_free(s, ptr);
}
END_TEST

/* Memory that the pool has stays its own, whatever others take. */
START_TEST(pool_that_need_not_grow_serves_whatever_others_take)
{
    gpu_page page;
    open_leaving(_i ? "backing: arena" : "small_below: 0", "1GiB");
    weir_stream *s = scene_create(NULL);
    scene_free(s, scene_malloc(s, 2 * GIB));
    scene_sync(weir_stream_handle(s));
    ck_assert_int_eq(scene.gpu->page_create(0, free_bytes() / (2 * MIB) * (2 * MIB), &page), GPU_SUCCESS);
    scene_free(s, scene_malloc(s, GIB));
    refuse(s, 3 * GIB);
    ck_assert_int_eq(scene.gpu->page_release(page), GPU_SUCCESS);
}
END_TEST

/* Idle memory in pieces makes CUDA grow, and a kernel keeps the growth from being undone at once. The next attempt, which finds nothing
   else on the device, must not take it for the pool's own. */
START_TEST(growth_behind_a_kernel_does_not_become_the_pools_own)
{
    gpu_page page;
    void *blocks[6], *ptr;
    open_leaving("small_below: 0, release_threshold: all, cache: off", "40MiB");
    weir_stream *s = scene_create(NULL);
    for (int i = 0; i < COUNT(blocks); i++)
        blocks[i] = scene_malloc(s, STEP / 2);
    for (int i = 0; i < COUNT(blocks); i += 2)
        scene_free(s, blocks[i]);
    scene_sync(weir_stream_handle(s));
    ck_assert_int_eq(scene.gpu->page_create(0, free_bytes() - 42 * MIB, &page), GPU_SUCCESS);
    scene_delay(weir_stream_handle(s), 50);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, STEP / 2 + MIB), WEIR_OUT_OF_MEMORY);
    scene_sync(weir_stream_handle(s));
    ck_assert_uint_eq(free_bytes(), 42 * MIB);
    ck_assert_int_eq(scene.gpu->page_release(page), GPU_SUCCESS);
    for (int i = 1; i < COUNT(blocks); i += 2)
        scene_free(s, blocks[i]);
}
END_TEST

static const struct {
    const char *machine, *pool, *says;
    weir_status status;
} refused[] = {
    {"memory=1GiB", "leave_free: 1GiB", "policy_text:2:30: pools.main.leave_free: 1 GiB on device 0 is all that it has (1 GiB): write less", WEIR_BAD_POLICY},
    {"memory=1GiB", "leave_free: 100%", "is all that it has", WEIR_BAD_POLICY},
    {"memory=1GiB,os_managed=yes", "leave_free: 1%", "CUDA does not tell how much is free: remove this key, or set max_size", WEIR_BAD_POLICY},
    {"memory=1GiB", "leave_free: 512MiB, initial_size: 768MiB", "cannot be grown to 768 MiB on device 0 beside its leave_free", WEIR_OUT_OF_MEMORY},
    {"memory=1GiB", "leave_free: 512MiB, initial_size: 768MiB, backing: arena", "cannot be grown to 768 MiB on device 0 beside its leave_free",
     WEIR_OUT_OF_MEMORY},
};

START_TEST(what_no_device_can_leave_is_refused)
{
    char text[512];
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    scene_simulate(refused[_i].machine);
    snprintf(text, sizeof text, "weir: 1\npools: { main: { %s } }\n", refused[_i].pool);
    options.policy_text = text;
    ck_assert_int_eq(weir_open(&options, &error, &w), refused[_i].status);
    ck_assert_msg(strstr(error.text, refused[_i].says), "%s", error.text);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why)
        return suite_skip(why);
    Suite *suite = suite_create("leave");
    TCase *tcase = suite_case(suite, "leave", 120);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    tcase_add_loop_test(tcase, pool_stops_growing_where_the_device_has_no_more_than_that, 0, COUNT(pools));
    tcase_add_loop_test(tcase, what_is_obtainable_is_served_and_no_more, 0, COUNT(pools));
    tcase_add_loop_test(tcase, pending_memory_is_waited_for_before_the_pool_grows_too_far, 0, COUNT(pools));
    tcase_add_loop_test(tcase, idle_memory_of_another_pool_is_taken, 0, COUNT(pools));
    tcase_add_loop_test(tcase, reload_changes_it, 0, COUNT(pools));
    if (scene_is_sim()) {
        suite_add(tcase, page_goes_back_where_another_took_the_memory_meanwhile, wake_leaves_as_much_where_another_takes_memory_meanwhile,
                  growth_behind_a_kernel_does_not_become_the_pools_own);
        tcase_add_loop_test(tcase, pool_that_need_not_grow_serves_whatever_others_take, 0, 2);
        tcase_add_loop_test(tcase, what_no_device_can_leave_is_refused, 0, COUNT(refused));
    }
    return suite_run(suite);
}
