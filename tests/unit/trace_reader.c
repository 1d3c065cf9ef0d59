/* SPDX-License-Identifier: MIT */
/* trace_reader.c - `.weir` files as `weir trace` reads them: whole ones, other formats, and every way to be damaged. */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tests/unit/trace_data.h"

static struct trace_writer writer;
static struct trace trace;
static struct trace_event seen[32];
static size_t seen_count;

static void open_all(void)
{
    writer = (struct trace_writer){0};
    trace = (struct trace){.reader.fd = -1};
    seen_count = 0;
}

static void close_all(void)
{
    trace_close(&trace);
    writer_free(&writer);
}

static bool see(void *context, const struct trace_event *event)
{
    (void)context;
    if (seen_count < sizeof seen / sizeof seen[0])
        seen[seen_count] = *event;
    seen_count++;
    return true;
}

static void read_written(void)
{
    ck_assert_msg(trace_data_open(&trace, writer.bytes, writer.len), "%s", trace.error);
    ck_assert_msg(trace_play(&trace, see, NULL), "%s", trace.error);
}

START_TEST(whole_trace_is_read_whole)
{
    write_whole(&writer);
    read_written();
    ck_assert_uint_eq(seen_count, 10);
    ck_assert_uint_eq(trace.events, 10);
    ck_assert_uint_eq(trace.thread_count, 2);
    ck_assert_uint_eq(trace.first, 1000);
    ck_assert_uint_eq(trace.last, 5000);
    ck_assert_uint_eq(trace.kinds[TRACE_SERVE], 1);
    ck_assert_uint_eq(trace.losses.bytes, 0);
    ck_assert_uint_eq(trace.losses.blocks, 0);
    ck_assert_uint_eq(trace.losses.events, 3);
    ck_assert(trace.losses.is_closed);
    ck_assert_str_eq(trace.losses.first, "");
}
END_TEST

START_TEST(header_is_read)
{
    write_whole(&writer);
    read_written();
    ck_assert_str_eq(trace.header.program, "train");
    ck_assert_str_eq(trace.header.rank, "3");
    ck_assert_uint_eq(trace.header.pid, 4711);
    ck_assert_uint_eq(trace.header.started_real, UINT64_C(1700000000000000000));
    ck_assert(trace.header.has_stacks);
    ck_assert_str_eq(trace_value(&trace, "gpu.0.name"), "Simulated");
    ck_assert_ptr_null(trace_value(&trace, "gpu.1.name"));
}
END_TEST

START_TEST(fields_are_read_with_what_they_name)
{
    write_whole(&writer);
    read_written();
    const struct trace_event *event = &seen[1];
    ck_assert_int_eq(event->kind, TRACE_MALLOC);
    ck_assert_uint_eq(event->thread, 100);
    ck_assert_uint_eq(event->time, 2000);
    ck_assert_uint_eq(event->stream, 0xa0);
    ck_assert_uint_eq(event->address, 0x1000);
    ck_assert_uint_eq(event->size, 1000);
    ck_assert_uint_eq(event->given, 1024);
    ck_assert_str_eq(event->pool->name, "main");
    ck_assert_str_eq(event->tag->text, "weights");
    ck_assert_uint_eq(event->stack->count, 3);
    ck_assert_uint_eq(event->stack->frames[0].address, 0x7f0000001234);
    ck_assert_str_eq(event->stack->frames[0].module->path, "/usr/lib/libexample.so.1");
    ck_assert_str_eq(event->stack->frames[1].line->function, "forward");
    ck_assert_uint_eq(event->stack->frames[1].line->line, 42);
    ck_assert_uint_eq(event->stack->frames[2].address, 0x7f0000000010);
    ck_assert_str_eq(seen[0].name->text, "copies");
}
END_TEST

/* What a file is that cannot be read at all, and what is said of it. */
static const struct {
    const char *bytes;
    size_t len;
    const char *says;
} refused[] = {
    {"", 0, "it is no trace"},
    {"WEI", 3, "it is no trace"},
    {"PK\3\4    ", 8, "it is no trace"},
    {"WEIR\1\0\0", 7, "it is cut off within its first 8 bytes"},
    {"WEIR\2\0\0\0", 8, "it was made by a newer Weir: format 2, and this one reads 1"},
    {"WEIR\xff\xff\0\0", 8, "it was made by a newer Weir: format 65535, and this one reads 1"},
    {"WEIR\0\0\0\0", 8, "it is of format 0, which does not exist"},
};

