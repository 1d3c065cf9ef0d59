/* SPDX-License-Identifier: MIT */
/* A program for per-thread default streams: stream 0 is the thread's own in calls, and through pointers to functions as well. This file is
   compiled twice, with each of the two macros that CUDA's headers know. */
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define POLICY "weir: 1\npools: { main: {} }\n"

START_TEST(stream_0_that_is_opened_is_the_one_of_the_thread)
{
    weir_stream *s;
    fixture_machine(NULL);
    weir *w = fixture_open(POLICY);
    ck_assert_int_eq(weir_stream_open(w, 0, NULL, NULL, NULL, &s), WEIR_INVALID);
    weir_close(w);
}
END_TEST

START_TEST(stream_0_means_the_same_through_a_pointer)
{
    weir_status (*opens)(weir *, int, weir_cuda_stream, const char *, weir_error *, weir_stream **) = weir_stream_open;
    weir_status (*allocates)(weir *, void **, size_t, int, weir_cuda_stream) = &weir_malloc;
    weir_status (*frees)(weir *, void *, weir_cuda_stream) = weir_free;
    weir_stream *s;
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open(POLICY);
    ck_assert_int_eq(opens(w, 0, NULL, NULL, NULL, &s), WEIR_INVALID);
    ck_assert_int_eq(allocates(w, &ptr, 4096, 0, NULL), WEIR_OK);
    ck_assert_int_eq(frees(w, ptr, NULL), WEIR_OK);
    weir_close(w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("per_thread");
    TCase *tests = suite_case(suite, "per_thread", 0);
    suite_add(tests, stream_0_that_is_opened_is_the_one_of_the_thread, stream_0_means_the_same_through_a_pointer);
    return suite_run(suite);
}
