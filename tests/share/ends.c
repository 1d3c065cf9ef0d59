/* SPDX-License-Identifier: MIT */
/* ends.c - processes that are killed, hang, are evicted, fork, or leave without a word. */
#include "config.h"

#include <string.h>
#include <time.h>

#include "tests/share/connect.h"
#include "tests/share/stage.h"

/* A block from one to the other, as at the beginning of the world. */
static void hand_over(struct player *exporter, struct player *importer)
{
    stage_say(exporter, "share again 6 s");
    stage_say(importer, "acquire i again again 0 s; check again 6 s; release again s");
    stage_say(exporter, "withdraw again");
}

/* Importers that end ------------------------------------------------------------------------------------------------------------------- */

START_TEST(importer_that_is_killed_loses_its_leases_and_mappings)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; share b 4 s");
    stage_say(importer, "acquire i a l 0 s; acquire i b m 0 s; release m s");
    stage_until(exporter, " leases=1 mappings=2", "info");
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=2 leases=0 mappings=0", "info");
    stage_say(exporter, "withdraw a");
    stage_until(exporter, " blocks=1 ", "info");
    hand_over(exporter, stage_importer("another"));
}
END_TEST

START_TEST(release_that_a_killed_importer_never_came_to_ends_with_its_death)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s; delay 100000 s; release l s");
    stage_say(exporter, "withdraw a");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " blocks=1 leases=1 mappings=1"));
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
    hand_over(exporter, stage_importer("another"));
    stage_say(exporter, "synchronize s");
}
END_TEST

START_TEST(reader_that_is_killed_is_waited_for_no_more)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "ring r 1MiB 2 block s");
    stage_say(importer, "reader i q r 1");
    for (int i = 0; i < 2; i++)
        stage_say(exporter, "take r slot 1MiB 1000 s; push r slot s");
    stage_tell(exporter, "take r slot 1MiB 60000 s");
    stage_signal(importer, SIGKILL);
    stage_hear(exporter);
    stage_say(exporter, "push r slot s");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "readers r"), "readers"), 0);
}
END_TEST

START_TEST(importer_that_hangs_keeps_its_leases_and_nobody_else_waiting)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s");
    stage_signal(importer, SIGSTOP);
    stage_say(exporter, "withdraw a");
    hand_over(exporter, stage_importer("another"));
    stage_until(exporter, " importers=2 hung=0 evicted=0 blocks=1 leases=1 mappings=1", "info");
    stage_signal(importer, SIGCONT);
    stage_say(importer, "check l 3 s; release l s");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(importer_that_goes_to_sleep_for_good_is_got_rid_of_by_its_death)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s");
    stage_signal(importer, SIGSTOP);
    stage_say(exporter, "withdraw a");
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}
END_TEST

/* Eviction ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(evicted_importer_s_blocks_stay_out_of_use_until_it_is_dead)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s");
    stage_refuses(exporter, "WEIR_NOT_FOUND", "evict %d", (int)stage_pid(exporter));
    stage_say(exporter, "evict %d", (int)stage_pid(importer));
    stage_until(exporter, " importers=1 hung=0 evicted=1 ", "info");
    stage_say(exporter, "withdraw a");
    hand_over(exporter, stage_importer("another"));
    stage_until(exporter, " importers=2 hung=0 evicted=1 blocks=1 leases=1 mappings=1", "info");
    stage_say(importer, "check l 3 s");
    stage_refuses(importer, "WEIR_BUSY", "acquire i again m 0 s");
    stage_say(importer, "release l s");
    stage_refuses(importer, "WEIR_BUSY", "acquire i again m 0 s");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " blocks=1 leases=1 mappings=1"));
    stage_leave(importer);
    stage_until(exporter, " importers=1 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(importer_that_hangs_can_be_evicted)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "ring r 1MiB 2 block s");
    stage_say(importer, "reader i q r 1");
    stage_signal(importer, SIGSTOP);
    for (int i = 0; i < 2; i++)
        stage_say(exporter, "take r slot 1MiB 1000 s; push r slot s");
    stage_say(exporter, "evict %d", (int)stage_pid(importer));
    stage_until(exporter, " importers=1 hung=0 evicted=1 ", "info");
    stage_say(exporter, "take r slot 1MiB 60000 s; push r slot s");
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=2 leases=0 mappings=0", "info");
}
END_TEST

/* Exporters that end ------------------------------------------------------------------------------------------------------------------- */

