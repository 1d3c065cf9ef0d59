/* SPDX-License-Identifier: MIT */
#include "tests/support/suite.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fds_before;

#undef _mark_point
void suite_note_place(const char *file, int line)
{
    static __thread unsigned places;
    if (places++ < 1000 || places % 1000 == 0)
        _mark_point(file, line);
}

int suite_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    int count = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* its own */
}

int suite_await_fds(int wanted)
{
    int count = suite_count_fds();
    for (int naps = 0; count != wanted && naps < 5000; naps++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        count = suite_count_fds();
    }
    return count;
}

/* The CUDA driver opens descriptors of its own when it likes, the first dozens within the test that first calls it. */
static bool fds_are_ours(void)
{
    const char *gpu = getenv("WEIR_GPU");
    return !gpu || strcmp(gpu, "cuda") != 0;
}

static void census_before(void)
{
    fds_before = suite_count_fds();
}

static void census_after(void)
{
    if (!fds_are_ours())
        return;
    int fds = suite_await_fds(fds_before);
    ck_assert_msg(fds == fds_before, "%d file descriptors before the test, %d after it", fds_before, fds);
}

TCase *suite_case(Suite *suite, const char *name, double timeout_s)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, timeout_s > 0 ? timeout_s : 30);
    tcase_add_checked_fixture(tcase, census_before, census_after);
    suite_add_tcase(suite, tcase);
    return tcase;
}

void suite_add_tests(TCase *tcase, const TTest *const *tests)
{
    for (; *tests; tests++)
        tcase_add_test(tcase, *tests);
}

int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    if (!getenv("CK_TAP_LOG_FILE_NAME"))
        srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    /* Automake's TAP driver reads the results from the TAP lines; a non-zero status would count once more as an error. */
    return getenv("CK_TAP_LOG_FILE_NAME") ? EXIT_SUCCESS : failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#if defined(__has_feature)
#define FEATURE(name) __has_feature(name)
#else
#define FEATURE(name) 0
#endif

#if defined(__SANITIZE_THREAD__) || FEATURE(thread_sanitizer)
#define WATCHES_THREADS 1
#else
#define WATCHES_THREADS 0
#endif

#if defined(__SANITIZE_ADDRESS__) || FEATURE(address_sanitizer) || WATCHES_THREADS
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

unsigned suite_rounds(unsigned daily, unsigned nightly)
{
    bool is_night = getenv("WEIR_TEST_NIGHTLY") && !getenv("WEIR_TEST_SLOW");
    unsigned rounds = is_night ? nightly : daily, share = !SANITIZED ? 1 : is_night ? 10 : 4;
    return rounds >= share ? rounds / share : rounds;
}

unsigned suite_stride(void)
{
    if (getenv("WEIR_TEST_NIGHTLY"))
        return 1;
    return WATCHES_THREADS ? 7 : SANITIZED ? 5 : 1;
}

unsigned suite_lone_stride(void)
{
    if (getenv("WEIR_TEST_NIGHTLY"))
        return 1;
    return WATCHES_THREADS ? 4 : SANITIZED ? 2 : getenv("WEIR_TEST_SLOW") ? 31 : 1;
}

int suite_skip(const char *reason)
{
    printf("1..0 # SKIP %s\n", reason);
    return EXIT_SUCCESS;
}
