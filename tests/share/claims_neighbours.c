/* SPDX-License-Identifier: MIT */
/* claims_neighbours.c - claims among processes that hold memory: what neighbours give for one, what they keep, and who waits for whom. */
#include "config.h"

#include <signal.h>
#include <string.h>

#include "tests/share/neighbourhood.h"

static void says(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part), "'%s' is not in: %s", part, text);
}

/* Half a device each: the first ones may be killed, stopped or idle. */
static struct player *first, *second;

static void both(void)
{
    first = enter("first");
    second = enter("second");
}

START_TEST(idle_memory_of_a_neighbour_is_given_for_a_claim)
{
    both();
    idle(first, 896);
    stage_say(second, "reserve 640MiB 100000");
    check_asked(first, 1, 512);
    check_holds(first, 384);
    take(second, "mine", 640);
}
END_TEST

START_TEST(neighbour_without_a_claim_keeps_what_lives_and_the_claim_is_missed_in_words)
{
    both();
    take(first, "live", 704);
    const char *text;
    unsigned timeout_ms = 50;
    do { /* until the neighbour had time to answer, however slow this machine is */
        idle(first, 128);
        text = stage_refuses(second, "WEIR_TIMEOUT", "reserve 640MiB %u", timeout_ms);
        timeout_ms *= 4;
    } while (!strstr(text, "offered") && timeout_ms <= 100000);
    says(text, "and 640 MiB are still to come");
    says(text, "1 other process on this GPU offered 128 MiB");
    stage_say(first, "reserve 704MiB 0"); /* the other claim is gone, and this memory is had already */
}
END_TEST

START_TEST(claim_without_time_asks_nobody)
{
    both();
    idle(first, 896);
    stage_refuses(second, "WEIR_TIMEOUT", "reserve 640MiB 0");
    check_asked(first, 0, 0);
    check_holds(first, 896);
}
END_TEST

static bool was_asked(void *player)
{
    return stage_number(stage_say(player, "messages"), "messages") > 0;
}

START_TEST(memory_that_comes_free_later_is_waited_for)
{
    both();
    take(first, "live", 704);
    stage_tell(second, "reserve 640MiB 100000");
    stage_wait(was_asked, first, "the neighbour that was asked in vain");
    stage_say(first, "free live s; synchronize s");
    stage_hear(second);
    check_holds(first, 384);
}
END_TEST

START_TEST(own_idle_memory_is_part_of_the_claim_and_nobody_is_asked)
{
    both();
    idle(second, 640);
    stage_say(second, "reserve 640MiB 0");
    idle(first, 384);
    stage_say(first, "reserve 384MiB 0");
    check_holds(second, 640);
    check_silent(first);
}
END_TEST

START_TEST(two_claims_at_once_are_served_one_after_the_other)
{
    both();
    stage_say(first, "reserve 640MiB 0");
    stage_tell(second, "reserve 640MiB 100000");
    ck_assert(!stage_has_answer(second));
    stage_say(first, "unreserve");
    stage_hear(second);
    stage_refuses(first, "WEIR_TIMEOUT", "reserve 640MiB 0");
}
END_TEST

START_TEST(kill_of_a_claimant_serves_whoever_waits)
{
    both();
    take(first, "live", 640);
    stage_say(first, "reserve 640MiB 0");
    stage_tell(second, "reserve 640MiB 100000");
    stage_signal(first, SIGKILL);
    stage_hear(second);
    take(second, "mine", 640);
}
END_TEST

START_TEST(claim_of_a_stopped_process_stands)
{
    both();
    stage_say(first, "reserve 640MiB 0");
    stage_signal(first, SIGSTOP);
    says(stage_refuses(second, "WEIR_TIMEOUT", "reserve 640MiB 20"), "claims 640 MiB");
    stage_signal(first, SIGCONT);
    stage_say(first, "unreserve");
    stage_say(second, "reserve 640MiB 0");
}
END_TEST

START_TEST(claims_that_fit_together_are_served_with_memory_together)
{
    both();
    struct player *idler = enter_idle("idler", 992);
    stage_tell(first, "reserve 448MiB 100000; malloc a 448MiB s");
    stage_tell(second, "reserve 448MiB 100000; malloc a 448MiB s");
    stage_hear(first);
    stage_hear(second);
    ck_assert_uint_le(stage_number(stage_say(idler, "pool p"), "reserved"), 128 * MIB);
}
END_TEST