START_TEST(importer_of_a_killed_exporter_reads_on_and_finds_the_next)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; synchronize s");
    stage_say(importer, "acquire i a l 0 s");
    stage_signal(exporter, SIGKILL);
    stage_refuses(importer, "WEIR_GONE", "acquire i a m 0 s");
    stage_say(importer, "check l 3 s");
    exporter = stage_exporter("next", NULL);
    stage_say(exporter, "share a 4 s");
    stage_say(importer, "acquire i a m 0 s; check m 4 s; check l 3 s; release l s; release m s");
    stage_until(exporter, " leases=0 mappings=1", "info");
}
END_TEST

START_TEST(who_waits_for_a_name_hears_that_the_exporter_was_killed)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_tell(importer, "acquire i a l 60000 s");
    stage_until(exporter, " messages=3", "messages");
    stage_signal(exporter, SIGKILL);
    stage_hears(importer, "WEIR_GONE");
}
END_TEST

START_TEST(reader_of_a_killed_exporter_reads_the_next_one_s_ring)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "ring r 1MiB 2 block s");
    stage_say(importer, "reader i q r 1");
    stage_tell(importer, "next q l 60000 s");
    stage_signal(exporter, SIGKILL);
    stage_hears(importer, "WEIR_GONE");
    exporter = stage_exporter("next", NULL);
    stage_refuses(importer, "WEIR_NOT_FOUND", "next q l 0 s");
    stage_say(exporter, "ring r 1MiB 2 block s");
    stage_tell(importer, "next q l 60000 s");
    stage_until(exporter, " readers=1", "readers r");
    stage_say(exporter, "take r slot 1MiB 0 s; fill slot 5 s; push r slot s");
    stage_hear(importer);
    stage_say(importer, "check l 5 s; release l s");
}
END_TEST

START_TEST(stream_that_waits_for_a_killed_exporter_waits_for_ever)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "delay 100000 s; share a 3 s");
    stage_say(importer, "acquire i a l 0 s; mark behind s");
    stage_signal(exporter, SIGKILL);
    stage_refuses(importer, "WEIR_GONE", "acquire i a m 0 s");
    ck_assert_uint_eq(stage_number(stage_say(importer, "reached behind"), "reached"), 0);
    stage_signal(importer, SIGKILL);
}
END_TEST

START_TEST(with_host_waits_an_importer_survives_an_exporter_that_is_killed_at_work)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 0 1");
    stage_say(exporter, "delay 100000 s; share a 3 s");
    stage_tell(importer, "acquire i a l 60000 s");
    stage_until(exporter, " leases=1 ", "info");
    stage_signal(exporter, SIGKILL);
    stage_hears(importer, "WEIR_GONE");
    stage_say(importer, "synchronize s");
    hand_over(stage_exporter("next", NULL), importer);
}
END_TEST

START_TEST(exporter_that_hangs_is_a_time_out)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 10000");
    stage_say(exporter, "share a 3 s");
    stage_signal(exporter, SIGSTOP);
    stage_refuses(importer, "WEIR_TIMEOUT", "acquire i a l 0 s");
    stage_signal(exporter, SIGCONT);
    stage_until(importer, "ok", "acquire i a l 0 s");
    stage_say(importer, "check l 3 s");
}
END_TEST

