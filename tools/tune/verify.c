/* SPDX-License-Identifier: MIT */
#include "tools/tune/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/table.h"
#include "tools/trace/view.h"

/* Measuring ---------------------------------------------------------------------------------------------------------------------------- */

bool verify_can(const struct tune *tune)
{
    /* CUDA cannot be asked here: a process that has used it cannot fork for the replays. */
    const struct replay first = {.script = &tune->script, .policy = tune->text, .until = 1};
    struct outcome outcome = {.is_done = true};
    if (tune->script.count)
        replay_run_all(&first, &outcome, 1, NULL);
    if (!outcome.is_done)
        complain("tune: --verify: the trace cannot be replayed on the GPU here: %s. Leave --verify away, or copy the trace to such "
                 "a machine",
                 outcome.why);
    return outcome.is_done;
}

/* The next best of the first pool that has one, with what was found for the other pools; NULL: nothing else is on a front. If a pool was
   divided: all that was found but that. */
static char *next_best(const struct tune *tune)
{
    if (tune->division.chosen)
        return must(strdup(tune->fixed[tune->count]));
    for (size_t i = 0; i < tune->count; i++) {
        const struct finding *finding = &tune->findings[i];
        const struct trial *next = search_next_best(finding->search, &finding->best.candidate);
        if (!next)
            continue;
        char *text = NULL;
        for (size_t j = 0; j < tune->count; j++) {
            const struct candidate *candidate = j == i ? &next->candidate : &tune->findings[j].best.candidate;
            char *longer = candidate_assignments(candidate, tune->findings[j].search->pool, text);
            free(text);
            text = longer;
        }
        return text;
    }
    return NULL;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static struct verify_range range_of(uint64_t values[static VERIFY_ROUNDS])
{
    qsort(values, VERIFY_ROUNDS, sizeof values[0], by_size);
    return (struct verify_range){values[VERIFY_ROUNDS / 2], values[0], values[VERIFY_ROUNDS - 1]};
}

static void show_progress(size_t done, size_t count)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, done == count ? "\r\033[K" : "\r%zu of %zu replays on the GPU ", done, count);
}

static void take(struct contender *contender, const struct outcome *outcomes, size_t step)
{
    uint64_t peaks[VERIFY_ROUNDS], stalls[VERIFY_ROUNDS];
    contender->measured = outcomes[(VERIFY_ROUNDS - 1) * step];
    for (size_t i = 0; i < VERIFY_ROUNDS; i++) {
        const struct outcome *outcome = &outcomes[i * step];
        peaks[i] = outcome->peak_reserved;
        stalls[i] = outcome->stall;
        if (!outcome->is_done)
            contender->measured = *outcome;
    }
    contender->peak = range_of(peaks);
    contender->stall = range_of(stalls);
}

static void measure(struct verification *verification)
{
    struct replay replays[VERIFY_ROUNDS * VERIFY_COUNT];
    struct outcome *outcomes = must(calloc(VERIFY_ROUNDS * VERIFY_COUNT, sizeof *outcomes));
    size_t count = verification->count;
    for (size_t i = 0; i < count * VERIFY_ROUNDS; i++)
        replays[i] = verification->contenders[i % count].replay;
    replay_run_all(replays, outcomes, count, NULL);
    for (size_t i = 0; i < count; i++)
        verification->contenders[i].predicted = outcomes[i];
    for (size_t i = 0; i < count * VERIFY_ROUNDS; i++)
        replays[i].machine = NULL;
    replay_run_all(replays, outcomes, count * VERIFY_ROUNDS, show_progress);
    verification->is_measured = true;
    for (size_t i = 0; i < count; i++) {
        struct contender *contender = &verification->contenders[i];
        take(contender, &outcomes[i], count);
        verification->is_measured = verification->is_measured && contender->predicted.is_done && contender->measured.is_done;
    }
    free(outcomes);
}

/* Comparing ---------------------------------------------------------------------------------------------------------------------------- */

static void add_difference(struct verification *verification, const struct contender *less, const struct contender *more, const char *takes)
{
    char one[SHOWN_LEN], other[SHOWN_LEN];
    size_t len = strlen(verification->order);
    snprintf(verification->order + len, sizeof verification->order - len, "%s'%s' %s than '%s'", len ? ", " : "",
             utf8_shown(one, less->name), takes, utf8_shown(other, more->name));
}

/* Where the measured order of two is not the predicted one. Rounds that overlap have no order. */
static void compare(struct verification *verification, const struct contender *a, const struct contender *b)
{
    if (a->predicted.peak_reserved < b->predicted.peak_reserved && b->peak.most < a->peak.least)
        add_difference(verification, b, a, "takes less memory");
    if (a->predicted.stall < b->predicted.stall && b->stall.most < a->stall.least)
        add_difference(verification, b, a, "waits less");
}

