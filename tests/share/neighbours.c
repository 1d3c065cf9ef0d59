/* SPDX-License-Identifier: MIT */
/*
 * neighbours.c - processes on one GPU that give each other what they do not use: who is asked for how much, who is left alone, and that nobody
 * waits for ever. The device has 1 GiB; pools grow and shrink by 32 MiB.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "share/control/control_answer.h"
#include "tests/share/neighbourhood.h"

#define GIFTS (SHARE_GIVES_AT_ONCE + 20)

/* Rescues ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(request_is_rescued_by_what_a_neighbour_does_not_use)
{
    struct player *holder = enter_idle("holder", 768), *asker = enter("asker");
    take(asker, "a", 512);
    check_rescued(asker, 1, 256);
    check_asked(holder, 1, 256);
}
END_TEST

START_TEST(neighbour_gives_no_more_than_is_missing)
{
    struct player *holder = enter_idle("holder", 768), *asker = enter("asker");
    take(asker, "a", 512);
    check_holds(holder, 512);
    check_holds(asker, 512);
}
END_TEST

START_TEST(neighbour_gives_what_is_to_stay_free_as_well)
{
    struct player *holder = enter_idle("holder", 768);
    struct player *asker = enter_with("asker", _i ? "backing: arena, leave_free: 128MiB, " : "leave_free: 128MiB, ");
    take(asker, "a", 512);
    check_rescued(asker, 1, 384);
    check_holds(holder, 384);
    check_holds(asker, 512);
}
END_TEST

START_TEST(sleeper_wakes_by_what_a_neighbour_does_not_use)
{
    struct player *sleeper = enter_with("sleeper", "backing: arena, ");
    take(sleeper, "a", 512);
    stage_say(sleeper, "fill a 7 s; synchronize s; sleep p");
    struct player *holder = enter_idle("holder", 896);
    stage_say(sleeper, "wake p");
    stage_say(sleeper, "check a 7 s");
    check_rescued(sleeper, 1, 384);
    check_holds(holder, 512);
}
END_TEST

/* Neither holds half of what both need. The device has 256 MiB. */
START_TEST(two_sleepers_wake_in_turn)
{
    struct player *one = enter_with("one", "backing: arena, "), *two = enter_with("two", "backing: arena, ");
    for (int i = 0; i < 4; i++) {
        struct player *awake = i % 2 ? two : one, *other = i % 2 ? one : two;
        if (i < 2)
            take(awake, "a", 160);
        else
            stage_say(awake, "wake p");
        if (i < 2)
            stage_say(awake, i ? "fill a 8 s; synchronize s" : "fill a 7 s; synchronize s");
        stage_say(awake, i % 2 ? "check a 8 s; sleep p" : "check a 7 s; sleep p");
        check_holds(awake, 0);
        check_holds(other, 0);
    }
}
END_TEST

START_TEST(figures_of_both_sides_agree)
{
    struct player *holder = enter_idle("holder", 768), *asker = enter("asker");
    take(asker, "a", 320);
    take(asker, "b", 192);
    take(asker, "c", 96);
    const char *asks = stage_say(asker, "asks");
    unsigned long long sent = stage_number(asks, "sent"), got = stage_number(asks, "got");
    asks = stage_say(holder, "asks");
    ck_assert_uint_eq(stage_number(asks, "received"), sent);
    ck_assert_uint_eq(stage_number(asks, "given"), got);
    ck_assert_uint_eq(got, (320 + 192 + 96 - 256) * MIB);
}
END_TEST

START_TEST(live_memory_of_a_neighbour_stays_what_it_is)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 128);
    stage_say(holder, "fill a 7 s");
    idle(holder, 512);
    take(asker, "b", 640);
    stage_say(asker, "fill b 8 s; synchronize s");
    stage_say(holder, "check a 7 s");
}
END_TEST

START_TEST(neighbour_who_gave_can_allocate_on)
{
    struct player *holder = enter_idle("holder", 768), *asker = enter("asker");
    take(asker, "a", 512);
    take(holder, "b", 512);
    stage_say(asker, "free a s; synchronize s");
    take(holder, "c", 256);
    check_rescued(holder, 1, 256);
    check_asked(asker, 1, 256);
}
END_TEST

