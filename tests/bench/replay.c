/* SPDX-License-Identifier: MIT */
/* What an arena maps for recorded sequences of requests. */
#include "bench/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/suite.h"

#define MIB (UINT64_C(1) << 20)

static struct replay_result replay_file(const char *name, const struct replay_streams *streams)
{
    const char *top = getenv("top_srcdir");
    struct replay_result result;
    struct trace trace;
    char path[4096], why[512];
    snprintf(path, sizeof(path), "%s/tests/bench/traces/%s.csv", top ? top : ".", name);
    ck_assert_msg(trace_read(&trace, path, why, sizeof(why)), "%s", why);
    ck_assert_uint_eq(trace.step_count, 4000);
    ck_assert(replay(&trace, streams, &result));
    trace_clear(&trace);
    return result;
}

START_TEST(generation_maps_a_fiftieth_more_than_lives)
{
    struct replay_result result = replay_file("generation", NULL);
    ck_assert_uint_eq(result.live_peak / MIB, 455);
    ck_assert_uint_eq(result.mapped_peak, 460 * MIB);
}
END_TEST

START_TEST(tuning_moves_pages_to_where_they_are_missing)
{
    struct replay_result result = replay_file("tuning", NULL);
    ck_assert_uint_eq(result.live_peak / MIB, 3171);
    ck_assert_uint_eq(result.mapped_peak, 3266 * MIB);
    ck_assert_uint_eq(result.moved, 15);
}
END_TEST

/* One stream has its own frees back at once, seen complete or not; but what is complete does not merge with what is not. */
START_TEST(late_completion_costs_one_stream_little)
{
    const struct replay_streams late = {.count = 1, .delay = 100};
    ck_assert_uint_le(replay_file("generation", &late).mapped_peak, 473 * MIB);
}
END_TEST

START_TEST(late_completion_costs_four_streams_more)
{
    const struct replay_streams soon = {.count = 4, .delay = 10}, late = {.count = 4, .delay = 1000};
    uint64_t little = replay_file("generation", &soon).mapped_peak, much = replay_file("generation", &late).mapped_peak;
    ck_assert_uint_lt(little, much);
    ck_assert_uint_le(much, 460 * MIB * 3 / 2);
}
END_TEST

/* Before the arena grows each stream waits for the others, if it may. */
START_TEST(streams_that_wait_for_each_other_need_as_little_as_one)
{
    const struct replay_streams late = {.count = 4, .delay = 1000, .waits = true};
    struct replay_result result = replay_file("generation", &late);
    ck_assert_uint_le(result.mapped_peak, 473 * MIB);
    ck_assert_uint_gt(result.waits, 0);
}
END_TEST

START_TEST(streams_whose_frees_are_complete_at_once_are_as_one)
{
    const struct replay_streams quick = {.count = 4, .delay = 0};
    ck_assert_uint_eq(replay_file("tuning", &quick).mapped_peak, 3266 * MIB);
}
END_TEST

/* Large blocks of a size that comes back are served without a search, and the arena maps hardly more. */
START_TEST(blocks_that_streams_keep_come_back_and_cost_little)
{
    const struct replay_streams one = {.count = 1, .recent = true};
    struct replay_result result = replay_file("tuning", &one);
    ck_assert_uint_gt(result.hits, result.large / 3);
    ck_assert_uint_le(result.mapped_peak, 3266 * MIB);
    ck_assert_uint_le(replay_file("generation", &one).mapped_peak, 473 * MIB);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *replays = suite_case(suite, "replays", 0);
    suite_add(replays, generation_maps_a_fiftieth_more_than_lives, tuning_moves_pages_to_where_they_are_missing,
              late_completion_costs_one_stream_little, late_completion_costs_four_streams_more,
              streams_that_wait_for_each_other_need_as_little_as_one, streams_whose_frees_are_complete_at_once_are_as_one, blocks_that_streams_keep_come_back_and_cost_little);
    return suite_run(suite);
}
