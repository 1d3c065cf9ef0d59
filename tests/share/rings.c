/* SPDX-License-Identifier: MIT */
/* rings.c - frames of a ring, from one process to its readers. */
#include "config.h"

#include <string.h>

#include "tests/share/ring_scene.h"

/* Frames ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(frames_arrive_in_order_as_they_were_written)
{
    enter_both(4, "block", 2);
    for (unsigned number = 1; number <= 12; number++) {
        push(number);
        read_next(reader, number);
    }
    stage_until(exporter, " blocks=4 leases=0 ", "info");
}
END_TEST

START_TEST(frame_has_its_own_size_and_metadata)
{
    enter_both(2, "block", 1);
    stage_say(exporter, "take r slot 100 0 s; fill slot 7 s; push r slot s t=1.5");
    const char *answer = stage_say(reader, "next q l 20000 s");
    ck_assert_ptr_nonnull(strstr(answer, " size=100 sequence=1 metadata=t=1.5"));
    stage_say(reader, "check l 7 s; release l s");
    push(2);
    answer = stage_say(reader, "next q l 20000 s");
    ck_assert_ptr_nonnull(strstr(answer, " size=262144 sequence=2 metadata="));
    ck_assert_str_eq(strstr(answer, "metadata="), "metadata=");
}
END_TEST

START_TEST(empty_frame_has_no_bytes)
{
    enter_both(2, "block", 1);
    push(1);
    read_next(reader, 1);
    stage_say(exporter, "take r slot %d 0 s; push_empty r slot s none", SLOT);
    ck_assert_ptr_nonnull(strstr(stage_say(reader, "next q l 20000 s"), " size=0 sequence=2 metadata=none"));
    stage_say(reader, "release l s");
    push(3);
    read_next(reader, 3);
}
END_TEST

/* Which frame a reader gets first that comes behind frame 3, and then that the producer has taken so many slots. */
static const struct {
    const char *overflow;
    unsigned depth, taken, first;
} lates[] = {
    { "block", 4, 0, 4 },        { "block/newest", 4, 0, 3 }, { "drop_oldest", 4, 0, 3 },  { "drop_oldest/next", 4, 0, 4 },
    { "fail", 4, 0, 4 },         { "fail/newest", 4, 0, 3 },  { "drop_oldest", 4, 3, 3 },  { "drop_oldest", 4, 4, 4 },
    { "block/newest", 2, 1, 3 }, { "block/newest", 2, 2, 4 }, { "drop_oldest", 2, 1, 3 },
};

START_TEST(reader_that_comes_late_gets_the_newest_frame_or_the_next)
{
    enter_exporter(lates[_i].depth, lates[_i].overflow);
    for (unsigned number = 1; number <= 3; number++)
        push(number);
    for (unsigned slot = 1; slot <= lates[_i].taken; slot++)
        stage_say(exporter, "take r slot%u %d 0 s", slot, SLOT);
    reader = enter_reader("reader", 1);
    struct player *another = enter_reader("another", 1);
    for (unsigned slot = 1; slot <= lates[_i].taken; slot++)
        stage_say(exporter, "drop r slot%u s", slot);
    /* In turn, as a ring of two slots has no room for more. */
    for (unsigned number = lates[_i].first; number <= 5; number++) {
        if (number > 3)
            push(number);
        read_next(reader, number);
        read_next(another, number);
    }
}
END_TEST

START_TEST(generation_is_that_of_the_ring_in_all_importers)
{
    enter_both(4, "block", 1);
    struct player *another = enter_reader("another", 1);
    unsigned long long former = 0;
    for (int round = 0; round < 3; round++) {
        unsigned long long seen[4];
        for (unsigned number = 1; number <= 2; number++) {
            push(number);
            seen[2 * number - 2] = stage_number(stage_say(reader, "next q l 20000 s"), "generation");
            seen[2 * number - 1] = stage_number(stage_say(another, "next q l 20000 s"), "generation");
            stage_say(reader, "release l s");
            stage_say(another, "release l s");
        }
        for (int i = 0; i < 4; i++)
            ck_assert_uint_eq(seen[i], seen[0]);
        ck_assert(seen[0] != 0 && seen[0] != former);
        former = seen[0];
        stage_say(exporter, "ring_close r");
        stage_refuses(reader, "WEIR_ENDED", "next q l 20000 s");
        stage_refuses(another, "WEIR_ENDED", "next q l 20000 s");
        open_ring(4, "block");
        stage_refuses(reader, "WEIR_TIMEOUT", "next q l 0 s");
        stage_refuses(another, "WEIR_TIMEOUT", "next q l 0 s");
    }
}
END_TEST

