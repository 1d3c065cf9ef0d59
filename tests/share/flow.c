/* SPDX-License-Identifier: MIT */
/* flow.c - blocks and frames in great numbers, from process to process to process, all of them busy at once. */
#include "config.h"

#include <time.h>

#include "tests/share/stage.h"

#define FRAMES 1500
#define CYCLES 10000
#define EVENTS 32    /* by which a process may have more, behind frees that it will look at some time */
#define GROWTH 32768 /* bytes of malloc by which a process may have more after many cycles, for what happened to be under way */

/* Nothing grows ------------------------------------------------------------------------------------------------------------------------ */

struct figures {
    unsigned long long heap, events, fds;
};

static struct figures figures_of(struct player *player)
{
    struct figures figures = { .heap = stage_number(stage_say(player, "heap"), "heap") };
    const char *counts = stage_say(player, "counts");
    figures.events = stage_number(counts, "events");
    figures.fds = stage_number(counts, "fds");
    return figures;
}

static void check_growth(struct player *player, const struct figures *before)
{
    if (stage_is_simulated()) {
        /* What has ended is closed a moment later, then as before. */
        const char *counts = stage_say(player, "counts");
        for (int i = 0; i < 3000 && stage_number(counts, "fds") > before->fds; i++) {
            nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
            counts = stage_say(player, "counts");
        }
        ck_assert_msg(stage_number(counts, "fds") <= before->fds, "there were %llu descriptors, and are now:%s", before->fds, counts);
        unsigned long long events = stage_number(counts, "events");
        ck_assert_msg(events <= before->events + EVENTS, "there were %llu events, and are now:%s", before->events, counts);
    }
    unsigned long long heap = stage_number(stage_say(player, "heap"), "heap");
    ck_assert_msg(heap <= before->heap + GROWTH, "%llu bytes of malloc were in use, and %llu are now", before->heap, heap);
}

/* How many leases are under way at a time, and so how many there ever are, is a matter of luck; with the import they go. Under a sanitizer by day
   fewer do: still enough for 16 bytes left by each to be seen. */
START_TEST(ten_thousand_leases_leave_nothing_on_either_side)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    struct figures before[2];
    unsigned cycles = CYCLES / suite_lone_stride();
    stage_say(exporter, "share a 3 s 64KiB");
    for (int round = 0; round < 2; round++) {
        stage_say(importer, "cycles i a %u s", round ? cycles - cycles / 10 : cycles / 10);
        stage_until(exporter, " leases=0 mappings=1", "info");
        stage_say(importer, "import_close i");
        stage_until(exporter, " importers=0 ", "info");
        if (round == 0) {
            before[0] = figures_of(exporter);
            before[1] = figures_of(importer);
            stage_say(importer, "import i frames");
        }
    }
    check_growth(exporter, &before[0]);
    check_growth(importer, &before[1]);
}
END_TEST

START_TEST(many_publications_leave_nothing_on_either_side)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    struct figures before[2];
    for (unsigned number = 1; number <= 600; number++) {
        stage_say(exporter, "share a %u s 64KiB", number);
        stage_say(importer, "cycles i a 2 s");
        stage_say(exporter, "withdraw a");
        if (number % 10 == 0) /* who unmaps may be behind */
            stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
        if (number != 100 && number != 600)
            continue;
        if (number == 600)
            break;
        before[0] = figures_of(exporter);
        before[1] = figures_of(importer);
    }
    check_growth(exporter, &before[0]);
    check_growth(importer, &before[1]);
}
END_TEST

START_TEST(many_imports_leave_nothing_on_either_side)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    struct figures before[2];
    stage_say(exporter, "share a 3 s 64KiB");
    for (unsigned round = 1; round <= 200; round++) {
        stage_say(importer, "import i frames; cycles i a 2 s; import_close i");
        if (round == 20) {
            stage_until(exporter, " importers=0 ", "info");
            before[0] = figures_of(exporter);
            before[1] = figures_of(importer);
        }
    }
    stage_until(exporter, " importers=0 ", "info");
    check_growth(exporter, &before[0]);
    check_growth(importer, &before[1]);
}
END_TEST

START_TEST(many_readers_of_one_ring_after_the_other_leave_nothing)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    struct figures before[2];
    stage_say(exporter, "ring r 64KiB 4 drop_oldest s");
    for (unsigned round = 1; round <= 200; round++) {
        stage_say(importer, "reader i q r 2");
        stage_say(exporter, "write r 1 3 64KiB s");
        stage_say(importer, "next q l 20000 s; release l s; reader_close q");
        if (round == 20) {
            stage_until(exporter, " leases=0 ", "info");
            before[0] = figures_of(exporter);
            before[1] = figures_of(importer);
        }
    }
    stage_until(exporter, " leases=0 ", "info");
    check_growth(exporter, &before[0]);
    check_growth(importer, &before[1]);
}
END_TEST

