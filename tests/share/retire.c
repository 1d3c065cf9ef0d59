/* SPDX-License-Identifier: MIT */
/* retire.c - pools that are made anew, so that their memory goes back to the device. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/share/stage.h"

#define SIZE 33554432 /* bytes: what a pool grows by */
#define SOON ", retire_after: 10ms"

/* A block from one to the other, and withdrawn. */
static void hand_over(struct player *exporter, struct player *importer, unsigned number)
{
    stage_say(exporter, "share a %u s 32MiB", number);
    stage_say(importer, "acquire i a l 0 s; check l %u s; release l s", number);
    stage_say(exporter, "withdraw a");
}

static unsigned long long free_memory(struct player *player)
{
    return stage_number(stage_say(player, "memory"), "free");
}

START_TEST(empty_pool_is_made_anew_and_gives_its_memory_back)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    unsigned long long before = free_memory(importer);
    stage_say(exporter, "share a 3 s 32MiB");
    stage_say(importer, "acquire i a l 0 s");
    ck_assert_uint_le(free_memory(importer) + SIZE, before);
    stage_say(importer, "release l s");
    stage_say(exporter, "withdraw a");
    stage_until(exporter, " epoch=2 importers=0 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
    ck_assert_uint_eq(free_memory(importer), before);
}
END_TEST

START_TEST(importers_come_back_by_themselves_in_every_epoch)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importers[3];
    char epoch[32];
    for (int i = 0; i < 3; i++)
        importers[i] = stage_importer("importer");
    unsigned long long before = free_memory(exporter);
    for (unsigned round = 1; round <= 6; round++) {
        stage_say(exporter, "share a %u s 32MiB", round);
        for (int i = 0; i < 3; i++)
            stage_say(importers[i], "acquire i a l 0 s; check l %u s; release l s", round);
        stage_say(exporter, "withdraw a");
        snprintf(epoch, sizeof epoch, " epoch=%u ", round + 1);
        stage_until(exporter, epoch, "info");
        ck_assert_uint_eq(free_memory(exporter), before);
    }
}
END_TEST

START_TEST(pool_that_nobody_ever_imported_is_made_anew_too)
{
    struct player *exporter = stage_exporter("exporter", SOON);
    unsigned long long before = free_memory(exporter);
    stage_say(exporter, "share a 3 s 32MiB; withdraw a");
    stage_until(exporter, " epoch=2 ", "info");
    ck_assert_uint_eq(free_memory(exporter), before);
}
END_TEST

/* For longer than the exporter has for an answer, which is another time than what the importer waits for the block. */
START_TEST(patient_importer_asks_again_in_the_next_epoch)
{
    struct player *exporter = stage_exporter("exporter", ", retire_after: 10100ms");
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 10000");
    hand_over(exporter, importer, 3);
    stage_tell(importer, "acquire i b l 600000 s");
    stage_until(exporter, " epoch=2 importers=1 ", "info");
    stage_say(exporter, "share b 4 s 32MiB");
    stage_hear(importer);
    stage_say(importer, "check l 4 s; release l s");
}
END_TEST

/* Who publishes, and does not know that the pool is being made anew just then. */
START_TEST(blocks_are_published_while_the_pool_is_made_anew)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    for (unsigned round = 1; round <= 40; round++) {
        stage_say(exporter, "share a %u s 65536", round);
        stage_say(importer, "acquire i a l 0 s; check l %u s; release l s", round);
        stage_say(exporter, "withdraw a");
        if (round % 4)
            stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=0 ", "info"); /* it is about to be, or has just been */
    }
}
END_TEST

START_TEST(lease_keeps_its_pool)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s 32MiB");
    stage_say(importer, "acquire i a l 0 s");
    stage_say(exporter, "withdraw a");
    hand_over(exporter, stage_importer("another"), 4);
    stage_until(exporter, " epoch=1 importers=2 hung=0 evicted=0 blocks=1 leases=1 mappings=1", "info");
    stage_say(importer, "check l 3 s; release l s");
    stage_until(exporter, " epoch=2 ", "info");
    hand_over(exporter, importer, 5);
}
END_TEST

