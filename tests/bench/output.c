/* SPDX-License-Identifier: MIT */
/* Samples, figures, and what is written of them. */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "tests/support/suite.h"

static struct bench_report report;

static void clear(void)
{
    bench_report_clear(&report);
}

static struct bench_series series_of(size_t count, const double *values)
{
    struct bench_series series = { .name = "s" };
    for (size_t i = 0; i < count; i++)
        bench_add(&series, values[i]);
    return series;
}

/* What a call writes, for the caller to free(). */
static char *written(void (*write)(FILE *file))
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    ck_assert_ptr_nonnull(file);
    write(file);
    fclose(file);
    return text;
}

START_TEST(median_is_the_middle_of_an_odd_number)
{
    struct bench_series series = series_of(3, (const double[]){ 30, 10, 20 });
    ck_assert_double_eq(bench_median(&series), 20);
}
END_TEST

START_TEST(median_is_between_the_two_middle_ones_of_an_even_number)
{
    struct bench_series series = series_of(4, (const double[]){ 40, 10, 30, 20 });
    ck_assert_double_eq(bench_median(&series), 25);
}
END_TEST

START_TEST(spread_is_the_least_and_the_most)
{
    struct bench_series series = series_of(3, (const double[]){ 30, 10, 20 });
    ck_assert_double_eq(bench_min(&series), 10);
    ck_assert_double_eq(bench_max(&series), 30);
}
END_TEST

START_TEST(of_no_samples_everything_is_zero)
{
    struct bench_series series = { .name = "s" };
    ck_assert_double_eq(bench_median(&series) + bench_min(&series) + bench_max(&series), 0);
}
END_TEST

START_TEST(a_ratio_is_that_of_the_medians)
{
    struct bench_figure *figure = bench_figure_new(&report, "section", "name");
    struct bench_series ours = series_of(3, (const double[]){ 1, 2, 300 }), raw = series_of(3, (const double[]){ 7, 8, 9 });
    bench_figure_ratio(figure, &raw, &ours, BENCH_AT_LEAST, 4);
    ck_assert_double_eq(figure->value, 4);
    ck_assert(bench_reached(figure));
}
END_TEST

static const struct {
    enum bench_bound bound;
    double value;
    bool reached;
} bounds[] = {
    { BENCH_AT_MOST, 1.0, true },   { BENCH_AT_MOST, 1.2, true },   { BENCH_AT_MOST, 1.21, false }, { BENCH_AT_LEAST, 1.19, false },
    { BENCH_AT_LEAST, 1.2, true },  { BENCH_AT_LEAST, 9.0, true },  { BENCH_SHOWN, 0.0, true },     { BENCH_SHOWN, 9.0, true },
};

START_TEST(a_bound_is_kept_up_to_its_limit)
{
    struct bench_figure *figure = bench_figure_new(&report, "section", "name");
    figure->value = bounds[_i].value;
    figure->bound = bounds[_i].bound;
    figure->limit = 1.2;
    ck_assert_int_eq(bench_reached(figure), bounds[_i].reached);
}
END_TEST

START_TEST(a_figure_without_a_bound_is_neither_asked_nor_missed)
{
    bench_figure_new(&report, "section", "shown");
    struct bench_figure *missed = bench_figure_new(&report, "section", "missed");
    missed->bound = BENCH_AT_LEAST;
    missed->limit = 1;
    ck_assert_uint_eq(bench_asked(&report), 1);
    ck_assert_uint_eq(bench_missed(&report), 1);
}
END_TEST

START_TEST(a_figure_stays_where_it_is_when_the_report_grows)
{
    struct bench_figure *first = bench_figure_new(&report, "section", "first");
    for (int i = 0; i < 1000; i++)
        bench_figure_new(&report, "section", "other");
    ck_assert_ptr_eq(report.figures[0], first);
    ck_assert_str_eq(first->name, "first");
    ck_assert_uint_eq(report.count, 1001);
}
END_TEST

START_TEST(a_policy_is_kept_once_for_each_section)
{
    ck_assert(bench_policy_add(&report, "a", "weir: 1\n"));
    ck_assert(!bench_policy_add(&report, "a", "weir: 1\n"));
    ck_assert(bench_policy_add(&report, "b", "weir: 1\n"));
    ck_assert_uint_eq(report.policy_count, 2);
}
END_TEST

static void write_policy(FILE *file)
{
    bench_print_policy(file, "a", "weir: 1\npools:\n  p: {}\n");
}

START_TEST(a_policy_is_printed_in_one_line)
{
    char *text = written(write_policy);
    ck_assert_str_eq(text, "a        policy: weir: 1 | pools: |   p: {}\n");
    free(text);
}
END_TEST