START_TEST(each_of_seven_readers_gets_every_frame)
{
    struct player *readers[7];
    enter_exporter(4, "block");
    for (int i = 0; i < 7; i++)
        readers[i] = enter_reader("reader", (unsigned)i % 3 + 1);
    ck_assert_uint_eq(stage_number(stage_say(exporter, "readers r"), "readers"), 7);
    for (unsigned number = 1; number <= 9; number++) {
        push(number);
        for (int i = 0; i < 7; i++)
            read_next(readers[i], number);
    }
    stage_until(exporter, " blocks=4 leases=0 ", "info");
}
END_TEST

START_TEST(frames_that_nobody_reads_are_free_at_once)
{
    enter_exporter(2, "fail");
    for (unsigned number = 1; number <= 5; number++)
        push(number);
}
END_TEST

START_TEST(slot_that_is_dropped_is_no_frame)
{
    enter_both(2, "fail", 1);
    stage_say(exporter, "take r slot %d 0 s; fill slot 9 s; drop r slot s", SLOT);
    push(1);
    read_next(reader, 1);
}
END_TEST

/* Stream order ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(next_does_not_wait_for_the_producer_but_the_stream_does)
{
    enter_both(2, "block", 1);
    stage_say(exporter, "delay %u s", stage_long());
    push(1);
    stage_say(exporter, "mark written s");
    stage_say(reader, "next q l 20000 s");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "reached written"), "reached"), 0);
    stage_say(reader, "check l 1 s");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "reached written"), "reached"), 1);
}
END_TEST

START_TEST(slot_is_not_written_again_before_the_consumer_s_stream_came_to_the_release)
{
    enter_both(2, "block", 1);
    stage_say(reader, "malloc own %d s", SLOT);
    push(1);
    stage_say(reader, "next q l 20000 s; delay %u s; copy l own s; mark read s; release l s", stage_long() / 2);
    push(2);
    push(3);
    ck_assert_uint_eq(stage_number(stage_say(reader, "reached read"), "reached"), 1);
    stage_say(exporter, "synchronize s");
    stage_say(reader, "check own 1 s");
    read_next(reader, 2);
    read_next(reader, 3);
}
END_TEST

/* Overflow ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(block_waits_until_the_oldest_frame_is_released)
{
    enter_both(2, "block", 1);
    push(1);
    push(2);
    stage_say(reader, "next q l 20000 s");
    stage_tell(exporter, "take r slot %d 20000 s", SLOT);
    stage_say(reader, "check l 1 s; release l s");
    stage_hear(exporter);
    stage_say(exporter, "drop r slot s");
    read_next(reader, 2);
}
END_TEST

START_TEST(producer_that_has_all_slots_is_told_so_at_once)
{
    static const char *const overflows[] = { "block", "drop_oldest", "fail" };
    exporter = stage_exporter("exporter", NULL);
    for (int i = 0; i < 3; i++) {
        open_ring(2, overflows[i]);
        stage_say(exporter, "take r one %d 0 s; take r two %d 0 s", SLOT, SLOT);
        const char *why = stage_refuses(exporter, "WEIR_BUSY", "take r slot %d 3600000 s", SLOT);
        ck_assert_ptr_nonnull(strstr(why, "push or drop one"));
        stage_say(exporter, "drop r one s; take r one %d 3600000 s; drop r one s; drop r two s; ring_close r", SLOT);
    }
}
END_TEST

START_TEST(block_without_a_time_out_says_so_and_loses_nothing)
{
    enter_both(2, "block", 1);
    push(1);
    push(2);
    stage_refuses(exporter, "WEIR_TIMEOUT", "take r slot %d 0 s", SLOT);
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " hung=0 "));
    read_next(reader, 1);
    read_next(reader, 2);
}
END_TEST

START_TEST(reader_that_keeps_a_producer_waiting_is_hung_until_it_takes_up_again)
{
    enter_exporter(3, "block");
    struct player *fast = enter_reader("fast", 1), *slow = enter_reader("slow", 1);
    push(1);
    take_next(slow, 1);
    read_next(fast, 1);
    for (unsigned number = 2; number <= 3; number++) {
        push(number);
        read_next(fast, number);
    }
    stage_say(exporter, "take r slot %d 30 s", SLOT);
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " hung=1 "));
    stage_say(exporter, "fill slot 4 s; push r slot s");
    read_next(fast, 4);
    for (unsigned number = 5; number <= 9; number++) {
        push(number);
        read_next(fast, number);
    }
    stage_say(slow, "check l 1 s; release l s");
    stage_until(exporter, " hung=0 ", "info");
    push(10);
    read_next(fast, 10);
    read_next(slow, 10);
}
END_TEST

START_TEST(stopped_reader_of_a_full_ring_does_not_stop_the_others)
{
    enter_exporter(4, "block");
    struct player *fast = enter_reader("fast", 1), *stopped = enter_reader("stopped", 0);
    stage_signal(stopped, SIGSTOP);
    for (unsigned number = 1; number <= 4; number++) {
        push(number);
        read_next(fast, number);
    }
    stage_until(exporter, " leases=3 ", "info"); /* the stopped one's: nobody else is waited for */
    stage_say(exporter, "take r slot %d 30 s; drop r slot s", SLOT);
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " hung=1 "));
    for (unsigned number = 5; number <= 20; number++) {
        push(number);
        read_next(fast, number);
    }
    stage_signal(stopped, SIGCONT);
    for (unsigned number = 1; number <= 3; number++)
        read_next(stopped, number);
    stage_until(exporter, " hung=0 ", "info");
    push(21);
    read_next(stopped, 21);
    read_next(fast, 21);
}
END_TEST