/* Everybody at once -------------------------------------------------------------------------------------------------------------------- */

static void open_ring(struct player *exporter, struct player **readers, unsigned count, const char *overflow)
{
    stage_say(exporter, "ring r 64KiB 4 %s s", overflow);
    for (unsigned i = 0; i < count; i++) {
        readers[i] = stage_importer("reader");
        stage_say(readers[i], "reader i q r %u", i % 4);
        stage_tell(readers[i], "follow q 60000 s");
    }
}

START_TEST(every_frame_reaches_every_reader_while_all_run)
{
    struct player *exporter = stage_exporter("exporter", NULL), *readers[4];
    open_ring(exporter, readers, 4, "block");
    stage_say(exporter, "write r 1 %d 64KiB s; ring_close r", FRAMES);
    for (int i = 0; i < 4; i++) {
        const char *answer = stage_hear(readers[i]);
        ck_assert_uint_eq(stage_number(answer, "frames"), FRAMES);
        ck_assert_uint_eq(stage_number(answer, "last"), FRAMES);
    }
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(frames_that_are_dropped_leave_gaps_and_no_others_are_seen)
{
    struct player *exporter = stage_exporter("exporter", NULL), *readers[3];
    open_ring(exporter, readers, 3, "drop_oldest");
    stage_say(exporter, "write r 1 %d 64KiB s; ring_close r", FRAMES);
    for (int i = 0; i < 3; i++) {
        const char *answer = stage_hear(readers[i]);
        ck_assert_uint_eq(stage_number(answer, "last"), FRAMES);
    }
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(reader_that_is_killed_in_full_flow_takes_no_frame_from_the_others)
{
    struct player *exporter = stage_exporter("exporter", NULL), *readers[4];
    open_ring(exporter, readers, 4, "block");
    stage_say(exporter, "write r 1 50 64KiB s");
    stage_tell(exporter, "write r 51 %d 64KiB s", FRAMES - 50);
    stage_signal(readers[1], SIGKILL);
    stage_signal(readers[2], SIGKILL);
    stage_hear(exporter);
    stage_say(exporter, "ring_close r");
    ck_assert_uint_eq(stage_number(stage_hear(readers[0]), "frames"), FRAMES);
    ck_assert_uint_eq(stage_number(stage_hear(readers[3]), "frames"), FRAMES);
    stage_until(exporter, " importers=2 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(exporter_that_is_killed_in_full_flow_leaves_whole_frames_and_no_hanging_reader)
{
    struct player *exporter = stage_exporter("exporter", NULL), *reader;
    stage_say(exporter, "ring r 64KiB 4 block s");
    reader = stage_guest("reader");
    stage_say(reader, "import i frames 0 1; reader i q r 2");
    stage_tell(reader, "follow q 60000 s");
    stage_say(exporter, "write r 1 100 64KiB s");
    stage_tell(exporter, "write r 101 1000000 64KiB s");
    stage_signal(exporter, SIGKILL);
    ck_assert_uint_ge(stage_number(stage_hear(reader), "frames"), 90);
}
END_TEST

/* Threads --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(threads_of_an_importer_share_its_connection)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s 64KiB");
    ck_assert_uint_eq(stage_number(stage_say(importer, "acquirers i a 6 300"), "served"), 4 * 300);
    stage_until(exporter, " leases=0 mappings=1", "info");
}
END_TEST

START_TEST(threads_publish_what_threads_of_others_acquire)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importers[3];
    for (unsigned i = 0; i < 3; i++) {
        importers[i] = stage_importer("importer");
        stage_tell(importers[i], "acquirers i a%u 3 300", i);
    }
    ck_assert_uint_eq(stage_number(stage_say(exporter, "publishers a 4 300"), "served"), 4 * 300);
    for (int i = 0; i < 3; i++)
        stage_hear(importers[i]);
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(pool_is_made_anew_under_threads_that_come_and_go)
{
    struct player *exporter = stage_exporter("exporter", ", retire_after: 10ms"), *importer = stage_importer("importer");
    for (unsigned round = 1; round <= 8; round++) {
        stage_tell(importer, "acquirers i a0 5 40");
        stage_say(exporter, "publishers a 2 40");
        stage_hear(importer);
        stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
    }
    stage_say(exporter, "share a 3 s 64KiB; withdraw a");
    ck_assert_uint_ge(stage_number(stage_until(exporter, " importers=0 ", "info"), "epoch"), 2);
}
END_TEST

/* A frame that one thread got and could not wait for is the other's, which sleeps. */
START_TEST(frame_that_is_put_back_wakes_who_waits_for_one)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 5000 1");
    stage_say(exporter, "ring r 64KiB 3 block s");
    stage_say(importer, "reader i q r 2");
    stage_tell(importer, "readers_of q 600");
    stage_say(exporter, "delay 10000 s"); /* longer than an import's time for an answer, which is how long a frame is waited for */
    stage_say(exporter, "write r 1 1 64KiB s");
    ck_assert_uint_eq(stage_number(stage_hear(importer), "served"), 1);
}
END_TEST

START_TEST(all_threads_hear_that_the_exporter_was_killed)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 0 1");
    stage_say(exporter, "share a 3 s 64KiB; synchronize s");
    stage_tell(importer, "acquirers i a 6 1000000");
    stage_until(exporter, " mappings=1", "info");
    stage_signal(exporter, SIGKILL);
    stage_hears(importer, "WEIR_GONE");
    exporter = stage_exporter("next", NULL);
    stage_say(exporter, "share a 4 s 64KiB");
    stage_say(importer, "acquirers i a 6 20");
}
END_TEST

/* Pipelines ---------------------------------------------------------------------------------------------------------------------------- */

static const char *const middle_policy = "weir: 1\npools:\n  out: { devices: [0], ipc: posix_fd, share: { socket: second } }\n";

/* From a camera through a filter to a screen: the filter copies, on its stream, and waits for nothing. */
START_TEST(process_in_the_middle_hands_on_what_it_has_not_yet_got)
{
    struct player *camera = stage_exporter("camera", NULL);
    struct player *filter = stage_enter((struct role){ .name = "filter", .policy = middle_policy });
    stage_say(camera, "ring r 64KiB 4 block s");
    stage_say(filter, "export out; ring r 64KiB 4 block s; import i frames; reader i q r 2");
    struct player *screen = stage_guest("screen");
    stage_say(screen, "import i second; reader i q r 2");
    stage_say(camera, "delay %u s; mark delayed s", stage_long());
    for (unsigned number = 1; number <= 20; number++) {
        stage_say(camera, "write r %u 1 64KiB s", number);
        stage_say(filter, "next q in 20000 s; take r out 64KiB 20000 s; copy in out s; release in s; push r out s");
        stage_say(screen, "next q l 20000 s");
        if (number == 1)
            ck_assert_uint_eq(stage_number(stage_say(camera, "reached delayed"), "reached"), 0);
        stage_say(screen, "check l %u s; release l s", number);
    }
}
END_TEST

START_TEST(two_processes_import_from_each_other)
{
    struct player *one = stage_exporter("one", NULL), *other = stage_enter((struct role){ .name = "other", .policy = middle_policy });
    stage_say(other, "export out");
    stage_say(one, "import i second");
    stage_say(other, "import i frames");
    for (unsigned number = 1; number <= 20; number++) {
        stage_say(one, "share a %u s 64KiB", number);
        stage_say(other, "share b %u s 64KiB", number + 1);
        stage_say(one, "acquire i b l 0 s");
        stage_say(other, "acquire i a l 0 s");
        stage_say(one, "check l %u s", number + 1);
        stage_say(other, "check l %u s", number);
        stage_say(one, "withdraw a");
        stage_say(other, "withdraw b");
        stage_say(one, "release l s");
        stage_say(other, "release l s");
    }
    stage_until(one, " blocks=0 leases=0 mappings=0", "info");
    stage_until(other, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flow");
    TCase *growth = stage_case(suite, "growth");
    suite_add(growth, ten_thousand_leases_leave_nothing_on_either_side, many_publications_leave_nothing_on_either_side,
              many_imports_leave_nothing_on_either_side, many_readers_of_one_ring_after_the_other_leave_nothing);
    TCase *at_once = stage_case(suite, "at_once");
    suite_add(at_once, every_frame_reaches_every_reader_while_all_run, frames_that_are_dropped_leave_gaps_and_no_others_are_seen,
              reader_that_is_killed_in_full_flow_takes_no_frame_from_the_others,
              exporter_that_is_killed_in_full_flow_leaves_whole_frames_and_no_hanging_reader);
    TCase *threads = stage_case(suite, "threads");
    suite_add(threads, threads_of_an_importer_share_its_connection, threads_publish_what_threads_of_others_acquire,
              pool_is_made_anew_under_threads_that_come_and_go, frame_that_is_put_back_wakes_who_waits_for_one,
              all_threads_hear_that_the_exporter_was_killed);
    TCase *pipelines = stage_case(suite, "pipelines");
    suite_add(pipelines, process_in_the_middle_hands_on_what_it_has_not_yet_got, two_processes_import_from_each_other);
    return suite_run(suite);
}
