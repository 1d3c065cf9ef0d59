/* SPDX-License-Identifier: MIT */
/* sim_pages.c - what the simulator says of ranges and pages where a GPU would crash, or where nobody has asked one. */
#include "tests/gpu/sim_test.h"

#define UNIT GPU_PAGE_UNIT

static const int owner = 0;
static unsigned char *range;
static gpu_page page;

/* A range of two units with a page on the first, to which nobody has access yet. */
static void map_one(void)
{
    void *base;
    ck_assert_int_eq(g->range_reserve(0, 2 * UNIT, &base), 0);
    ck_assert_int_eq(g->page_create(0, UNIT, &page), 0);
    ck_assert_int_eq(g->page_map(base, UNIT, page), 0);
    range = base;
}

static void expect_illegal_address(void)
{
    ck_assert_int_eq(g->stream_synchronize(a), GPU_ILLEGAL_ADDRESS);
    ck_assert_int_eq(g->device_synchronize(0), GPU_ILLEGAL_ADDRESS);
}

START_TEST(a_page_without_access_is_no_memory)
{
    map_one();
    ck_assert_int_eq(g->set_async(range, 1, 1, a), 0);
    expect_illegal_address();
}
END_TEST

START_TEST(access_ends_with_the_mapping)
{
    map_one();
    ck_assert_int_eq(g->page_set_access(range, UNIT, &owner, 1), 0);
    ck_assert_int_eq(g->page_unmap(range, UNIT), 0);
    ck_assert_int_eq(g->page_map(range, UNIT, page), 0);
    ck_assert_int_eq(g->set_async(range, 1, 1, a), 0);
    expect_illegal_address();
}
END_TEST

START_TEST(what_no_page_is_mapped_to_is_no_memory)
{
    map_one();
    ck_assert_int_eq(g->page_set_access(range, UNIT, &owner, 1), 0);
    ck_assert_int_eq(g->set_async(range, 1, UNIT + 1, a), 0); /* a byte too many */
    expect_illegal_address();
}
END_TEST

START_TEST(work_that_comes_to_what_was_unmapped_meanwhile_ends_everything)
{
    map_one();
    ck_assert_int_eq(g->page_set_access(range, UNIT, &owner, 1), 0);
    ck_assert_int_eq(g->delay(a, 1000000), 0);
    ck_assert_int_eq(g->set_async(range, 1, 1, a), 0);
    ck_assert_int_eq(g->page_unmap(range, UNIT), 0);
    expect_illegal_address();
}
END_TEST

START_TEST(a_device_that_does_not_reach_the_page_gets_no_access)
{
    static const int both[] = {0, 1};
    configure("devices=2,peers=none");
    map_one();
    ck_assert_int_eq(g->page_set_access(range, UNIT, both, 2), GPU_INVALID_DEVICE);
    ck_assert_int_eq(g->page_set_access(range, UNIT, both, 1), 0);
}
END_TEST

