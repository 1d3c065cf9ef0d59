/* SPDX-License-Identifier: MIT */
/*
 * adapt.c - `release_threshold: auto`: its bounds, how it begins and ends, what it counts, and that it sleeps. By hand, on the simulator's
 * clock.
 */
#include <stdio.h>
#include <string.h>

#include "lib/base/service.h"
#include "lib/open.h"
#include "lib/release/give.h"
#include "tests/api/scene.h"

#define SECOND (1000 * MILLISECOND)
#define LONG (60 * SECOND) /* after which nothing idle is kept any more */
#define POLICY(rest) "weir: 1\nkeeper: true\npools: { main: { small_below: 0, cache: off, " rest " } }\n"

static weir_stream *open_auto(const char *policy)
{
    scene_open(policy);
    return scene_create(NULL);
}

static void use_once(weir_stream *s, uint64_t bytes)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_free(s, scene_malloc(s, bytes));
    scene_ok(weir_stream_synchronize(s, &error), "synchronize");
}

/* In use for a while, given back for as long, and so on. */
static void use_often(weir_stream *s, uint64_t bytes, uint64_t half, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        void *ptr = scene_malloc(s, bytes);
        scene_pass(half);
        scene_free(s, ptr);
        weir_error error = WEIR_ERROR_INIT;
        scene_ok(weir_stream_synchronize(s, &error), "synchronize");
        scene_pass(half);
    }
}

static uint64_t reserved(void)
{
    return scene_pool_stats("main").reserved;
}

/* What is kept ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(synchronise_gives_nothing_back_and_the_keeper_gives_back_what_is_not_wanted_again)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_once(s, GIB);
    ck_assert_uint_eq(reserved(), GIB);
    scene_pass(2 * SECOND);
    ck_assert_uint_eq(reserved(), GIB);
    scene_pass(3 * SECOND);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

START_TEST(memory_that_comes_back_within_its_price_is_kept)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_often(s, GIB, SECOND, 20);
    ck_assert_uint_eq(reserved(), GIB);
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, GIB);
    ck_assert_uint_eq(sim_calls("pool_trim"), 0);
}
END_TEST

START_TEST(what_is_live_stays_and_only_the_rest_goes_back)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    void *ptr = scene_malloc(s, 256 * MIB);
    use_once(s, GIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 256 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, 256 * MIB);
    scene_free(s, ptr);
}
END_TEST

/* Growth of CUDA's pools is in steps, so that some memory cannot go back. */
START_TEST(pool_with_a_twin_gives_back_as_well)
{
    scene_open("weir: 1\nkeeper: true\npools: { main: { cache: off, release_threshold: auto } }\n");
    weir_stream *s = scene_create(NULL);
    use_once(s, GIB);
    use_once(s, 65536);
    ck_assert_uint_eq(reserved(), GIB + 32 * MIB);
    scene_pass(LONG);
    ck_assert_uint_le(reserved(), 32 * MIB);
}
END_TEST

START_TEST(arena_gives_back_as_well_and_keeps_over_a_synchronise)
{
    weir_stream *s = open_auto(POLICY("backing: arena, release_threshold: auto"));
    use_once(s, GIB);
    ck_assert_uint_ge(reserved(), GIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

/* Bytes that it has after a GiB was used and a minute has passed. */
static const struct {
    const char *policy;
    uint64_t kept;
} bounds[] = {
    {POLICY("release_threshold: auto"), 0},
    {POLICY("release_threshold: auto, keep: 256MiB"), 256 * MIB},
    {POLICY("release_threshold: auto, keep: all"), GIB},
    {POLICY("release_threshold: auto, initial_size: 128MiB"), 128 * MIB},
    {POLICY("release_threshold: auto, initial_size: 128MiB, keep: 64MiB"), 128 * MIB},
    {POLICY("release_threshold: auto, max_size: 1GiB, keep: all"), GIB},
    {POLICY("backing: arena, release_threshold: auto, keep: 256MiB"), 256 * MIB},
};

START_TEST(keep_and_initial_size_are_never_given_back)
{
    weir_stream *s = open_auto(bounds[_i].policy);
    use_once(s, GIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), bounds[_i].kept);
}
END_TEST

START_TEST(threshold_is_never_above_max_size)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto, keep: all, max_size: 512MiB"));
    use_once(s, 256 * MIB);
    scene_pass(SECOND);
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, 512 * MIB);
}
END_TEST

