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
#include <unistd.h>

#include "tests/share/connect.h"
#include "tests/share/stage.h"

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

/* One after the other. */
static void read_frames(struct player *reader, unsigned first, unsigned count)
{
    for (unsigned number = first; number < first + count; number++) {
        take_frames(reader, number, 1);
        release_frames(reader, number, 1);
    }
}

START_TEST(releases_that_no_socket_holds_reach_an_exporter_that_was_stopped)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r 512B 512 block s");
    stage_say(reader, "reader i q r 500");
    stage_say(exporter, "write r 1 %d 512 s", BURST);
    take_frames(reader, 1, BURST);
    stage_signal(exporter, SIGSTOP);
    release_frames(reader, 1, BURST);
    stage_signal(exporter, SIGCONT);
    stage_until(exporter, " hung=0 evicted=0 blocks=512 leases=0 ", "info");
    stage_say(exporter, "write r %d %d 512 s", BURST + 1, BURST);
    take_frames(reader, BURST + 1, BURST);
    release_frames(reader, BURST + 1, BURST);
}
END_TEST

START_TEST(requests_behind_releases_that_no_socket_holds_are_answered)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r 512B 512 block s; share a 1 s 512");
    stage_say(reader, "reader i q r 500");
    stage_say(exporter, "write r 1 %d 512 s", BURST);
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
    stage_say(exporter, "ring r 512B 512 block s");
    stage_say(reader, "reader i q r 500");
    stage_say(exporter, "write r 1 %d 512 s", BURST);
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
    stage_say(middle, "export out; malloc b 512 s; publish b b s; forget b");
    struct player *reader = stage_guest("reader");
    stage_say(reader, "import i second");
    uint64_t waited = UINT64_MAX;
    for (int attempt = 0; attempt < ATTEMPTS && waited >= 500; attempt++)
        waited = wait_behind_stopped(camera, middle, reader);
    ck_assert_uint_lt(waited, 500);
}
END_TEST

/* An exporter whose service thread does something else ---------------------------------------------------------------------------------- */

/* The reader has released its frame, and the service thread has not heard of it. */
static void release_unheard(struct player *exporter, struct player *reader, const char *overflow, unsigned pushed)
{
    stage_say(exporter, "ring r 512B 3 %s s", overflow);
    stage_say(reader, "reader i q r 1");
    stage_say(exporter, "write r 1 %u 512 s", pushed);
    take_frames(reader, 1, 1);
    stage_say(exporter, "hold_service 1");
    release_frames(reader, 1, 1);
}

START_TEST(reader_that_released_is_heard_though_the_service_thread_is_late)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    release_unheard(exporter, reader, "block", 3);
    stage_say(exporter, "take r slot 512 20 s"); /* however short it waits */
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " hung=0 "));
    stage_say(exporter, "fill slot 4 s; push r slot s");
    read_frames(reader, 2, 1);
    stage_say(exporter, "hold_service 0");
    read_frames(reader, 3, 2);
}
END_TEST

START_TEST(no_frame_is_dropped_where_a_slot_was_released)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    release_unheard(exporter, reader, "drop_oldest", 3);
    stage_say(exporter, "write r 4 1 512 s; hold_service 0");
    read_frames(reader, 2, 3);
}
END_TEST

START_TEST(ring_is_not_full_of_what_was_released)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    release_unheard(exporter, reader, "fail", 3);
    stage_say(exporter, "take r slot 512 0 s; drop r slot s; hold_service 0");
}
END_TEST

START_TEST(producer_that_waits_serves_readers_by_itself)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r 512B 3 block s");
    stage_say(reader, "reader i q r 1");
    stage_say(exporter, "write r 1 3 512 s; hold_service 1");
    stage_tell(exporter, "write r 4 40 512 s");
    read_frames(reader, 1, 40);
    stage_hear(exporter);
    stage_say(exporter, "hold_service 0");
}
END_TEST

/* A subscription may need a thousand events, which take CUDA a while. */
START_TEST(reader_is_heard_while_leases_are_made_for_another)
{
    struct player *exporter = stage_enter((struct role){ .name = "exporter", .policy = stage_exporter_policy(NULL) });
    stage_say(exporter, "breakable; export frames");
    struct player *reader = stage_importer("reader"), *other = stage_importer("other");
    stage_say(exporter, "ring r 512B 3 block s; ring large 512B 512 block s");
    stage_say(reader, "reader i q r 1");
    stage_say(exporter, "write r 1 3 512 s; hold_events 1");
    stage_tell(other, "reader i q large 0");
    for (unsigned number = 1; number <= 20; number++) {
        read_frames(reader, number, 1);
        stage_say(exporter, "write r %u 1 512 s", number + 3);
    }
    ck_assert(!stage_has_answer(other));
    stage_say(exporter, "hold_events 0");
    stage_hear(other);
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " hung=0 "));
}
END_TEST

