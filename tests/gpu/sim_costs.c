/* SPDX-License-Identifier: MIT */
/* sim_costs.c - what a call costs the calling thread on the simulator's clock, and how costs are written. */
#include <string.h>

#include "lib/gpu/cost.h"
#include "tests/gpu/sim_test.h"

#define PAGE (512 * MIB)

static void *range;
static gpu_page page;
static gpu_event event;

/* What the calls below need is there, and a block of a GiB is free in the pool. */
static void prepare(const char *settings)
{
    configure(settings);
    ck_assert_int_eq(g->pool_set(pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX), 0);
    ck_assert_int_eq(g->free_async(take(GIB, a), a), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->event_record(event, a), 0);
    ck_assert_int_eq(g->range_reserve(0, PAGE, &range), 0);
}

static void make_page(void)
{
    ck_assert_int_eq(g->page_create(0, PAGE, &page), 0);
}

static void map_page(void)
{
    make_page();
    ck_assert_int_eq(g->page_map(range, PAGE, page), 0);
}

static void *block;

static void make_block(void)
{
    block = take(GIB, a);
}

static int call_malloc(void)
{
    return g->malloc_async(&block, GIB, pool, a);
}

static int call_free(void)
{
    return g->free_async(block, a);
}

static int call_synchronize(void)
{
    return g->stream_synchronize(a);
}

static int call_device_synchronize(void)
{
    return g->device_synchronize(0);
}

static int call_record(void)
{
    return g->event_record(event, a);
}

static int call_query(void)
{
    return g->event_query(event);
}

static int call_wait(void)
{
    return g->stream_wait_event(b, event);
}

static int call_trim(void)
{
    return g->pool_trim(pool, UINT64_MAX);
}

static int call_pool_create(void)
{
    return g->pool_create(&(struct gpu_pool_spec){ .device = 0 }, &(gpu_pool){ NULL });
}

static int call_create(void)
{
    return g->page_create(0, PAGE, &page);
}

static int call_map(void)
{
    return g->page_map(range, PAGE, page);
}

static int call_access(void)
{
    return g->page_set_access(range, PAGE, &(int){ 0 }, 1);
}

static int call_unmap(void)
{
    return g->page_unmap(range, PAGE);
}

static int call_release(void)
{
    return g->page_release(page);
}

static const struct {
    const char *settings;
    void (*before)(void);
    int (*call)(void);
    uint64_t cost;
} calls[] = {
    { "malloc_async=300ns", NULL, call_malloc, 300 },
    { "free_async=2us", make_block, call_free, 2000 },
    { "stream_synchronize=1200ns", NULL, call_synchronize, 1200 },
    { "device_synchronize=3us", NULL, call_device_synchronize, 3000 },
    { "event_record=131ns", NULL, call_record, 131 },
    { "event_query=109ns", NULL, call_query, 109 },
    { "devices=1", NULL, call_query, 1000 },
    { "stream_wait_event=136ns", NULL, call_wait, 136 },
    { "pool_trim=10ns", NULL, call_trim, 10 },
    { "pool_create=60000ms", NULL, call_pool_create, 60000000000 },
    { "page_create=7us+10us/GiB", NULL, call_create, 12000 },
    { "page_map=4us/GiB", make_page, call_map, 2000 },
    { "page_set_access=21us+30us/GiB", map_page, call_access, 36000 },
    { "page_unmap=13us", map_page, call_unmap, 13000 },
    { "page_release=7us+1ns/GiB", make_page, call_release, 7000 },
};

START_TEST(call_costs_what_is_set)
{
    prepare(calls[_i].settings);
    if (calls[_i].before)
        calls[_i].before();
    uint64_t before = g->now();
    ck_assert_int_eq(calls[_i].call(), 0);
    ck_assert_msg(g->now() - before == calls[_i].cost, "%s: %llu", calls[_i].settings, (unsigned long long)(g->now() - before));
}
END_TEST