START_TEST(largest_is_asked_first_and_a_smaller_one_left_alone)
{
    struct player *small = enter_idle("small", 256), *large = enter_idle("large", 512), *asker = enter("asker");
    take(asker, "a", 640);
    check_rescued(asker, 1, 384);
    check_asked(large, 1, 384);
    check_asked(small, 0, 0);
    check_holds(small, 256);
}
END_TEST

START_TEST(two_who_have_not_enough_alone_rescue_together)
{
    struct player *some = enter_idle("some", 320), *more = enter_idle("more", 448), *asker = enter("asker");
    take(asker, "a", 896);
    check_rescued(asker, 2, 640);
    check_asked(more, 1, 448);
    check_asked(some, 1, 192);
    check_holds(some, 128);
}
END_TEST

START_TEST(seven_neighbours_give_a_little_each)
{
    struct player *holders[7], *asker;
    for (int i = 0; i < 7; i++)
        holders[i] = enter_idle("holder", 128);
    asker = enter("asker");
    take(asker, "a", 1024);
    check_rescued(asker, 7, 896);
    for (int i = 0; i < 7; i++)
        check_asked(holders[i], 1, 128);
}
END_TEST

/* Arenas grow by 2 MiB, and claims by the byte. Pools of CUDA's would need 32 MiB here. */
START_TEST(arena_and_claim_are_rescued_by_less_than_a_growth_step_of_cudas)
{
    struct player *holder = enter_with("holder", "backing: arena, "), *asker = enter_with("asker", "backing: arena, ");
    take(holder, "live", 512);
    idle(holder, 16);
    take(asker, "a", 496);
    stage_say(asker, _i ? "reserve 504MiB 100000" : "malloc b 8MiB s");
    check_asked(holder, 1, 16);
    check_holds(holder, 512);
}
END_TEST

/* More often, and faster, than a neighbour lets itself be asked: then the request takes longer. */
START_TEST(rescues_in_a_row_are_slowed_down_and_not_refused)
{
    struct player *a = enter("a"), *b = enter("b");
    for (int i = 0; i < GIFTS; i++) {
        idle(a, 768);
        idle(b, 768);
    }
    ck_assert_uint_ge(stage_number(stage_say(a, "asks"), "rescued"), GIFTS - 1);
    ck_assert_uint_ge(stage_number(stage_say(b, "asks"), "rescued"), GIFTS);
}
END_TEST

START_TEST(caches_of_a_neighbour_are_emptied)
{
    struct player *holder = enter_with("holder", "cache: { largest: 64MiB, per_stream: 256MiB, per_device: 256MiB }, "), *asker;
    char block[16];
    for (int i = 0; i < 4; i++) {
        snprintf(block, sizeof block, "b%d", i);
        take(holder, block, 32);
    }
    for (int i = 0; i < 4; i++)
        stage_say(holder, "free b%d s", i);
    ck_assert_uint_eq(stage_number(stage_say(holder, "pool p"), "cached"), 128 * MIB);
    asker = enter("asker");
    take(asker, "a", 1024);
    check_asked(holder, 1, 128);
    check_holds(holder, 0);
}
END_TEST

START_TEST(every_pool_of_a_neighbour_counts)
{
    struct player *holder = enter_idle("holder", 256), *asker = enter("asker");
    stage_say(holder, "pool_malloc q x 512MiB s; free x s; synchronize s");
    take(asker, "a", 896);
    check_rescued(asker, 1, 640);
    unsigned long long left = stage_number(stage_say(holder, "pool p"), "reserved");
    left += stage_number(stage_say(holder, "pool q"), "reserved");
    ck_assert_uint_eq(left, 128 * MIB);
}
END_TEST