void verify_run(const struct tune *tune, struct verification *verification)
{
    *verification = (struct verification){.count = VERIFY_NEXT_BEST};
    struct contender *contenders = verification->contenders;
    contenders[VERIFY_CHOSEN] = (struct contender){.name = "chosen", .replay = tune_chosen(tune)};
    contenders[VERIFY_IN_FORCE] = (struct contender){.name = tune->base_name, .replay = tune->base_replay};
    contenders[VERIFY_NEXT_BEST] = (struct contender){.name = "next best", .replay = tune->base_replay};
    contenders[VERIFY_NEXT_BEST].replay.assignments = verification->next_best = next_best(tune);
    verification->count += verification->next_best != NULL;
    measure(verification);
    for (size_t i = 0; i < verification->count && verification->is_measured; i++)
        for (size_t j = 0; j < verification->count; j++)
            compare(verification, &contenders[i], &contenders[j]);
}

void verify_free(struct verification *verification)
{
    free(verification->next_best);
    *verification = (struct verification){.count = 0};
}

/* Showing ------------------------------------------------------------------------------------------------------------------------------ */

char *verify_summary(const struct verification *verification)
{
    const struct contender *chosen = &verification->contenders[VERIFY_CHOSEN], *in_force = &verification->contenders[VERIFY_IN_FORCE];
    char shown[SHOWN_LEN];
    if (!verification->is_measured)
        return format_text("It could not be measured on the GPU.");
    return format_text("Measured on the GPU with the whole trace: peak %s, stalls %s. The policy '%s': peak %s, stalls %s.%s%s%s",
                       SIZE_TEXT(chosen->peak.median), TIME_TEXT(chosen->stall.median), utf8_shown(shown, in_force->name),
                       SIZE_TEXT(in_force->peak.median), TIME_TEXT(in_force->stall.median),
                       *verification->order ? "\nThe measured order is not the predicted one: " : "", verification->order,
                       *verification->order ? "." : "");
}

static void print_row(struct table *table, const struct contender *contender)
{
    const struct outcome *predicted = &contender->predicted, *measured = &contender->measured;
    char shown[SHOWN_LEN];
    bool is_done = measured->is_done;
    table_row(table, utf8_shown(shown, contender->name), predicted->is_done ? SIZE_TEXT(predicted->peak_reserved) : "failed",
              is_done ? SIZE_TEXT(contender->peak.median) : "failed", predicted->is_done ? TIME_TEXT(predicted->stall) : "failed",
              is_done ? TIME_TEXT(contender->stall.median) : "failed", is_done ? TIME_TEXT(contender->stall.least) : "",
              is_done ? TIME_TEXT(contender->stall.most) : "", is_done ? COUNT_TEXT(measured->refused) : "");
}

void verify_print(const struct verification *verification)
{
    struct table table = TABLE_INIT("lrrrrrrr");
    printf("\nOn the GPU, the whole trace, medians of %d rounds in turn:\n", VERIFY_ROUNDS);
    table_row(&table, "POLICY", "PEAK PREDICTED", "MEASURED", "STALL PREDICTED", "MEASURED", "LEAST", "MOST", "REFUSED");
    for (size_t i = 0; i < verification->count; i++)
        print_row(&table, &verification->contenders[i]);
    table_print(&table, stdout);
    for (size_t i = 0; i < verification->count; i++) {
        const struct contender *contender = &verification->contenders[i];
        const struct outcome *failed = !contender->predicted.is_done ? &contender->predicted : &contender->measured;
        if (!failed->is_done)
            printf("  %s: %s\n", SHOWN(contender->name), failed->why);
    }
    if (verification->next_best)
        printf("  Next best: %s\n", SHOWN(verification->next_best));
    if (*verification->order)
        printf("  The measured order is not the predicted one: %s.\n", verification->order);
    else if (verification->is_measured)
        puts("  The measured order is the predicted one, where rounds do not overlap.");
}

static void json_range(struct json *json, const char *key, const struct verify_range *range)
{
    json_object(json, key);
    json_uint(json, "median", range->median);
    json_uint(json, "least", range->least);
    json_uint(json, "most", range->most);
    json_end(json);
}

static void json_contender(struct json *json, const struct contender *contender)
{
    const struct outcome *failed = !contender->predicted.is_done ? &contender->predicted : &contender->measured;
    json_object(json, NULL);
    json_string(json, "policy", contender->name);
    json_string(json, "assignments", contender->replay.assignments);
    json_bool(json, "is_measured", failed->is_done);
    if (failed->is_done) {
        json_uint(json, "predicted_peak", contender->predicted.peak_reserved);
        json_uint(json, "predicted_stall", contender->predicted.stall);
        json_range(json, "measured_peak", &contender->peak);
        json_range(json, "measured_stall", &contender->stall);
        json_uint(json, "refused", contender->measured.refused);
    } else {
        json_string(json, "why", failed->why);
    }
    json_end(json);
}

void verify_json(struct json *json, const struct verification *verification)
{
    json_object(json, "verified");
    json_uint(json, "rounds", VERIFY_ROUNDS);
    json_bool(json, "is_measured", verification->is_measured);
    json_string(json, "other_order", *verification->order ? verification->order : NULL);
    json_array(json, "policies");
    for (size_t i = 0; i < verification->count; i++)
        json_contender(json, &verification->contenders[i]);
    json_end(json);
    json_end(json);
}
