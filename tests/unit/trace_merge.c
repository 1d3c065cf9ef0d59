/* SPDX-License-Identifier: MIT */
/* trace_merge.c - the one order of the events of several threads. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/trace_data.h"

#define MS UINT64_C(1000000)

static struct trace_writer writer;
static struct trace trace;
static struct trace_event seen[4096];
static size_t seen_count;

static void open_all(void)
{
    writer = (struct trace_writer){0};
    trace = (struct trace){.reader.fd = -1};
    seen_count = 0;
    write_file(&writer, 1);
    write_header(&writer, (const char *const[]){NULL});
}

static void close_all(void)
{
    trace_close(&trace);
    writer_free(&writer);
}

static bool see(void *context, const struct trace_event *event)
{
    (void)context;
    ck_assert_uint_lt(seen_count, sizeof seen / sizeof seen[0]);
    seen[seen_count++] = *event;
    return true;
}

static void play(void)
{
    ck_assert_msg(trace_data_open(&trace, writer.bytes, writer.len), "%s", trace.error);
    ck_assert_msg(trace_play(&trace, see, NULL), "%s", trace.error);
    ck_assert_uint_eq(seen_count, trace.events);
}

/* A mark of the thread that the last write_thread() was for. */
static void mark(uint64_t time, uint64_t order)
{
    write_event(&writer, &(struct trace_row){.kind = 43, .time = time, .order = order});
}

/* after: the last number of the weir by then. */
static void serve(uint64_t time, uint64_t stream, uint64_t order, uint64_t after)
{
    write_event(&writer, &(struct trace_row){.kind = 18, .time = time, .order = order, .after = after, .stream = stream, .address = 1});
}

static void end_thread(void)
{
    write_block_end(&writer, WRITE_PLAIN);
}

/* The orders that were seen are these, ended by 0. */
#define expect_orders(...) expect_all((const uint64_t[]){__VA_ARGS__, 0})
static void expect_all(const uint64_t *orders)
{
    size_t count = 0;
    for (; orders[count]; count++)
        ck_assert_msg(count < seen_count && seen[count].order == orders[count], "event %zu has order %llu", count,
                      (unsigned long long)seen[count].order);
    ck_assert_uint_eq(count, seen_count);
}

START_TEST(equal_times_go_by_orders)
{
    write_thread(&writer, 1, 0, 0);
    mark(4, 2);
    mark(4, 3);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    mark(4, 1);
    mark(4, 4);
    end_thread();
    play();
    expect_orders(1, 2, 3, 4);
}
END_TEST

START_TEST(orders_are_stronger_than_times)
{
    write_thread(&writer, 1, 0, 0);
    mark(10, 2);
    mark(12, 4);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    mark(1000, 1);
    mark(1001, 3);
    end_thread();
    play();
    expect_orders(1, 2, 3, 4);
}
END_TEST

START_TEST(each_stream_counts_for_itself)
{
    write_thread(&writer, 1, 0, 0);
    serve(5, 0xa, 2, 9);
    serve(6, 0xb, 1, 9);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    mark(7, 9);
    serve(8, 0xa, 1, 9);
    end_thread();
    play();
    expect_orders(9, 1, 2, 1);
    ck_assert_uint_eq(seen[1].stream, 0xa);
    ck_assert_uint_eq(seen[3].stream, 0xb);
}
END_TEST

START_TEST(lost_number_holds_nobody_up)
{
    write_thread(&writer, 1, 0, 0);
    mark(10 * MS, 5);
    mark(30 * MS, 900);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    serve(15 * MS, 0xa, 1, 5);
    mark(40 * MS, 901);
    end_thread();
    play();
    ck_assert_uint_eq(seen[0].time, 10 * MS);
    ck_assert_uint_eq(seen[1].time, 15 * MS);
    ck_assert_uint_eq(seen[2].time, 30 * MS);
    ck_assert_uint_eq(seen[3].time, 40 * MS);
}
END_TEST

/* Each waits for what stands behind the other. */
START_TEST(contradicting_orders_go_by_time)
{
    write_thread(&writer, 1, 0, 0);
    serve(5, 0xa, 2, 0);
    mark(6, 1);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    mark(7, 2);
    serve(8, 0xa, 1, 2);
    end_thread();
    play();
    ck_assert_uint_eq(seen_count, 4);
    ck_assert_uint_eq(seen[0].time, 5);
}
END_TEST

START_TEST(number_that_comes_twice_comes_twice)
{
    write_thread(&writer, 1, 0, 0);
    mark(5, 7);
    mark(6, 7);
    mark(7, 3);
    mark(8, UINT64_MAX);
    mark(9, UINT64_MAX);
    end_thread();
    play();
    ck_assert_uint_eq(seen_count, 5);
}
END_TEST

static void of_block(enum trace_kind kind, uint64_t order, uint64_t after)
{
    write_event(&writer,
                &(struct trace_row){.kind = kind, .time = 4, .order = order, .after = after, .stream = 0xa, .pool = 1, .address = 7});
}

