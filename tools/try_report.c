/* SPDX-License-Identifier: MIT */
/* try_report.c - the report of `weir try` for people: what was done, what it shows, and the figures below it. */
#include "tools/format.h"
#include "tools/table.h"
#include "tools/terminal.h"
#include "tools/try.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *try_rung_name(int rung)
{
    return rung < 0 ? "" : weir_rung_name((weir_rung)rung);
}

const char *try_outcome_name(enum try_outcome outcome)
{
    static const char *const names[] = {
        [TRY_RESCUED] = "rescued", [TRY_SERVED] = "served", [TRY_SKIPPED] = "skipped", [TRY_UNRESCUED] = "not rescued"};
    return names[outcome];
}

static const char *seconds_text(struct text *text, double seconds)
{
    snprintf(text->chars, sizeof(text->chars), "%.*f s", seconds < 10, seconds);
    return text->chars;
}

static void report_setting(const struct try_run *run)
{
    style_line(stdout, STYLE_STRONG, "Policy");
    printf("  %s: %zu pool%s, %zu named stream%s.\n",
           strcmp(run->policy->file, "built-in") == 0 ? "The built-in default" : run->policy->file, run->policy->pool_count,
           weir__plural(run->policy->pool_count), run->policy->stream_count, weir__plural(run->policy->stream_count));
    for (size_t i = 0; i < weir_stats_device_count(run->stats); i++) {
        const weir_device_stats *device = weir_stats_device(run->stats, i);
        struct gpu_device_info info = {.name = "?"};
        run->gpu->device_info(device->device, &info);
        printf("  Device %d: %s, %s of memory.\n", device->device, info.name, SIZE_TEXT(device->memory));
    }
    if (try_is_simulated(run))
        puts("  This is the simulator: memory really moves and fills up, but times say nothing about a GPU.");
}