/* The exporter may have read HELLO just then, and must not take this process for an importer that went without a word. */
START_TEST(importer_that_gives_up_says_goodbye)
{
    struct player *importer = stage_guest("importer");
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    char path[SHARE_PATH_SIZE];
    ck_assert_int_eq(share_path("frames", true, false, &error, path), WEIR_OK);
    ck_assert_int_eq(share_listen(path, 0600, &error, &listener), WEIR_OK);
    stage_refuses(importer, "WEIR_TIMEOUT", "import i frames 1000");
    int fd = share_accept(&listener);
    ck_assert_int_ge(fd, 0);
    hear_a(WIRE_HELLO, fd);
    hear_a(WIRE_GOODBYE, fd);
    ck_assert(is_closed(fd));
    share_listener_close(&listener);
}
END_TEST

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* An hour is what no test waits. */
START_TEST(importer_that_waits_finds_the_exporter_that_comes_later)
{
    struct player *importer = stage_guest("importer");
    struct player *killed = stage_exporter("killed", NULL);
    stage_signal(killed, SIGKILL); /* it leaves its socket behind */
    stage_tell(importer, "import i frames 0 0 3600000");
    struct player *exporter = stage_exporter("exporter", NULL);
    stage_hear(importer);
    hand_over(exporter, importer);
}
END_TEST

START_TEST(importer_that_waits_for_nobody_says_so_after_its_time)
{
    struct player *importer = stage_guest("importer");
    uint64_t begin = now_ms();
    const char *why = stage_refuses(importer, "WEIR_GONE", "import i frames 0 0 300");
    ck_assert_uint_ge(now_ms() - begin, 300);
    ck_assert_msg(strstr(why, "frames") != NULL, "%s", why);
    struct player *exporter = stage_exporter("exporter", NULL);
    stage_say(importer, "import i frames 0 0 3600000");
    hand_over(exporter, importer);
}
END_TEST

START_TEST(importer_that_waits_takes_no_for_an_answer)
{
    stage_exporter("exporter", ", max_importers: 1");
    stage_importer("first");
    struct player *second = stage_guest("second");
    stage_refuses(second, "WEIR_REFUSED", "import i frames 0 0 3600000");
}
END_TEST

/* Closing ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(export_that_is_closed_is_gone_and_its_blocks_are_read_on)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; share b 4 s");
    stage_say(importer, "acquire i a l 0 s; acquire i b m 0 s; release m s");
    stage_say(exporter, "export_close 50");
    stage_refuses(importer, "WEIR_BUSY", "acquire i b m 0 s");
    stage_say(exporter, "malloc x 1MiB s; fill x 9 s; synchronize s");
    stage_say(importer, "check l 3 s; release l s");
}
END_TEST

START_TEST(export_waits_at_its_close_for_importers_to_unmap)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s");
    stage_tell(exporter, "export_close 60000");
    stage_say(importer, "check l 3 s; release l s");
    stage_hear(exporter);
    stage_refuses(importer, "WEIR_GONE", "acquire i a m 0 s");
}
END_TEST

START_TEST(pool_is_exported_again_after_its_export_was_closed)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    for (unsigned number = 1; number <= 3; number++) {
        stage_say(exporter, "share a %u s", number);
        stage_say(importer, "acquire i a l 0 s; check l %u s; release l s", number);
        stage_say(exporter, "export_close 20000; export frames");
    }
    hand_over(exporter, importer);
}
END_TEST

START_TEST(leases_that_a_closed_import_still_had_end_with_the_process)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s; close_bare");
    stage_say(exporter, "withdraw a");
    stage_until(exporter, " importers=1 hung=0 evicted=1 blocks=1 leases=1 mappings=1", "info");
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(weir_that_is_closed_with_everything_open_leaves_nothing)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; ring r 1MiB 4 block s");
    stage_say(importer, "reader i q r 2; acquire i a l 0 s");
    for (int i = 0; i < 3; i++)
        stage_say(exporter, "take r slot 1MiB 0 s; push r slot s");
    stage_say(importer, "next q m 20000 s");
    stage_say(exporter, "take r slot 1MiB 0 s");
    /* stage_close() closes all, and looks. */
}
END_TEST

