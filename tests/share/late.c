/* SPDX-License-Identifier: MIT */
/*
 * late.c - what is late, or stopped, or has more to say than a socket holds: a reader loses a frame to its own lateness alone, and nobody
 * waits for a process that is stopped.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/share/stage.h"

#define SLOT 512     /* bytes */
#define BURST 450    /* releases: a socket holds fewer than 300 */
#define ATTEMPTS 20  /* a machine that is too slow to be quick once in so many is none */

static const char *const middle_policy = "weir: 1\npools:\n  out: { devices: [0], ipc: posix_fd, share: { socket: second } }\n";

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What does not fit into a socket --------------------------------------------------------------------------------------------------------- */

static void take_frames(struct player *reader, unsigned first, unsigned count)
{
    for (unsigned number = first; number < first + count; number++)
        ck_assert_uint_eq(stage_number(stage_say(reader, "next q l%u 60000 s", number), "sequence"), number);
}

static void release_frames(struct player *reader, unsigned first, unsigned count)
{
    for (unsigned number = first; number < first + count; number++)
        stage_say(reader, "release l%u s", number);
}

START_TEST(releases_that_no_socket_holds_reach_an_exporter_that_was_stopped)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r %d 512 block s", SLOT);
    stage_say(reader, "reader i q r 500");
    stage_say(exporter, "write r 1 %d %d s", BURST, SLOT);
    take_frames(reader, 1, BURST);
    stage_signal(exporter, SIGSTOP);
    release_frames(reader, 1, BURST);
    stage_signal(exporter, SIGCONT);
    stage_until(exporter, " hung=0 evicted=0 blocks=512 leases=0 ", "info");
    stage_say(exporter, "write r %d %d %d s", BURST + 1, BURST, SLOT);
    take_frames(reader, BURST + 1, BURST);
    release_frames(reader, BURST + 1, BURST);
}
END_TEST

START_TEST(requests_behind_releases_that_no_socket_holds_are_answered)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r %d 512 block s", SLOT);
    stage_say(exporter, "malloc a %d s", SLOT);
    stage_say(exporter, "publish a a s");
    stage_say(exporter, "forget a");
    stage_say(reader, "reader i q r 500");
    stage_say(exporter, "write r 1 %d %d s", BURST, SLOT);
    take_frames(reader, 1, BURST);
    stage_signal(exporter, SIGSTOP);
    release_frames(reader, 1, BURST);
    stage_tell(reader, "acquire i a l 0 s");
    stage_signal(exporter, SIGCONT);
    stage_hear(reader);
    stage_say(reader, "release l s");
    stage_until(exporter, " leases=0 ", "info");
}
END_TEST

/* What the import says last is behind what did not fit. */
START_TEST(import_that_is_closed_behind_releases_that_no_socket_holds_leaves_in_good_order)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r %d 512 block s", SLOT);
    stage_say(reader, "reader i q r 500");
    stage_say(exporter, "write r 1 %d %d s", BURST, SLOT);
    take_frames(reader, 1, BURST);
    stage_signal(exporter, SIGSTOP);
    release_frames(reader, 1, BURST);
    stage_tell(reader, "reader_close q");
    stage_signal(exporter, SIGCONT);
    stage_hear(reader);
    stage_say(reader, "import_close i");
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=512 leases=0 ", "info");
    stage_say(reader, "import i frames");
}
END_TEST

/* Who is stopped ------------------------------------------------------------------------------------------------------------------------- */

/* Milliseconds that a reader of the process in the middle waits for an answer, just after the exporter of the latter was given up. */
static uint64_t wait_behind_stopped(struct player *camera, struct player *middle, struct player *reader)
{
    stage_say(middle, "import i frames 1200");
    stage_signal(camera, SIGSTOP);
    stage_refuses(middle, "WEIR_TIMEOUT", "acquire i a l 0 s");
    uint64_t before = now_ms();
    stage_say(reader, "acquire i b l 0 s");
    uint64_t waited = now_ms() - before;
    stage_say(reader, "release l s");
    stage_signal(camera, SIGCONT);
    stage_say(middle, "import_close i");
    return waited;
}

START_TEST(leave_that_a_stopped_exporter_does_not_hear_keeps_nobody_waiting)
{
    struct player *camera = stage_exporter("camera", NULL);
    struct player *middle = stage_enter((struct role){ .name = "middle", .policy = middle_policy });
    stage_say(middle, "export out");
    stage_say(middle, "malloc b %d s", SLOT);
    stage_say(middle, "publish b b s");
    stage_say(middle, "forget b");
    struct player *reader = stage_enter((struct role){ .name = "reader", .policy = stage_importer_policy() });
    stage_say(reader, "import i second");
    uint64_t waited = UINT64_MAX;
    for (int attempt = 0; attempt < ATTEMPTS && waited >= 500; attempt++)
        waited = wait_behind_stopped(camera, middle, reader);
    ck_assert_uint_lt(waited, 500);
}
END_TEST

/* Releases that fail ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(release_whose_event_cannot_be_recorded_ends_the_lease_all_the_same)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r %d 3 block s", SLOT);
    stage_say(reader, "reader i q r 1");
    for (unsigned number = 1; number <= 8; number++) {
        stage_say(exporter, "write r %u 1 %d s", number, SLOT);
        take_frames(reader, number, 1);
        stage_say(reader, "fail_call event_record %u", number % 2 + 1); /* our own event, or the exporter's */
        release_frames(reader, number, 1);
    }
    stage_until(exporter, " leases=0 ", "info");
}
END_TEST

START_TEST(lease_that_cannot_be_released_is_there_to_be_released_again)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *reader = stage_enter((struct role){ .name = "reader", .policy = stage_importer_policy() });
    stage_say(reader, "broken 0");
    stage_say(reader, "import i frames");
    stage_say(exporter, "ring r %d 3 block s", SLOT);
    stage_say(reader, "reader i q r 1");
    stage_say(exporter, "write r 1 2 %d s", SLOT);
    take_frames(reader, 1, 1);
    stage_say(reader, "broken 1");
    stage_refuses(reader, "WEIR_CUDA_ERROR", "release l1 s");
    stage_say(reader, "broken 0");
    stage_say(reader, "check l1 1 s");
    release_frames(reader, 1, 1);
    take_frames(reader, 2, 1);
    release_frames(reader, 2, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("late");
    TCase *full = stage_case(suite, "full sockets");
    tcase_add_test(full, releases_that_no_socket_holds_reach_an_exporter_that_was_stopped);
    tcase_add_test(full, requests_behind_releases_that_no_socket_holds_are_answered);
    tcase_add_test(full, import_that_is_closed_behind_releases_that_no_socket_holds_leaves_in_good_order);
    TCase *stopped = stage_case(suite, "stopped");
    tcase_add_test(stopped, leave_that_a_stopped_exporter_does_not_hear_keeps_nobody_waiting);
    if (stage_is_simulated()) {
        TCase *releases = stage_case(suite, "releases");
        tcase_add_test(releases, release_whose_event_cannot_be_recorded_ends_the_lease_all_the_same);
        tcase_add_test(releases, lease_that_cannot_be_released_is_there_to_be_released_again);
    }
    return suite_run(suite);
}