START_TEST(what_is_no_trace_of_this_format_is_refused)
{
    ck_assert(!trace_data_open(&trace, refused[_i].bytes, refused[_i].len));
    ck_assert_ptr_nonnull(strstr(trace.error, refused[_i].says));
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_without_waiting)
{
    char folder[] = "/tmp/weir-trace-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert(!trace_open(&trace, path));
    ck_assert_ptr_nonnull(strstr(trace.error, "no regular file"));
    ck_assert(!trace_open(&trace, folder));
    ck_assert_ptr_nonnull(strstr(trace.error, "no regular file"));
    unlink(path);
    rmdir(folder);
    ck_assert(!trace_open(&trace, folder));
    ck_assert_ptr_nonnull(strstr(trace.error, "No such file"));
}
END_TEST

/* Every cut is noticed: bytes are missing, or the end of the file is. What is left comes in its order. */
START_TEST(truncation_at_every_byte_is_reported)
{
    write_whole(&writer);
    size_t events = 0;
    for (size_t len = 0; len < writer.len; len++) {
        seen_count = 0;
        if (!trace_data_open(&trace, writer.bytes, len)) {
            ck_assert_uint_lt(len, TRACE_FILE_HEADER);
            ck_assert_str_ne(trace.error, "");
            trace_close(&trace);
            continue;
        }
        ck_assert(!trace.losses.is_closed);
        ck_assert_str_ne(trace.losses.first, "");
        ck_assert_uint_eq(trace.losses.blocks, trace.losses.bytes > 0);
        ck_assert(trace_play(&trace, see, NULL));
        ck_assert_uint_eq(seen_count, trace.events);
        ck_assert_uint_ge(trace.events, events);
        events = trace.events;
        trace_close(&trace);
    }
    ck_assert_uint_eq(events, 10);
}
END_TEST

/* A CRC finds any one bit. The first bytes and those that no reader looks at are not in a block. */
START_TEST(flipped_bit_anywhere_loses_one_block_and_says_so)
{
    write_whole(&writer);
    for (size_t bit = 8 * TRACE_FILE_HEADER; bit < 8 * writer.len; bit += suite_stride()) {
        writer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_msg(trace_data_open(&trace, writer.bytes, writer.len), "bit %zu: %s", bit, trace.error);
        ck_assert_msg(trace.losses.bytes >= 21 && trace.losses.blocks == 1, "bit %zu: %" PRIu64 " bytes", bit, trace.losses.bytes);
        ck_assert_str_ne(trace.losses.first, "");
        ck_assert(trace_play(&trace, see, NULL));
        trace_close(&trace);
        writer.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
END_TEST

/* So much of the file is whole that the reader goes on behind what is not. */
START_TEST(reader_goes_on_behind_garbage)
{
    write_file(&writer, 1);
    write_header(&writer, (const char *const[]){NULL});
    write_bytes(&writer, "WBLKgarbage that claims to be a block", 37);
    write_thread(&writer, 1, 0, 0);
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 5, .order = 1});
    write_block_end(&writer, WRITE_PLAIN);
    write_end(&writer, 0);
    read_written();
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_uint_eq(trace.losses.bytes, 37);
    ck_assert_uint_eq(trace.losses.blocks, 1);
    ck_assert(trace.losses.is_closed);
}
END_TEST

/* One block of events with wrong content, and what is said of it. The events before the wrong record count. */
static void write_cut_number(void)
{
    write_byte(&writer, 43);
    write_byte(&writer, 0x80);
}