static void make_example(void)
{
    struct bench_figure *figure = bench_figure_new(&report, "threads", "2 \"threads\"");
    *bench_series_new(figure, "weir") = series_of(3, (const double[]){ 40, 50, 60 });
    *bench_series_new(figure, "raw") = series_of(3, (const double[]){ 4000, 5000, 6000 });
    bench_figure_in(figure, "own streams", 2);
    bench_figure_ratio(figure, &figure->series[1], &figure->series[0], BENCH_AT_LEAST, 90);
    bench_figure_new(&report, "threads", "shown");
}

static void write_lines(FILE *file)
{
    bench_print(file, report.figures[0]);
}

START_TEST(a_line_has_value_bound_median_spread_and_repetitions)
{
    make_example();
    report.figures[0]->series[0].name = "weir";
    char *text = written(write_lines);
    ck_assert_ptr_nonnull(strstr(text, " 100.000 x asked >= 90.000 x: reached\n"));
    ck_assert_ptr_nonnull(strstr(text, "5.000 us (4.000 us .. 6.000 us of 3)"));
    free(text);
}
END_TEST

START_TEST(a_line_of_bytes_is_in_units_that_people_read)
{
    struct bench_figure *figure = bench_figure_new(&report, "keeper", "reserved");
    figure->value_unit = "bytes";
    figure->value = 3.0 * 1024 * 1024;
    figure->bound = BENCH_AT_MOST;
    figure->limit = 64.0 * 1024;
    char *text = written(write_lines);
    ck_assert_ptr_nonnull(strstr(text, " 3.000 MiB asked <= 64.000 KiB: MISSED\n"));
    free(text);
}
END_TEST

static void write_all(FILE *file)
{
    const char *const machine[] = { "device", "A \\ B", NULL };
    bench_write_json(file, machine, &report);
}

START_TEST(json_is_what_its_readers_expect)
{
    make_example();
    char *text = written(write_all);
    ck_assert_str_eq(text, "{\n"
                           "  \"machine\": {\n"
                           "    \"device\": \"A \\\\ B\"\n"
                           "  },\n"
                           "  \"policies\": [],\n"
                           "  \"figures\": [\n"
                           "    {\"section\": \"threads\", \"name\": \"2 \\\"threads\\\"\", \"group\": \"own streams\", \"x\": 2, "
                           "\"value\": 100.000000, \"value_unit\": \"x\", \"asked\": \">=\", \"limit\": 90.000, \"reached\": true, "
                           "\"unit\": \"ns\", \"series\": ["
                           "{\"name\": \"s\", \"median\": 50.000, \"min\": 40.000, \"max\": 60.000, "
                           "\"values\": [40.000, 50.000, 60.000]}, "
                           "{\"name\": \"s\", \"median\": 5000.000, \"min\": 4000.000, \"max\": 6000.000, "
                           "\"values\": [4000.000, 5000.000, 6000.000]}]},\n"
                           "    {\"section\": \"threads\", \"name\": \"shown\", \"value\": 0.000000, \"value_unit\": \"x\", "
                           "\"asked\": null, \"limit\": null, \"reached\": null, \"unit\": \"ns\", \"series\": []}\n"
                           "  ]\n"
                           "}\n");
    free(text);
}
END_TEST

static const struct {
    uint64_t bytes;
    const char *name;
} sizes[] = { { 0, "0 B" }, { 512, "512 B" }, { 1000, "1000 B" }, { 65536, "64 KiB" }, { UINT64_C(4) << 30, "4 GiB" } };

START_TEST(sizes_are_named_in_their_largest_whole_unit)
{
    char text[32];
    ck_assert_str_eq(bench_size_name(sizes[_i].bytes, text), sizes[_i].name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench/output");
    TCase *all = suite_case(suite, "output", 0);
    tcase_add_checked_fixture(all, NULL, clear);
    suite_add(all, median_is_the_middle_of_an_odd_number, median_is_between_the_two_middle_ones_of_an_even_number,
              spread_is_the_least_and_the_most, of_no_samples_everything_is_zero, a_ratio_is_that_of_the_medians);
    tcase_add_loop_test(all, a_bound_is_kept_up_to_its_limit, 0, sizeof(bounds) / sizeof(bounds[0]));
    suite_add(all, a_figure_without_a_bound_is_neither_asked_nor_missed, a_figure_stays_where_it_is_when_the_report_grows,
              a_policy_is_kept_once_for_each_section, a_policy_is_printed_in_one_line, a_line_has_value_bound_median_spread_and_repetitions,
              a_line_of_bytes_is_in_units_that_people_read, json_is_what_its_readers_expect);
    tcase_add_loop_test(all, sizes_are_named_in_their_largest_whole_unit, 0, sizeof(sizes) / sizeof(sizes[0]));
    return suite_run(suite);
}