/* A block in each step of half a GiB leaves no room for large ones there, but does not make the rest needless. */
START_TEST(room_that_fragments_take_is_kept_beside_what_is_wanted)
{
    void *small[16], *gaps[16];
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    void *live = scene_malloc(s, 256 * MIB);
    for (unsigned i = 0; i < 16; i++) {
        small[i] = scene_malloc(s, MIB);
        gaps[i] = scene_malloc(s, 31 * MIB);
    }
    for (unsigned i = 0; i < 16; i++)
        scene_free(s, gaps[i]);
    use_often(s, 512 * MIB, SECOND, 10);
    ck_assert_uint_eq(reserved(), 1280 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").kept_unused, 0);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 768 * MIB);
    for (unsigned i = 0; i < 16; i++)
        scene_free(s, small[i]);
    scene_free(s, live);
}
END_TEST

static uint64_t reserved_in_all(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats;
    scene_ok(weir_stats_take(scene.w, &error, &stats), "stats");
    uint64_t bytes = 0;
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++)
        bytes += weir_stats_pool(stats, i)->reserved;
    weir_stats_free(stats);
    return bytes;
}

START_TEST(pool_of_a_private_stream_keeps_nothing_once_that_is_closed)
{
    scene_open("weir: 1\nkeeper: true\npools: { main: { small_below: 0, cache: off, release_threshold: auto } }\n"
               "streams: { own: { private: true } }\n");
    for (unsigned i = 0; i < 2; i++) {
        weir_stream *s = scene_create("own");
        use_once(s, GIB);
        scene_pass(SECOND);
        ck_assert_uint_eq(reserved_in_all(), GIB);
        weir_stream_close(s);
        scene_pass(SECOND);
        ck_assert_uint_eq(reserved_in_all(), 0);
    }
}
END_TEST

START_TEST(memory_goes_back_sooner_once_a_neighbour_has_asked)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_often(s, GIB, 100 * MILLISECOND, 5);
    struct weir__give_request request = {.device = 0, .wanted = 1, .keep = UINT64_MAX, .is_neighbour = true, .deadline = UINT64_MAX};
    struct weir__give *give = weir__give_begin(scene.w, &request);
    while (weir__give_step(give) != WEIR__GIVE_DONE)
        scene_pass(MILLISECOND);
    weir__give_end(give);
    ck_assert_uint_eq(reserved(), GIB);
    use_once(s, GIB);
    scene_pass(1500 * MILLISECOND);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

/* How it goes back -------------------------------------------------------------------------------------------------------------------- */

START_TEST(memory_goes_back_in_pieces_with_pauses)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_once(s, GIB);
    uint64_t before = GIB, pieces = 0, last = 0;
    for (uint64_t due; (due = weir__service_next()) != WEIR__SERVICE_NEVER;) {
        uint64_t now = scene.gpu->now();
        scene.gpu->pause(due > now ? due - now : 0);
        now = scene.gpu->now();
        weir__service_run_due();
        uint64_t after = reserved();
        ck_assert_uint_le(before - after, 64 * MIB);
        if (after < before) {
            ck_assert(!last || now - last >= 4 * MILLISECOND);
            last = now;
            pieces++;
        }
        before = after;
    }
    ck_assert_uint_eq(pieces, 16);
    ck_assert_uint_eq(before, 0);
}
END_TEST

START_TEST(piece_that_is_wanted_meanwhile_is_not_given_back)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_once(s, GIB);
    while (reserved() == GIB)
        weir__service_pass(weir__service_next());
    use_once(s, 768 * MIB);
    scene_pass(SECOND);
    ck_assert_uint_eq(reserved(), 768 * MIB);
}
END_TEST

