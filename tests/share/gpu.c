/* SPDX-License-Identifier: MIT */
/*
 * gpu.c - what sharing comes to on a real GPU, whose memory, streams and deaths the simulator only imitates. Runs on either; it lies here
 * because the actor stands beside it.
 */
#include "config.h"

#include <signal.h>
#include <string.h>

#include "lib/gpu/gpu.h"
#include "tests/share/stage.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define LONG_MS 10000    /* work that is not done before the host has gone on */

/* Device memory, as one who has none of it sees it ---------------------------------------------------------------------------------------- */

/* Contexts of a real GPU take memory of their own as they go: so much more or less tells nothing. */
static uint64_t near(void)
{
    return stage_is_simulated() ? 0 : 64 * MIB;
}

static struct player *observer;

static uint64_t free_memory(void)
{
    if (!observer)
        observer = stage_enter((struct role){ .name = "observer" });
    return stage_number(stage_say(observer, "memory"), "free");
}

static bool is_back(void *data)
{
    return free_memory() + near() >= *(uint64_t *)data;
}

static void forget_observer(void)
{
    observer = NULL;
}

static uint64_t block_size(void)
{
    return stage_is_simulated() ? 32 * MIB : 256 * MIB;
}

/* Publishes blocks with contents of those numbers under the names b0, b1, … */
static void publish(struct player *exporter, unsigned blocks)
{
    for (unsigned i = 0; i < blocks; i++) {
        stage_say(exporter, "malloc b%u %llu s; fill b%u %u s; publish b%u b%u s", i, (unsigned long long)block_size(), i, i, i, i);
        stage_say(exporter, "forget b%u", i);
    }
}

/* The same, and returns what was free before. */
static uint64_t publish_and_see(struct player *exporter, unsigned blocks)
{
    uint64_t before = free_memory();
    publish(exporter, blocks);
    stage_say(exporter, "synchronize s");
    ck_assert_uint_le(free_memory() + blocks * block_size(), before + near());
    return before;
}

static void wait_until_back(uint64_t before)
{
    stage_wait(is_back, &before, "the device has its memory back");
}

/* Handing over
 * ----------------------------------------------------------------------------------------------------------------------------- */

/* The next frame of the ring r, with contents of that number. */
static void push(struct player *exporter, unsigned number)
{
    stage_say(exporter, "take r f 4MiB 20000 s; fill f %u s; push r f s", number);
}

START_TEST(frames_are_read_as_they_were_written)
{
    struct player *exporter = stage_exporter("exporter", NULL), *a = stage_importer("a"), *b = stage_importer("b");
    stage_say(exporter, "ring r 4MiB 3 block s");
    stage_say(a, "reader i r r 1");
    stage_say(b, "reader i r r 2");
    for (unsigned i = 0; i < 12; i++) {
        push(exporter, i);
        stage_say(a, "next r l 20000 s");
        stage_say(b, "next r l 20000 s");
        stage_say(a, "check l %u s", i);
        stage_say(b, "check l %u s", i);
        stage_say(a, "release l s");
        stage_say(b, "release l s");
    }
}
END_TEST

START_TEST(stream_of_the_importer_waits_for_that_of_the_exporter_and_no_host_does)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "malloc a 4MiB s; fill a 1 s");
    stage_say(exporter, "delay 1 s"); /* the first one takes its time */
    stage_say(exporter, "synchronize s; delay %d s; fill a 2 s; publish a a s; forget a", LONG_MS);
    stage_say(importer, "acquire i a l 20000 s; mark m s");
    ck_assert_uint_eq(stage_number(stage_say(importer, "reached m"), "reached"), 0);
    stage_say(importer, "check l 2 s; release l s");
}
END_TEST

START_TEST(slot_is_not_written_before_the_stream_of_its_reader_has_come_to_the_release)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "ring r 4MiB 2 block s");
    stage_say(importer, "reader i r r 1; malloc copy 4MiB s; delay 1 s; synchronize s");
    push(exporter, 0);
    stage_say(importer, "next r l 20000 s; delay 500 s; copy l copy s; release l s");
    /* The second of these goes into the slot of the first frame. */
    push(exporter, 1);
    push(exporter, 2);
    stage_say(importer, "check copy 0 s; free copy s");
}
END_TEST

