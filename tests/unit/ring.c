/* SPDX-License-Identifier: MIT */
/* ring.c - the last events of a thread: in order, and none that was half overwritten, whoever reads meanwhile. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record/ring.h"
#include "tests/support/suite.h"

#define BYTES (64 * sizeof(struct weir__event))

/* Its words follow from a number, so that a mixture of two is seen. */
static struct weir__event event_of(uint64_t number)
{
    return (struct weir__event){number, number * 3, number * 5, number * 7, number, number * 13, number * 11};
}

static void expect(const struct weir__event *event, uint64_t number)
{
    struct weir__event wanted = event_of(number);
    ck_assert_mem_eq(event, &wanted, sizeof wanted);
}

static void write_events(struct weir__ring *ring, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        struct weir__event event = event_of(i);
        weir__ring_write(ring, &event);
    }
}

START_TEST(events_come_in_order_once_for_each_reader)
{
    struct weir__ring *ring = weir__ring_new(BYTES);
    struct weir__event events[64];
    uint64_t first = 0, second = 0, lost = 0;
    write_events(ring, 0, 10);
    ck_assert_uint_eq(weir__ring_read(ring, &first, events, 4, &lost), 4);
    expect(&events[3], 3);
    ck_assert_uint_eq(weir__ring_read(ring, &first, events, 64, &lost), 6);
    expect(&events[0], 4);
    ck_assert_uint_eq(weir__ring_read(ring, &first, events, 64, &lost), 0);
    ck_assert_uint_eq(weir__ring_read(ring, &second, events, 64, &lost), 10);
    expect(&events[0], 0);
    ck_assert_uint_eq(lost, 0);
    weir__ring_free(ring);
}
END_TEST

/* The slot of the oldest is the one that is written next, so one less than all can be read. */
START_TEST(newest_events_take_the_place_of_the_oldest_which_are_counted)
{
    struct weir__ring *ring = weir__ring_new(BYTES);
    struct weir__event events[64];
    for (uint64_t written = 1; written < 300; written++) {
        uint64_t position = 0, lost = 0;
        write_events(ring, written - 1, written);
        size_t count = weir__ring_read(ring, &position, events, 64, &lost);
        ck_assert_uint_eq(count, written < 64 ? written : 63);
        ck_assert_uint_eq(lost + count, written);
        ck_assert_uint_eq(position, written);
        for (size_t i = 0; i < count; i++)
            expect(&events[i], lost + i);
    }
    weir__ring_free(ring);
}
END_TEST

START_TEST(thread_of_the_ring_is_in_each_event)
{
    struct weir__ring *ring = weir__ring_new(BYTES);
    struct weir__event event = event_of(5);
    uint64_t position = 0, lost = 0;
    ring->thread = (1 << 22) - 1;
    weir__ring_write(ring, &event);
    ck_assert_uint_eq(weir__ring_read(ring, &position, &event, 1, &lost), 1);
    ck_assert_uint_eq(weir__event_thread(&event), (1 << 22) - 1);
    ck_assert_uint_eq(weir__event_order(&event), 5);
    weir__ring_free(ring);
}
END_TEST

#define WRITTEN 200000

static void *write_all(void *data)
{
    write_events(data, 0, WRITTEN);
    return NULL;
}

START_TEST(reader_beside_the_writer_sees_whole_events_in_order_and_counts_the_rest)
{
    struct weir__ring *ring = weir__ring_new(BYTES);
    struct weir__event events[16];
    uint64_t position = 0, lost = 0, seen = 0;
    pthread_t writer;
    ck_assert_int_eq(pthread_create(&writer, NULL, write_all, ring), 0);
    while (seen + lost < WRITTEN) {
        size_t count = weir__ring_read(ring, &position, events, 16, &lost);
        for (size_t i = 0; i < count; i++)
            expect(&events[i], seen + lost + i);
        seen += count;
    }
    pthread_join(writer, NULL);
    ck_assert_uint_eq(seen + lost, WRITTEN);
    ck_assert_uint_gt(seen, 0);
    weir__ring_free(ring);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    suite_add(suite_case(suite, "ring", 60), events_come_in_order_once_for_each_reader,
              newest_events_take_the_place_of_the_oldest_which_are_counted, thread_of_the_ring_is_in_each_event,
              reader_beside_the_writer_sees_whole_events_in_order_and_counts_the_rest);
    return suite_run(suite);
}