START_TEST(drop_oldest_takes_what_nobody_leases_and_nothing_else)
{
    enter_both(3, "drop_oldest", 1);
    push(1);
    take_next(reader, 1);
    for (unsigned number = 2; number <= 8; number++)
        push(number);
    stage_say(exporter, "synchronize s");
    stage_say(reader, "check l 1 s; release l s");
    read_next(reader, 7);
    read_next(reader, 8);
}
END_TEST

START_TEST(ring_of_which_all_slots_are_leased_is_busy)
{
    enter_exporter(3, "drop_oldest");
    struct player *holder = enter_reader("holder", 2);
    reader = enter_reader("reader", 1);
    push(1);
    read_next(reader, 1);
    push(2);
    read_next(reader, 2);
    push(3);
    take_next(reader, 3);
    stage_say(holder, "next q a 20000 s; next q b 20000 s");
    stage_refuses(exporter, "WEIR_BUSY", "take r slot %d 0 s", SLOT);
    stage_say(holder, "check a 1 s; check b 2 s; release a s");
    stage_until(exporter, "ok", "take r slot %d 0 s", SLOT);
    stage_say(exporter, "drop r slot s");
}
END_TEST

START_TEST(fail_says_that_the_ring_is_full)
{
    enter_both(2, "fail", 1);
    push(1);
    push(2);
    stage_refuses(exporter, "WEIR_BUSY", "take r slot %d 1000 s", SLOT);
    read_next(reader, 1);
    stage_until(exporter, "ok", "take r slot %d 0 s", SLOT);
    stage_say(exporter, "drop r slot s");
    read_next(reader, 2);
}
END_TEST

START_TEST(slots_that_are_all_taken_are_busy)
{
    enter_exporter(2, "drop_oldest");
    stage_say(exporter, "take r a %d 0 s; take r b %d 0 s", SLOT, SLOT);
    stage_refuses(exporter, "WEIR_BUSY", "take r c %d 0 s", SLOT);
    stage_say(exporter, "push r a s; drop r b s");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rings");
    TCase *frames = stage_case(suite, "frames");
    suite_add(frames, frames_arrive_in_order_as_they_were_written, frame_has_its_own_size_and_metadata, empty_frame_has_no_bytes,
              generation_is_that_of_the_ring_in_all_importers, each_of_seven_readers_gets_every_frame,
              frames_that_nobody_reads_are_free_at_once, slot_that_is_dropped_is_no_frame);
    tcase_add_loop_test(frames, reader_that_comes_late_gets_the_newest_frame_or_the_next, 0, sizeof lates / sizeof lates[0]);
    TCase *order = stage_case(suite, "order");
    suite_add(order, next_does_not_wait_for_the_producer_but_the_stream_does,
              slot_is_not_written_again_before_the_consumer_s_stream_came_to_the_release);
    TCase *overflow = stage_case(suite, "overflow");
    suite_add(overflow, block_waits_until_the_oldest_frame_is_released, block_without_a_time_out_says_so_and_loses_nothing,
              reader_that_keeps_a_producer_waiting_is_hung_until_it_takes_up_again, stopped_reader_of_a_full_ring_does_not_stop_the_others,
              drop_oldest_takes_what_nobody_leases_and_nothing_else, ring_of_which_all_slots_are_leased_is_busy,
              fail_says_that_the_ring_is_full, slots_that_are_all_taken_are_busy, producer_that_has_all_slots_is_told_so_at_once);
    return suite_run(suite);
}
