/* SPDX-License-Identifier: MIT */
/* report.c - the report of `weir try` for people: what was done, what it shows, and the figures below it. */
#include "tools/common/format.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/try/try.h"

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
    struct table table = TABLE_INIT("lrrrrrrrr");
    table_row(&table, "POOL", "DEVICE", "RESERVED", "HIGHEST", "CAP", "MALLOCS", "HITS", "FREES", "FAILED");
    for (size_t i = 0; i < weir_stats_pool_count(run->stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(run->stats, i);
        char device[16];
        snprintf(device, sizeof(device), "%d", pool->device);
        table_row(&table, pool->name, device, SIZE_TEXT(pool->reserved), SIZE_TEXT(pool->live_high),
                  pool->max_size ? SIZE_TEXT(pool->max_size) : "none", COUNT_TEXT(pool->mallocs), COUNT_TEXT(pool->cache_hits),
                  COUNT_TEXT(pool->frees), COUNT_TEXT(pool->failures));
    }
    puts("\n  The pools when everything was freed. 'Reserved' is what a pool holds of its device, 'highest' the most that the program\n"
         "  had of it. The caches of its streams served 'hits' of the mallocs without calling CUDA.\n");
    table_print(&table, stdout);
}

static void report_work(const struct try_run *run)
{
    const struct try_worker *total = &run->total;
    unsigned streams = 0;
    for (unsigned i = 0; i < run->threads; i++)
        for (size_t j = 0; j < run->workers[i].berth_count; j++)
            streams += run->workers[i].berths[j].stream_count;
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Workload");
    printf("  %u thread%s allocated and freed blocks from %d bytes to %d MiB on %u streams for %s (seed %" PRIu64 ").\n", run->threads,
           weir__plural(run->threads), TRY_SMALLEST, TRY_LARGEST >> 20, streams, TIME_TEXT((uint64_t)(run->workload_seconds * 1e9)), run->seed);
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
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Running out of memory");
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

void try_report(const struct try_run *run)
{
    if (run->stats) {
        report_setting(run);
        report_work(run);
        report_steps(run);
    }
    putchar('\n');
    style_text(stdout, STYLE_STRONG, "Result: ");
    if (run->reason_count == 0) {
        style_line(stdout, STYLE_GOOD, "everything was served, verified and recovered; nothing leaked.");
        return;
    }
    style_line(stdout, STYLE_BAD, "FAILED");
    for (size_t i = 0; i < run->reason_count; i++)
        print_wrapped(run->reasons[i], 2);
}