/* Nobody can help ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(neighbours_who_have_not_enough_together_are_not_asked_to_give)
{
    struct player *some = enter_idle("some", 256), *more = enter("more"), *asker = enter("asker");
    take(more, "live", 256);
    idle(more, 128);
    run_out(asker, 896);
    check_not_rescued(asker);
    check_asked(some, 0, 0);
    check_asked(more, 0, 0);
    check_holds(some, 256);
    check_holds(more, 384);
}
END_TEST

START_TEST(report_tells_of_the_neighbours)
{
    struct player *some = enter_idle("some", 256), *more = enter("more"), *asker = enter("asker");
    take(more, "live", 512);
    const char *report = run_out(asker, 896);
    ck_assert_msg(strstr(report, "2 other processes on this GPU offered") != NULL, "%s", report);
    check_asked(some, 0, 0);
}
END_TEST

START_TEST(who_is_alone_runs_out)
{
    struct player *asker = enter("asker");
    take(asker, "a", 768);
    const char *report = run_out(asker, 512);
    ck_assert_msg(strstr(report, "no other process that has control: true") != NULL, "%s", report);
    check_not_rescued(asker);
}
END_TEST

/* Of two GPUs: one that is on the other alone is no neighbour, whether or not there is one on this. */
START_TEST(report_counts_no_process_of_another_gpu)
{
    char settings[128];
    snprintf(settings, sizeof settings, "%s,devices=2", getenv("WEIR_SIM"));
    ck_assert_int_eq(setenv("WEIR_SIM", settings, 1), 0);
    struct player *elsewhere = stage_enter((struct role){ .name = "elsewhere" });
    stage_say(elsewhere, "open %s", stage_policy_file("elsewhere", "weir: 1\ncontrol: true\npools:\n  p: { devices: [1] }\n"));
    struct player *asker = enter("asker");
    take(asker, "a", 768);
    const char *report = run_out(asker, 512);
    ck_assert_msg(strstr(report, "no other process that has control: true in its policy was found on this GPU") != NULL, "%s", report);
    struct player *here = enter("here");
    take(here, "b", 32);
    report = run_out(asker, 512);
    ck_assert_msg(strstr(report, "1 other process on this GPU offered") != NULL, "%s", report);
}
END_TEST

START_TEST(report_names_processes_that_use_this_gpu)
{
    char settings[128], expected[256];
    snprintf(settings, sizeof settings, "%s,devices=2", getenv("WEIR_SIM"));
    ck_assert_int_eq(setenv("WEIR_SIM", settings, 1), 0);
    struct player *elsewhere = stage_enter((struct role){ .name = "elsewhere" });
    stage_say(elsewhere, "open %s", stage_policy_file("elsewhere", "weir: 1\npools:\n  p: { devices: [1], initial_size: 64MiB }\n"));
    struct player *asker = enter("asker");
    take(asker, "a", 512);
    ck_assert_ptr_null(strstr(run_out(asker, 768), "processes on this GPU:"));
    struct player *small = enter("small"), *large = stage_enter((struct role){ .name = "large" });
    stage_say(large, "open %s; stream s", stage_policy_file("large", "weir: 1\npools: { p: { devices: [0] } }\n")); /* without control */
    take(small, "b", 32);
    take(large, "c", 128);
    const char *report = run_out(asker, 768);
    snprintf(expected, sizeof expected, "   other processes on this GPU: pid %d (actor) 128 MiB, pid %d (actor) 32 MiB   ", stage_pid(large),
             stage_pid(small));
    ck_assert_msg(strstr(report, expected) != NULL, "no \"%s\" in: %s", expected, report);
}
END_TEST

START_TEST(request_that_failed_succeeds_once_a_neighbour_has_something)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 768);
    run_out(asker, 512);
    stage_say(holder, "free a s; synchronize s");
    take(asker, "b", 512);
    check_rescued(asker, 1, 256);
}
END_TEST

/* Who is not asked --------------------------------------------------------------------------------------------------------------------- */

START_TEST(process_without_control_is_not_asked)
{
    struct player *holder = stage_enter((struct role){ .name = "holder", .policy = policy_with("", "") }), *asker = enter("asker");
    idle(holder, 768);
    run_out(asker, 512);
    check_silent(holder);
    check_holds(holder, 768);
}
END_TEST

START_TEST(process_without_control_asks_others)
{
    struct player *holder = enter_idle("holder", 768), *asker;
    asker = stage_enter((struct role){ .name = "asker", .policy = policy_with("", "") });
    take(asker, "a", 512);
    check_rescued(asker, 1, 256);
    check_asked(holder, 1, 256);
}
END_TEST

START_TEST(policy_without_the_step_asks_nobody)
{
    struct player *holder = enter_idle("holder", 768);
    struct player *asker = stage_enter((struct role){ .name = "asker",
                                                      .policy = "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: "
                                                                "{ steps: [flush, wait, trim, callbacks] } }\n" });
    run_out(asker, 512);
    check_silent(asker);
    check_silent(holder);
}
END_TEST

START_TEST(at_a_cap_nobody_is_asked)
{
    struct player *holder = enter_idle("holder", 512), *asker = enter_with("asker", "max_size: 256MiB, ");
    take(asker, "a", 256);
    run_out(asker, 64);
    check_silent(asker);
    check_silent(holder);
}
END_TEST