/* Imports
 * ---------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(block_that_is_leased_twice_is_mapped_once_until_both_leases_ended)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    publish(exporter, 1);
    uint64_t first = stage_number(stage_say(importer, "acquire i b0 l 0 s"), "ptr");
    uint64_t second = stage_number(stage_say(importer, "acquire i b0 m 0 s"), "ptr");
    ck_assert_uint_eq(first, second);
    stage_until(exporter, " leases=2 mappings=1", "info");
    stage_say(importer, "release l s");
    stage_say(exporter, "withdraw b0");
    stage_until(exporter, " leases=1 mappings=1", "info");
    stage_say(importer, "check m 0 s; release m s");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(second_import_of_a_pool_in_one_process_is_refused_and_harms_nothing)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    publish(exporter, 1);
    stage_say(importer, "acquire i b0 l 0 s");
    stage_refuses(importer, "WEIR_BUSY", "import j frames");
    stage_say(importer, "check l 0 s; release l s");
}
END_TEST

START_TEST(name_that_was_withdrawn_and_published_again_has_the_new_contents)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    for (unsigned i = 0; i < 4; i++) {
        stage_say(exporter, "malloc b 2MiB s; fill b %u s; publish a b s; forget b", i);
        stage_say(importer, "acquire i a l 20000 s; check l %u s; release l s", i);
        stage_say(exporter, "withdraw a");
        stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
    }
}
END_TEST

START_TEST(block_above_ipc_max_block_is_refused_when_it_is_allocated)
{
    static const char capped[] =
        "weir: 1\npools: { frames: { devices: [0], ipc: posix_fd, ipc_max_block: 64MiB, share: { socket: frames } } }\n";
    struct player *exporter = stage_enter((struct role){ .name = "exporter", .policy = capped });
    const char *why = stage_refuses(exporter, "WEIR_INVALID", "malloc a %llu s", (unsigned long long)(64 * MIB + 1));
    ck_assert_msg(strstr(why, "pools.frames.ipc_max_block") != NULL, "%s", why);
    stage_say(exporter, "malloc a 64MiB s");
}
END_TEST

/* One MiB more kills the importer (measured). */
START_TEST(largest_block_that_may_be_shared_is_imported)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_refuses(exporter, "WEIR_INVALID", "malloc a %llu s", (unsigned long long)(5248 * MIB + 1));
    stage_say(exporter, "malloc a 5248MiB s; malloc head 1MiB s; fill head 9 s; copy head a s; publish a a s; forget a");
    stage_say(importer, "malloc head 1MiB s; acquire i a l 0 s; copy l head s; check head 9 s; free head s; release l s");
}
END_TEST

/* Memory goes back
 * ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(retired_pool_gives_its_memory_back_to_the_device)
{
    struct player *exporter = stage_exporter("exporter", ", retire_after: 100ms"), *importer = stage_importer("importer");
    uint64_t before = publish_and_see(exporter, 4);
    for (unsigned i = 0; i < 4; i++) {
        stage_say(importer, "acquire i b%u l 0 s; release l s", i);
        stage_say(exporter, "withdraw b%u", i);
    }
    stage_until(exporter, " epoch=2 ", "info");
    wait_until_back(before);
    /* The import connects again by itself. */
    publish(exporter, 1);
    stage_say(importer, "acquire i b0 l 20000 s; check l 0 s; release l s");
}
END_TEST

