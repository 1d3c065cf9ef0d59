/* SPDX-License-Identifier: MIT */
/*
 * faults.c - every call of the GPU that sharing makes, failing once, on either side.
 *
 * A scenario is played with the first call of an operation failing, then with the second, until so many are not made. What fails has to
 * fail in order: afterwards both sides do what they are for, and when they have closed nothing is left.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/share/stage.h"

static struct player *exporter, *importer;

static void play(void)
{
    stage_try(exporter, "malloc a 64KiB s");
    stage_try(exporter, "publish a a s");
    stage_try(importer, "import i frames");
    stage_try(importer, "acquire i a l 0 s");
    stage_try(importer, "acquire i a m 0 s");
    stage_try(exporter, "ring r 64KiB 3 drop_oldest s");
    stage_try(importer, "reader i q r 2");
    for (int frame = 0; frame < 2; frame++) {
        stage_try(exporter, "take r slot 64KiB 0 s");
        stage_try(exporter, "push r slot s");
        stage_try(exporter, "drop r slot s"); /* if it could not be pushed */
        stage_try(importer, "next q f 200 s");
        stage_try(importer, "release f s");
    }
    stage_try(exporter, "take r slot 64KiB 0 s");
    stage_try(exporter, "drop r slot s");
    stage_try(importer, "release l s");
    stage_try(exporter, "withdraw a");
    stage_try(importer, "release m s");
    stage_try(importer, "reader_close q");
    stage_try(exporter, "ring_close r");
}

/* What the application still has, it gives back. */
static void clear(void)
{
    stage_try(importer, "release l s");
    stage_try(importer, "release m s");
    stage_try(importer, "release f s");
    stage_try(importer, "reader_close q");
    stage_try(exporter, "withdraw a");
    stage_try(exporter, "free a s");
    stage_try(exporter, "forget a");
    stage_try(exporter, "ring_close r");
    stage_try(exporter, "forget slot");
}

static void work(void)
{
    stage_say(exporter, "share again 6 s 64KiB");
    stage_try(importer, "import i frames"); /* unless it did before */
    stage_say(importer, "acquire i again l 0 s; check l 6 s; release l s");
    stage_say(exporter, "withdraw again");
    stage_until(exporter, " leases=0 ", "info"); /* whatever failed, the exporter has learned of every release */
    stage_say(importer, "import_close i");
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=0 leases=0 mappings=0", "info");
}

/* Returns whether the call was made. */
static bool play_with(const char *operation, bool closes, bool at_exporter, unsigned nth)
{
    stage_open();
    exporter = stage_exporter("exporter", NULL);
    importer = stage_guest("importer");
    struct player *victim = at_exporter ? exporter : importer;
    unsigned long long before = stage_number(stage_say(victim, "calls %s", operation), "calls");
    stage_say(victim, "fail_call %s %u", operation, nth);
    play();
    clear();
    if (closes)
        stage_try(importer, "import_close i");
    unsigned long long made = stage_number(stage_say(victim, "calls %s", operation), "calls") - before;
    stage_say(victim, "fail_call %s 0", operation);
    work();
    stage_close();
    return made >= nth;
}

static const struct {
    const char *operation;
    unsigned at_exporter, at_importer; /* how many calls are looked at, at most */
    bool closes; /* the call may come as late as when the import is closed */
} operations[] = {
    { "block_export", 12, 0, false },
    { "event_create_shared", 12, 0, false },
    { "event_record", 7, 12, false }, /* then come frees; where one cannot be seen complete, the pool stays for good */
    { "event_query", 12, 0, false },
    { "malloc_async", 12, 0, false },
    { "stream_wait_event", 12, 12, false },
    { "stream_capture_status", 12, 12, false },
    { "pool_import", 0, 12, false },
    { "block_import", 0, 12, false },
    { "event_open_shared", 0, 12, false },
    { "event_create", 0, 12, false },
    { "stream_create", 0, 12, true },
};
#define OPERATIONS (int)(sizeof operations / sizeof operations[0])

START_TEST(call_that_fails_costs_what_it_was_for_and_nothing_more)
{
    bool at_exporter = _i % 2;
    unsigned most = at_exporter ? operations[_i / 2].at_exporter : operations[_i / 2].at_importer, nth = 1;
    while (nth <= most && play_with(operations[_i / 2].operation, operations[_i / 2].closes, at_exporter, nth))
        nth++;
    ck_assert_msg(!most || nth > 1, "%s is never called at the %s", operations[_i / 2].operation, at_exporter ? "exporter" : "importer");
}
END_TEST

int main(void)
{
    const char *gpu = getenv("WEIR_GPU");
    if (gpu && strcmp(gpu, "sim") != 0)
        return suite_skip("only the simulator fails when it is told to");
    Suite *suite = suite_create("faults");
    TCase *faults = suite_case(suite, "gpu", 120);
    tcase_add_loop_test(faults, call_that_fails_costs_what_it_was_for_and_nothing_more, 0, 2 * OPERATIONS);
    return suite_run(suite);
}