START_TEST(block_that_is_not_shared_keeps_its_pool)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    stage_say(exporter, "malloc own 32MiB s; fill own 9 s");
    hand_over(exporter, importer, 3);
    hand_over(exporter, importer, 4);
    stage_say(exporter, "check own 9 s");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " epoch=1 "));
    stage_say(exporter, "free own s");
    stage_until(exporter, " epoch=2 ", "info");
}
END_TEST

START_TEST(ring_that_was_closed_is_made_anew_and_its_readers_find_the_next)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    for (unsigned round = 1; round <= 3; round++) {
        char epoch[32];
        stage_say(exporter, "ring r 32MiB 2 block s");
        stage_say(importer, "reader i q r 1");
        stage_say(exporter, "take r slot 32MiB 0 s; fill slot %u s; push r slot s", round);
        stage_say(importer, "next q l 20000 s; check l %u s; release l s", round);
        stage_say(exporter, "ring_close r");
        stage_until(importer, "fail WEIR_ENDED", "next q l 100 s");
        stage_say(importer, "reader_close q");
        snprintf(epoch, sizeof epoch, " epoch=%u ", round + 1);
        stage_until(exporter, epoch, "info");
    }
}
END_TEST

/* As hand_over(), and the importer stops when it hears that it is asked for the pool. */
static void hand_over_and_stop(struct player *exporter, struct player *importer)
{
    stage_say(exporter, "share a 3 s 32MiB");
    stage_say(importer, "acquire i a l 0 s; check l 3 s; release l s");
    stage_until(exporter, " leases=0 mappings=1", "info");
    stage_say(importer, "stop_at 4"); /* WITHDRAW; UNMAPPED, before and behind it; RETIRE */
    stage_say(exporter, "withdraw a");
    stage_await_stop(importer);
}

START_TEST(importer_that_hangs_puts_it_off_and_keeps_nobody_out_for_long)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    hand_over_and_stop(exporter, importer);
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " epoch=1 importers=1 "));
    /* This one waits until that is given up. */
    struct player *another = stage_importer("another");
    hand_over(exporter, another, 4);
    stage_signal(importer, SIGCONT);
    stage_until(exporter, " epoch=2 ", "info");
    hand_over(exporter, importer, 5);
    hand_over(exporter, another, 6);
}
END_TEST

START_TEST(importer_that_dies_when_it_is_asked_keeps_nothing)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    hand_over_and_stop(exporter, importer);
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " epoch=2 importers=0 ", "info");
    hand_over(exporter, stage_importer("another"), 4);
}
END_TEST

START_TEST(evicted_importer_that_is_dead_keeps_nothing)
{
    struct player *exporter = stage_exporter("exporter", SOON), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s 32MiB");
    stage_say(importer, "acquire i a l 0 s");
    stage_say(exporter, "evict %d; withdraw a", (int)stage_pid(importer));
    stage_until(exporter, " epoch=1 importers=1 hung=0 evicted=1 blocks=1 ", "info");
    stage_signal(importer, SIGKILL);
    stage_until(exporter, " epoch=2 importers=0 ", "info");
}
END_TEST

START_TEST(reload_turns_retiring_on)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    hand_over(exporter, importer, 3);
    stage_say(exporter, "reload %s", stage_policy_file("soon", stage_exporter_policy(SOON)));
    hand_over(exporter, stage_importer("another"), 4);
    stage_until(exporter, " epoch=2 ", "info");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retire");
    TCase *tcase = stage_case(suite, "retire");
    suite_add(tcase, empty_pool_is_made_anew_and_gives_its_memory_back, importers_come_back_by_themselves_in_every_epoch,
              pool_that_nobody_ever_imported_is_made_anew_too, patient_importer_asks_again_in_the_next_epoch,
              blocks_are_published_while_the_pool_is_made_anew, lease_keeps_its_pool, block_that_is_not_shared_keeps_its_pool,
              ring_that_was_closed_is_made_anew_and_its_readers_find_the_next,
              importer_that_hangs_puts_it_off_and_keeps_nobody_out_for_long, importer_that_dies_when_it_is_asked_keeps_nothing,
              evicted_importer_that_is_dead_keeps_nothing, reload_turns_retiring_on);
    return suite_run(suite);
}
