/* SPDX-License-Identifier: MIT */
/* The command line of weir-bench. */
#include "bench/arguments.h"

#include <string.h>

#include "bench/bench.h"
#include "tests/support/suite.h"

static const char *const sections[] = { "pairs", "threads", "live" };
#define SECTION_COUNT 3

static struct arguments seen;
static char why[256];

/* Reads "weir-bench" and these words, up to the first NULL. */
static bool reads(const char *a, const char *b, const char *c)
{
    static char words[4][64] = { "weir-bench" }; /* borrowed by what was read */
    char *argv[5] = { words[0] };
    int argc = 1;
    const char *const rest[] = { a, b, c };
    for (size_t i = 0; i < 3 && rest[i]; i++) {
        snprintf(words[argc], sizeof(words[0]), "%s", rest[i]);
        argv[argc] = words[argc];
        argc++;
    }
    memset(&seen, 0xff, sizeof(seen));
    why[0] = '\0';
    return arguments_read(argc, argv, sections, SECTION_COUNT, &seen, why, sizeof(why));
}

START_TEST(without_sections_all_are_wanted)
{
    ck_assert(reads(NULL, NULL, NULL));
    ck_assert(seen.wanted[0] && seen.wanted[1] && seen.wanted[2]);
}
END_TEST

START_TEST(sections_select)
{
    ck_assert(reads("live", "pairs", NULL));
    ck_assert(seen.wanted[0] && !seen.wanted[1] && seen.wanted[2]);
}
END_TEST

START_TEST(an_unknown_section_is_named)
{
    ck_assert(!reads("pears", NULL, NULL));
    ck_assert_ptr_nonnull(strstr(why, "'pears'"));
    ck_assert_ptr_nonnull(strstr(why, "--list"));
}
END_TEST

START_TEST(rows_are_chosen_by_how_their_names_begin)
{
    ck_assert(reads("--only=16 MiB,", "live", NULL));
    ck_assert_str_eq(seen.only, "16 MiB,");
    ck_assert(reads("live", NULL, NULL));
    ck_assert_ptr_null(seen.only);
}
END_TEST

START_TEST(traces_add_up)
{
    ck_assert(reads("--trace=a.csv", "-tb.csv.zst", "live"));
    ck_assert_uint_eq(seen.trace_count, 2);
    ck_assert_str_eq(seen.traces[0], "a.csv");
    ck_assert_str_eq(seen.traces[1], "b.csv.zst");
}
END_TEST

START_TEST(a_trace_too_many_is_named)
{
    static char words[ARGUMENTS_TRACES_MAX + 2][16] = { "weir-bench" };
    char *argv[ARGUMENTS_TRACES_MAX + 3] = { words[0] };
    for (int i = 1; i <= ARGUMENTS_TRACES_MAX; i++)
        argv[i] = memcpy(words[i], "--trace=a.csv", 14);
    ck_assert(arguments_read(ARGUMENTS_TRACES_MAX + 1, argv, sections, SECTION_COUNT, &seen, why, sizeof(why)));
    argv[ARGUMENTS_TRACES_MAX + 1] = memcpy(words[ARGUMENTS_TRACES_MAX + 1], "--trace=b.csv", 14);
    ck_assert(!arguments_read(ARGUMENTS_TRACES_MAX + 2, argv, sections, SECTION_COUNT, &seen, why, sizeof(why)));
    ck_assert_ptr_nonnull(strstr(why, "b.csv"));
}
END_TEST

START_TEST(defaults_are_nine_repetitions_and_no_file)
{
    ck_assert(reads(NULL, NULL, NULL));
    ck_assert_uint_eq(seen.repetitions, 9);
    ck_assert_ptr_null(seen.json);
    ck_assert(!seen.quick && !seen.list && !seen.help);
}
END_TEST

START_TEST(quick_repeats_five_times_unless_told_otherwise)
{
    ck_assert(reads("--quick", NULL, NULL));
    ck_assert(seen.quick);
    ck_assert_uint_eq(seen.repetitions, 5);
    ck_assert(reads("--repetitions=11", "--quick", NULL));
    ck_assert_uint_eq(seen.repetitions, 11);
}
END_TEST

