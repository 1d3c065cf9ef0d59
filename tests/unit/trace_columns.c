/* SPDX-License-Identifier: MIT */
/* trace_columns.c - libweir-trace as Python calls it: columns of a trace, what is written read again, hostile files, and no host memory. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"
#include "tests/unit/trace_data.h"
#include "trace/weir_trace.h"

enum { ROOM = 64 };

static struct trace_writer writer;
static weir_trace *trace;
static weir_trace_error error;

static struct {
    uint8_t kind[ROOM];
    uint64_t time[ROOM], thread[ROOM], stream[ROOM], address[ROOM], size[ROOM], given[ROOM], a[ROOM], b[ROOM], live[ROOM], held[ROOM];
    int32_t pool[ROOM], tag[ROOM], stack[ROOM], name[ROOM];
    uint64_t block_address[ROOM], block_size[ROOM], born[ROOM], died[ROOM];
    int32_t first[ROOM], last[ROOM], from[ROOM], until[ROOM];
} got;

static const weir_trace_events events = {.kind = got.kind,
                                         .time = got.time,
                                         .thread = got.thread,
                                         .stream = got.stream,
                                         .address = got.address,
                                         .size = got.size,
                                         .given = got.given,
                                         .a = got.a,
                                         .b = got.b,
                                         .pool = got.pool,
                                         .tag = got.tag,
                                         .stack = got.stack,
                                         .name = got.name,
                                         .live = got.live,
                                         .held = got.held};
static const weir_trace_blocks blocks = {
    .address = got.block_address, .size = got.block_size, .born = got.born, .died = got.died, .first = got.first, .last = got.last};
static const weir_trace_segments segments = {.first = got.from, .last = got.until};

static void set_up(void)
{
    writer = (struct trace_writer){0};
    trace = NULL;
    error = (weir_trace_error){{0}};
}

static void tear_down(void)
{
    weir_trace_close(trace);
    writer_free(&writer);
}

/* The path of the descriptor, as long as it is open. */
static const char *path_of(int fd)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* What the writer has, opened. */
static bool open_it(void)
{
    int fd = trace_data_fd(writer.bytes, writer.len);
    bool is_open = weir_trace_open(path_of(fd), &error, &trace);
    close(fd);
    return is_open;
}

static void block_event(unsigned kind, uint64_t time, uint64_t order, uint64_t after, uint64_t address, uint64_t size)
{
    write_event(&writer, &(struct trace_row){.kind = kind,
                                             .time = time,
                                             .order = order,
                                             .after = after,
                                             .stream = 0xA0,
                                             .pool = 1,
                                             .address = address,
                                             .size = size,
                                             .given = 1024,
                                             .tag = 1,
                                             .stack = 1});
}

/* A block that goes into a cache, comes from it again, and goes back; one that is never freed; a mark. */
static void write_life(void)
{
    static const uint64_t frames[] = {7, (UINT64_C(1) << 40) + 16, 0};
    static const char *const pairs[] = {"program", "train", NULL};
    write_file(&writer, 1);
    write_header(&writer, pairs);
    write_thread(&writer, 0, 0, 0);
    write_pool(&writer, 1, 2, 1, "main");
    write_text(&writer, 2, 1, "weights");
    write_text(&writer, 3, 5, "step");
    write_line(&writer, 7, 42, "forward", "model.py");
    write_module(&writer, 1, UINT64_C(1) << 40, 4096, "/usr/lib/libexample.so");
    write_stack(&writer, 1, frames);
    write_block_end(&writer, WRITE_PLAIN);
    write_thread(&writer, 100, 1000, 0);
    block_event(TRACE_MALLOC, 1000, 1, 0, 0x1000, 900);
    block_event(TRACE_KEEP, 1100, 1, 1, 0x1000, 900);
    block_event(TRACE_SERVE, 1200, 2, 1, 0x1000, 800);
    write_event(&writer, &(struct trace_row){.kind = TRACE_MARK, .time = 1300, .order = 2, .a = 5});
    block_event(TRACE_MALLOC, 1400, 3, 0, 0x2000, 1000);
    block_event(TRACE_KEEP, 1500, 3, 3, 0x1000, 800);
    block_event(TRACE_RETURN, 1600, 4, 0, 0x1000, 0);
    write_block_end(&writer, WRITE_PACKED);
    write_end(&writer, 0);
}