START_TEST(synchronise_costs_on_top_of_what_it_waits)
{
    configure("stream_synchronize=1us");
    uint64_t before = g->now();
    ck_assert_int_eq(g->delay(a, 5000), 0);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
    ck_assert_uint_eq(g->now() - before, 6000);
}
END_TEST

START_TEST(work_goes_on_while_a_call_costs)
{
    unsigned char byte = 0;
    configure("stream_wait_event=1ms");
    void *ptr = take(1, a);
    ck_assert_int_eq(g->set_async(ptr, 7, 1, a), 0);
    ck_assert_int_eq(g->event_create(0, &event), 0);
    ck_assert_int_eq(g->event_record(event, b), 0);
    ck_assert_int_eq(g->stream_wait_event(b, event), 0);
    memcpy(&byte, ptr, 1);
    ck_assert_uint_eq(byte, 7);
}
END_TEST

/* What two growths of one pool cost together. */
static const struct {
    const char *settings;
    uint64_t cost;
} growths[] = {
    { "grow=0ns/GiB,grow_each=17us,first_of_all=9ms", 9034000 },
    { "grow=0ns/GiB,first=360us", 360000 },
};

START_TEST(growth_costs_a_time_the_first_of_a_pool_and_of_a_process_another)
{
    configure(growths[_i].settings);
    uint64_t before = g->now();
    take(32 * MIB, a);
    take(32 * MIB, a);
    ck_assert_uint_eq(g->now() - before, growths[_i].cost);
}
END_TEST

START_TEST(machine_that_is_started_anew_has_not_grown_yet)
{
    for (int i = 0; i < 2; i++) {
        configure("grow=0ns/GiB,first_of_all=9ms");
        uint64_t before = g->now();
        take(32 * MIB, a);
        ck_assert_uint_eq(g->now() - before, 9000000);
    }
}
END_TEST

START_TEST(growth_of_a_pool_on_the_host_has_a_rate_of_its_own)
{
    configure("grow=0ns/GiB,grow_host=200ms/GiB");
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 0, .location = GPU_LOCATION_HOST }, &pool), 0);
    uint64_t before = g->now();
    take(512 * MIB, a);
    ck_assert_uint_eq(g->now() - before, 100000000);
}
END_TEST

/* Texts -------------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    struct gpu_cost cost;
} texts[] = {
    { "0ns", { 0, 0 } },
    { "1ns", { 1, 0 } },
    { "1001ns", { 1001, 0 } },
    { "7us", { 7000, 0 } },
    { "60000ms", { GPU_COST_MOST, 0 } },
    { "830us/GiB", { 0, 830000 } },
    { "7us+250us/GiB", { 7000, 250000 } },
    { "6500ns+1ns/GiB", { 6500, 1 } },
};

START_TEST(cost_is_written_as_it_is_read)
{
    char text[GPU_COST_TEXT_SIZE];
    struct gpu_cost cost;
    ck_assert_str_eq(gpu_cost_format(texts[_i].cost, text), texts[_i].text);
    ck_assert(gpu_cost_parse(text, &cost));
    ck_assert_uint_eq(cost.call, texts[_i].cost.call);
    ck_assert_uint_eq(cost.gib, texts[_i].cost.gib);
}
END_TEST

void add_cost_tests(Suite *suite)
{
    TCase *tcase = sim_case(suite, "costs");
    tcase_add_loop_test(tcase, call_costs_what_is_set, 0, sizeof calls / sizeof *calls);
    tcase_add_loop_test(tcase, growth_costs_a_time_the_first_of_a_pool_and_of_a_process_another, 0, sizeof growths / sizeof *growths);
    tcase_add_loop_test(tcase, cost_is_written_as_it_is_read, 0, sizeof texts / sizeof *texts);
    suite_add(tcase, synchronise_costs_on_top_of_what_it_waits, work_goes_on_while_a_call_costs,
              machine_that_is_started_anew_has_not_grown_yet, growth_of_a_pool_on_the_host_has_a_rate_of_its_own);
}
