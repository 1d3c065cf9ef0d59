/* SPDX-License-Identifier: MIT */
/* reader_fd.c - weir_reader_fd(): a program that waits for nothing but descriptors gets every frame, and hears of every end. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "include/weir.h"
#include "tests/share/ring_scene.h"

#define LONG 20000 /* milliseconds */

/* By its descriptor, and nothing else. */
static bool is_readable(const char *of, unsigned timeout_ms)
{
    return stage_number(stage_say(reader, "poll %s %u", of, timeout_ms), "readable");
}

/* Takes the frame that the descriptor tells of, without waiting. */
static void take_polled(const char *of, unsigned number)
{
    ck_assert(is_readable(of, LONG));
    ck_assert_uint_eq(stage_number(stage_say(reader, "next %s l 0 s", of), "sequence"), number);
    stage_say(reader, "check l %u s; release l s", number);
}

static void ends_with(const char *status)
{
    ck_assert(is_readable("q", LONG));
    stage_refuses(reader, status, "next q l 0 s");
    ck_assert(is_readable("q", 0));
}

/* Frames ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(every_frame_is_told_of_to_who_never_waits)
{
    enter_both(4, "block", 2);
    ck_assert(!is_readable("q", 0));
    for (unsigned number = 1; number <= 12; number++) {
        push(number);
        take_polled("q", number);
        ck_assert(!is_readable("q", 0));
    }
}
END_TEST

START_TEST(it_stays_readable_until_the_last_frame_is_taken)
{
    enter_both(4, "block", 3);
    for (unsigned number = 1; number <= 3; number++)
        push(number);
    for (unsigned number = 1; number <= 3; number++)
        take_polled("q", number);
    stage_until(exporter, " leases=0 ", "info");
    ck_assert(!is_readable("q", 0));
    stage_refuses(reader, "WEIR_TIMEOUT", "next q l 0 s");
}
END_TEST

START_TEST(frame_that_came_before_it_was_asked_for_is_told_of)
{
    enter_both(4, "block", 2);
    push(1);
    push(2);
    read_next(reader, 1);
    take_polled("q", 2);
}
END_TEST

/* A thread that waits for one of them reads for all, and so does the service thread. */
START_TEST(each_of_two_readers_has_its_own)
{
    enter_both(4, "block", 2);
    stage_say(reader, "reader i p r 2");
    ck_assert(!is_readable("q", 0));
    ck_assert(!is_readable("p", 0));
    for (unsigned number = 1; number <= 6; number++) {
        push(number);
        if (number % 2)
            take_polled("p", number);
        else
            ck_assert_uint_eq(stage_number(stage_say(reader, "next p m %d s; release m s", LONG), "sequence"), number);
        take_polled("q", number);
        ck_assert(!is_readable("p", 0));
    }
    stage_say(reader, "reader_close p");
    push(7);
    take_polled("q", 7);
}
END_TEST

START_TEST(reader_without_leases_is_not_woken_before_it_releases_one)
{
    enter_both(4, "block", 1);
    push(1);
    push(2);
    ck_assert(is_readable("q", LONG));
    stage_say(reader, "next q m 0 s");
    stage_refuses(reader, "WEIR_BUSY", "next q l 0 s");
    ck_assert(!is_readable("q", 0));
    stage_say(reader, "release m s");
    take_polled("q", 2);
}
END_TEST

START_TEST(it_is_closed_by_exec_and_never_blocks)
{
    enter_both(2, "block", 1);
    const char *answer = stage_say(reader, "poll q 0");
    const char *flags = strstr(answer, "flags=");
    char wanted[64];
    snprintf(wanted, sizeof wanted, "flags=%d,%d", FD_CLOEXEC, O_NONBLOCK);
    ck_assert_str_eq(flags, wanted);
}
END_TEST

START_TEST(without_a_reader_there_is_none)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_int_eq(weir_reader_fd(NULL), -1);
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_INVALID);
}
END_TEST

/* Ends --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(end_of_the_ring_is_told_of_behind_its_last_frame)
{
    enter_both(4, "block", 1);
    ck_assert(!is_readable("q", 0));
    push(1);
    push(2);
    stage_say(exporter, "ring_close r");
    take_polled("q", 1);
    take_polled("q", 2);
    ends_with("WEIR_ENDED");
}
END_TEST

START_TEST(death_of_the_exporter_is_told_of)
{
    enter_both(4, "block", 1);
    ck_assert(!is_readable("q", 0));
    stage_signal(exporter, SIGKILL);
    ends_with("WEIR_GONE");
}
END_TEST

START_TEST(eviction_is_told_of)
{
    enter_both(4, "block", 1);
    ck_assert(!is_readable("q", 0));
    stage_say(exporter, "evict %d", (int)stage_pid(reader));
    ends_with("WEIR_BUSY");
}
END_TEST

START_TEST(reader_of_an_exporter_that_comes_again_is_told_of_its_frames)
{
    enter_both(4, "block", 1);
    push(1);
    take_polled("q", 1);
    stage_signal(exporter, SIGKILL);
    ends_with("WEIR_GONE");
    enter_exporter(4, "block");
    stage_refuses(reader, "WEIR_TIMEOUT", "next q l 0 s");
    ck_assert(!is_readable("q", 0));
    push(1);
    take_polled("q", 1);
}
END_TEST

/* A stopped exporter says nothing, so there is nothing to tell. */
START_TEST(exporter_that_is_stopped_wakes_nobody)
{
    enter_both(4, "block", 1);
    push(1);
    take_polled("q", 1);
    stage_signal(exporter, SIGSTOP);
    ck_assert(!is_readable("q", 0));
    stage_refuses(reader, "WEIR_TIMEOUT", "next q l 0 s");
    ck_assert(!is_readable("q", 0));
    stage_signal(exporter, SIGCONT);
    push(2);
    take_polled("q", 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reader_fd");
    TCase *frames = stage_case(suite, "frames");
    suite_add(frames, every_frame_is_told_of_to_who_never_waits, it_stays_readable_until_the_last_frame_is_taken,
              frame_that_came_before_it_was_asked_for_is_told_of, each_of_two_readers_has_its_own,
              reader_without_leases_is_not_woken_before_it_releases_one, it_is_closed_by_exec_and_never_blocks, without_a_reader_there_is_none);
    TCase *ends = stage_case(suite, "ends");
    suite_add(ends, end_of_the_ring_is_told_of_behind_its_last_frame, death_of_the_exporter_is_told_of, eviction_is_told_of,
              reader_of_an_exporter_that_comes_again_is_told_of_its_frames, exporter_that_is_stopped_wakes_nobody);
    return suite_run(suite);
}
