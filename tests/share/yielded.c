/* SPDX-License-Identifier: MIT */
/*
 * yielded.c - processes that yield live memory to their neighbours, and wake by what those do not use. The device has 256 MiB.
 */
#include "config.h"

#include <signal.h>

#include "tests/share/neighbourhood.h"

/* A process whose pool `p` has so much live memory, yielded. */
static struct player *enter_yielding(const char *name, unsigned mib)
{
    struct player *player = enter_with(name, "backing: arena, ");
    take(player, "a", mib);
    stage_say(player, "fill a 7 s; synchronize s; yield p");
    return player;
}

static unsigned long long yielded(struct player *player)
{
    return stage_number(stage_say(player, "pool p"), "reserved");
}

START_TEST(neighbour_gets_what_is_yielded_and_the_owner_gets_it_back)
{
    struct player *owner = enter_yielding("owner", 128), *asker = enter("asker");
    for (int i = 0; i < 3; i++) {
        take(asker, "b", 192);
        check_holds(owner, 0);
        stage_refuses(owner, "WEIR_BUSY", "malloc more 1MiB s");
        stage_say(asker, "free b s; synchronize s");
        stage_say(owner, "wake p; check a 7 s; yield p");
    }
    stage_say(owner, "wake p");
}
END_TEST

