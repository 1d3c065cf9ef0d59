/* SPDX-License-Identifier: MIT */
/* restarts.c - readers of a producer that is closed and started again, or killed and started again: each reads on, and takes no frame of the
   producer before for one of the next. */
#include "config.h"

#include "tests/share/ring_scene.h"

#define READERS 3
#define FRAMES 3 /* of each ring */

static void stop_cleanly(void)
{
    stage_say(exporter, "ring_close r; export_close 60000");
    stage_leave(exporter);
}

static void kill_it(void)
{
    stage_signal(exporter, SIGKILL);
}

/* Frames of a ring of that number, which all readers have. */
static void produce(unsigned number)
{
    enter_exporter(4, "drop_oldest");
    stage_until(exporter, " readers=3", "readers r");
    for (int frame = 0; frame < FRAMES; frame++)
        stage_say(exporter, "take r slot %d 0 s; fill slot %u s; push r slot s %u", SLOT, number, number);
}

/* Behind the last frame of the last ring a reader reads no more. */
static void await_readers(void)
{
    stage_until(exporter, " leases=0 ", "info");
    stage_until(exporter, " queued=0 ", "ring_figures r");
}

static void restart(unsigned count, void (*stop)(void))
{
    struct player *readers[READERS];
    enter_exporter(4, "drop_oldest");
    for (int r = 0; r < READERS; r++) {
        readers[r] = enter_reader("reader", 2);
        stage_tell(readers[r], "pursue q %u s", count);
    }
    stop();
    for (unsigned number = 1; number <= count; number++) {
        produce(number);
        if (number == count)
            break;
        await_readers();
        stop();
    }
    for (int r = 0; r < READERS; r++) {
        const char *answer = stage_hear(readers[r]);
        ck_assert_uint_eq(stage_number(answer, "missed"), 0);
        ck_assert_uint_ge(stage_number(answer, "frames"), count);
    }
}

START_TEST(every_reader_reads_on_after_a_producer_that_closed_its_ring)
{
    restart(suite_rounds(5, 100), stop_cleanly);
}
END_TEST

START_TEST(every_reader_reads_on_after_a_producer_that_was_killed)
{
    restart(suite_rounds(5, 100), kill_it);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restarts");
    suite_add(stage_case(suite, "restarts"), every_reader_reads_on_after_a_producer_that_closed_its_ring,
              every_reader_reads_on_after_a_producer_that_was_killed);
    return suite_run(suite);
}
