/* SPDX-License-Identifier: MIT */
/* neighbours_wait.c - neighbours that ask each other, hang, or ask too much: nobody waits for ever, and each costs its share of the time. */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/service.h"
#include "share/control/control_answer.h"
#include "tests/share/neighbourhood.h"

#define ROUNDS 20
#define ASKS 1000

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

/* Both ask at once, and each has to be told one thing or the other. Returns how many were served. */
static unsigned ask_mutually(struct player *a, struct player *b, unsigned mib)
{
    unsigned served = 0;
    stage_tell(a, "malloc more %uMiB s", mib);
    stage_tell(b, "malloc more %uMiB s", mib);
    struct player *const both[] = { a, b };
    for (int i = 0; i < 2; i++) {
        const char *answer = stage_listen(both[i]);
        ck_assert_msg(answer && (strncmp(answer, "ok", 2) == 0 || strncmp(answer, "fail WEIR_OUT_OF_MEMORY ", 24) == 0), "%s",
                      answer ? answer : "dead");
        if (strncmp(answer, "ok", 2) == 0) {
            served++;
            stage_say(both[i], "free more s; synchronize s");
        }
    }
    return served;
}

static struct player *enter_half(const char *name)
{
    struct player *player = enter(name);
    take(player, "live", 256);
    idle(player, 256);
    return player;
}

START_TEST(two_who_ask_each_other_at_once_are_both_answered)
{
    struct player *a = enter_half("a"), *b = enter_half("b");
    for (int i = 0; i < ROUNDS; i++)
        ask_mutually(a, b, 384);
}
END_TEST

START_TEST(two_who_ask_each_other_for_too_much_both_run_out)
{
    struct player *a = enter_half("a"), *b = enter_half("b");
    for (int i = 0; i < ROUNDS; i++)
        ck_assert_uint_eq(ask_mutually(a, b, 640), 0);
}
END_TEST

START_TEST(many_who_ask_each_other_at_once_are_all_answered)
{
    struct player *players[6];
    for (int i = 0; i < 6; i++)
        players[i] = enter_idle("player", 160);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 6; i++)
            stage_tell(players[i], "malloc more 320MiB s");
        for (int i = 0; i < 6; i++) {
            const char *answer = stage_listen(players[i]);
            ck_assert_msg(answer && (strncmp(answer, "ok", 2) == 0 || strncmp(answer, "fail WEIR_OUT_OF_MEMORY ", 24) == 0), "%s",
                          answer ? answer : "dead");
        }
        for (int i = 0; i < 6; i++)
            stage_try(players[i], "free more s");
        for (int i = 0; i < 6; i++)
            stage_say(players[i], "synchronize s");
    }
}
END_TEST

START_TEST(neighbour_that_hangs_costs_its_share_and_another_rescues)
{
    struct player *hung = enter_idle("hung", 512), *other = enter_idle("other", 384), *asker = enter_in_a_hurry("asker");
    stage_signal(hung, SIGSTOP);
    take(asker, "a", 512);
    check_rescued(asker, 1, 384);
    stage_signal(hung, SIGCONT);
    check_asked(other, 1, 384);
    check_holds(hung, 512);
}
END_TEST

START_TEST(neighbour_that_offers_and_then_hangs_costs_its_share_and_another_rescues)
{
    struct player *hung = enter_idle("hung", 448), *other = enter_idle("other", 384), *asker = enter_in_a_hurry("asker");
    struct player *holder = stage_enter((struct role){ .name = "holder", .policy = "weir: 1\npools:\n  p: { devices: [0] }\n" });
    take(holder, "live", 192);
    stage_say(hung, "stop_at_give"); /* behind its OFFERED, which is needed */
    stage_tell(asker, "malloc a 512MiB s");
    stage_await_stop(hung);
    stage_leave(holder); /* now the other one has enough */
    stage_hear(asker);
    check_asked(other, 1, 320);
    stage_signal(hung, SIGCONT);
}
END_TEST

/* It has all that is needed, and the other one was too slow to be heard at first. */
START_TEST(neighbour_that_offers_enough_and_then_hangs_leaves_time_for_a_slow_one)
{
    struct player *hung = enter_idle("hung", 512), *slow = enter_idle("slow", 512), *asker = enter_in_a_hurry("asker");
    stage_signal(slow, SIGSTOP);
    stage_say(hung, "stop_at_give");
    stage_tell(asker, "malloc a 384MiB s");
    stage_await_stop(hung);
    stage_signal(slow, SIGCONT);
    stage_hear(asker);
    check_asked(slow, 1, 384);
    stage_signal(hung, SIGCONT);
}
END_TEST

START_TEST(neighbour_that_hangs_is_reported_while_it_is_left_alone_too)
{
    struct player *hung = enter_idle("hung", 768), *asker = enter_in_a_hurry("asker");
    stage_signal(hung, SIGSTOP);
    for (int asked = 0; asked < 2; asked++) {
        const char *report = run_out(asker, 512);
        ck_assert_msg(strstr(report, "1 did not answer") != NULL, "%s", report);
    }
    stage_signal(hung, SIGCONT);
}
END_TEST