START_TEST(columns_are_the_events_and_what_they_did)
{
    uint64_t block_count, segment_count;
    write_life();
    ck_assert_msg(open_it(), "%s", error.text);
    ck_assert_uint_eq(weir_trace_count(trace, WEIR_TRACE_EVENTS), 7);
    ck_assert_msg(weir_trace_play(trace, &events, &blocks, &segments, &error, &block_count, &segment_count), "%s", error.text);
    static const uint8_t kinds[] = {TRACE_MALLOC, TRACE_KEEP, TRACE_SERVE, TRACE_MARK, TRACE_MALLOC, TRACE_KEEP, TRACE_RETURN};
    static const uint64_t live[] = {900, 0, 800, 0, 1800, 1000, 1000}, held[] = {1024, 1024, 1024, 0, 2048, 2048, 1024};
    for (size_t i = 0; i < sizeof kinds; i++) {
        ck_assert_uint_eq(got.kind[i], kinds[i]);
        ck_assert_uint_eq(got.time[i], 1000 + 100 * i);
        ck_assert_uint_eq(got.thread[i], 100);
        ck_assert_uint_eq(got.live[i], live[i]);
        ck_assert_uint_eq(got.held[i], held[i]);
    }
    ck_assert_int_eq(got.pool[0], 0);
    ck_assert_int_eq(got.pool[3], -1);
    ck_assert_int_eq(got.name[3], 0);
    ck_assert_uint_eq(block_count, 3);
    static const int32_t first[] = {0, 2, 4}, last[] = {1, 5, -1};
    static const uint64_t size[] = {900, 800, 1000}, died[] = {1100, 1500, 1600};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(got.first[i], first[i]);
        ck_assert_int_eq(got.last[i], last[i]);
        ck_assert_uint_eq(got.block_size[i], size[i]);
        ck_assert_uint_eq(got.died[i], died[i]);
    }
    ck_assert_uint_eq(segment_count, 2);
    ck_assert(got.from[0] == 0 && got.until[0] == 6 && got.from[1] == 4 && got.until[1] == -1);
}
END_TEST

START_TEST(tables_have_the_names)
{
    weir_trace_row row;
    uint64_t address[2];
    int32_t line[2], module[2];
    write_life();
    ck_assert_msg(open_it() && weir_trace_play(trace, NULL, NULL, NULL, &error, NULL, NULL), "%s", error.text);
    ck_assert(weir_trace_get(trace, WEIR_TRACE_VALUES, 0, &row));
    ck_assert_str_eq(row.texts[1], "train");
    ck_assert(weir_trace_get(trace, WEIR_TRACE_POOLS, 0, &row));
    ck_assert_str_eq(row.texts[0], "main");
    ck_assert(row.numbers[1] == 2 && row.numbers[2] == 1);
    ck_assert(weir_trace_get(trace, WEIR_TRACE_TAGS, 0, &row));
    ck_assert_str_eq(row.texts[0], "weights");
    ck_assert(weir_trace_get(trace, WEIR_TRACE_STACKS, 0, &row));
    ck_assert_uint_eq(row.numbers[0], 2);
    ck_assert(weir_trace_frames(trace, 0, address, line, module));
    ck_assert(line[0] == 0 && module[0] == -1 && address[1] == (UINT64_C(1) << 40) + 16 && line[1] == -1 && module[1] == 0);
    ck_assert(weir_trace_get(trace, WEIR_TRACE_LINES, 0, &row));
    ck_assert_str_eq(row.texts[0], "forward");
    ck_assert(weir_trace_symbol(trace, address[1], &error, &row));
    ck_assert(weir_trace_get(trace, WEIR_TRACE_KINDS, TRACE_MALLOC, &row));
    ck_assert_str_eq(row.texts[0], "malloc");
    ck_assert(weir_trace_get(trace, WEIR_TRACE_LOSSES, 0, &row));
    ck_assert(row.numbers[0] == 0 && row.numbers[3] == 1);
}
END_TEST

START_TEST(rows_that_are_none_are_refused)
{
    weir_trace_row row;
    uint64_t address;
    int32_t number;
    write_life();
    ck_assert(open_it());
    for (int table = 0; table < 12; table++)
        ck_assert(!weir_trace_get(trace, (weir_trace_table)table, 64, &row));
    ck_assert(!weir_trace_frames(trace, 1, &address, &number, &number));
    ck_assert_uint_eq(weir_trace_count(trace, (weir_trace_table)99), 0);
}
END_TEST

