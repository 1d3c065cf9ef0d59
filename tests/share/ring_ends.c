/* SPDX-License-Identifier: MIT */
/* ring_ends.c - how many frames a reader of a ring leases, and what becomes of rings and readers that are closed. */
#include "config.h"

#include <string.h>

#include "tests/share/ring_scene.h"

/* Leases ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(reader_leases_at_most_one_less_than_there_are_slots)
{
    enter_both(4, "drop_oldest", 0);
    for (unsigned number = 1; number <= 6; number++)
        push(number);
    stage_say(reader, "next q a 20000 s; next q b 20000 s; next q c 20000 s");
    stage_refuses(reader, "WEIR_BUSY", "next q d 20000 s");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " leases=3 "));
    push(7);
    stage_say(reader, "check a 1 s; release a s");
    ck_assert_uint_eq(stage_number(stage_say(reader, "next q d 20000 s"), "sequence"), 7);
}
END_TEST

/* What the work behind a release still reads is not written again, but the next frame does not wait for that work. */
START_TEST(next_frame_is_leased_while_the_work_behind_a_released_one_still_runs)
{
    enter_both(4, "block", 1);
    push(1);
    push(2);
    stage_say(reader, "next q a 20000 s");
    stage_refuses(reader, "WEIR_BUSY", "next q b 20000 s");
    stage_say(reader, "delay %u s; mark read s; release a s; next q b 20000 s", stage_long());
    ck_assert_uint_eq(stage_number(stage_say(reader, "reached read"), "reached"), 0);
    stage_until(exporter, " leases=2 ", "info");
    stage_say(reader, "check b 2 s; release b s");
    stage_until(exporter, " leases=0 ", "info");
}
END_TEST

/* What a reader has beyond what it asked for, for frames that were released, is another's who asks for it. */
START_TEST(leases_that_readers_did_not_ask_for_are_left_to_others)
{
    exporter = stage_exporter("exporter", NULL);
    reader = stage_importer("reader");
    stage_say(exporter, "ring r 512 512 block s");
    for (unsigned number = 0; number < 5; number++)
        stage_say(reader, "reader i q%u r 200", number);
    stage_say(exporter, "share a 1 s 512");
    stage_say(reader, "acquire i a l 0 s; release l s");
    stage_say(exporter, "write r 1 200 512 s");
    stage_until(exporter, " leases=1000 ", "info");
}
END_TEST

START_TEST(no_frame_in_the_time_given_is_a_time_out)
{
    enter_both(2, "block", 1);
    stage_refuses(reader, "WEIR_TIMEOUT", "next q l 0 s");
    stage_refuses(reader, "WEIR_TIMEOUT", "next q l 20 s");
    push(1);
    read_next(reader, 1);
}
END_TEST

/* Ends --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(ring_that_is_closed_delivers_what_is_queued_and_then_is_gone)
{
    enter_both(4, "block", 1);
    for (unsigned number = 1; number <= 3; number++)
        push(number);
    stage_say(exporter, "ring_close r");
    for (unsigned number = 1; number <= 3; number++)
        read_next(reader, number);
    stage_refuses(reader, "WEIR_ENDED", "next q l 20000 s");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
    stage_refuses(reader, "WEIR_NOT_FOUND", "reader i p r 1");
}
END_TEST

START_TEST(ring_that_is_closed_leaves_leases_alone)
{
    enter_both(2, "block", 1);
    push(1);
    stage_say(reader, "next q l 20000 s");
    stage_say(exporter, "ring_close r");
    open_ring(2, "block");
    push(2);
    stage_say(exporter, "synchronize s");
    stage_until(reader, "fail WEIR_ENDED", "next q m 20000 s");
    stage_say(reader, "check l 1 s; release l s");
    stage_until(exporter, " blocks=2 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(reader_that_waits_hears_that_the_ring_is_closed)
{
    enter_both(2, "block", 1);
    stage_tell(reader, "next q l 60000 s");
    stage_say(exporter, "ring_close r");
    stage_hears(reader, "WEIR_ENDED");
}
END_TEST

START_TEST(reader_that_is_closed_gives_back_what_was_queued_for_it)
{
    enter_both(4, "fail", 2);
    for (unsigned number = 1; number <= 4; number++)
        push(number);
    stage_say(reader, "next q l 20000 s; reader_close q");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "readers r"), "readers"), 0);
    stage_until(exporter, " leases=1 ", "info");
    for (unsigned number = 5; number <= 9; number++)
        push(number);
    stage_say(exporter, "synchronize s");
    stage_say(reader, "check l 1 s; release l s");
    stage_until(exporter, " leases=0 ", "info");
}
END_TEST

START_TEST(process_reads_a_ring_twice_at_a_time)
{
    enter_both(4, "block", 1);
    stage_say(reader, "reader i p r 1");
    for (unsigned number = 1; number <= 3; number++) {
        push(number);
        read_next(reader, number);
        ck_assert_uint_eq(stage_number(stage_say(reader, "next p m 20000 s"), "sequence"), number);
        stage_say(reader, "release m s");
    }
}
END_TEST

/* Refusals ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(ring_refuses_what_it_cannot_do)
{
    exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_importer("importer");
    stage_refuses(exporter, "WEIR_INVALID", "ring r %d 1 block s", SLOT);
    stage_refuses(exporter, "WEIR_INVALID", "ring r %d 1025 block s", SLOT);
    stage_refuses(exporter, "WEIR_INVALID", "ring r 0 2 block s");
    stage_refuses(exporter, "WEIR_INVALID", "ring no/name %d 2 block s", SLOT);
    stage_refuses(exporter, "WEIR_OUT_OF_MEMORY", "ring r %d 1024 block s", 64 * SLOT);
    open_ring(2, "block");
    stage_refuses(exporter, "WEIR_BUSY", "ring r %d 2 block s", SLOT);
    stage_say(exporter, "malloc a %d s", SLOT);
    stage_refuses(exporter, "WEIR_BUSY", "publish r a s");
    stage_refuses(exporter, "WEIR_INVALID", "push r a s");
    stage_say(exporter, "take r slot %d 0 s", SLOT + 1);
    stage_refuses(exporter, "WEIR_INVALID", "push r slot s");
    stage_say(exporter, "drop r slot s");
    stage_refuses(importer, "WEIR_NOT_FOUND", "reader i q other 1");
    stage_refuses(importer, "WEIR_NOT_FOUND", "acquire i r l 0 s");
    stage_refuses(importer, "WEIR_INVALID", "reader i q r 1024");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring_ends");
    TCase *leases = stage_case(suite, "leases");
    suite_add(leases, reader_leases_at_most_one_less_than_there_are_slots,
              next_frame_is_leased_while_the_work_behind_a_released_one_still_runs, leases_that_readers_did_not_ask_for_are_left_to_others,
              no_frame_in_the_time_given_is_a_time_out);
    TCase *ends = stage_case(suite, "ends");
    suite_add(ends, ring_that_is_closed_delivers_what_is_queued_and_then_is_gone, ring_that_is_closed_leaves_leases_alone,
              reader_that_waits_hears_that_the_ring_is_closed, reader_that_is_closed_gives_back_what_was_queued_for_it,
              process_reads_a_ring_twice_at_a_time);
    TCase *refusals = stage_case(suite, "refusals");
    suite_add(refusals, ring_refuses_what_it_cannot_do);
    return suite_run(suite);
}
