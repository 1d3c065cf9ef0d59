/* SPDX-License-Identifier: MIT */
/* Reading recorded sequences of requests. */
#include "bench/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite.h"

static struct trace trace;
static char why[512];

static bool reads(const char *text, const char *ending)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/weir-trace-XXXXXX%s", ending);
    int fd = mkstemps(path, (int)strlen(ending));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    bool is_read = trace_read(&trace, path, why, sizeof(why));
    unlink(path);
    return is_read;
}

START_TEST(steps_are_read)
{
    ck_assert_msg(reads("op,id,bytes\na,0,512\na,1,18446744073709551615\nf,0,512\n", ".csv"), "%s", why);
    ck_assert_uint_eq(trace.step_count, 3);
    ck_assert_uint_eq(trace.block_count, 2);
    ck_assert_uint_eq(trace.steps[1].bytes, UINT64_MAX);
    ck_assert(trace.steps[2].is_free && trace.steps[2].id == 0 && trace.steps[2].bytes == 512);
    trace_clear(&trace);
}
END_TEST

static const struct bad {
    const char *name, *text, *line;
} bads[] = {
    {"nothing", "", "line 2"},
    {"another_heading", "op;id;bytes\n", "line 2"},
    {"a_letter", "op,id,bytes\na,0,512\nx,1,512\n", "line 3"},
    {"half_a_line", "op,id,bytes\na,0", "line 2"},
    {"an_id_left_out", "op,id,bytes\na,1,512\n", "line 2"},
    {"no_bytes", "op,id,bytes\na,0,0\n", "line 2"},
    {"a_double_free", "op,id,bytes\na,0,1\nf,0,1\nf,0,1\n", "line 4"},
    {"a_free_of_other_bytes", "op,id,bytes\na,0,1\nf,0,2\n", "line 3"},
    {"a_free_of_nothing", "op,id,bytes\nf,0,1\n", "line 2"},
};

START_TEST(what_is_wrong_is_named_with_its_line)
{
    const struct bad *bad = &bads[_i];
    ck_assert_msg(!reads(bad->text, ".csv"), "%s", bad->name);
    ck_assert_msg(strstr(why, bad->line) != NULL, "%s: %s", bad->name, why);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_named)
{
    ck_assert(!trace_read(&trace, "/nonexistent/trace.csv", why, sizeof(why)));
    ck_assert_ptr_nonnull(strstr(why, "/nonexistent/trace.csv"));
}
END_TEST

/* With or without zstd on this machine. */
START_TEST(what_zstd_did_not_pack_is_refused)
{
    ck_assert(!reads("op,id,bytes\na,0,512\n", ".zst"));
    ck_assert_ptr_nonnull(strstr(why, ".zst"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *files = suite_case(suite, "files", 0);
    suite_add(files, steps_are_read);
    tcase_add_loop_test(files, what_is_wrong_is_named_with_its_line, 0, (int)(sizeof(bads) / sizeof(bads[0])));
    suite_add(files, a_file_that_is_not_there_is_named, what_zstd_did_not_pack_is_refused);
    return suite_run(suite);
}