START_TEST(what_is_no_trace_is_refused_with_the_reason)
{
    ck_assert(!weir_trace_open("/nowhere/at/all", &error, &trace));
    ck_assert_ptr_nonnull(strstr(error.text, "cannot be opened"));
    ck_assert(!weir_trace_open("/", &error, &trace));
    write_bytes(&writer, "Thread,Time", 11);
    ck_assert(!open_it());
    ck_assert_ptr_nonnull(strstr(error.text, "it does not begin with WEIR"));
    ck_assert_ptr_null(trace);
}
END_TEST

/* A file of always the same length, with one block of so many marks. */
static void write_marks(struct trace_writer *to, unsigned count)
{
    enum { CONTENT = 600, BLOCK_HEADER = 20 };
    static const char zeros[CONTENT];
    write_file(to, 1);
    write_thread(to, 100, 0, 0);
    for (unsigned i = 0; i < count; i++)
        write_event(to, &(struct trace_row){.kind = TRACE_MARK, .order = i + 1, .time = i});
    write_byte(to, 200); /* a record that is skipped, whose length has two bytes */
    size_t len = CONTENT - (to->len - to->block - BLOCK_HEADER) - 2;
    write_number(to, len);
    write_bytes(to, zeros, len);
    write_block_end(to, WRITE_PLAIN);
}

START_TEST(file_that_has_more_events_than_before_overflows_no_column)
{
    struct trace_writer other = {0};
    write_marks(&writer, 3);
    write_marks(&other, 60);
    ck_assert_uint_eq(writer.len, other.len);
    int fd = trace_data_fd(writer.bytes, writer.len);
    ck_assert_msg(weir_trace_open(path_of(fd), &error, &trace), "%s", error.text);
    ck_assert_uint_eq(weir_trace_count(trace, WEIR_TRACE_EVENTS), 3);
    ck_assert_int_eq(pwrite(fd, other.bytes, other.len, 0), (ssize_t)other.len);
    got.kind[3] = 99;
    ck_assert(!weir_trace_play(trace, &events, &blocks, &segments, &error, NULL, NULL));
    ck_assert_str_eq(error.text, "it changed while it was read");
    ck_assert_uint_eq(got.kind[3], 99);
    ck_assert_int_eq(ftruncate(fd, 100), 0);
    ck_assert(!weir_trace_play(trace, &events, &blocks, &segments, &error, NULL, NULL));
    writer_free(&other);
    close(fd);
}
END_TEST

/* Writing ------------------------------------------------------------------------------------------------------------------------------ */

static bool write_all(int fd)
{
    static const uint8_t kind[] = {TRACE_STREAM_OPEN, TRACE_MALLOC, TRACE_MARK, TRACE_OUT_OF_MEMORY, TRACE_FREE};
    static const uint64_t time[] = {0, 10, 20, 15, 30}, thread[] = {7, 9, 7, 9, 7}, stream[] = {16, 16, 0, 16, 16};
    static const uint64_t address[] = {0, 4096, 0, 0, 4096}, size[] = {0, 100, 0, 0, 100}, given[] = {0, 512, 0, 0, 512};
    static const uint64_t a[] = {0, 0, 0, 999, 0};
    static const int32_t pool[] = {0, 0, -1, 0, 0}, tag[] = {-1, 0, -1, -1, 0}, stack[] = {-1, 0, -1, -1, -1}, name[] = {-1, -1, 0, -1, -1};
    static const uint32_t lines[] = {0, 1};
    weir_trace_writer *to;
    if (!weir_trace_write_begin(fd, &error, &to))
        return false;
    weir_trace_write_row(to, WEIR_TRACE_VALUES, &(weir_trace_row){.texts = {"imported", "A test"}});
    weir_trace_write_row(to, WEIR_TRACE_POOLS, &(weir_trace_row){{0, 3, 0}, {"rmm", ""}});
    weir_trace_write_row(to, WEIR_TRACE_TAGS, &(weir_trace_row){.texts = {"weights", ""}});
    weir_trace_write_row(to, WEIR_TRACE_NAMES, &(weir_trace_row){.texts = {"step", ""}});
    weir_trace_write_row(to, WEIR_TRACE_LINES, &(weir_trace_row){{42}, {"forward", "model.py"}});
    weir_trace_write_row(to, WEIR_TRACE_LINES, &(weir_trace_row){{1}, {"main", "train.py"}});
    weir_trace_write_stack(to, lines, 2);
    weir_trace_write_events(to,
                            &(weir_trace_events){.kind = (uint8_t *)(uintptr_t)kind,
                                                 .time = (uint64_t *)(uintptr_t)time,
                                                 .thread = (uint64_t *)(uintptr_t)thread,
                                                 .stream = (uint64_t *)(uintptr_t)stream,
                                                 .address = (uint64_t *)(uintptr_t)address,
                                                 .size = (uint64_t *)(uintptr_t)size,
                                                 .given = (uint64_t *)(uintptr_t)given,
                                                 .a = (uint64_t *)(uintptr_t)a,
                                                 .pool = (int32_t *)(uintptr_t)pool,
                                                 .tag = (int32_t *)(uintptr_t)tag,
                                                 .stack = (int32_t *)(uintptr_t)stack,
                                                 .name = (int32_t *)(uintptr_t)name},
                            5);
    return weir_trace_write_end(to, 4, &error);
}