static void write_long_number(void)
{
    write_byte(&writer, 43);
    write_bytes(&writer, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
}

static void write_unknown_code(void)
{
    write_byte(&writer, 63);
}

static void write_code_0(void)
{
    write_byte(&writer, 0);
}

static void write_id_0(void)
{
    write_text(&writer, 2, 0, "none");
}

static void write_deep_stack(void)
{
    write_byte(&writer, 4);
    write_number(&writer, 1);
    write_number(&writer, 257);
    for (int i = 0; i < 257; i++)
        write_number(&writer, 2);
}

static void write_long_string(void)
{
    static char text[4098];
    memset(text, 'x', 4097);
    write_text(&writer, 2, 1, text);
}

static void write_long_unknown(void)
{
    write_byte(&writer, 64);
    write_number(&writer, 1000);
}

static void write_late_time(void)
{
    write_byte(&writer, 43);
    write_number(&writer, UINT64_MAX);
    write_number(&writer, 0);
    write_number(&writer, 0);
}

static const struct {
    void (*write)(void);
    const char *says;
} wrongs[] = {
    {write_cut_number, "an event is cut off"},
    {write_long_number, "a number above 64 bits"},
    {write_unknown_code, "a code that format 1 does not have"},
    {write_code_0, "a code that format 1 does not have"},
    {write_id_0, "a definition has no id"},
    {write_deep_stack, "a stack has more than 256 frames"},
    {write_long_string, "longer than 4,096 bytes"},
    {write_long_unknown, "a record that is not known is cut off"},
    {write_late_time, "the time of an event is above 64 bits"},
};

START_TEST(wrong_record_ends_its_block_alone)
{
    write_file(&writer, 1);
    write_header(&writer, (const char *const[]){NULL});
    write_thread(&writer, 1, 0, 0);
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 5, .order = 1});
    wrongs[_i].write();
    write_block_end(&writer, WRITE_PLAIN);
    write_thread(&writer, 1, 6, 0);
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 7, .order = 3});
    write_block_end(&writer, WRITE_PLAIN);
    write_end(&writer, 0);
    read_written();
    ck_assert_uint_eq(seen_count, 2);
    ck_assert_uint_eq(trace.losses.blocks, 1);
    ck_assert_uint_eq(trace.losses.bytes, 0);
    ck_assert_msg(strstr(trace.losses.first, wrongs[_i].says), "%s", trace.losses.first);
}
END_TEST

/* A block whose header lies of its content: coding, bytes that it claims. */
static const struct {
    unsigned coding;
    uint32_t decoded;
    const char *says;
} liars[] = {
    {0, 5, "claims another size unpacked"},
    {0, (4 << 20) + 1, "claims to have"},
    {1, UINT32_MAX, "claims to have"},
    {2, 100, "packed in an unknown way, 2"},
#ifdef HAVE_ZSTD
    {1, 100, "does not unpack to the 100 bytes that it claims"},
#endif
};

START_TEST(block_that_lies_of_its_size_is_lost_alone)
{
    write_file(&writer, 1);
    write_header(&writer, (const char *const[]){NULL});
    write_thread(&writer, 1, 0, 0);
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 5, .order = 1});
    write_block_end_as(&writer, liars[_i].coding, liars[_i].decoded);
    write_thread(&writer, 1, 6, 0);
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 7, .order = 3});
    write_block_end(&writer, WRITE_PLAIN);
    write_end(&writer, 0);
    read_written();
    ck_assert_uint_eq(seen_count, 1);
    ck_assert_uint_eq(trace.losses.blocks, 1);
    ck_assert_msg(strstr(trace.losses.first, liars[_i].says), "%s", trace.losses.first);
}
END_TEST

#ifdef HAVE_ZSTD
START_TEST(two_frames_in_a_block_are_refused)
{
    struct trace_writer other = {0};
    write_file(&writer, 1);
    write_thread(&writer, 1, 0, 0);
    write_block_end(&writer, WRITE_PACKED);
    write_block(&other, 2);
    write_event(&other, &(struct trace_row){.kind = 43, .time = 5, .order = 1});
    write_block_end(&other, WRITE_PACKED);
    write_bytes(&writer, other.bytes + 20, other.len - 20);
    write_block_end_as(&writer, 1, 7);
    writer_free(&other);
    read_written();
    ck_assert_uint_eq(seen_count, 0);
    ck_assert_uint_eq(trace.losses.blocks, 1);
}
END_TEST
#endif

START_TEST(trace_without_a_header_says_so)
{
    write_file(&writer, 1);
    write_end(&writer, 0);
    read_written();
    ck_assert_str_eq(trace.losses.first, "it has no header");
    ck_assert_ptr_null(trace.header.program);
}
END_TEST

START_TEST(losses_of_threads_and_of_the_end_are_not_counted_twice)
{
    write_file(&writer, 1);
    write_header(&writer, (const char *const[]){NULL});
    write_thread(&writer, 1, 0, 7);
    write_block_end(&writer, WRITE_PLAIN);
    write_end(&writer, 9);
    read_written();
    ck_assert_uint_eq(trace.losses.events, 9);
}
END_TEST