START_TEST(repetitions_in_range_are_taken)
{
    ck_assert(reads("-r", "5", NULL));
    ck_assert_uint_eq(seen.repetitions, 5);
    ck_assert(reads("-r", "64", NULL));
    ck_assert_uint_eq(seen.repetitions, BENCH_SAMPLES_MAX);
}
END_TEST

static const char *const bad_repetitions[] = { "4", "65", "-9", "", "9x", "nine", "99999999999999999999" };

START_TEST(other_repetitions_are_refused_with_the_range)
{
    ck_assert(!reads("-r", bad_repetitions[_i], NULL));
    ck_assert_ptr_nonnull(strstr(why, "from 5 to 64"));
}
END_TEST

START_TEST(rounds_are_taken_and_fewer_if_it_has_to_be_quick)
{
    ck_assert(reads(NULL, NULL, NULL));
    ck_assert_uint_eq(seen.rounds, ARGUMENTS_ROUNDS);
    ck_assert(reads("--quick", NULL, NULL));
    ck_assert_uint_eq(seen.rounds, ARGUMENTS_ROUNDS_QUICK);
    ck_assert(reads("--rounds=7", "--quick", NULL));
    ck_assert_uint_eq(seen.rounds, 7);
    ck_assert(!reads("--rounds=0", NULL, NULL));
}
END_TEST

START_TEST(row_seconds_are_taken_and_are_none_by_default)
{
    ck_assert(reads("--list", NULL, NULL));
    ck_assert_uint_eq(seen.row_seconds, 0);
    ck_assert(reads("--row-seconds=20", NULL, NULL));
    ck_assert_uint_eq(seen.row_seconds, 20);
    ck_assert(!reads("--row-seconds=0", NULL, NULL));
    ck_assert_ptr_nonnull(strstr(why, "from 1 to 86400"));
}
END_TEST

START_TEST(a_file_and_a_section_may_come_in_any_order)
{
    ck_assert(reads("threads", "--json", "out.json"));
    ck_assert_str_eq(seen.json, "out.json");
    ck_assert(!seen.wanted[0] && seen.wanted[1] && !seen.wanted[2]);
}
END_TEST

START_TEST(rmm_is_a_file)
{
    ck_assert(reads("--rmm", "librmm.so", NULL));
    ck_assert_str_eq(seen.rmm, "librmm.so");
    ck_assert(reads("live", NULL, NULL));
    ck_assert_ptr_null(seen.rmm);
}
END_TEST

START_TEST(list_and_help_are_seen)
{
    ck_assert(reads("--list", NULL, NULL));
    ck_assert(seen.list && !seen.help);
    ck_assert(reads("-h", NULL, NULL));
    ck_assert(seen.help && !seen.list);
}
END_TEST

START_TEST(an_option_that_is_unknown_or_lacks_its_value_is_named)
{
    ck_assert(!reads("--sim", NULL, NULL));
    ck_assert_ptr_nonnull(strstr(why, "'--sim'"));
    ck_assert(!reads("--json", NULL, NULL));
    ck_assert_ptr_nonnull(strstr(why, "--json needs a value"));
}
END_TEST

START_TEST(what_is_refused_leaves_the_output_alone)
{
    ck_assert(!reads("--quick", "pears", NULL));
    struct arguments untouched;
    memset(&untouched, 0xff, sizeof(untouched));
    ck_assert_mem_eq(&seen, &untouched, sizeof(seen));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench/arguments");
    TCase *all = suite_case(suite, "arguments", 0);
    suite_add(all, without_sections_all_are_wanted, sections_select, an_unknown_section_is_named, traces_add_up, a_trace_too_many_is_named,
              defaults_are_nine_repetitions_and_no_file, quick_repeats_five_times_unless_told_otherwise,
              rounds_are_taken_and_fewer_if_it_has_to_be_quick, row_seconds_are_taken_and_are_none_by_default,
              repetitions_in_range_are_taken);
    tcase_add_loop_test(all, other_repetitions_are_refused_with_the_range, 0, sizeof(bad_repetitions) / sizeof(bad_repetitions[0]));
    suite_add(all, a_file_and_a_section_may_come_in_any_order, rmm_is_a_file, list_and_help_are_seen,
              an_option_that_is_unknown_or_lacks_its_value_is_named, rows_are_chosen_by_how_their_names_begin,
              what_is_refused_leaves_the_output_alone);
    return suite_run(suite);
}