static void report_pools(const struct try_run *run)
{
    struct table table = TABLE_INIT("lrrrrrrrrrrrrrr");
    static const char *const headings[] = {"POOL",    "DEVICE", "RESERVED", "USED",  "CACHED", "IDLE",   "LIVE",   "HIGHEST",
                                           "GROWTHS", "CAP",    "MALLOCS",  "HITS",  "FREES",  "FAILED", "PRIVATE"};
    for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
        table_cell(&table, "%s", headings[i]);
    for (size_t i = 0; i < weir_stats_pool_count(run->stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(run->stats, i);
        table_cell(&table, "%s", pool->name);
        table_cell(&table, "%d", pool->device);
        table_cell(&table, "%s", SIZE_TEXT(pool->reserved));
        table_cell(&table, "%s", SIZE_TEXT(pool->used));
        table_cell(&table, "%s", SIZE_TEXT(pool->cached));
        table_cell(&table, "%s", SIZE_TEXT(pool->idle));
        table_cell(&table, "%s", SIZE_TEXT(pool->live));
        table_cell(&table, "%s", SIZE_TEXT(pool->live_high));
        table_cell(&table, "%s", i < run->watch_count ? COUNT_TEXT(run->watches[i].growths) : "");
        table_cell(&table, "%s", pool->max_size ? SIZE_TEXT(pool->max_size) : "none");
        table_cell(&table, "%s", COUNT_TEXT(pool->mallocs));
        table_cell(&table, "%s", COUNT_TEXT(pool->cache_hits));
        table_cell(&table, "%s", COUNT_TEXT(pool->frees));
        table_cell(&table, "%s", COUNT_TEXT(pool->failures));
        table_cell(&table, "%s", pool->is_private ? "yes" : "");
    }
    printf("\n  The pools when everything was freed. 'Reserved' is what a pool holds of its device, 'idle' what it keeps for reuse,\n"
           "  'cached' what the caches of its streams keep; they served 'hits' of the mallocs without calling CUDA.\n"
           "  'Live' is in the program's hands, 'highest' the most that ever was. In %s snapshots, a pool had grown 'growths' times.\n\n",
           COUNT_TEXT(run->snapshots));
    table_print(&table, stdout);
}

static void add_times(struct table *table, const char *name, const struct histogram *times)
{
    table_cell(table, "%s", name);
    table_cell(table, "%s", COUNT_TEXT(times->count));
    table_cell(table, "%s", TIME_TEXT(histogram_percentile(times, 50)));
    table_cell(table, "%s", TIME_TEXT(histogram_percentile(times, 90)));
    table_cell(table, "%s", TIME_TEXT(histogram_percentile(times, 99)));
    table_cell(table, "%s", TIME_TEXT(times->max));
}

static void report_work(const struct try_run *run)
{
    const struct try_worker *total = &run->total;
    struct text seconds;
    unsigned streams = 0;
    for (unsigned i = 0; i < run->threads; i++)
        for (size_t j = 0; j < run->workers[i].berth_count; j++)
            streams += run->workers[i].berths[j].stream_count;
    style_line(stdout, STYLE_STRONG, "\nWorkload");
    printf("  %u thread%s allocated and freed blocks from %d bytes to %d MiB on %u streams for %s (seed %" PRIu64 ").\n", run->threads,
           weir__plural(run->threads), TRY_SMALLEST, TRY_LARGEST >> 20, streams, seconds_text(&seconds, run->workload_seconds), run->seed);
    printf("  %s requests were served and %s failed. %s blocks were freed on another stream than they came from.\n",
           COUNT_TEXT(total->served), total->failures ? COUNT_TEXT(total->failures) : "none", COUNT_TEXT(total->crossed));
    printf("  Every block was written to. %s were read back before their free; ", COUNT_TEXT(total->verified));
    if (total->verified == 0)
        puts("so nothing was verified.");
    else if (total->corrupt)
        printf("%s of them did not hold what had been written.\n", COUNT_TEXT(total->corrupt));
    else
        puts("all of them held what had been written.");
    report_pools(run);
    struct table table = TABLE_INIT("lrrrrr");
    static const char *const headings[] = {"CALL", "COUNT", "P50", "P90", "P99", "MAX"};
    for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
        table_cell(&table, "%s", headings[i]);
    add_times(&table, "malloc", &total->malloc_times);
    add_times(&table, "free", &total->free_times);
    puts("\n  What a call took of the program's time: half of the calls took no longer than P50, 99 of 100 no longer than P99.\n");
    table_print(&table, stdout);
}

/* Prints text with lines of at most 110 characters, broken at blanks, each behind `indent` blanks. */
static void print_wrapped(const char *text, int indent)
{
    const int most = 110;
    while (*text) {
        size_t len = strcspn(text, "\n");
        if (len > (size_t)most) {
            size_t cut = (size_t)most;
            while (cut > 0 && text[cut] != ' ')
                cut--;
            len = cut ? cut : len;
        }
        printf("%*s%.*s\n", indent, "", (int)len, text);
        text += len;
        text += *text == ' ' || *text == '\n';
    }
}

static void report_steps(const struct try_run *run)
{
    style_line(stdout, STYLE_STRONG, "\nRunning out of memory");
    if (run->step_count == 0)
        puts("  Not tried, since the workload failed.");
    for (size_t i = 0; i < run->step_count; i++) {
        const struct try_step *step = &run->steps[i];
        static const enum style styles[] = {
            [TRY_RESCUED] = STYLE_GOOD, [TRY_SERVED] = STYLE_GOOD, [TRY_SKIPPED] = STYLE_FAINT, [TRY_UNRESCUED] = STYLE_BAD};
        printf("  Pool '%s', device %d, step '%s': ", step->pool->policy->name, step->pool->device, step->name);
        style_line(stdout, styles[step->outcome], try_outcome_name(step->outcome));
        print_wrapped(step->text, 4);
        if (step->report) {
            puts("    Weir's report:");
            print_wrapped(step->report, 6);
        }
    }
}

static void report_rescues(const struct try_run *run)
{
    if (!run->final || run->step_count == 0)
        return;
    static const char alignment[] = "rrrrrrr";
    _Static_assert(sizeof alignment - 1 == 2 + WEIR_RUNG_COUNT, "each rung has a column");
    struct table table = TABLE_INIT(alignment);
    table_cell(&table, "DEVICE");
    table_cell(&table, "RECOVERIES");
    for (int rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        table_cell(&table, "%s", try_rung_name(rung));
    for (size_t i = 0; i < weir_stats_device_count(run->final); i++) {
        const weir_device_stats *device = weir_stats_device(run->final, i);
        table_cell(&table, "%d", device->device);
        table_cell(&table, "%s", COUNT_TEXT(device->recoveries));
        for (int rung = 0; rung < WEIR_RUNG_COUNT; rung++)
            table_cell(&table, "%s", COUNT_TEXT(device->rescues[rung]));
    }
    puts("\n  How often the recovery ladder ran on each device, and how many requests each of its rungs rescued.\n");
    table_print(&table, stdout);
}

void try_report(const struct try_run *run)
{
    if (run->stats) {
        report_setting(run);
        report_work(run);
        report_steps(run);
        report_rescues(run);
    }
    style_text(stdout, STYLE_STRONG, "\nResult: ");
    if (run->reason_count == 0) {
        style_line(stdout, STYLE_GOOD, "everything was served, verified and recovered; nothing leaked.");
        return;
    }
    style_line(stdout, STYLE_BAD, "FAILED");
    for (size_t i = 0; i < run->reason_count; i++)
        print_wrapped(run->reasons[i], 2);
}