START_TEST(memory_behind_work_goes_back_once_the_work_is_done)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    void *ptr = scene_malloc(s, GIB);
    scene_delay(weir_stream_handle(s), 20000);
    scene_free(s, ptr);
    scene_pass(15 * SECOND);
    ck_assert_uint_eq(reserved(), GIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

/* Nothing of the pool can go back: a block lies in each of its steps. */
START_TEST(keeper_sleeps_where_nothing_can_go_back)
{
    void *small[16], *gaps[16];
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    for (unsigned i = 0; i < 16; i++) {
        small[i] = scene_malloc(s, MIB);
        gaps[i] = scene_malloc(s, 31 * MIB);
    }
    for (unsigned i = 0; i < 16; i++)
        scene_free(s, gaps[i]);
    weir_error error = WEIR_ERROR_INIT;
    scene_ok(weir_stream_synchronize(s, &error), "synchronize");
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 512 * MIB);
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    ck_assert_uint_gt(sim_calls("pool_trim"), 1); /* larger pieces were tried, too */
    ck_assert_uint_le(sim_calls("pool_trim"), 64);
    for (unsigned i = 0; i < 16; i++)
        scene_free(s, small[i]);
}
END_TEST

START_TEST(quiet_program_is_never_looked_at_again)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_often(s, GIB, 100 * MILLISECOND, 20);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    void *ptr = scene_malloc(s, GIB);
    ck_assert_uint_eq(weir__service_next(), WEIR__SERVICE_NEVER);
    scene_free(s, ptr);
    ck_assert_uint_ne(weir__service_next(), WEIR__SERVICE_NEVER);
}
END_TEST

START_TEST(program_that_frees_all_the_time_is_looked_at_twice_a_second)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    scene_pass(SECOND);
    size_t looks = 0;
    for (unsigned i = 0; i < 1000; i++) {
        use_once(s, GIB);
        sim_advance(10 * MILLISECOND);
        looks += weir__service_run_due();
    }
    ck_assert_uint_ge(looks, 19);
    ck_assert_uint_le(looks, 21);
}
END_TEST

/* Between automatic and fixed --------------------------------------------------------------------------------------------------------- */

START_TEST(reload_goes_from_fixed_to_automatic_and_back)
{
    weir_stream *s = open_auto(POLICY("release_threshold: all"));
    use_once(s, GIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), GIB);
    ck_assert(!scene_pool_stats("main").is_auto);
    scene_reload(POLICY("release_threshold: auto"));
    ck_assert(scene_pool_stats("main").is_auto);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
    scene_reload(POLICY("release_threshold: 512MiB"));
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, 512 * MIB);
    use_once(s, GIB);
    ck_assert_uint_eq(reserved(), 512 * MIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 512 * MIB);
}
END_TEST

START_TEST(reload_that_changes_something_else_leaves_what_was_learnt)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_often(s, GIB, 100 * MILLISECOND, 20);
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, GIB);
    scene_reload(POLICY("release_threshold: auto, max_size: 4GiB"));
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, GIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

static weir_status set(const char *assignment, weir_error *error)
{
    return weir__policy_set(scene.w, assignment, error);
}

START_TEST(weir_set_goes_from_fixed_to_automatic_and_back)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = open_auto(POLICY("release_threshold: all"));
    use_once(s, GIB);
    scene_ok(set("pools.main.release_threshold=auto", &error), "auto");
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
    scene_ok(set("pools.main.release_threshold=256MiB", &error), "256MiB");
    use_once(s, GIB);
    ck_assert_uint_eq(reserved(), 256 * MIB);
}
END_TEST

START_TEST(threshold_that_the_program_sets_holds_until_the_next_reload)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    scene_ok(weir_pool_set_release_threshold(scene.pool, 512 * MIB, &error), "threshold");
    ck_assert(!scene_pool_stats("main").is_auto);
    use_once(s, GIB);
    ck_assert_uint_eq(reserved(), 512 * MIB);
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 512 * MIB);
    scene_reload(POLICY("release_threshold: auto"));
    scene_pass(LONG);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

static void expect_refusal(const weir_error *error, const char *place)
{
    ck_assert_int_eq(error->status, WEIR_BAD_POLICY);
    char start[512];
    snprintf(start, sizeof start,
             "%spools.main.release_threshold: is auto, which only the keeper can set while the program runs, and keeper is false; add "
             "keeper: true, or write all, none or bytes",
             place);
    ck_assert_msg(strstr(error->text, start) != NULL, "%s", error->text);
}