/* A process with a claim and a pool that is as large, in use. */
static struct player *enter_claiming(const char *name, unsigned mib)
{
    struct player *player = enter_with(name, "backing: arena, ");
    stage_say(player, "reserve %uMiB 0", mib);
    take(player, "a", mib);
    return player;
}

START_TEST(claims_take_turns_where_their_pools_sleep)
{
    first = enter_claiming("first", 160);
    stage_say(first, "sleep p");
    second = enter_claiming("second", 160);
    says(stage_refuses(first, "WEIR_OUT_OF_MEMORY", "wake p 1"), "(actor) claims 160 MiB");
    check_holds(second, 160);
    for (int i = 0; i < 3; i++) {
        struct player *sleeper = i % 2 ? first : second, *waker = i % 2 ? second : first;
        stage_tell(waker, "wake p");
        stage_say(sleeper, "sleep p");
        stage_hear(waker);
        check_holds(waker, 160);
        check_holds(sleeper, 0);
    }
}
END_TEST

START_TEST(woken_pool_has_its_claim_again)
{
    first = enter_claiming("first", 160);
    second = enter("second");
    stage_say(first, "sleep p; wake p");
    says(stage_refuses(second, "WEIR_TIMEOUT", "reserve 160MiB 0"), "(actor) claims 160 MiB");
    stage_say(first, "sleep p");
    stage_say(second, "reserve 160MiB 0");
}
END_TEST

START_TEST(sleeping_pool_gives_up_no_more_than_it_needs)
{
    both();
    stage_say(first, "reserve 224MiB 0; pool_malloc q more 16MiB s");
    struct player *sleeper = enter_claiming("sleeper", 16);
    stage_say(sleeper, "sleep p");
    says(stage_refuses(second, "WEIR_TIMEOUT", "reserve 64MiB 0"), "others claim 224 MiB");
    stage_say(second, "reserve 32MiB 0");
}
END_TEST

START_TEST(claim_that_ends_while_a_pool_sleeps_is_not_missed_by_the_wake)
{
    first = enter_claiming("first", 160);
    stage_say(first, "sleep p; unreserve");
    second = enter("second");
    stage_say(second, "reserve 160MiB 0");
    stage_say(first, "wake p");
    check_holds(first, 160);
    stage_say(second, "unreserve");
    stage_say(first, "reserve 240MiB 0");
}
END_TEST

/* A program without a claim has the memory. */
START_TEST(wake_that_finds_no_memory_gives_its_claim_up_again)
{
    first = enter_claiming("first", 160);
    second = enter("second");
    stage_say(first, "sleep p");
    take(second, "a", 160);
    stage_refuses(first, "WEIR_OUT_OF_MEMORY", "wake p 1");
    stage_say(second, "reserve 160MiB 0");
}
END_TEST

START_TEST(sleeper_that_is_killed_leaves_no_claim)
{
    first = enter_claiming("first", 160);
    second = enter("second");
    stage_say(first, "sleep p");
    stage_signal(first, SIGKILL);
    stage_say(second, "reserve 256MiB 0");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("claims among neighbours");
    suite_add(stage_case(suite, "claims"), idle_memory_of_a_neighbour_is_given_for_a_claim,
              neighbour_without_a_claim_keeps_what_lives_and_the_claim_is_missed_in_words, claim_without_time_asks_nobody,
              memory_that_comes_free_later_is_waited_for, own_idle_memory_is_part_of_the_claim_and_nobody_is_asked,
              two_claims_at_once_are_served_one_after_the_other, kill_of_a_claimant_serves_whoever_waits, claim_of_a_stopped_process_stands,
              claims_that_fit_together_are_served_with_memory_together);
    suite_add(stage_small_case(suite, "asleep"), claims_take_turns_where_their_pools_sleep, woken_pool_has_its_claim_again,
              sleeping_pool_gives_up_no_more_than_it_needs, claim_that_ends_while_a_pool_sleeps_is_not_missed_by_the_wake,
              wake_that_finds_no_memory_gives_its_claim_up_again, sleeper_that_is_killed_leaves_no_claim);
    return suite_run(suite);
}