START_TEST(request_larger_than_the_device_asks_nobody)
{
    struct player *holder = enter_idle("holder", 512), *asker = enter("asker");
    run_out(asker, 2048);
    check_silent(asker);
    check_silent(holder);
}
END_TEST

START_TEST(process_on_another_gpu_is_not_asked)
{
    char machine[96];
    snprintf(machine, sizeof machine, "memory=1GiB,name=other-%ld", (long)getpid());
    struct player *asker = enter("asker");
    struct player *other = stage_enter(
        (struct role){ .name = "other", .policy = policy_with("control: true\n", ""), .sim = machine });
    idle(other, 512);
    take(asker, "a", 768);
    run_out(asker, 512);
    check_not_rescued(asker);
    check_asked(other, 0, 0);
    check_holds(other, 512);
    stage_leave(other);
}
END_TEST

START_TEST(neighbour_that_closed_is_not_asked)
{
    struct player *holder = enter_idle("holder", 512), *asker = enter("asker");
    stage_say(holder, "close");
    take(asker, "a", 768);
    run_out(asker, 512);
    check_silent(holder);
}
END_TEST

/* keep --------------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *keep;
    unsigned stays; /* MiB: keep, and what is left of the step of 32 MiB in which it ends */
} keeps[] = { { "none", 0 }, { "32MiB", 32 }, { "160MiB", 160 }, { "100MiB", 128 }, { "25%", 256 }, { "513MiB", 512 } };

START_TEST(pool_keeps_what_its_policy_says_to_the_step)
{
    char keys[64];
    snprintf(keys, sizeof keys, "keep: %s, ", keeps[_i].keep);
    struct player *holder = enter_with("holder", keys), *asker = enter("asker");
    unsigned given = 512 - keeps[_i].stays;
    idle(holder, 512);
    run_out(asker, 512 + given + 32);
    check_holds(holder, 512);
    if (given)
        take(asker, "a", 512 + given);
    check_holds(holder, keeps[_i].stays);
}
END_TEST

START_TEST(pool_that_keeps_all_is_left_alone)
{
    struct player *holder = enter_with("holder", "keep: all, "), *asker = enter("asker");
    idle(holder, 512);
    run_out(asker, 640);
    check_asked(holder, 0, 0);
    check_holds(holder, 512);
}
END_TEST

START_TEST(keep_counts_live_memory)
{
    struct player *holder = enter_with("holder", "keep: 256MiB, "), *asker = enter("asker");
    take(holder, "live", 256);
    idle(holder, 256);
    take(asker, "a", 768);
    check_holds(holder, 256);
}
END_TEST

START_TEST(keep_that_is_reloaded_counts_at_once)
{
    struct player *holder = enter_with("holder", "keep: all, "), *asker = enter("asker");
    idle(holder, 512);
    run_out(asker, 640);
    stage_say(holder, "reload %s", stage_policy_file("holder", policy_with("control: true\n", "keep: 128MiB, ")));
    take(asker, "a", 640);
    check_asked(holder, 1, 128);
}
END_TEST

/* What is in use in other ways ------------------------------------------------------------------------------------------------------------ */

static const char *const captures[] = { "capture", "capture_globally" };

START_TEST(pool_of_a_stream_that_captures_is_left_alone)
{
    struct player *holder = enter_idle("holder", 256), *asker = enter("asker");
    stage_say(holder, "pool_malloc q x 256MiB s; free x s; synchronize s; %s s", captures[_i]);
    take(asker, "a", 640);
    run_out(asker, 384);
    stage_say(holder, "capture_end s");
    check_holds(holder, 256);
    check_pool_holds(holder, "q", 128);
}
END_TEST

START_TEST(pool_gives_again_when_its_capture_has_ended)
{
    struct player *holder = enter_idle("holder", 512), *asker = enter("asker");
    stage_say(holder, "%s s", captures[_i]);
    run_out(asker, 640);
    stage_say(holder, "capture_end s");
    take(asker, "a", 640);
    check_holds(holder, 384);
}
END_TEST

START_TEST(frees_that_are_pending_are_waited_for)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 768);
    stage_say(holder, "delay 300 s; free a s");
    take(asker, "b", 512);
    check_rescued(asker, 1, 256);
    check_asked(holder, 1, 256);
}
END_TEST