START_TEST(importer_that_closes_in_order_leaves_the_exporter_nothing)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s; release l s");
    stage_leave(importer);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=1 leases=0 mappings=0", "info");
}
END_TEST

/* Forks -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(child_of_an_exporter_can_do_nothing_and_keeps_nothing_open)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; malloc b 1MiB s; ring r 1MiB 2 block s");
    stage_refuses(exporter, "WEIR_FORKED", "in_child publish b b s");
    stage_refuses(exporter, "WEIR_FORKED", "in_child withdraw a");
    stage_refuses(exporter, "WEIR_FORKED", "in_child take r slot 1 0 s");
    stage_refuses(exporter, "WEIR_FORKED", "in_child info");
    stage_say(exporter, "in_child export_close 0; synchronize s");
    stage_say(importer, "acquire i a l 0 s");
    pid_t child = (pid_t)stage_number(stage_say(exporter, "leave_child"), "pid");
    stage_signal(exporter, SIGKILL);
    stage_refuses(importer, "WEIR_GONE", "acquire i a m 0 s");
    stage_say(importer, "check l 3 s; release l s");
    hand_over(stage_exporter("next", NULL), importer);
    kill(child, SIGKILL);
}
END_TEST

START_TEST(child_of_an_importer_can_do_nothing_and_keeps_nothing_leased)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; ring r 1MiB 2 block s");
    stage_say(importer, "reader i q r 1; acquire i a l 0 s");
    stage_refuses(importer, "WEIR_FORKED", "in_child acquire i a m 0 s");
    stage_refuses(importer, "WEIR_FORKED", "in_child release l s");
    stage_refuses(importer, "WEIR_FORKED", "in_child next q m 0 s");
    stage_say(importer, "in_child reader_close q; in_child import_close i; check l 3 s");
    pid_t child = (pid_t)stage_number(stage_say(importer, "leave_child"), "pid");
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=3 leases=0 mappings=0", "info");
    kill(child, SIGKILL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ends");
    TCase *importers = stage_case(suite, "importers");
    suite_add(importers, importer_that_is_killed_loses_its_leases_and_mappings,
              release_that_a_killed_importer_never_came_to_ends_with_its_death, reader_that_is_killed_is_waited_for_no_more,
              importer_that_hangs_keeps_its_leases_and_nobody_else_waiting,
              importer_that_goes_to_sleep_for_good_is_got_rid_of_by_its_death);
    TCase *eviction = stage_case(suite, "eviction");
    suite_add(eviction, evicted_importer_s_blocks_stay_out_of_use_until_it_is_dead, importer_that_hangs_can_be_evicted);
    TCase *exporters = stage_case(suite, "exporters");
    suite_add(exporters, importer_of_a_killed_exporter_reads_on_and_finds_the_next, who_waits_for_a_name_hears_that_the_exporter_was_killed,
              reader_of_a_killed_exporter_reads_the_next_one_s_ring, stream_that_waits_for_a_killed_exporter_waits_for_ever,
              with_host_waits_an_importer_survives_an_exporter_that_is_killed_at_work, exporter_that_hangs_is_a_time_out,
              importer_that_gives_up_says_goodbye, importer_that_waits_finds_the_exporter_that_comes_later,
              importer_that_waits_for_nobody_says_so_after_its_time, importer_that_waits_takes_no_for_an_answer);
    TCase *closing = stage_case(suite, "closing");
    suite_add(closing, export_that_is_closed_is_gone_and_its_blocks_are_read_on, export_waits_at_its_close_for_importers_to_unmap,
              pool_is_exported_again_after_its_export_was_closed, leases_that_a_closed_import_still_had_end_with_the_process,
              weir_that_is_closed_with_everything_open_leaves_nothing, importer_that_closes_in_order_leaves_the_exporter_nothing);
    TCase *forks = stage_case(suite, "forks");
    suite_add(forks, child_of_an_exporter_can_do_nothing_and_keeps_nothing_open,
              child_of_an_importer_can_do_nothing_and_keeps_nothing_leased);
    return suite_run(suite);
}