START_TEST(id_without_a_definition_has_a_name_that_says_so)
{
    write_file(&writer, 1);
    write_thread(&writer, 1, 0, 0);
    write_event(&writer, &(struct trace_row){.kind = 16, .time = 5, .order = 1, .pool = 9, .tag = 8, .stack = 7, .size = 1});
    write_block_end(&writer, WRITE_PLAIN);
    read_written();
    ck_assert_str_eq(seen[0].pool->name, "pool 9?");
    ck_assert(!seen[0].pool->is_defined);
    ck_assert_str_eq(seen[0].tag->text, "tag 8?");
    ck_assert_uint_eq(seen[0].stack->count, 0);
}
END_TEST

/* The place in the file decides, whatever the order of times is. */
START_TEST(later_definition_takes_the_place_of_an_earlier_one)
{
    write_file(&writer, 1);
    write_thread(&writer, 1, 1000, 0);
    write_text(&writer, 3, 1, "one");
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 1000, .order = 2, .a = 1});
    write_block_end(&writer, WRITE_PLAIN);
    write_thread(&writer, 2, 0, 0);
    write_text(&writer, 3, 1, "two");
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 10, .order = 1, .a = 1});
    write_text(&writer, 3, 1, "one");
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 2000, .order = 3, .a = 1});
    write_block_end(&writer, WRITE_PLAIN);
    read_written();
    ck_assert_str_eq(seen[0].name->text, "two");
    ck_assert_str_eq(seen[1].name->text, "one");
    ck_assert_ptr_eq(seen[1].name, seen[2].name);
}
END_TEST

/* As threads fill their blocks at the same time, the block with the definition may be written later. */
START_TEST(definition_may_stand_behind_its_first_use)
{
    write_file(&writer, 1);
    write_thread(&writer, 1, 0, 0);
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 10, .order = 1, .a = 1});
    write_block_end(&writer, WRITE_PLAIN);
    write_thread(&writer, 2, 0, 0);
    write_text(&writer, 3, 1, "one");
    write_text(&writer, 3, 1, "two");
    write_event(&writer, &(struct trace_row){.kind = 43, .time = 20, .order = 2, .a = 1});
    write_block_end(&writer, WRITE_PLAIN);
    read_written();
    ck_assert_str_eq(seen[0].name->text, "one");
    ck_assert_str_eq(seen[1].name->text, "two");
}
END_TEST

START_TEST(file_that_changes_while_it_is_read_is_an_error)
{
    write_whole(&writer);
    int fd = trace_data_fd(writer.bytes, writer.len);
    ck_assert(trace_open_fd(&trace, fd, "data.weir"));
    ck_assert_int_eq(ftruncate(fd, (off_t)writer.len - 60), 0);
    ck_assert(!trace_play(&trace, see, NULL));
    ck_assert_ptr_nonnull(strstr(trace.error, "became shorter"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_reader");
    TCase *tcase = suite_case(suite, "reader", 0);
    tcase_add_checked_fixture(tcase, open_all, close_all);
    suite_add(tcase, whole_trace_is_read_whole, header_is_read, fields_are_read_with_what_they_name,
              what_is_no_regular_file_is_refused_without_waiting, truncation_at_every_byte_is_reported,
              flipped_bit_anywhere_loses_one_block_and_says_so, reader_goes_on_behind_garbage, trace_without_a_header_says_so,
              losses_of_threads_and_of_the_end_are_not_counted_twice, id_without_a_definition_has_a_name_that_says_so,
              later_definition_takes_the_place_of_an_earlier_one, definition_may_stand_behind_its_first_use,
              file_that_changes_while_it_is_read_is_an_error);
#ifdef HAVE_ZSTD
    suite_add(tcase, two_frames_in_a_block_are_refused);
#endif
    tcase_add_loop_test(tcase, what_is_no_trace_of_this_format_is_refused, 0, (int)(sizeof refused / sizeof refused[0]));
    tcase_add_loop_test(tcase, wrong_record_ends_its_block_alone, 0, (int)(sizeof wrongs / sizeof wrongs[0]));
    tcase_add_loop_test(tcase, block_that_lies_of_its_size_is_lost_alone, 0, (int)(sizeof liars / sizeof liars[0]));
    return suite_run(suite);
}
