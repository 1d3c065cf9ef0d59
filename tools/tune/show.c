/* SPDX-License-Identifier: MIT */
#include "tools/tune/show.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/table.h"
#include "tools/trace/view.h"

/* Text --------------------------------------------------------------------------------------------------------------------------------- */

const char *const tune_goals[GOAL_BALANCE + 1] = {[GOAL_TIME] = "time", [GOAL_MEMORY] = "memory", [GOAL_BALANCE] = "balance"};

static const char *threshold_text(struct text *text, uint64_t bytes)
{
    return bytes >= CANDIDATE_AUTO ? candidate_threshold(text->chars, bytes) : format_size(text, bytes);
}

static void show_front(const struct finding *finding)
{
    size_t count;
    const struct trial **front = search_front(finding->search, &count);
    const bool has_cap = finding->search->max_size != 0;
    struct table table = TABLE_INIT(has_cap ? "llrrrrrrrrr" : "llrrrrrrrr");
    printf("\nPool %s: what no other policy beats, of %zu that were replayed\n", finding->search->pool, finding->search->count);
    table_row(&table, "", "BACKING", "THRESHOLD", "CACHED UP TO", "OF A STREAM", "SMALL BELOW", "INITIAL");
    if (has_cap)
        table_row(&table, "MAX SIZE");
    table_row(&table, "PEAK", "STALL", "WORST");
    for (size_t i = 0; i < count; i++) {
        const struct candidate *candidate = &front[i]->candidate;
        const struct outcome *outcome = &front[i]->outcome;
        bool is_cached = candidate->largest > 0;
        table_row(&table, candidate_equals(candidate, &finding->best.candidate) ? ">" : "", candidate->is_arena ? "arena" : "new",
                  threshold_text(&(struct text){{0}}, candidate->threshold), is_cached ? SIZE_TEXT(candidate->largest) : "off",
                  is_cached ? SIZE_TEXT(candidate->per_stream) : "", candidate->is_arena ? "" : SIZE_TEXT(candidate->small_below),
                  SIZE_TEXT(candidate->initial));
        if (has_cap)
            table_row(&table, SIZE_TEXT(candidate->max_size));
        table_row(&table, SIZE_TEXT(outcome->peak_reserved), TIME_TEXT(outcome->stall), TIME_TEXT(outcome->worst));
    }
    table_print(&table, stdout);
    free(front);
}

void show_fronts(const struct tune *tune)
{
    for (size_t i = 0; i < tune->count; i++)
        show_front(&tune->findings[i]);
}

static void gain_text(char text[static 160], const struct outcome *now, const struct outcome *before)
{
    bool is_less = now->peak_reserved <= before->peak_reserved, is_faster = now->stall <= before->stall;
    bool is_refusing = now->refused > before->refused;
    int len = snprintf(text, 160, "%s %s at the peak, %s %s of stalls",
             SIZE_TEXT(is_less ? before->peak_reserved - now->peak_reserved : now->peak_reserved - before->peak_reserved),
             is_less ? "less" : "more", TIME_TEXT(is_faster ? before->stall - now->stall : now->stall - before->stall),
             is_faster ? "less" : "more");
    if (now->refused != before->refused)
        snprintf(text + len, 160 - (size_t)len, ", %s requests %s refused",
                 COUNT_TEXT(is_refusing ? now->refused - before->refused : before->refused - now->refused), is_refusing ? "more" : "fewer");
}

static const char no_synchronises[] =
    "The trace has no synchronises through Weir, so it is not known what thresholds in bytes would do: all and auto were tried.\n";

