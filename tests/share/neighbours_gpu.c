/* SPDX-License-Identifier: MIT */
/*
 * neighbours_gpu.c - what neighbours come to on a real GPU, which holds the memory of several processes apart and gives it back in its own
 * way. Runs on either; sizes are parts of the device's memory.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>

#include "tests/share/stage.h"

#define STEP (UINT64_C(32) << 20)
#define PAGE (UINT64_C(2) << 20)
#define POLICY "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], release_threshold: all, on_oom: { deadline: 20s } }\n"
#define PARTS 14 /* of the device, 10 GiB each on one of 140 GiB; less than one of them is taken by the processes' contexts */
#define ARENA "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], backing: arena, release_threshold: all, on_oom: { deadline: 20s } }\n"
#define ROUNDS 3

static struct player *enter_with(const char *name, const char *policy)
{
    struct player *player = stage_enter((struct role){ .name = name, .policy = policy });
    /* The first kernel takes its time, and memory. */
    stage_say(player, "delay 1 s; synchronize s");
    return player;
}

static struct player *enter(const char *name)
{
    return enter_with(name, POLICY);
}

static unsigned long long parts(struct player *player, unsigned count)
{
    return stage_number(stage_say(player, "memory"), "total") / PARTS * count / STEP * STEP;
}

static void take(struct player *player, const char *block, unsigned count)
{
    stage_say(player, "malloc %s %llu s", block, parts(player, count));
}

static void give_back(struct player *player, const char *block)
{
    stage_say(player, "free %s s; synchronize s", block);
}

static unsigned long long reserved(struct player *player)
{
    return stage_number(stage_say(player, "pool p"), "reserved");
}

static void check_rescued(struct player *player)
{
    ck_assert_uint_ge(stage_number(stage_say(player, "asks"), "rescued"), 1);
}

START_TEST(six_sevenths_of_the_device_are_had_while_a_neighbour_holds_five_sevenths_idle)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 10);
    give_back(holder, "a");
    ck_assert_uint_ge(reserved(holder), parts(holder, 10));
    take(asker, "b", 12);
    check_rescued(asker);
    const char *asks = stage_say(holder, "asks");
    ck_assert_uint_ge(stage_number(asks, "given"), parts(holder, 8) - STEP);
    ck_assert_uint_ge(reserved(asker), parts(asker, 12));
}
END_TEST

START_TEST(memory_behind_a_kernel_of_a_neighbour_is_waited_for)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 10);
    stage_say(holder, "delay 1000 s; free a s");
    take(asker, "b", 12);
    check_rescued(asker);
}
END_TEST

START_TEST(pool_of_a_stream_that_captures_is_left_alone_and_its_graph_is_whole)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 8);
    give_back(holder, "a");
    stage_say(holder, "capture_globally s");
    stage_refuses(asker, "WEIR_OUT_OF_MEMORY", "malloc b %llu s", parts(asker, 12));
    stage_say(holder, "capture_end s");
    ck_assert_uint_ge(reserved(holder), parts(holder, 8));
    stage_until(asker, "ok", "malloc b %llu s", parts(asker, 12));
}
END_TEST

START_TEST(two_give_what_one_has_not)
{
    struct player *some = enter("some"), *more = enter("more"), *asker = enter("asker");
    take(some, "a", 5);
    give_back(some, "a");
    take(more, "a", 6);
    give_back(more, "a");
    take(asker, "b", 12);
    check_rescued(asker);
    ck_assert_uint_ge(stage_number(stage_say(asker, "asks"), "sent"), 2);
}
END_TEST

/* In turns one has nine parts of the device, in blocks of one part, and the other four. */
START_TEST(two_that_alternate_out_of_phase_are_always_served)
{
    struct player *players[2] = { enter("a"), enter("b") };
    char block[16];
    for (unsigned round = 0; round < 2 * ROUNDS; round++) {
        for (unsigned i = 0; i < 13; i++) {
            struct player *player = players[i < 4 ? round % 2 : !(round % 2)];
            snprintf(block, sizeof block, "b%u", i);
            take(player, block, 1);
        }
        for (unsigned i = 0; i < 13; i++) {
            struct player *player = players[i < 4 ? round % 2 : !(round % 2)];
            snprintf(block, sizeof block, "b%u", i);
            stage_say(player, "free %s s", block);
        }
        stage_say(players[0], "synchronize s");
        stage_say(players[1], "synchronize s");
    }
    check_rescued(players[0]);
    check_rescued(players[1]);
}
END_TEST

START_TEST(request_is_served_after_its_neighbour_was_killed)
{
    struct player *holder = enter("holder"), *asker = enter("asker");
    take(holder, "a", 10);
    stage_refuses(asker, "WEIR_OUT_OF_MEMORY", "malloc b %llu s", parts(asker, 12));
    stage_signal(holder, SIGKILL);
    stage_until(asker, "ok", "malloc b %llu s", parts(asker, 12));
}
END_TEST

/* All that the device has, but for less than what the owner needs, idle in the holder's pool. */
static void take_all_and_leave_it_idle(struct player *holder, struct player *owner, unsigned long long needed)
{
    unsigned long long bytes = reserved(holder) + reserved(owner) + stage_number(stage_say(holder, "memory"), "free") - needed / 4;
    stage_say(holder, "malloc h %llu s", bytes / PAGE * PAGE);
    give_back(holder, "h");
    ck_assert_uint_lt(stage_number(stage_say(owner, "memory"), "free") + reserved(owner), needed);
}

START_TEST(no_wake_fails_beside_a_neighbour_that_has_the_bytes_idle)
{
    struct player *owner = enter_with("owner", ARENA), *holder = enter_with("holder", ARENA);
    unsigned long long part = parts(owner, 1) / 8 / STEP * STEP, bytes = part ? part : STEP; /* neighbours ask each other for 32 MiB at least */
    const char *leave = _i ? "yield p" : "sleep p";
    stage_say(owner, "malloc a %llu s; fill a 7 s; synchronize s; %s", bytes, leave);
    for (unsigned round = 0, rounds = suite_rounds(12, 1000); round < rounds; round++) {
        take_all_and_leave_it_idle(holder, owner, bytes);
        stage_say(owner, "wake p; check a 7 s; %s", leave);
    }
    stage_say(owner, "wake p; check a 7 s");
}
END_TEST

int main(void)
{
    if (!stage_supports(GPU_FEATURE_POOLS))
        return suite_skip("there is no GPU here that has memory pools");
    Suite *suite = suite_create("neighbours on a GPU");
    TCase *tcase = stage_case(suite, "rescues");
    suite_add(tcase, six_sevenths_of_the_device_are_had_while_a_neighbour_holds_five_sevenths_idle,
              memory_behind_a_kernel_of_a_neighbour_is_waited_for, pool_of_a_stream_that_captures_is_left_alone_and_its_graph_is_whole,
              two_give_what_one_has_not, two_that_alternate_out_of_phase_are_always_served,
              request_is_served_after_its_neighbour_was_killed);
    if (stage_supports(GPU_FEATURE_MAPPING)) {
        TCase *wakes = stage_case(suite, "wakes");
        tcase_set_timeout(wakes, 300);
        tcase_add_loop_test(wakes, no_wake_fails_beside_a_neighbour_that_has_the_bytes_idle, 0, 2);
    }
    return suite_run(suite);
}
