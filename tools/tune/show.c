/* SPDX-License-Identifier: MIT */
#include "tools/tune/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void add_part(struct table *table, bool is_chosen, const char *name, const struct part_sum *sum, const struct candidate *candidate,
                     const struct outcome *outcome)
{
    table_row(table, is_chosen ? ">" : "", name, sum ? COUNT_TEXT(sum->blocks) : "", sum ? TIME_TEXT(sum->life) : "",
              candidate->is_arena ? "arena" : "new", threshold_text(&(struct text){{0}}, candidate->threshold),
              SIZE_TEXT(outcome->peak_reserved), TIME_TEXT(outcome->stall), TIME_TEXT(outcome->worst));
}

static void show_parts(const struct tune *tune)
{
    const struct division *division = &tune->division;
    struct table table = TABLE_INIT("llrrlrrrr");
    if (!division_best(division, tune, NULL))
        return;
    printf("\nPool %s: parts of it in a pool of their own, each at its best\n", tune->searches[0].pool);
    table_row(&table, "", "PART", "BLOCKS", "MEAN LIFE", "BACKING", "THRESHOLD", "PEAK", "STALL", "WORST");
    add_part(&table, !division->chosen, "none", NULL, &tune->one.candidate, &tune->undivided);
    for (size_t i = 0; i < division->count; i++) {
        const struct division_trial *trial = &division->trials[i];
        if (trial == division_best(division, tune, &trial->part))
            add_part(&table, trial == division->chosen, division_name_of(&trial->part).chars, &trial->part.own, &trial->with.candidate,
                     &trial->outcome);
    }
    table_print(&table, stdout);
}

void show_fronts(const struct tune *tune)
{
    for (size_t i = 0; i < tune->count; i++)
        show_front(&tune->findings[i]);
    show_parts(tune);
}

static const char no_synchronises[] =
    "The trace has no synchronises through Weir, so it is not known what thresholds in bytes would do: all and auto were tried.\n";

/* The pool that a part was given, in a line; the caller's to free(). */
static char *part_text(const struct tune *tune)
{
    const struct division_trial *chosen = tune->division.chosen;
    if (!chosen)
        return must(strdup(""));
    return format_text("A part of pool '%s' has a pool of its own, '%s': %s%s.\n", tune->searches[0].pool, chosen->pool,
                       division_name_of(&chosen->part).chars, chosen->part.is_stream ? "" : ", which the program has to ask for itself");
}

char *show_summary(const struct tune *tune, const struct verification *verification)
{
    char own[GAIN_MAX], cuda[GAIN_MAX] = "", aside[GAIN_MAX], refused[64] = "", first[64] = "";
    if (tune->searched < tune->script.requests)
        snprintf(first, sizeof first, "the first %s of ", COUNT_TEXT(tune->searched));
    if (tune->chosen.refused)
        snprintf(refused, sizeof refused, ", %s request%s refused", COUNT_TEXT(tune->chosen.refused), weir__plural(tune->chosen.refused));
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
    char *part = part_text(tune), *gain = unaware_gain(&tune->script, "this policy", NULL),
         *assumptions = unaware_assumptions(&tune->script, "");
    char *text = format_text("Found by weir tune for %s, from %s%s request%s of %s.\n"
                             "Peak %s, stalls %s in %s%s. Against the policy '%s': %s.\n%s%s%s%s%s"
                             "%s%s%s%sCosts: %s.\n%s",
                             tune_goals[tune->goal], first, COUNT_TEXT(tune->script.requests), weir__plural(tune->script.requests),
                             utf8_shown(shown, tune->script.trace->path),
                             SIZE_TEXT(tune->chosen.peak_reserved), TIME_TEXT(tune->chosen.stall), TIME_TEXT(tune->chosen.elapsed),
                             refused, utf8_shown(base, tune->base_name), own,
                             *cuda ? "Against CUDA's defaults: " : "", cuda, *cuda ? ".\n" : "",
                             kept, part, tune->script.has_synchronises ? "" : no_synchronises, gain, *gain ? "\n" : "", assumptions, machine_costs_text(&tune->machine), measured);
    free(kept);
    free(part);
    free(gain);
    free(assumptions);
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

static void json_candidate(struct json *json, const struct candidate *candidate)
{
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
}

static void json_trial(struct json *json, const struct finding *finding, const struct trial *trial)
{
    const struct candidate *candidate = &trial->candidate;
    json_object(json, NULL);
    json_bool(json, "is_chosen", candidate_equals(candidate, &finding->best.candidate));
    json_candidate(json, candidate);
    json_figures(json, "figures", &trial->outcome);
    /* The most that the pools had in each part of the recording: what a page of the trace draws (weir trace page --tune). */
    json_uints(json, "reserved", trial->outcome.reserved, OUTCOME_SLICES);
    json_end(json);
}

static void json_parts(struct json *json, const struct tune *tune)
{
    const struct division *division = &tune->division;
    json_array(json, "parts");
    for (size_t i = 0; i < division->count; i++) {
        const struct division_trial *trial = &division->trials[i];
        json_object(json, NULL);
        json_string(json, "of", tune->searches[0].pool);
        json_string(json, trial->part.is_stream ? "stream" : "tag", trial->part.name);
        json_string(json, "pool", trial->pool);
        json_bool(json, "is_chosen", trial == division->chosen);
        json_uint(json, "blocks", trial->part.own.blocks);
        json_uint(json, "mean_life", trial->part.own.life);
        json_uint(json, "mean_life_of_the_rest", trial->part.rest.life);
        json_candidate(json, &trial->candidates[1]);
        if (trial->outcome.is_done)
            json_figures(json, "figures", &trial->outcome);
        else
            json_string(json, "why_not", trial->outcome.why);
        json_end(json);
    }
    json_end(json);
}

void show_json(const struct tune *tune, const struct verification *verification, const char *summary)
{
    struct json json = JSON_INIT(stdout);
    char *text = NULL;
    size_t size = 0;
    FILE *out = must(open_memstream(&text, &size));
    tune_write(tune, out, summary);
    fclose(out);
    json_object(&json, NULL);
    json_string(&json, "file", tune->script.trace->path);
    json_string(&json, "for", tune_goals[tune->goal]);
    json_uint(&json, "begin", tune->script.begin);
    json_uint(&json, "end", tune->script.end);
    json_uint(&json, "requests", tune->script.requests);
    json_uint(&json, "requests_searched", tune->searched);
    unaware_json(&json, &tune->script);
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
    json_parts(&json, tune);
    if (verification)
        verify_json(&json, verification);
    json_string(&json, "policy", text);
    json_end(&json);
    free(text);
}