/* What it says behind a request is heard before that has its answer. */
START_TEST(reader_is_heard_while_leases_are_made_for_itself)
{
    struct player *exporter = stage_enter((struct role){ .name = "exporter", .policy = stage_exporter_policy(NULL) });
    stage_say(exporter, "breakable; export frames; ring r 512B 3 block s; share a 1 s 512");
    int fd = stage_connect();
    say(fd, &(struct wire_message){ .type = WIRE_HELLO, .request = 1, .u.hello.role = WIRE_ROLE_IMPORTER });
    hear_a(WIRE_WELCOME, fd);
    say(fd, &(struct wire_message){ .type = WIRE_SUBSCRIBE, .request = 2, .u.subscribe = { 1, "r" } });
    hear_a(WIRE_SUBSCRIBED, fd);
    stage_say(exporter, "write r 1 3 512 s");
    uint32_t lease = hear_a(WIRE_LEASE, fd).u.lease.lease;
    stage_say(exporter, "hold_events 1");
    say(fd, &(struct wire_message){ .type = WIRE_ACQUIRE, .request = 3, .u.acquire.name = "a" });
    say(fd, &(struct wire_message){ .type = WIRE_RELEASE, .u.release = { lease, WIRE_HOW_DONE } });
    stage_say(exporter, "take r slot 512 20 s; drop r slot s; hold_events 0");
    ck_assert_uint_eq(hear_a(WIRE_LEASE, fd).u.lease.sequence, 2);
    ck_assert_uint_eq(hear_a(WIRE_LEASE, fd).request, 3);
    say(fd, &(struct wire_message){ .type = WIRE_GOODBYE });
    stage_until(exporter, " importers=0 ", "info");
    close(fd);
}
END_TEST

START_TEST(threads_that_wait_for_slots_serve_each_other)
{
    struct player *exporter = stage_exporter("exporter", NULL), *readers[4];
    for (int i = 0; i < 4; i++) {
        readers[i] = stage_importer("reader");
        stage_say(exporter, "ring r%d 65536 2 block s", i);
        stage_say(readers[i], "reader i q r%d 0", i);
        stage_tell(readers[i], "follow q 60000 s");
    }
    ck_assert_uint_eq(stage_number(stage_say(exporter, "writers r 4 300"), "served"), 4 * 300);
    for (int i = 0; i < 4; i++) {
        stage_say(exporter, "ring_close r%d", i);
        ck_assert_uint_eq(stage_number(stage_hear(readers[i]), "frames"), 300);
    }
}
END_TEST

/* A producer that finds no slot falls asleep while another reads that a reader will have done. */
START_TEST(producer_that_sleeps_gets_the_slot_whose_release_another_one_heard_of)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r 512B 2 block s; ring other 512B 2 block s");
    stage_say(reader, "reader i q r 0");
    stage_say(exporter, "write r 1 2 512 s");
    take_frames(reader, 1, 1);
    stage_say(exporter, "take_late r s");
    stage_say(reader, "delay 300 s");
    release_frames(reader, 1, 1);
    stage_say(exporter, "take other slot 512 0 s; taken; drop other slot s");
    read_frames(reader, 2, 1);
}
END_TEST

/* The service thread was told of a release, and came too late to read it: a push had. */
START_TEST(release_that_a_push_has_read_ends_though_nobody_takes_a_slot_again)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r 512B 2 block s");
    stage_say(reader, "reader i q r 1");
    stage_say(exporter, "write r 1 1 512 s");
    take_frames(reader, 1, 1);
    stage_say(exporter, "take r slot 512 0 s");
    stage_importer("other"); /* whom the service thread has let in: it serves again */
    stage_say(exporter, "hold_service 1");
    stage_say(reader, "delay 300 s");
    release_frames(reader, 1, 1);
    stage_say(exporter, "push r slot s; hold_service 0");
    stage_until(exporter, " leases=1 ", "info");
}
END_TEST

/* For a long time ------------------------------------------------------------------------------------------------------------------------ */

#define CHUNK 200u /* frames */

/* A process in the middle whose exporter is stopped again and again, whose service thread does something else half of the time, and at whose
   door others come and go and want a thousand leases. WEIR_SOAK: so many seconds of that, and WEIR_SOAK_TIMEOUT: milliseconds after which a
   reader is late; without them it is over soon, and none can be late. */