START_TEST(without_the_keeper_it_is_refused_with_reason_place_and_remedy)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w = NULL;
    options.policy_text = "weir: 1\npools:\n  main:\n    release_threshold: auto\n";
    ck_assert_int_eq(weir_open(&options, &error, &w), WEIR_BAD_POLICY);
    expect_refusal(&error, "");
    ck_assert_uint_eq(error.line, 4);
}
END_TEST

START_TEST(keeper_cannot_be_switched_off_under_it)
{
    weir_error error = WEIR_ERROR_INIT;
    open_auto(POLICY("release_threshold: auto"));
    ck_assert_int_eq(set("keeper=false", &error), WEIR_BAD_POLICY);
    expect_refusal(&error, "");
    ck_assert(scene_pool_stats("main").is_auto);
    weir_error_clear(&error);
    scene_ok(set("pools.main.release_threshold=all,keeper=false", &error), "both");
}
END_TEST

/* Of one pool that is changed already, or of the other. */
START_TEST(reload_that_fails_leaves_it_automatic)
{
    scene_open("weir: 1\nkeeper: true\ndefaults: { pool: main }\npools:\n"
               "  main: { small_below: 0, cache: off, release_threshold: auto }\n"
               "  more: { small_below: 0, cache: off, release_threshold: auto }\n");
    weir_stream *s = scene_create(NULL);
    for (unsigned nth = 1; nth <= 8; nth++) {
        weir_error error = WEIR_ERROR_INIT;
        use_once(s, GIB);
        uint64_t kept = scene_pool_stats("main").release_threshold;
        sim_fail("pool_set", nth, GPU_UNKNOWN);
        ck_assert_int_ne(set("pools.main.release_threshold=64MiB,pools.more.release_threshold=64MiB", &error), WEIR_OK);
        sim_fail(NULL, 0, 0);
        ck_assert(scene_pool_stats("main").is_auto);
        ck_assert(scene_pool_stats("more").is_auto);
        ck_assert_uint_eq(scene_pool_stats("main").release_threshold, kept);
        use_once(s, GIB);
        ck_assert_uint_eq(reserved(), GIB);
        scene_pass(LONG);
        ck_assert_uint_eq(reserved(), 0);
    }
}
END_TEST

START_TEST(reload_that_fails_leaves_the_threshold_that_the_program_set)
{
    weir_error error = WEIR_ERROR_INIT;
    scene_open("weir: 1\nkeeper: true\ndefaults: { pool: main }\npools:\n"
               "  main: { small_below: 0, cache: off, release_threshold: auto }\n"
               "  more: { small_below: 0, cache: off, release_threshold: auto }\n");
    scene_ok(weir_pool_set_release_threshold(scene.pool, 512 * MIB, &error), "threshold");
    sim_fail("pool_set", 8, GPU_UNKNOWN);
    ck_assert_int_ne(set("pools.main.keep=64MiB", &error), WEIR_OK);
    sim_fail(NULL, 0, 0);
    ck_assert(!scene_pool_stats("main").is_auto);
    ck_assert_uint_eq(scene_pool_stats("main").release_threshold, 512 * MIB);
    ck_assert(scene_pool_stats("more").is_auto);
}
END_TEST

/* What it counts ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(what_was_kept_and_used_again_is_counted)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_often(s, GIB, 1500 * MILLISECOND, 5);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.kept_used, 4 * GIB);
    ck_assert_uint_eq(stats.kept_used_ms, 7); /* 4 times 1.76 */
    ck_assert_uint_eq(stats.kept_unused, 0);
    ck_assert_uint_eq(stats.given_missed, 0);
}
END_TEST

START_TEST(what_was_kept_for_nothing_is_counted)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_once(s, GIB);
    scene_pass(LONG);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.kept_used, 0);
    ck_assert_uint_eq(stats.kept_unused, GIB);
    ck_assert_uint_eq(stats.kept_unused_ms, 1); /* for 3 to 4 seconds, at 0.44 */
    ck_assert_uint_eq(stats.given_missed, 0);
}
END_TEST

