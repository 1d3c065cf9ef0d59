/* SPDX-License-Identifier: MIT */
/* report.c - the report of `weir try`, for people and for programs: what was done, and what that shows. */
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/terminal.h"
#include "tools/try/try.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *outcome_name(enum try_outcome outcome)
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
    if (run->gpu->name[0] == 's')
        puts("  This is the simulator: memory really moves and fills up, but times say nothing about a GPU.");
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
        style_line(stdout, styles[step->outcome], outcome_name(step->outcome));
        paragraph_print_item("", 1, step->text);
        if (step->report) {
            puts("    Weir's report:");
            for (const char *line = step->report; *line; line += strcspn(line, "\n"), line += *line == '\n')
                printf("      %.*s\n", (int)strcspn(line, "\n"), line);
        }
    }
}

void try_report(const struct try_run *run)
{
    if (run->workload_seconds > 0) {
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
        paragraph_print_item("", 1, run->reasons[i]);
}

/* As JSON ------------------------------------------------------------------------------------------------------------------------------ */

static void json_work(struct json *json, const struct try_run *run)
{
    const struct try_worker *total = &run->total;
    json_object(json, "workload");
    json_number(json, "seconds", run->workload_seconds, 3);
    json_uint(json, "served", total->served);
    json_uint(json, "frees", total->frees);
    json_uint(json, "failures", total->failures);
    json_uint(json, "freed_on_another_stream", total->crossed);
    json_uint(json, "verified", total->verified);
    json_uint(json, "corrupt", total->corrupt);
    json_end(json);
}

static void json_steps(struct json *json, const struct try_run *run)
{
    json_array(json, "steps");
    for (size_t i = 0; i < run->step_count; i++) {
        const struct try_step *step = &run->steps[i];
        json_object(json, NULL);
        json_string(json, "step", step->name);
        json_string(json, "pool", step->pool->policy->name);
        json_uint(json, "device", (uint64_t)step->pool->device);
        json_string(json, "outcome", outcome_name(step->outcome));
        json_string(json, "rung", step->rung < 0 ? NULL : weir_rung_name((weir_rung)step->rung));
        json_uint(json, "bytes", step->bytes);
        json_uint(json, "time", step->nanoseconds);
        json_string(json, "text", step->text);
        json_string(json, "report", step->report);
        json_end(json);
    }
    json_end(json);
}

void try_report_json(const struct try_run *run)
{
    struct json json = JSON_INIT(stdout);
    json_object(&json, NULL);
    json_string(&json, "policy", run->policy->file);
    json_string(&json, "gpu", run->gpu->name);
    json_uint(&json, "threads", run->threads);
    json_uint(&json, "seed", run->seed);
    json_work(&json, run);
    json_steps(&json, run);
    json_uint(&json, "leaked_blocks", run->leaked_blocks);
    json_uint(&json, "leaked_bytes", run->leaked_bytes);
    json_bool(&json, "passed", run->reason_count == 0);
    json_array(&json, "reasons");
    for (size_t i = 0; i < run->reason_count; i++)
        json_string(&json, NULL, run->reasons[i]);
    json_end(&json);
    json_end(&json);
}