char *show_summary(const struct tune *tune, const struct verification *verification)
{
    char own[160], cuda[160] = "", aside[160], refused[64] = "", first[64] = "";
    if (tune->searched < tune->script.requests)
        snprintf(first, sizeof first, "the first %s of ", COUNT_TEXT(tune->searched));
    if (tune->chosen.refused)
        snprintf(refused, sizeof refused, ", %s requests refused", COUNT_TEXT(tune->chosen.refused));
    gain_text(own, &tune->chosen, &tune->in_force);
    if (tune->has_cuda)
        gain_text(cuda, &tune->chosen, &tune->cuda.outcome);
    gain_text(aside, &tune->aside_chosen, &tune->aside_in_force);
    bool is_aside_done = tune->aside_chosen.is_done && tune->aside_in_force.is_done;
    char *kept = tune->split == tune->script.count ? format_text("The trace is too short to keep a part of it aside.\n")
                 : is_aside_done ? format_text("On the last third of the trace, which was kept aside: %s.\n", aside)
                                 : format_text("The part of the trace that was kept aside could not be replayed.\n");
    char shown[SHOWN_LEN], base[SHOWN_LEN];
    char *measured = verification ? verify_summary(verification) : format_text("Measure before you rely on it, as with --verify.");
    char *text = format_text("Found by weir tune for %s, from %s%s requests of %s.\n"
                             "Peak %s, stalls %s in %s%s. Against the policy '%s': %s.\n%s%s%s%s"
                             "%sCosts: %s.\n%s",
                             tune_goals[tune->goal], first, COUNT_TEXT(tune->script.requests), view_shown(shown, tune->script.trace->path),
                             SIZE_TEXT(tune->chosen.peak_reserved), TIME_TEXT(tune->chosen.stall), TIME_TEXT(tune->chosen.elapsed),
                             refused, view_shown(base, tune->base_name), own,
                             *cuda ? "Against CUDA's defaults: " : "", cuda, *cuda ? ".\n" : "",
                             kept, tune->script.has_synchronises ? "" : no_synchronises, machine_costs_text(&tune->machine), measured);
    free(kept);
    free(measured);
    return text;
}

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void json_figures(struct json *json, const char *key, const struct outcome *outcome)
{
    json_object(json, key);
    json_uint(json, "peak_reserved", outcome->peak_reserved);
    json_uint(json, "stall", outcome->stall);
    json_uint(json, "worst", outcome->worst);
    json_uint(json, "elapsed", outcome->elapsed);
    json_uint(json, "refused", outcome->refused);
    json_end(json);
}

static void json_trial(struct json *json, const struct finding *finding, const struct trial *trial)
{
    const struct candidate *candidate = &trial->candidate;
    json_object(json, NULL);
    json_bool(json, "is_chosen", candidate_equals(candidate, &finding->best.candidate));
    json_string(json, "backing", candidate->is_arena ? "arena" : "new");
    if (candidate->threshold == CANDIDATE_AUTO)
        json_string(json, "release_threshold", "auto");
    else
        json_uint(json, "release_threshold", candidate->threshold);
    json_uint(json, "cache_largest", candidate->largest);
    json_uint(json, "cache_per_stream", candidate->per_stream);
    json_uint(json, "small_below", candidate->small_below);
    json_uint(json, "initial_size", candidate->initial);
    if (candidate->max_size)
        json_uint(json, "max_size", candidate->max_size);
    else
        json_null(json, "max_size");
    json_figures(json, "figures", &trial->outcome);
    json_end(json);
}

void show_json(const struct tune *tune, const struct verification *verification, const char *summary)
{
    struct json json = JSON_INIT(stdout);
    char *text = NULL;
    size_t size = 0;
    FILE *out = must(open_memstream(&text, &size));
    advice_write(out, tune->base, tune->findings, tune->count, summary);
    fclose(out);
    json_object(&json, NULL);
    json_string(&json, "file", tune->script.trace->path);
    json_string(&json, "for", tune_goals[tune->goal]);
    json_uint(&json, "requests", tune->script.requests);
    json_uint(&json, "requests_searched", tune->searched);
    machine_costs_json(&json, &tune->machine);
    json_string(&json, "policy_in_force", tune->base_name);
    json_figures(&json, "in_force", &tune->in_force);
    json_figures(&json, "chosen", &tune->chosen);
    json_figures(&json, "kept_aside_in_force", &tune->aside_in_force);
    json_figures(&json, "kept_aside_chosen", &tune->aside_chosen);
    json_array(&json, "pools");
    for (size_t i = 0; i < tune->count; i++) {
        size_t count;
        const struct trial **front = search_front(tune->findings[i].search, &count);
        json_object(&json, NULL);
        json_string(&json, "pool", tune->findings[i].search->pool);
        json_uint(&json, "replayed", tune->findings[i].search->count);
        json_array(&json, "front");
        for (size_t j = 0; j < count; j++)
            json_trial(&json, &tune->findings[i], front[j]);
        json_end(&json);
        json_end(&json);
        free(front);
    }
    json_end(&json);
    if (verification)
        verify_json(&json, verification);
    json_string(&json, "policy", text);
    json_end(&json);
    free(text);
}