START_TEST(what_was_given_back_and_missed_is_counted)
{
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_once(s, GIB);
    scene_pass(5 * SECOND);
    ck_assert_uint_eq(reserved(), 0);
    use_once(s, 512 * MIB);
    scene_pass(SECOND);
    weir_pool_stats stats = scene_pool_stats("main");
    ck_assert_uint_eq(stats.given_missed, 512 * MIB);
    ck_assert_uint_eq(stats.kept_unused, GIB);
    scene_pass(LONG);
    use_once(s, GIB);
    scene_pass(SECOND);
    ck_assert_uint_eq(scene_pool_stats("main").given_missed, 512 * MIB);
}
END_TEST

START_TEST(peaks_of_the_pool_are_what_they_are_without_it)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s = open_auto(POLICY("release_threshold: auto"));
    use_once(s, GIB);
    scene_pass(LONG);
    use_once(s, 256 * MIB);
    ck_assert_uint_eq(scene_pool_stats("main").live_high, GIB);
    scene_ok(weir_stats_reset_peaks(scene.w, 0, &error), "reset");
    ck_assert_uint_eq(scene_pool_stats("main").live_high, 0);
    use_once(s, 256 * MIB);
    scene_pass(LONG);
    ck_assert_uint_eq(scene_pool_stats("main").live_high, 256 * MIB);
}
END_TEST

int main(void)
{
    const char *why = scene_why_not();
    if (why || !scene_is_sim())
        return suite_skip(why ? why : "a GPU has its own clock; WEIR_TEST_GPU=sim runs on the simulator");
    Suite *suite = suite_create("automatic threshold");
    TCase *kept = suite_case(suite, "what is kept", 0);
    tcase_add_checked_fixture(kept, scene_begin_by_hand, scene_end_by_hand);
    suite_add(kept, synchronise_gives_nothing_back_and_the_keeper_gives_back_what_is_not_wanted_again,
              memory_that_comes_back_within_its_price_is_kept, what_is_live_stays_and_only_the_rest_goes_back,
              pool_with_a_twin_gives_back_as_well, arena_gives_back_as_well_and_keeps_over_a_synchronise, threshold_is_never_above_max_size,
              room_that_fragments_take_is_kept_beside_what_is_wanted, pool_of_a_private_stream_keeps_nothing_once_that_is_closed,
              memory_goes_back_sooner_once_a_neighbour_has_asked);
    tcase_add_loop_test(kept, keep_and_initial_size_are_never_given_back, 0, (int)(sizeof bounds / sizeof bounds[0]));
    TCase *back = suite_case(suite, "giving back", 0);
    tcase_add_checked_fixture(back, scene_begin_by_hand, scene_end_by_hand);
    suite_add(back, memory_goes_back_in_pieces_with_pauses, piece_that_is_wanted_meanwhile_is_not_given_back,
              memory_behind_work_goes_back_once_the_work_is_done, keeper_sleeps_where_nothing_can_go_back,
              quiet_program_is_never_looked_at_again, program_that_frees_all_the_time_is_looked_at_twice_a_second);
    TCase *live = suite_case(suite, "automatic and fixed", 0);
    tcase_add_checked_fixture(live, scene_begin_by_hand, scene_end_by_hand);
    suite_add(live, reload_goes_from_fixed_to_automatic_and_back, reload_that_changes_something_else_leaves_what_was_learnt,
              weir_set_goes_from_fixed_to_automatic_and_back, threshold_that_the_program_sets_holds_until_the_next_reload,
              without_the_keeper_it_is_refused_with_reason_place_and_remedy, keeper_cannot_be_switched_off_under_it,
              reload_that_fails_leaves_it_automatic, reload_that_fails_leaves_the_threshold_that_the_program_set);
    TCase *counts = suite_case(suite, "counts", 0);
    tcase_add_checked_fixture(counts, scene_begin_by_hand, scene_end_by_hand);
    suite_add(counts, what_was_kept_and_used_again_is_counted, what_was_kept_for_nothing_is_counted,
              what_was_given_back_and_missed_is_counted, peaks_of_the_pool_are_what_they_are_without_it);
    return suite_run(suite);
}