START_TEST(what_is_written_is_read_again)
{
    int fd = memfd_create("made", MFD_CLOEXEC);
    weir_trace_row row;
    ck_assert_msg(write_all(fd), "%s", error.text);
    ck_assert_msg(weir_trace_open(path_of(fd), &error, &trace), "%s", error.text);
    ck_assert_uint_eq(weir_trace_count(trace, WEIR_TRACE_EVENTS), 5);
    ck_assert_msg(weir_trace_play(trace, &events, &blocks, NULL, &error, NULL, NULL), "%s", error.text);
    static const uint8_t kinds[] = {TRACE_STREAM_OPEN, TRACE_MALLOC, TRACE_MARK, TRACE_OUT_OF_MEMORY, TRACE_FREE};
    ck_assert_mem_eq(got.kind, kinds, sizeof kinds);
    ck_assert(got.thread[1] == 9 && got.thread[2] == 7 && got.time[2] == 20 && got.time[3] == 15);
    ck_assert(got.address[1] == 4096 && got.size[1] == 100 && got.given[1] == 512 && got.a[3] == 999);
    ck_assert(got.tag[1] == 0 && got.stack[1] == 0 && got.stack[4] == -1 && got.name[2] == 0 && got.pool[2] == -1);
    ck_assert(weir_trace_get(trace, WEIR_TRACE_LOSSES, 0, &row));
    ck_assert(row.numbers[0] == 4 && row.numbers[1] == 0 && row.numbers[3] == 1);
    ck_assert_str_eq(row.texts[0], "");
    close(fd);
}
END_TEST

START_TEST(trace_that_cannot_be_written_says_why)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert(!write_all(fd));
    ck_assert_ptr_nonnull(strstr(error.text, "No space left"));
    close(fd);
}
END_TEST

/* No host memory ----------------------------------------------------------------------------------------------------------------------- */

static bool read_all(int fd)
{
    weir_trace_row row;
    bool is_read = weir_trace_open(path_of(fd), &error, &trace) &&
                   weir_trace_play(trace, &events, &blocks, &segments, &error, NULL, NULL) && weir_trace_symbol(trace, 1, &error, &row);
    weir_trace_close(trace);
    trace = NULL;
    return is_read;
}

/* Each allocation fails in turn: a call that fails for it says so, and nothing is left. */
static void sweep(bool (*call)(int fd), int fd)
{
    bool happened = true;
    for (unsigned nth = 1; happened; nth++) {
        long live = fail_malloc_live();
        error.text[0] = '\0';
        fail_malloc_at(nth);
        bool is_done = call(fd);
        fail_malloc_at(0);
        happened = fail_malloc_happened();
        ck_assert_msg(fail_malloc_live() == live, "allocation %u: %ld blocks left", nth, fail_malloc_live() - live);
        /* What is only packed less well is done all the same. */
        ck_assert_msg(is_done || (happened && strstr(error.text, "memory")), "allocation %u: %s", nth, error.text);
    }
}

START_TEST(without_host_memory_calls_fail_and_leave_nothing)
{
    if (!fail_malloc_works())
        return;
    write_life();
    int fd = trace_data_fd(writer.bytes, writer.len), made = memfd_create("made", MFD_CLOEXEC);
    ck_assert(read_all(fd)); /* what the C library makes once */
    sweep(read_all, fd);
    sweep(write_all, made);
    close(fd);
    close(made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_columns");
    TCase *tcase = suite_case(suite, "columns", 0);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, columns_are_the_events_and_what_they_did, tables_have_the_names, rows_that_are_none_are_refused,
              what_is_no_trace_is_refused_with_the_reason, file_that_has_more_events_than_before_overflows_no_column,
              what_is_written_is_read_again, trace_that_cannot_be_written_says_why, without_host_memory_calls_fail_and_leave_nothing);
    return suite_run(suite);
}
