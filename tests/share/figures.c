/* SPDX-License-Identifier: MIT */
/* figures.c - what exporters count: frames, leases, readers that hung, how far they are behind, evictions; each once. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/share/ring_scene.h"

static void expect(const char *answer, const char *key, unsigned long long value)
{
    unsigned long long seen = stage_number(answer, key);
    ck_assert_msg(seen == value, "%s is %llu instead of %llu in: %s", key, seen, value, answer);
}

/* Both the ring, which is the only one that there was, and its export have these. */
static void expect_both(const char *key, unsigned long long value)
{
    expect(stage_say(exporter, "ring_figures r"), key, value);
    expect(stage_say(exporter, "figures"), key, value);
}

/* Overflow ----------------------------------------------------------------------------------------------------------------------------- */

/* A ring of three slots, whose one reader holds the first frame and takes no other. */
static const struct row {
    const char *overflow;
    unsigned timeout;   /* of the take that finds all slots in use */
    const char *status; /* which it gets; NULL: a slot, and the fourth frame is pushed */
    unsigned pushed, dropped, refused, hangs, hung, queued;
} rows[] = {
    { "block", 0, "WEIR_TIMEOUT", 3, 0, 1, 0, 0, 3 },
    { "block", 30, NULL, 4, 0, 0, 1, 1, 1 }, /* what the hung reader was still to get is free, and no drop */
    { "drop_oldest", 0, NULL, 4, 1, 0, 0, 0, 3 },
    { "drop_oldest", 30, NULL, 4, 1, 0, 0, 0, 3 },
    { "fail", 0, "WEIR_BUSY", 3, 0, 1, 0, 0, 3 },
    { "fail", 30, "WEIR_BUSY", 3, 0, 1, 0, 0, 3 },
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

START_TEST(full_ring_is_counted_as_what_its_overflow_does)
{
    const struct row *row = &rows[_i];
    enter_both(3, row->overflow, 1);
    for (unsigned number = 1; number <= 3; number++)
        push(number);
    if (row->status)
        stage_refuses(exporter, row->status, "take r slot %d %u s", SLOT, row->timeout);
    else
        stage_say(exporter, "take r slot %d %u s; fill slot 4 s; push r slot s", SLOT, row->timeout);
    expect_both("pushed", row->pushed);
    expect_both("bytes", (unsigned long long)row->pushed * SLOT);
    expect_both("dropped", row->dropped);
    expect_both("refused", row->refused);
    expect_both("hangs", row->hangs);
    expect_both("leases_given", 1);
    expect_both("lag", row->pushed);
    expect_both("lag_high", row->pushed);
    const char *ring = stage_say(exporter, "ring_figures r");
    expect(ring, "hung", row->hung);
    expect(ring, "queued", row->queued);
    expect(ring, "taken", 0);
}
END_TEST

START_TEST(reader_that_hangs_twice_is_counted_twice)
{
    enter_both(2, "block", 1);
    for (unsigned round = 0; round < 2; round++) {
        push(3 * round + 1);
        push(3 * round + 2);
        stage_say(exporter, "take r slot %d 30 s; fill slot %u s; push r slot s", SLOT, 3 * round + 3);
        expect_both("hangs", round + 1);
        read_next(reader, 3 * round + 1);
        stage_until(exporter, " hung=0 ", "info");
    }
    expect_both("pushed", 6);
    expect_both("leases_given", 2);
}
END_TEST

/* Readers ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(lag_falls_with_each_release_and_its_highest_stays)
{
    char wanted[32];
    enter_both(4, "block", 2);
    for (unsigned number = 1; number <= 3; number++) {
        push(number);
        expect_both("lag", number);
    }
    for (unsigned number = 1; number <= 3; number++) {
        read_next(reader, number);
        snprintf(wanted, sizeof wanted, " lag=%u lag_high=3", 3 - number);
        stage_until(exporter, wanted, "ring_figures r");
        stage_until(exporter, wanted, "figures");
    }
    expect_both("leases_given", 3);
}
END_TEST

START_TEST(lag_is_the_slowest_reader_s_and_goes_with_it)
{
    enter_exporter(4, "block");
    struct player *fast = enter_reader("fast", 1), *slow = enter_reader("slow", 1);
    for (unsigned number = 1; number <= 3; number++) {
        push(number);
        read_next(fast, number);
    }
    stage_until(exporter, " lag=3 lag_high=3", "ring_figures r");
    stage_say(slow, "reader_close q");
    stage_until(exporter, " lag=0 lag_high=3", "ring_figures r");
    expect_both("pushed", 3);
    expect_both("leases_given", 4); /* three, and one that waited in the slow one's socket */
    expect(stage_say(exporter, "ring_figures r"), "readers", 1);
}
END_TEST