START_TEST(frees_that_take_too_long_are_given_up)
{
    struct player *holder = enter("holder"), *asker;
    asker = stage_enter((struct role){ .name = "asker",
                                       .policy = "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: { deadline: 500ms } }\n" });
    take(holder, "a", 768);
    stage_say(holder, "delay 100000 s; free a s");
    run_out(asker, 512);
    check_holds(holder, 768);
    take(asker, "b", 256);
    stage_signal(holder, SIGKILL);
}
END_TEST

/* A neighbour that waits for pending frees until time is up has to say so before that. */
START_TEST(neighbour_that_gives_a_part_and_waits_for_more_answers_in_time)
{
    struct player *holder = enter("holder"), *asker;
    asker = stage_enter((struct role){ .name = "asker",
                                       .policy = "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: { deadline: 32s } }\n" });
    take(holder, "a", 512);
    idle(holder, 256);
    stage_say(holder, "delay 100000 s; free a s");
    const char *report = run_out(asker, 768);
    ck_assert_msg(!strstr(report, "did not answer"), "%s", report);
    ck_assert_uint_eq(stage_number(stage_say(asker, "asks"), "got"), 256 * MIB);
    ck_assert_uint_eq(stage_number(stage_say(holder, "asks"), "given"), 256 * MIB);
    stage_signal(holder, SIGKILL);
}
END_TEST

/* Suite -------------------------------------------------------------------------------------------------------------------------------- */

static void add_rescues(Suite *suite)
{
    TCase *tcase = stage_case(suite, "rescues");
    suite_add(tcase, request_is_rescued_by_what_a_neighbour_does_not_use, neighbour_gives_no_more_than_is_missing,
              figures_of_both_sides_agree, live_memory_of_a_neighbour_stays_what_it_is, neighbour_who_gave_can_allocate_on,
              largest_is_asked_first_and_a_smaller_one_left_alone, two_who_have_not_enough_alone_rescue_together,
              seven_neighbours_give_a_little_each, rescues_in_a_row_are_slowed_down_and_not_refused, caches_of_a_neighbour_are_emptied,
              every_pool_of_a_neighbour_counts);
    tcase_add_loop_test(tcase, arena_and_claim_are_rescued_by_less_than_a_growth_step_of_cudas, 0, 2);
    tcase = stage_case(suite, "nobody can help");
    suite_add(tcase, neighbours_who_have_not_enough_together_are_not_asked_to_give, report_tells_of_the_neighbours,
              report_counts_no_process_of_another_gpu, report_names_processes_that_use_this_gpu, who_is_alone_runs_out,
              request_that_failed_succeeds_once_a_neighbour_has_something);
}

static void add_limits(Suite *suite)
{
    TCase *tcase = stage_case(suite, "not asked");
    suite_add(tcase, process_without_control_is_not_asked, process_without_control_asks_others, policy_without_the_step_asks_nobody,
              at_a_cap_nobody_is_asked, request_larger_than_the_device_asks_nobody, process_on_another_gpu_is_not_asked,
              neighbour_that_closed_is_not_asked);
    tcase = stage_case(suite, "keep");
    tcase_add_loop_test(tcase, pool_keeps_what_its_policy_says_to_the_step, 0, sizeof keeps / sizeof keeps[0]);
    suite_add(tcase, pool_that_keeps_all_is_left_alone, keep_counts_live_memory, keep_that_is_reloaded_counts_at_once);
    tcase = stage_case(suite, "in use");
    suite_add(tcase, sleeper_wakes_by_what_a_neighbour_does_not_use);
    tcase_add_loop_test(tcase, neighbour_gives_what_is_to_stay_free_as_well, 0, 2);
    tcase_add_loop_test(tcase, pool_of_a_stream_that_captures_is_left_alone, 0, 2);
    tcase_add_loop_test(tcase, pool_gives_again_when_its_capture_has_ended, 0, 2);
    suite_add(tcase, frees_that_are_pending_are_waited_for, frees_that_take_too_long_are_given_up,
              neighbour_that_gives_a_part_and_waits_for_more_answers_in_time);
    suite_add(stage_small_case(suite, "asleep"), two_sleepers_wake_in_turn);
}

int main(void)
{
    Suite *suite = suite_create("neighbours");
    add_rescues(suite);
    add_limits(suite);
    return suite_run(suite);
}