/* What a coarse clock leaves open, numbers tell: at which number of the weir a cache served and kept. */
START_TEST(events_of_a_block_come_in_the_order_that_was)
{
    static const enum trace_kind kinds[] = {TRACE_MALLOC, TRACE_KEEP, TRACE_SERVE, TRACE_FREE, TRACE_MALLOC, TRACE_KEEP, TRACE_RETURN};
    write_thread(&writer, 1, 0, 0);
    of_block(TRACE_KEEP, 0, 1);
    of_block(TRACE_FREE, 2, 0);
    of_block(TRACE_KEEP, 2, 3);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    of_block(TRACE_MALLOC, 1, 0);
    of_block(TRACE_SERVE, 1, 1);
    of_block(TRACE_MALLOC, 3, 0);
    of_block(TRACE_RETURN, 4, 0);
    end_thread();
    play();
    ck_assert_uint_eq(seen_count, sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < seen_count; i++)
        ck_assert_msg(seen[i].kind == kinds[i], "event %zu is %s", i, trace_kind_name(seen[i].kind));
}
END_TEST

START_TEST(mark_comes_behind_what_caches_did_before_it_and_before_what_they_did_after)
{
    write_thread(&writer, 1, 0, 0);
    serve(4, 0xa, 1, 5);
    serve(4, 0xa, 2, 6);
    end_thread();
    write_thread(&writer, 2, 0, 0);
    mark(4, 6);
    end_thread();
    play();
    ck_assert_int_eq(seen[0].kind, TRACE_SERVE);
    ck_assert_int_eq(seen[1].kind, TRACE_MARK);
    ck_assert_int_eq(seen[2].kind, TRACE_SERVE);
}
END_TEST

static bool see_one(void *context, const struct trace_event *event)
{
    see(context, event);
    return false;
}

START_TEST(play_ends_where_it_is_told_to_and_can_be_repeated)
{
    write_thread(&writer, 1, 0, 0);
    mark(5, 1);
    mark(6, 2);
    end_thread();
    play();
    ck_assert(trace_play(&trace, see_one, NULL));
    ck_assert(trace_play(&trace, see, NULL));
    expect_orders(1, 2, 1, 1, 2);
}
END_TEST

/* A history of events in a row, cut into threads with blocks, of which some events are lost: what is left comes in that row. Clocks are
   coarse: 64 events have one time. */
static void write_history(unsigned seed, size_t count)
{
    enum { THREADS = 5, STREAMS = 3, BLOCK = 40 };
    static struct trace_row rows[THREADS][4096];
    size_t counts[THREADS] = {0}, written[THREADS] = {0};
    uint64_t weir = 1, streams[STREAMS] = {0};
    srand(seed);
    for (size_t i = 0; i < count; i++) {
        unsigned thread = (unsigned)rand() % THREADS, stream = (unsigned)rand() % STREAMS;
        bool is_of_stream = rand() % 2;
        struct trace_row row = {.kind = is_of_stream ? 18 : 43, .time = i / 64, .order = is_of_stream ? streams[stream]++ : weir++};
        row.after = is_of_stream ? weir - 1 : 0;
        row.stream = stream;
        row.size = i;
        row.a = 0;
        if (rand() % 10)
            rows[thread][counts[thread]++] = row;
    }
    for (bool more = true; more;) {
        more = false;
        for (unsigned thread = 0; thread < THREADS; thread++) {
            size_t *at = &written[thread], until = *at + (unsigned)rand() % BLOCK;
            if (*at < counts[thread]) {
                more = true;
                write_thread(&writer, thread, rows[thread][*at].time, 0);
                for (; *at < until && *at < counts[thread]; ++*at)
                    write_event(&writer, &rows[thread][*at]);
                end_thread();
            }
        }
    }
}

START_TEST(any_history_comes_in_its_orders)
{
    write_history((unsigned)_i, 3000);
    play();
    uint64_t last[4] = {0}, in_thread[5] = {0};
    bool has[4] = {false};
    for (size_t i = 0; i < seen_count; i++) {
        size_t sort = seen[i].kind == TRACE_SERVE ? seen[i].stream + 1 : 0;
        ck_assert(!has[sort] || seen[i].order > last[sort]);
        ck_assert_uint_ge(seen[i].time, in_thread[seen[i].thread]);
        in_thread[seen[i].thread] = seen[i].time;
        last[sort] = seen[i].order;
        has[sort] = true;
        /* With orders in all sorts, none is further from its time than the clock is coarse. */
        ck_assert(i == 0 || seen[i].time + 1 >= seen[i - 1].time);
    }
    ck_assert_uint_gt(seen_count, 2000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_merge");
    TCase *tcase = suite_case(suite, "merge", 0);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    suite_add(tcase, equal_times_go_by_orders, orders_are_stronger_than_times, each_stream_counts_for_itself, lost_number_holds_nobody_up,
              contradicting_orders_go_by_time, events_of_a_block_come_in_the_order_that_was,
              mark_comes_behind_what_caches_did_before_it_and_before_what_they_did_after, number_that_comes_twice_comes_twice,
              play_ends_where_it_is_told_to_and_can_be_repeated);
    tcase_add_loop_test(tcase, any_history_comes_in_its_orders, 1, 20);
    return suite_run(suite);
}