START_TEST(who_comes_late_is_not_behind)
{
    enter_exporter(2, "block");
    for (unsigned number = 1; number <= 5; number++)
        push(number);
    expect_both("lag_high", 0);
    reader = enter_reader("reader", 1);
    expect_both("lag", 0);
    push(6);
    expect_both("lag", 1);
    expect_both("pushed", 6);
    expect_both("dropped", 0);
}
END_TEST

START_TEST(slot_that_is_given_back_is_no_frame_and_no_drop)
{
    enter_exporter(2, "drop_oldest");
    stage_say(exporter, "take r slot %d 0 s", SLOT);
    const char *ring = stage_say(exporter, "ring_figures r");
    expect(ring, "taken", 1);
    expect(ring, "depth", 2);
    expect(ring, "overflow", 1);
    expect(ring, "slot_size", SLOT);
    stage_say(exporter, "drop r slot s");
    expect_both("pushed", 0);
    expect_both("dropped", 0);
    expect(stage_say(exporter, "ring_figures r"), "taken", 0);
}
END_TEST

/* The export --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(export_keeps_what_a_closed_ring_has_counted)
{
    enter_both(3, "drop_oldest", 1);
    for (unsigned number = 1; number <= 5; number++)
        push(number);
    const char *kept[] = { "pushed", "bytes", "dropped", "leases_given", "lag_high" };
    unsigned long long before[5];
    for (int i = 0; i < 5; i++)
        before[i] = stage_number(stage_say(exporter, "figures"), kept[i]);
    ck_assert_uint_eq(before[2], 2);
    stage_say(reader, "reader_close q");
    stage_say(exporter, "ring_close r");
    stage_until(exporter, " blocks=0 ", "info");
    for (int i = 0; i < 5; i++)
        expect(stage_say(exporter, "figures"), kept[i], before[i]);
    open_ring(2, "block");
    push(1);
    expect(stage_say(exporter, "ring_figures r"), "pushed", 1);
    expect(stage_say(exporter, "figures"), "pushed", 6);
    expect(stage_say(exporter, "figures"), "lag", 0);
}
END_TEST

START_TEST(export_keeps_its_figures_when_the_pool_is_made_anew)
{
    exporter = stage_exporter("exporter", ", retire_after: 10ms");
    open_ring(2, "block");
    reader = enter_reader("reader", 1);
    push(1);
    read_next(reader, 1);
    stage_say(reader, "reader_close q");
    stage_say(exporter, "ring_close r");
    stage_until(exporter, " epoch=2 ", "info");
    const char *figures = stage_say(exporter, "figures");
    expect(figures, "pushed", 1);
    expect(figures, "leases_given", 1);
    expect(figures, "lag_high", 1);
    expect(figures, "evictions", 0);
}
END_TEST

START_TEST(leases_of_blocks_with_names_count_in_the_export_alone)
{
    enter_both(2, "block", 1);
    stage_say(exporter, "share a 1 s");
    stage_say(reader, "acquire i a l 0 s; release l s; acquire i a l 0 s; release l s");
    expect(stage_say(exporter, "figures"), "leases_given", 2);
    expect(stage_say(exporter, "ring_figures r"), "leases_given", 0);
}
END_TEST

/* Whether its connection or its process ends first, and whoever ended it. */
START_TEST(eviction_is_counted_once)
{
    enter_exporter(2, "block");
    struct player *killed = enter_reader("killed", 1), *evicted = enter_reader("evicted", 1), *left = enter_reader("left", 1);
    stage_signal(killed, SIGKILL);
    stage_until(exporter, " importers=2 ", "info");
    expect(stage_say(exporter, "figures"), "evictions", 1);
    stage_say(exporter, "evict %d", (int)stage_pid(evicted));
    stage_until(exporter, " evicted=1 ", "info");
    expect(stage_say(exporter, "figures"), "evictions", 2);
    stage_signal(evicted, SIGKILL);
    stage_until(exporter, " importers=1 ", "info");
    stage_leave(left);
    stage_until(exporter, " importers=0 ", "info");
    expect(stage_say(exporter, "figures"), "evictions", 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("figures");
    TCase *overflow = stage_case(suite, "overflow");
    tcase_add_loop_test(overflow, full_ring_is_counted_as_what_its_overflow_does, 0, ROWS);
    suite_add(overflow, reader_that_hangs_twice_is_counted_twice);
    TCase *readers = stage_case(suite, "readers");
    suite_add(readers, lag_falls_with_each_release_and_its_highest_stays, lag_is_the_slowest_reader_s_and_goes_with_it,
              who_comes_late_is_not_behind, slot_that_is_given_back_is_no_frame_and_no_drop);
    TCase *whole = stage_case(suite, "export");
    suite_add(whole, export_keeps_what_a_closed_ring_has_counted, export_keeps_its_figures_when_the_pool_is_made_anew,
              leases_of_blocks_with_names_count_in_the_export_alone, eviction_is_counted_once);
    return suite_run(suite);
}