/* Crashes
 * ---------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(killed_exporter_leaves_the_importer_its_data_and_the_memory_goes_back_when_both_are_gone)
{
    uint64_t nobody = free_memory();
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    publish(exporter, 2);
    stage_say(importer, "acquire i b1 l 0 s");
    stage_signal(exporter, SIGKILL);
    stage_say(importer, "check l 1 s");
    stage_refuses(importer, "WEIR_GONE", "acquire i b0 m 0 s");
    stage_say(importer, "check l 1 s; release l s; import_close i");
    stage_leave(importer);
    wait_until_back(nobody);
}
END_TEST

START_TEST(importer_of_a_killed_exporter_reads_from_the_next_one)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    publish(exporter, 1);
    stage_say(importer, "acquire i b0 l 0 s; release l s");
    stage_signal(exporter, SIGKILL);
    struct player *next = stage_exporter("next", NULL);
    publish(next, 2);
    stage_until(importer, "ok", "acquire i b1 l 20000 s");
    stage_say(importer, "check l 1 s; release l s");
}
END_TEST

START_TEST(slot_of_a_killed_importer_returns_although_its_release_never_completes)
{
    struct player *exporter = stage_exporter("exporter", NULL), *killed = stage_importer("killed"), *other = stage_importer("other");
    stage_say(exporter, "ring r 4MiB 2 block s");
    stage_say(killed, "reader i r r 1; delay 1 s; synchronize s");
    push(exporter, 1);
    stage_say(killed, "next r l 20000 s; delay %d s; release l s", 2 * LONG_MS);
    ck_assert_uint_eq(stage_number(stage_say(exporter, "info"), "leases"), 1);
    stage_signal(killed, SIGKILL);
    stage_until(exporter, " leases=0 mappings=0", "info");
    stage_say(other, "reader i r r 1");
    for (unsigned i = 2; i < 6; i++) {
        push(exporter, i);
        stage_say(other, "next r l 20000 s; check l %u s; release l s", i);
    }
}
END_TEST

START_TEST(block_of_a_killed_importer_is_freed_and_its_memory_goes_back)
{
    struct player *exporter = stage_exporter("exporter", ", retire_after: 100ms"), *killed = stage_importer("killed");
    uint64_t before = publish_and_see(exporter, 2);
    stage_say(killed, "acquire i b0 l 0 s; acquire i b1 m 0 s");
    stage_say(exporter, "withdraw b0; withdraw b1");
    stage_signal(killed, SIGKILL);
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
    stage_until(exporter, " epoch=2 ", "info");
    wait_until_back(before);
}
END_TEST

START_TEST(importer_whose_host_waits_survives_an_exporter_that_is_killed_at_work)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 0 1");
    stage_say(exporter, "delay 1 s; synchronize s; malloc a 4MiB s; delay 10000 s; fill a 2 s; publish a a s; forget a");
    stage_tell(importer, "acquire i a l 60000 s");
    stage_until(exporter, " leases=1 ", "info");
    stage_signal(exporter, SIGKILL);
    stage_hears(importer, "WEIR_GONE");
    stage_say(importer, "malloc own 1MiB s; fill own 5 s; check own 5 s; free own s");
}
END_TEST

/* Suite -------------------------------------------------------------------------------------------------------------------------------- */

int main(void)
{
    if (!stage_supports(GPU_FEATURE_POOL_POSIX_FD))
        return suite_skip("there is no GPU here whose pools can be shared");
    Suite *suite = suite_create("share on a GPU");
    TCase *tcase = stage_case(suite, "frames");
    suite_add(tcase, frames_are_read_as_they_were_written, stream_of_the_importer_waits_for_that_of_the_exporter_and_no_host_does,
              slot_is_not_written_before_the_stream_of_its_reader_has_come_to_the_release);
    tcase = stage_case(suite, "imports");
    tcase_add_checked_fixture(tcase, forget_observer, NULL);
    suite_add(tcase, block_that_is_leased_twice_is_mapped_once_until_both_leases_ended,
              second_import_of_a_pool_in_one_process_is_refused_and_harms_nothing,
              name_that_was_withdrawn_and_published_again_has_the_new_contents, block_above_ipc_max_block_is_refused_when_it_is_allocated);
    if (!stage_is_simulated())
        suite_add(tcase, largest_block_that_may_be_shared_is_imported);
    tcase = stage_case(suite, "memory");
    tcase_add_checked_fixture(tcase, forget_observer, NULL);
    suite_add(tcase, retired_pool_gives_its_memory_back_to_the_device);
    tcase = stage_case(suite, "crashes");
    tcase_add_checked_fixture(tcase, forget_observer, NULL);
    suite_add(tcase, killed_exporter_leaves_the_importer_its_data_and_the_memory_goes_back_when_both_are_gone,
              importer_of_a_killed_exporter_reads_from_the_next_one, slot_of_a_killed_importer_returns_although_its_release_never_completes,
              block_of_a_killed_importer_is_freed_and_its_memory_goes_back,
              importer_whose_host_waits_survives_an_exporter_that_is_killed_at_work);
    return suite_run(suite);
}