/* The pool of the larger offer is yielded: the smaller one is asked, as it is idle. */
START_TEST(idle_memory_of_any_neighbour_goes_before_what_is_yielded)
{
    struct player *owner = enter_yielding("owner", 128), *holder = enter_idle("holder", 64), *asker = enter("asker");
    take(asker, "b", 96);
    check_holds(holder, 32);
    ck_assert_uint_ge(yielded(owner), 128 * MIB);
    stage_say(owner, "wake p; check a 7 s; yield p");
    take(asker, "c", 128);
    check_holds(owner, 0);
    stage_say(asker, "free b s; free c s; synchronize s");
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

START_TEST(process_gives_what_it_has_yielded_itself_before_its_neighbours_do)
{
    struct player *owner = enter_yielding("owner", 96), *asker = enter_yielding("asker", 96);
    stage_say(asker, "pool_malloc q b 96MiB s");
    check_holds(asker, 0);
    ck_assert_uint_ge(yielded(owner), 96 * MIB);
    stage_say(asker, "free b s; synchronize s; trim q; wake p; check a 7 s");
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

START_TEST(claim_gets_what_a_neighbour_has_yielded)
{
    struct player *owner = enter_yielding("owner", 128), *asker = enter("asker");
    stage_say(asker, "reserve 192MiB 100000");
    check_holds(owner, 0);
    take(asker, "b", 192);
    stage_say(asker, "free b s; synchronize s; trim p; unreserve");
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

/* What the claimant has is part of the claim, yielded or not. */
START_TEST(claimant_keeps_what_it_has_yielded_itself)
{
    struct player *owner = enter_yielding("owner", 128), *asker = enter_yielding("asker", 64);
    stage_say(asker, "reserve 160MiB 100000");
    check_holds(owner, 0);
    ck_assert_uint_ge(yielded(asker), 64 * MIB);
    stage_say(asker, "wake p; check a 7 s");
}
END_TEST

/* Neither what the process has yielded nor what its neighbour does not use is enough. */
START_TEST(what_is_yielded_here_counts_beside_the_offers_of_neighbours)
{
    struct player *holder = _i ? enter_yielding("holder", 96) : enter_idle("holder", 96);
    struct player *asker = stage_enter((struct role){
        .name = "asker",
        .policy = "weir: 1\ncontrol: true\ndefaults: { pool: p }\n"
                  "pools:\n  p: { devices: [0], backing: arena }\n  q: { devices: [0], on_oom: { deadline: 100s } }\n"});
    take(asker, "a", 96);
    stage_say(asker, "fill a 7 s; synchronize s; yield p; pool_malloc q b 175MiB s");
    check_holds(asker, 0);
    check_holds(holder, 0);
    stage_say(asker, "free b s; synchronize s; trim q; wake p; check a 7 s");
}
END_TEST

/* The same request has just failed, and neither the device nor its neighbour has more since. */
START_TEST(request_that_failed_succeeds_once_its_own_process_has_yielded_enough)
{
    struct player *holder = enter_idle("holder", 96);
    struct player *asker = stage_enter((struct role){
        .name = "asker",
        .policy = "weir: 1\ncontrol: true\ndefaults: { pool: p }\n"
                  "pools:\n  p: { devices: [0], backing: arena }\n  q: { devices: [0], on_oom: { deadline: 100s } }\n"});
    take(asker, "a", 96);
    stage_refuses(asker, "WEIR_OUT_OF_MEMORY", "pool_malloc q b 175MiB s");
    stage_say(asker, "yield p; pool_malloc q b 175MiB s");
    check_holds(asker, 0);
    check_holds(holder, 0);
}
END_TEST

/* What is yielded is in use until the owner's kernel ends. A request that waits half a second for it says nothing to one that may wait longer. */
START_TEST(request_in_a_hurry_makes_no_patient_one_give_up)
{
    struct player *owner = enter_with("owner", "backing: arena, ");
    struct player *asker = stage_enter((struct role){
        .name = "asker",
        .policy = "weir: 1\ncontrol: true\ndefaults: { pool: p }\n"
                  "pools:\n  p: { devices: [0], on_oom: { deadline: 500ms } }\n  q: { devices: [0], on_oom: { deadline: 100s } }\n"});
    take(owner, "a", 128);
    stage_say(owner, "fill a 7 s; delay %u s; yield p", stage_long() / 2);
    run_out(asker, 192);
    stage_say(asker, "pool_malloc q b 192MiB s");
    check_holds(owner, 0);
    stage_say(asker, "free b s; synchronize s; trim q");
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

START_TEST(memory_in_use_is_not_given)
{
    struct player *owner = enter_yielding("owner", 128), *asker = enter_in_a_hurry("asker");
    stage_say(owner, "wake p");
    run_out(asker, 192);
    stage_say(owner, "check a 7 s");
}
END_TEST

/* The asker is killed while the owner waits for its own kernel, before the memory goes. */
START_TEST(killed_asker_leaves_the_owner_whole)
{
    struct player *owner = enter_with("owner", "backing: arena, "), *asker = enter("asker");
    take(owner, "a", 128);
    stage_say(owner, "fill a 7 s; delay %u s; yield p", stage_long());
    stage_tell(asker, "malloc b 192MiB s");
    stage_until(owner, "received=1", "asks");
    stage_signal(asker, SIGKILL);
    stage_say(owner, "wake p; check a 7 s; yield p");
    take(enter("next"), "b", 192);
    check_holds(owner, 0);
}
END_TEST

/* Two processes that both have all but a part of the device, in turns. */
START_TEST(no_wake_fails_beside_a_neighbour_that_uses_nothing)
{
    struct player *owner = enter_with("owner", "backing: arena, "), *holder = enter("holder");
    take(owner, "a", 64);
    stage_say(owner, "fill a 7 s; synchronize s; %s", _i ? "yield p" : "sleep p");
    for (unsigned round = 0, rounds = suite_rounds(24, 1000); round < rounds; round++) {
        idle(holder, 224);
        stage_say(owner, "wake p; check a 7 s; %s", _i ? "yield p" : "sleep p");
    }
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

/* The owner wakes while the neighbour asks, at whatever moment that is. */
START_TEST(wake_that_meets_a_request_succeeds_or_makes_it_wait)
{
    struct player *owner = enter_yielding("owner", 128);
    struct player *asker = enter_in_a_hurry("asker");
    for (unsigned round = 0, rounds = suite_rounds(6, 300); round < rounds; round++) {
        stage_tell(asker, "malloc b 96MiB s; free b s; synchronize s");
        stage_say(owner, "wake p; check a 7 s; yield p");
        stage_hear(asker);
    }
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("yielded");
    TCase *tcase = stage_small_case(suite, "yielded");
    suite_add(tcase, neighbour_gets_what_is_yielded_and_the_owner_gets_it_back, idle_memory_of_any_neighbour_goes_before_what_is_yielded,
              process_gives_what_it_has_yielded_itself_before_its_neighbours_do, claim_gets_what_a_neighbour_has_yielded,
              claimant_keeps_what_it_has_yielded_itself, memory_in_use_is_not_given,
              request_that_failed_succeeds_once_its_own_process_has_yielded_enough, request_in_a_hurry_makes_no_patient_one_give_up,
              killed_asker_leaves_the_owner_whole,
              wake_that_meets_a_request_succeeds_or_makes_it_wait);
    tcase_add_loop_test(tcase, what_is_yielded_here_counts_beside_the_offers_of_neighbours, 0, 2);
    tcase_add_loop_test(tcase, no_wake_fails_beside_a_neighbour_that_uses_nothing, 0, 2);
    return suite_run(suite);
}