START_TEST(a_range_with_pages_is_not_freed)
{
    map_one();
    ck_assert_int_eq(g->range_free(range, 2 * UNIT), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_unmap(range, UNIT), 0);
    ck_assert_int_eq(g->range_free(range, UNIT), GPU_INVALID_VALUE); /* half of it */
    ck_assert_int_eq(g->range_free(range, 2 * UNIT), 0);
    ck_assert_int_eq(g->range_free(range, 2 * UNIT), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(a_page_is_released_once)
{
    map_one();
    ck_assert_int_eq(g->page_release(page), 0);
    ck_assert_int_eq(g->page_release(page), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_unmap(range, UNIT), 0);
    ck_assert_int_eq(g->page_map(range, UNIT, page), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(a_page_outside_of_all_ranges_is_not_mapped)
{
    static unsigned char memory[2 * 2 << 20];
    map_one();
    gpu_page other;
    ck_assert_int_eq(g->page_create(0, UNIT, &other), 0);
    unsigned char *place = memory + (-(uintptr_t)memory % UNIT);
    ck_assert_int_eq(g->page_map(place, UNIT, other), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_map(range + 2 * UNIT, UNIT, other), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_unmap(range + UNIT, UNIT), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_unmap(range, 2 * UNIT), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(ranges_and_pages_are_counted)
{
    struct sim_census census;
    map_one();
    sim_census(&census);
    ck_assert_uint_eq(census.ranges, 1);
    ck_assert_uint_eq(census.pages, 1);
    ck_assert_int_eq(g->page_release(page), 0);
    sim_census(&census);
    ck_assert_uint_eq(census.pages, 1); /* it is mapped still */
}
END_TEST

static const struct {
    const char *name;
    uint64_t size;
} sizes[] = {
    {"nothing", 0}, {"half_a_unit", UNIT / 2}, {"2^62", UINT64_C(1) << 62}, {"2^63", UINT64_C(1) << 63}, {"all", -UNIT},
};

START_TEST(sizes_that_cannot_be_are_refused)
{
    void *base;
    ck_assert_int_ne(g->range_reserve(0, sizes[_i].size, &base), 0);
    ck_assert_int_ne(g->page_create(0, sizes[_i].size, &page), 0);
    map_one();
    ck_assert_int_eq(g->page_map(range + UNIT, sizes[_i].size, page), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_unmap(range, sizes[_i].size), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->page_set_access(range, sizes[_i].size, &owner, 1), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(a_device_without_the_feature_refuses)
{
    void *base;
    configure("devices=1,mapping=no");
    ck_assert_int_eq(g->range_reserve(0, UNIT, &base), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->page_create(0, UNIT, &page), GPU_NOT_SUPPORTED);
    ck_assert_int_eq(g->range_reserve(1, UNIT, &base), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(ranges_beyond_the_addresses_of_the_process_are_refused)
{
    void *base, *other;
    configure("addresses=4MiB");
    ck_assert_int_eq(g->range_reserve(0, 3 * UNIT, &base), GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(g->range_reserve(0, 2 * UNIT, &base), 0);
    ck_assert_int_eq(g->range_reserve(0, UNIT, &other), GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(g->range_free(base, 2 * UNIT), 0);
    ck_assert_int_eq(g->range_reserve(0, 2 * UNIT, &base), 0);
    ck_assert_int_eq(g->range_free(base, 2 * UNIT), 0);
}
END_TEST

static const char *const calls[] = {"range_reserve", "page_create",  "page_map",  "page_set_access",
                                    "page_unmap",    "page_release", "range_free"};

START_TEST(each_call_can_be_made_to_fail)
{
    void *base = NULL;
    sim_fail(calls[_i], 1, GPU_UNKNOWN);
    int codes[7] = {0};
    codes[0] = g->range_reserve(0, UNIT, &base);
    if (codes[0])
        ck_assert_int_eq(g->range_reserve(0, UNIT, &base), 0);
    codes[1] = g->page_create(0, UNIT, &page);
    if (codes[1])
        ck_assert_int_eq(g->page_create(0, UNIT, &page), 0);
    codes[2] = g->page_map(base, UNIT, page);
    if (codes[2])
        ck_assert_int_eq(g->page_map(base, UNIT, page), 0);
    codes[3] = g->page_set_access(base, UNIT, &owner, 1);
    codes[4] = g->page_unmap(base, UNIT);
    if (codes[4])
        ck_assert_int_eq(g->page_unmap(base, UNIT), 0);
    codes[5] = g->page_release(page);
    if (codes[5])
        ck_assert_int_eq(g->page_release(page), 0);
    codes[6] = g->range_free(base, UNIT);
    if (codes[6])
        ck_assert_int_eq(g->range_free(base, UNIT), 0);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(codes[i], i == _i ? GPU_UNKNOWN : 0);
}
END_TEST

void add_page_tests(Suite *suite)
{
    TCase *pages = sim_case(suite, "pages");
    suite_add(pages, a_page_without_access_is_no_memory, access_ends_with_the_mapping, what_no_page_is_mapped_to_is_no_memory,
              work_that_comes_to_what_was_unmapped_meanwhile_ends_everything, a_device_that_does_not_reach_the_page_gets_no_access,
              a_range_with_pages_is_not_freed, a_page_is_released_once, a_page_outside_of_all_ranges_is_not_mapped,
              ranges_and_pages_are_counted, a_device_without_the_feature_refuses, ranges_beyond_the_addresses_of_the_process_are_refused);
    tcase_add_loop_test(pages, sizes_that_cannot_be_are_refused, 0, (int)(sizeof(sizes) / sizeof(*sizes)));
    tcase_add_loop_test(pages, each_call_can_be_made_to_fail, 0, (int)(sizeof(calls) / sizeof(*calls)));
}