START_TEST(neighbour_that_hangs_alone_is_a_failure_in_time)
{
    struct player *hung = enter_idle("hung", 768), *asker = enter_in_a_hurry("asker");
    stage_signal(hung, SIGSTOP);
    run_out(asker, 512);
    stage_signal(hung, SIGCONT);
    take_in_the_end(asker, "a", 512);
    check_asked(hung, 1, 256);
}
END_TEST

/* It was not needed while it hung, and so was hardly waited for. */
START_TEST(neighbour_that_hung_a_moment_ago_is_asked_where_the_others_have_not_enough)
{
    struct player *hung = enter_idle("hung", 512), *other = enter_idle("other", 384), *asker = enter_in_a_hurry("asker");
    stage_signal(hung, SIGSTOP);
    take(asker, "a", 256);
    check_asked(other, 1, 128);
    stage_signal(hung, SIGCONT);
    take(asker, "b", 512);
    check_asked(hung, 1, 512);
}
END_TEST

/* It is asked again and again only by who takes seconds for it. */
START_TEST(neighbour_that_hangs_is_left_alone_for_a_while)
{
    struct player *hung = enter_idle("hung", 256), *other = enter_idle("other", 640), *asker = enter_in_a_hurry("asker");
    char block[16];
    stage_signal(hung, SIGSTOP);
    take(asker, "a", 128);
    uint64_t begun = weir__service_now();
    for (int i = 0; i < 16; i++) {
        snprintf(block, sizeof block, "b%d", i);
        take(asker, block, 32);
    }
    uint64_t seconds = (weir__service_now() - begun) / UINT64_C(1000000000);
    check_asked(other, 16, 512);
    stage_signal(hung, SIGCONT);
    take_in_the_end(asker, "c", 384);
    ck_assert_uint_le(stage_number(stage_say(hung, "messages"), "messages"), 2 * (seconds + 1) + 8);
}
END_TEST

/* A claim that waits 40 ms gives a process that hangs 10. A request that may take 2 s gives it 500 none the less. */
START_TEST(claim_in_a_hurry_makes_no_later_request_hurry)
{
    struct player *hung = enter_idle("hung", 768);
    struct player *asker = stage_enter((struct role){
        .name = "asker", .policy = "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: { deadline: 2s } }\n"});
    stage_signal(hung, SIGSTOP);
    stage_refuses(asker, "WEIR_TIMEOUT", "reserve 512MiB 40");
    uint64_t begun = weir__service_now();
    run_out(asker, 512);
    ck_assert_uint_ge(weir__service_now() - begun, 400 * GPU_MILLISECOND);
    stage_signal(hung, SIGCONT);
}
END_TEST

/* Asking too much ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(who_asks_in_vain_a_thousand_times_sends_few_messages_and_harms_nobody)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "live", 768);
    unsigned long long sent = stage_number(stage_say(asker, "starve %d 512MiB s", ASKS), "messages");
    ck_assert_uint_lt(sent, 4 * ASKS); /* a question and its answer, and more once a second */
    check_asked(holder, 0, 0);
    take(asker, "a", 256);
}
END_TEST

/* Its memory is all but free, and yet none of it can go: every step has a live block. */
START_TEST(neighbour_whose_gifts_help_nobody_is_seldom_asked)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    char block[16];
    for (int i = 0; i < 16; i++) {
        snprintf(block, sizeof block, "large%d", i);
        take(holder, block, 30);
        snprintf(block, sizeof block, "small%d", i);
        take(holder, block, 2);
    }
    for (int i = 0; i < 16; i++)
        stage_say(holder, "free large%d s", i);
    stage_say(holder, "synchronize s");
    check_holds(holder, 512);
    stage_say(asker, "starve %d 640MiB s", ASKS);
    ck_assert_uint_lt(stage_number(stage_say(holder, "asks"), "received"), ASKS / 4);
    check_holds(holder, 512);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("neighbours_wait");
    TCase *tcase = stage_case(suite, "waiting");
    suite_add(tcase, two_who_ask_each_other_at_once_are_both_answered, two_who_ask_each_other_for_too_much_both_run_out,
              many_who_ask_each_other_at_once_are_all_answered, neighbour_that_hangs_costs_its_share_and_another_rescues,
              neighbour_that_offers_and_then_hangs_costs_its_share_and_another_rescues,
              neighbour_that_offers_enough_and_then_hangs_leaves_time_for_a_slow_one,
              neighbour_that_hangs_is_reported_while_it_is_left_alone_too, neighbour_that_hangs_alone_is_a_failure_in_time,
              neighbour_that_hung_a_moment_ago_is_asked_where_the_others_have_not_enough, neighbour_that_hangs_is_left_alone_for_a_while,
              claim_in_a_hurry_makes_no_later_request_hurry);
    tcase = stage_case(suite, "too much");
    suite_add(tcase, who_asks_in_vain_a_thousand_times_sends_few_messages_and_harms_nobody,
              neighbour_whose_gifts_help_nobody_is_seldom_asked);
    return suite_run(suite);
}