START_TEST(readers_lose_nothing_to_an_exporter_that_is_late)
{
    const char *seconds = getenv("WEIR_SOAK"), *timeout = getenv("WEIR_SOAK_TIMEOUT");
    uint64_t end = now_ms() + (seconds ? strtoull(seconds, NULL, 10) * 1000 : 0);
    unsigned written = 0;
    struct player *camera = stage_exporter("camera", NULL), *readers[3];
    struct player *middle = stage_enter((struct role){ .name = "middle", .policy = middle_policy }), *guest;
    stage_say(middle, "export out; ring r 4096 4 block s; ring large 512B 1024 block s");
    for (int i = 0; i < 3; i++) {
        readers[i] = stage_guest("reader");
        stage_say(readers[i], "import i second; reader i q r %d", i);
        stage_tell(readers[i], "follow q 600000 s");
    }
    guest = stage_guest("guest");
    stage_say(middle, "busy_service 30 30");
    do {
        stage_say(middle, "import i frames 100");
        stage_signal(camera, SIGSTOP);
        stage_refuses(middle, "WEIR_TIMEOUT", "acquire i a l 0 s");
        stage_tell(middle, "write r %u %u 4096 s %s", written + 1, CHUNK, timeout ? timeout : "");
        written += CHUNK;
        stage_say(guest, "import i second; reader i q large 0; reader_close q; import_close i");
        stage_hear(middle);
        stage_signal(camera, SIGCONT);
        stage_say(middle, "import_close i");
        ck_assert_ptr_nonnull(strstr(stage_say(middle, "info"), " hung=0 "));
    } while (now_ms() < end);
    stage_say(middle, "busy_service 0 0; ring_close r");
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(stage_number(stage_hear(readers[i]), "frames"), written);
    if (seconds)
        fprintf(stderr, "# %u frames to 3 readers, none lost\n", written);
}
END_TEST

/* Releases that fail ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(release_whose_event_cannot_be_recorded_ends_the_lease_all_the_same)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader = stage_importer("reader");
    stage_say(exporter, "ring r 512B 3 block s");
    stage_say(reader, "reader i q r 1");
    for (unsigned number = 1; number <= 8; number++) {
        stage_say(exporter, "write r %u 1 512 s", number);
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
    struct player *reader = stage_guest("reader");
    stage_say(reader, "breakable; import i frames");
    stage_say(exporter, "ring r 512B 3 block s");
    stage_say(reader, "reader i q r 1");
    stage_say(exporter, "write r 1 2 512 s");
    take_frames(reader, 1, 1);
    stage_say(reader, "broken 1");
    stage_refuses(reader, "WEIR_CUDA_ERROR", "release l1 s");
    stage_say(reader, "broken 0; check l1 1 s");
    release_frames(reader, 1, 1);
    read_frames(reader, 2, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("late");
    TCase *full = stage_case(suite, "full sockets");
    suite_add(full, releases_that_no_socket_holds_reach_an_exporter_that_was_stopped,
              requests_behind_releases_that_no_socket_holds_are_answered,
              import_that_is_closed_behind_releases_that_no_socket_holds_leaves_in_good_order);
    TCase *stopped = stage_case(suite, "stopped");
    suite_add(stopped, leave_that_a_stopped_exporter_does_not_hear_keeps_nobody_waiting);
    TCase *held = stage_case(suite, "late service thread");
    suite_add(held, reader_that_released_is_heard_though_the_service_thread_is_late, no_frame_is_dropped_where_a_slot_was_released,
              ring_is_not_full_of_what_was_released, producer_that_waits_serves_readers_by_itself,
              reader_is_heard_while_leases_are_made_for_another, reader_is_heard_while_leases_are_made_for_itself,
              threads_that_wait_for_slots_serve_each_other, producer_that_sleeps_gets_the_slot_whose_release_another_one_heard_of,
              release_that_a_push_has_read_ends_though_nobody_takes_a_slot_again);
    TCase *soak = suite_case(suite, "soak", 1200);
    tcase_add_checked_fixture(soak, stage_open, stage_close);
    suite_add(soak, readers_lose_nothing_to_an_exporter_that_is_late);
    if (stage_is_simulated()) {
        TCase *releases = stage_case(suite, "releases");
        suite_add(releases, release_whose_event_cannot_be_recorded_ends_the_lease_all_the_same,
                  lease_that_cannot_be_released_is_there_to_be_released_again);
    }
    return suite_run(suite);
}
