/* SPDX-License-Identifier: MIT */
#include "tools/replay/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/format.h"
#include "tools/common/table.h"
#include "tools/trace/view.h"

/* Judging ------------------------------------------------------------------------------------------------------------------------------ */

static double error_of(uint64_t replayed, uint64_t recorded)
{
    double difference = replayed > recorded ? (double)(replayed - recorded) : (double)(recorded - replayed);
    return recorded ? difference / (double)recorded : replayed ? 1 : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void refuse(struct verdict *verdict, const char *why)
{
    verdict->can_judge = false;
    snprintf(verdict->why, sizeof verdict->why, "%s", why);
}

static void compare(const struct script *script, const struct outcome *outcome, const char *apart, struct verdict *verdict)
{
    const struct script_recorded *recorded = &script->recorded;
    /* How many threads were above a cap at once, until they gave it back, is chance. */
    if (recorded->has_reserved)
        verdict->memory_error = error_of(smaller(outcome->peak_reserved, recorded->most), smaller(recorded->peak_reserved, recorded->most));
    uint64_t replayed = outcome->slow_stall, stall = recorded->stall, least = replayed < stall ? replayed : stall;
    if (!apart)
        verdict->stall_error = replayed + stall - 2 * least < REPORT_STALL_FREE ? 0 : error_of(replayed, stall);
    if (!recorded->has_reserved)
        refuse(verdict, "the trace does not tell what its pools reserved, so nothing says how far the replay is off");
    else if (verdict->memory_error > REPORT_MEMORY_ERROR)
        snprintf(verdict->why, sizeof verdict->why,
                 "under the policy that was recorded the replay reserved %s at most, and the recording says %s: more than 5 %% apart",
                 SIZE_TEXT(outcome->peak_reserved), SIZE_TEXT(recorded->peak_reserved));
    else if (verdict->stall_error > REPORT_STALL_ERROR)
        snprintf(verdict->why, sizeof verdict->why,
                 "under the policy that was recorded slow calls of the replay took %s, and those of the recording %s: more than 15 %% apart",
                 TIME_TEXT(replayed), TIME_TEXT(stall));
    verdict->can_judge = !verdict->why[0];
}

const char *report_incomplete(const struct script *script)
{
    const struct trace_losses *losses = &script->trace->losses;
    if (losses->blocks || losses->first[0])
        return "parts of the file are lost, and what was done there is not replayed";
    if (losses->events)
        return "the recorder lost events, which are not replayed; record with a larger record.ring";
    return losses->is_closed ? NULL : "the recording was cut before its end";
}

struct verdict report_compare(const struct script *script, const struct outcome *outcome, const char *apart)
{
    struct verdict verdict = {.can_judge = true, .memory_error = -1, .stall_error = -1};
    if (outcome && outcome->is_done)
        compare(script, outcome, apart, &verdict);
    if (!script->trace->header.imported && !script->unaware.is_so && !outcome)
        refuse(&verdict, "the trace does not tell which policy was recorded, so nothing says how far the replay is off");
    else if (outcome && !outcome->is_done)
        snprintf(verdict.why, sizeof verdict.why, "the policy that was recorded could not be replayed: %.400s", outcome->why);
    verdict.can_judge = verdict.can_judge && !(outcome && !outcome->is_done);
    return verdict;
}

struct verdict report_judge(const struct script *script, const struct outcome *outcome, const char *apart)
{
    struct verdict verdict = report_compare(script, outcome, apart);
    const char *why = report_incomplete(script);
    if (why)
        refuse(&verdict, why);
    return verdict;
}

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

static const char *area_text(char text[static 32], const struct outcome *outcome)
{
    snprintf(text, 32, "%.3g GiB s", outcome->area / (double)(UINT64_C(1) << 30) / 1e9);
    return text;
}

static void print_row(struct table *table, const char *name, const struct outcome *outcome, const struct script_recorded *recorded)
{
    char shown[SHOWN_LEN], area[32];
    if (!outcome->is_done) {
        table_row(table, utf8_shown(shown, name), "failed", "", "", "", "", "", "", "", "", "", "", "");
        return;
    }
    table_row(table, utf8_shown(shown, name), TIME_TEXT(outcome->stall), TIME_TEXT(outcome_time(outcome, 0.5)),
              TIME_TEXT(outcome_time(outcome, 0.99)), TIME_TEXT(outcome->worst), SIZE_TEXT(outcome->peak_reserved),
              SIZE_TEXT(outcome_mean_reserved(outcome)), area_text(area, outcome), TIME_TEXT(outcome->slow_stall), COUNT_TEXT(outcome->growths),
              COUNT_TEXT(outcome->trims), COUNT_TEXT(outcome->hits),
              COUNT_TEXT(outcome->refused + recorded->refused - outcome->newly_served));
}

static void print_rungs(const char *name, const struct outcome *outcome)
{
    char shown[SHOWN_LEN];
    if (!outcome->is_done) {
        printf("  %s: %s\n", utf8_shown(shown, name), outcome->why);
        return;
    }
    if (outcome->recoveries) {
        printf("  %s: recovery ran %s time%s", utf8_shown(shown, name), COUNT_TEXT(outcome->recoveries),
               weir__plural(outcome->recoveries));
        for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
            if (outcome->rescues[rung])
                printf(", %s helped %s", weir_rung_name((weir_rung)rung), COUNT_TEXT(outcome->rescues[rung]));
        puts("");
    }
    if (outcome->other_pools)
        printf("  %s: %s request%s of pools that this policy does not have; its default pool served them\n", utf8_shown(shown, name),
               COUNT_TEXT(outcome->other_pools), outcome->other_pools == 1 ? " was" : "s were");
}

static void print_verdict(const struct report *report)
{
    const struct verdict *verdict = &report->verdict;
    const char *apart = report->machine ? report->machine->apart : NULL;
    if (verdict->memory_error >= 0)
        printf("  Against the recording: peak memory %.1f %% off", verdict->memory_error * 100);
    if (verdict->stall_error >= 0)
        printf(", slow calls %.1f %% off", verdict->stall_error * 100);
    if (verdict->memory_error >= 0)
        puts(".");
    if (verdict->memory_error >= 0 && apart)
        printf("  Times are not compared with those of the recording: %s.\n", apart);
    if (!verdict->can_judge)
        printf("  This replay cannot judge policies for this trace: %s.\n", verdict->why);
}

static void print_limits(const struct script *script)
{
    if (!script->has_caches)
        puts("  The trace has level 'pool', which does not tell what caches served: caches are off in all replays.\n"
             "  Record with --level=all.");
    if (!script->has_synchronises)
        puts("  The trace has no synchronises through Weir, so release thresholds in bytes do nothing here.");
    if (script->graphs)
        printf("  %s events of graphs are left out.\n", COUNT_TEXT(script->graphs));
    if (script->unknown_frees)
        printf("  %s frees were of blocks that the trace does not know.\n", COUNT_TEXT(script->unknown_frees));
}

void report_print(const struct report *report)
{
    const struct script *script = report->script;
    const struct script_recorded *recorded = &script->recorded;
    struct table table = TABLE_INIT("lrrrrrrrrrrrr");
    char shown[SHOWN_LEN];
    printf("%s: %s request%s of %s thread%s in %s\n", utf8_shown(shown, script->trace->path), COUNT_TEXT(script->requests),
           weir__plural(script->requests), COUNT_TEXT(script->thread_count), weir__plural(script->thread_count), TIME_TEXT(script->end - script->begin));
    table_row(&table, "POLICY", "STALL", "P50", "P99", "WORST", "PEAK", "MEAN", "AREA", "SLOW", "GROWTHS", "TRIMS", "HITS", "REFUSED");
    const char *peak = recorded->has_reserved ? SIZE_TEXT(recorded->peak_reserved) : "";
    table_row(&table, "(recording)", "", "", "", "", peak, "", "", TIME_TEXT(recorded->stall), "", "", "", COUNT_TEXT(recorded->refused));
    for (size_t i = 0; i < report->count; i++)
        print_row(&table, report->names[i], &report->outcomes[i], recorded);
    table_print(&table, stdout);
    for (size_t i = 0; i < report->count; i++)
        print_rungs(report->names[i], &report->outcomes[i]);
    for (size_t i = 0; i < report->count; i++) {
        char *gain = unaware_gain(script, report->names[i], &report->outcomes[i]);
        printf("%s%s%s", *gain ? "  " : "", gain, *gain ? "\n" : "");
        free(gain);
    }
    char *assumptions = unaware_assumptions(script, "  ");
    fputs(assumptions, stdout);
    free(assumptions);
    print_limits(script);
    if (report->machine)
        printf("  Costs: %s.\n", machine_costs_text(report->machine));
    print_verdict(report);
}

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static const struct json_member members[] = {
    JSON_MEMBER(struct outcome, calls),        JSON_MEMBER(struct outcome, requests),      JSON_MEMBER(struct outcome, hits),
    JSON_MEMBER(struct outcome, refused),      JSON_MEMBER(struct outcome, lost),          JSON_MEMBER(struct outcome, stall),
    JSON_MEMBER(struct outcome, worst),        JSON_MEMBER(struct outcome, slow_stall),
    JSON_MEMBER(struct outcome, elapsed),      JSON_MEMBER(struct outcome, peak_reserved), JSON_MEMBER(struct outcome, peak_live),
    JSON_MEMBER(struct outcome, end_reserved), JSON_MEMBER(struct outcome, growths),       JSON_MEMBER(struct outcome, grown),
    JSON_MEMBER(struct outcome, trims),        JSON_MEMBER(struct outcome, trimmed),       JSON_MEMBER(struct outcome, recoveries),
    JSON_MEMBER(struct outcome, newly_served), JSON_MEMBER(struct outcome, other_pools),
};

void report_json_outcome(struct json *json, const struct outcome *outcome)
{
    json_bool(json, "is_done", outcome->is_done);
    if (!outcome->is_done) {
        json_string(json, "why", outcome->why);
        return;
    }
    json_members(json, outcome, members, sizeof members / sizeof members[0]);
    json_uint(json, "p50", outcome_time(outcome, 0.5));
    json_uint(json, "p99", outcome_time(outcome, 0.99));
    json_uint(json, "mean_reserved", outcome_mean_reserved(outcome));
    json_number(json, "gib_seconds", outcome->area / (double)(UINT64_C(1) << 30) / 1e9, 6);
    json_object(json, "rescues");
    for (unsigned rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        json_uint(json, weir_rung_name((weir_rung)rung), outcome->rescues[rung]);
    json_end(json);
}

void report_json(struct json *json, const struct report *report)
{
    const struct script *script = report->script;
    const struct script_recorded *recorded = &script->recorded;
    const struct verdict *verdict = &report->verdict;
    json_object(json, NULL);
    json_string(json, "file", script->trace->path);
    json_uint(json, "requests", script->requests);
    json_uint(json, "threads", script->thread_count);
    json_uint(json, "streams", script->stream_count);
    json_uint(json, "graph_events", script->graphs);
    json_uint(json, "unknown_frees", script->unknown_frees);
    json_bool(json, "has_caches", script->has_caches);
    unaware_json(json, script);
    json_string(json, "machine", report->machine ? report->machine->settings : NULL);
    machine_costs_json(json, report->machine);
    json_object(json, "recorded");
    json_uint(json, "slow_stall", recorded->stall);
    if (recorded->has_reserved)
        json_uint(json, "peak_reserved", recorded->peak_reserved);
    else
        json_null(json, "peak_reserved");
    json_uint(json, "peak_live", recorded->peak_live);
    json_uint(json, "refused", recorded->refused);
    json_end(json);
    json_bool(json, "can_judge", verdict->can_judge);
    json_string(json, "why_not", verdict->can_judge ? NULL : verdict->why);
    if (verdict->memory_error >= 0) {
        json_number(json, "memory_error", verdict->memory_error, 6);
        if (verdict->stall_error < 0)
            json_null(json, "stall_error");
        else
            json_number(json, "stall_error", verdict->stall_error, 6);
    }
    json_array(json, "policies");
    for (size_t i = 0; i < report->count; i++) {
        json_object(json, NULL);
        json_string(json, "policy", report->names[i]);
        report_json_outcome(json, &report->outcomes[i]);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}
