/* SPDX-License-Identifier: MIT */
/* Numbers and errors in words. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "tests/support/suite.h"

static const struct gpu *sim(void)
{
    const char *why;
    const struct gpu *gpu = gpu_find("sim", &why);
    ck_assert_ptr_nonnull(gpu);
    return gpu;
}

static const struct {
    uint64_t bytes;
    const char *text;
} sizes[] = {
    { 0, "0 B" },
    { 1, "1 B" },
    { 1023, "1023 B" },
    { 1024, "1 KiB" },
    { 1536, "1.50 KiB" },
    { UINT64_C(1) << 20, "1 MiB" },
    { UINT64_C(100) << 20, "100 MiB" },
    { (UINT64_C(1) << 30) + (UINT64_C(1) << 29), "1.50 GiB" },
    { UINT64_C(1) << 40, "1 TiB" },
    { UINT64_C(5120) << 40, "5 PiB" },
    { UINT64_MAX, "16 EiB" },
};

START_TEST(size_is_written_in_the_largest_unit_that_fits)
{
    char text[WEIR__BYTES_LEN];
    ck_assert_str_eq(weir__bytes(text, sizes[_i].bytes), sizes[_i].text);
}
END_TEST

START_TEST(largest_size_fits_the_text)
{
    char text[WEIR__BYTES_LEN];
    ck_assert_uint_lt(strlen(weir__bytes(text, UINT64_MAX - 1)), WEIR__BYTES_LEN - 1);
}
END_TEST

START_TEST(all_is_said_of_what_is_kept_alone)
{
    char text[WEIR__BYTES_LEN];
    ck_assert_str_eq(weir__bytes_kept(text, UINT64_MAX), "all");
    ck_assert_str_eq(weir__bytes_kept(text, 1024), "1 KiB");
}
END_TEST

static const struct {
    uint64_t nanoseconds;
    const char *text;
} times[] = {
    { 0, "0 s" },
    { 1, "1 ns" },
    { 999, "999 ns" },
    { 1000, "1.00 \u00b5s" },
    { 1004, "1.00 \u00b5s" },
    { 1005, "1.01 \u00b5s" },
    { 9994, "9.99 \u00b5s" },
    { 9995, "10.0 \u00b5s" },
    { 12340, "12.3 \u00b5s" },
    { 99949, "99.9 \u00b5s" },
    { 99950, "100 \u00b5s" },
    { 999499, "999 \u00b5s" },
    { 999500, "1.00 ms" },
    { 2060000, "2.06 ms" },
    { 12345678, "12.3 ms" },
    { 500000000, "500 ms" },
    { 999999999, "1.00 s" },
    { 1234000000, "1.23 s" },
    { 59990000000, "60.0 s" },
    { 999499999999, "999 s" },
    { 999500000000, "1000 s" },
    { 12345600000000, "12346 s" },
    { UINT64_MAX, "18446744073 s" },
};

START_TEST(time_has_three_digits_in_the_unit_that_gives_less_than_a_thousand)
{
    char text[WEIR__TIME_LEN];
    ck_assert_str_eq(weir__time(text, times[_i].nanoseconds), times[_i].text);
}
END_TEST

static const struct {
    uint64_t nanoseconds;
    unsigned digits;
    const char *text;
} exact_times[] = {
    { 2060843, 4, "2.061 ms" },
    { 2060843, 7, "2.060843 ms" },
    { 2060843, WEIR__TIME_DIGITS_MOST, "2.060843 ms" },
    { 87, WEIR__TIME_DIGITS_MOST, "87 ns" },
    { 999996, 5, "1.0000 ms" },
    { 12204000001, WEIR__TIME_DIGITS_MOST, "12.204000001 s" },
    { UINT64_MAX, WEIR__TIME_DIGITS_MOST, "18446744073.709551615 s" },
};

START_TEST(time_has_as_many_digits_as_are_asked_for_and_there_are)
{
    char text[WEIR__TIME_LEN];
    ck_assert_str_eq(weir__time_digits(text, exact_times[_i].nanoseconds, exact_times[_i].digits), exact_times[_i].text);
}
END_TEST

START_TEST(only_one_thing_is_singular)
{
    ck_assert_str_eq(weir__plural(0), "s");
    ck_assert_str_eq(weir__plural(1), "");
    ck_assert_str_eq(weir__plural(2), "s");
}
END_TEST

START_TEST(what_an_errno_says_to_be_wanting_is_the_remedy)
{
    ck_assert_str_eq(WEIR__WHY(EACCES, "check the owner"), "Permission denied: check the owner");
    ck_assert_str_eq(WEIR__WHY(EMFILE, "check the owner"), "Too many open files: close descriptors or raise ulimit -n");
    ck_assert_str_eq(WEIR__WHY(ENOSPC, "check the owner"), "No space left on device: make room there");
}
END_TEST

START_TEST(every_status_has_a_name_and_a_text)
{
    static const struct {
        weir_status status;
        const char *name, *text;
    } all[] = {
#define ROW(name, number, text) { name, #name, text },
        WEIR_STATUS_LIST(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ck_assert_str_eq(weir_status_name(all[i].status), all[i].name);
        ck_assert_str_eq(weir_status_text(all[i].status), all[i].text);
    }
}
END_TEST

START_TEST(unknown_status_has_a_name_and_a_text)
{
    ck_assert_str_eq(weir_status_name((weir_status)999), "WEIR_UNKNOWN");
    ck_assert_uint_gt(strlen(weir_status_text((weir_status)999)), 0);
}
END_TEST

START_TEST(first_error_of_a_record_stays)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_int_eq(weir__fail(&error, WEIR_BUSY, "first %d", 1), WEIR_BUSY);
    ck_assert_int_eq(weir__fail(&error, WEIR_INVALID, "second"), WEIR_INVALID);
    ck_assert_int_eq(weir__fail_gpu(&error, sim(), GPU_UNKNOWN, "third"), WEIR_CUDA_ERROR);
    ck_assert_int_eq(error.status, WEIR_BUSY);
    ck_assert_int_eq(error.cuda_code, 0);
    ck_assert_str_eq(error.text, "first 1");
}
END_TEST

START_TEST(record_may_be_null)
{
    ck_assert_int_eq(weir__fail(NULL, WEIR_BUSY, "text"), WEIR_BUSY);
    ck_assert_int_eq(weir__fail_gpu(NULL, sim(), GPU_OUT_OF_MEMORY, "text"), WEIR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(gpu_error_names_what_cuda_says)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_int_eq(weir__fail_gpu(&error, sim(), GPU_OUT_OF_MEMORY, "pool '%s'", "a"), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(error.cuda_code, GPU_OUT_OF_MEMORY);
    ck_assert_str_eq(error.text, "pool 'a': cudaErrorMemoryAllocation: out of memory");
}
END_TEST

START_TEST(text_too_long_for_the_record_is_cut_and_terminated)
{
    weir_error error = WEIR_ERROR_INIT;
    memset(error.text, 'x', sizeof error.text);
    weir__fail_gpu(&error, sim(), GPU_UNKNOWN, "%05000d", 0);
    ck_assert_uint_eq(strlen(error.text), sizeof error.text - 1);
}
END_TEST

static const struct {
    int code;
    weir_status status;
} codes[] = {
    { GPU_SUCCESS, WEIR_OK },
    { GPU_INVALID_VALUE, WEIR_CUDA_ERROR },
    { GPU_OUT_OF_MEMORY, WEIR_OUT_OF_MEMORY },
    { GPU_INSUFFICIENT_DRIVER, WEIR_NO_GPU },
    { GPU_NO_DEVICE, WEIR_NO_GPU },
    { GPU_INVALID_DEVICE, WEIR_NOT_FOUND },
    { GPU_ILLEGAL_ADDRESS, WEIR_CUDA_ERROR },
    { GPU_PEER_ACCESS_UNSUPPORTED, WEIR_NOT_SUPPORTED },
    { GPU_NOT_SUPPORTED, WEIR_NOT_SUPPORTED },
    { GPU_CAPTURE_UNSUPPORTED, WEIR_CAPTURING },
    { GPU_CAPTURE_INVALIDATED, WEIR_CAPTURING },
    { GPU_CAPTURE_IMPLICIT, WEIR_CAPTURING },
    { GPU_UNKNOWN, WEIR_CUDA_ERROR },
    { 12345, WEIR_CUDA_ERROR },
};

START_TEST(cuda_code_has_one_status)
{
    ck_assert_int_eq(weir__status_of(codes[_i].code), codes[_i].status);
}
END_TEST

START_TEST(last_error_is_empty_before_the_first_failure)
{
    weir_error error = { .status = WEIR_BUSY, .text = "left over" };
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_OK);
    ck_assert_str_eq(error.text, "");
    weir_last_error(NULL);
}
END_TEST

START_TEST(last_error_is_that_of_the_last_failure)
{
    weir_error error;
    ck_assert_int_eq(weir_stream_malloc(NULL, NULL, 1), WEIR_INVALID);
    ck_assert_int_eq(weir_pool_malloc(NULL, NULL, 1, NULL), WEIR_INVALID);
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "weir_pool_malloc"));
}
END_TEST

START_TEST(version_is_that_of_the_header)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
    ck_assert_str_eq(weir_version(), text);
}
END_TEST

START_TEST(every_rung_has_a_name)
{
    static const char *const names[WEIR_RUNG_COUNT] = { "flush", "wait", "trim", "callbacks", "neighbours" };
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        ck_assert_str_eq(weir_rung_name((weir_rung)rung), names[rung]);
    ck_assert_ptr_nonnull(weir_rung_name(WEIR_RUNG_COUNT));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("words");
    TCase *tcase = suite_case(suite, "words", 0);
    tcase_add_loop_test(tcase, size_is_written_in_the_largest_unit_that_fits, 0, (int)(sizeof sizes / sizeof sizes[0]));
    tcase_add_loop_test(tcase, time_has_three_digits_in_the_unit_that_gives_less_than_a_thousand, 0, (int)(sizeof times / sizeof times[0]));
    tcase_add_loop_test(tcase, time_has_as_many_digits_as_are_asked_for_and_there_are, 0,
                        (int)(sizeof exact_times / sizeof exact_times[0]));
    suite_add(tcase, largest_size_fits_the_text, all_is_said_of_what_is_kept_alone, only_one_thing_is_singular,
              what_an_errno_says_to_be_wanting_is_the_remedy, every_status_has_a_name_and_a_text, unknown_status_has_a_name_and_a_text,
              first_error_of_a_record_stays, record_may_be_null, gpu_error_names_what_cuda_says,
              text_too_long_for_the_record_is_cut_and_terminated);
    tcase_add_loop_test(tcase, cuda_code_has_one_status, 0, (int)(sizeof codes / sizeof codes[0]));
    suite_add(tcase, last_error_is_empty_before_the_first_failure, last_error_is_that_of_the_last_failure, version_is_that_of_the_header,
              every_rung_has_a_name);
    return suite_run(suite);
}
