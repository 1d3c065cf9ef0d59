/* SPDX-License-Identifier: MIT */
/*
 * why.c - `weir trace why`: of a request that found no memory, who had it, why the request failed, and which changes of the policy would
 * have served it. A view of `weir trace` that stands here, above the others, as it replays.
 */
#include "tools/replay/refusal.h"
#include "tools/replay/machine.h"
#include "tools/replay/policy.h"
#include "tools/replay/report.h"
#include "tools/replay/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/table.h"

#define GUESSES 8
#define TIGHTER 8       /* bounds that are tried below the recorded one, */
#define TIGHTER_PART 32 /* each lower by such a part of it */
#define WHY_LEN 640

/* What replays up to the refusal say. */
struct answer {
    const struct refusal *refusal;
    struct script script;
    struct machine machine;
    struct changes changes;
    char *policy, *settings; /* as recorded; of the simulator */
    uint64_t memory;         /* bytes that the pools of the device had in the replays; 0: as the trace has it */
    char *cap;               /* assignment of a lower max_size that the replays have; NULL: they have the recorded one */
    struct outcome recorded;
    struct outcome *outcomes;     /* of changes */
    size_t *served, served_count; /* changes that serve it and refuse nothing else, the cheapest first */
    size_t costly;                /* changes that serve it, but refuse others that were served */
    char why_not[WHY_LEN];        /* "": it can judge */
    char *guesses[GUESSES];       /* why that is a guess */
    size_t guess_count;
};

__attribute__((format(printf, 2, 3))) static void guess(struct answer *answer, const char *format, ...)
{
    va_list args;
    if (answer->guess_count == GUESSES)
        return;
    va_start(args, format);
    answer->guesses[answer->guess_count++] = make_text(format, args);
    va_end(args);
}

/* Replaying ---------------------------------------------------------------------------------------------------------------------------- */

static bool serves(const struct outcome *outcome)
{
    return outcome->is_done && outcome->is_last_served;
}

static bool is_cheaper(const struct outcome *a, const struct outcome *b)
{
    return a->area != b->area ? a->area < b->area : a->stall < b->stall;
}

static char *settings_of(const struct answer *answer, uint64_t memory)
{
    return memory ? format_text("%s,memory=%" PRIu64, answer->machine.settings, memory) : format_text("%s", answer->machine.settings);
}

/* Replays the recorded policy up to the refusal, each time with settings and assignments of its own; NULL: with the answer's, with none. */
static void replay_each(const struct answer *answer, char *const *settings, char *const *assignments, struct outcome *outcomes, size_t count)
{
    struct replay *replays = must(calloc(count + 1, sizeof *replays));
    for (size_t i = 0; i < count; i++)
        replays[i] = (struct replay){.script = &answer->script, .policy = answer->policy, .machine = settings ? settings[i] : answer->settings,
                                     .assignments = assignments ? assignments[i] : NULL, .pair_arena = answer->machine.pair_arena};
    replay_run_all(replays, outcomes, count, NULL);
    free(replays);
}

enum doubt { DOUBT_NONE, DOUBT_SOME, DOUBT_ALL };

/*
 * What can be said against the replay of the recorded policy: all, if it is of other memory or serves the request; some, if it refuses others,
 * as two layouts near a cap differ by a block. How long it took decides nothing of whom it serves.
 */
static enum doubt doubt(const struct answer *answer, const struct outcome *recorded, char text[static WHY_LEN])
{
    const struct verdict verdict = report_compare(&answer->script, recorded, "only memory serves a request");
    text[0] = '\0';
    if (serves(recorded))
        snprintf(
            text, WHY_LEN,
            "under the policy that was recorded the replay serves the request; what refused it, as work of the GPU that was not done in "
            "time, or what other threads had at that moment, is not in the trace");
    else if (!verdict.can_judge)
        snprintf(text, WHY_LEN, "%s", verdict.why);
    return text[0] ? DOUBT_ALL : recorded->refused ? DOUBT_SOME : DOUBT_NONE;
}

/*
 * Replays the recorded policy, to know whether replays can judge. What others had of the device is not in the trace: it was at least what
 * the refusal shows, and where a pool of CUDA's took all that was left before it failed, the most that the pools ever held is all that they
 * had.
 */
static void settle(struct answer *answer)
{
    const struct refusal *refusal = answer->refusal;
    uint64_t peak = answer->script.recorded.peak_reserved;
    const uint64_t memories[] = {refusal->others ? refusal->memory - refusal->others : 0, peak};
    size_t count = !refusal->event.b && peak && peak < refusal->memory ? 2 : 1;
    struct outcome *outcomes = must(calloc(2, sizeof *outcomes));
    char *settings[2] = {NULL}, text[WHY_LEN];
    for (size_t i = 0; i < count; i++)
        settings[i] = settings_of(answer, memories[i]);
    replay_each(answer, settings, NULL, outcomes, count);
    size_t best = count == 2 && doubt(answer, &outcomes[1], text) < doubt(answer, &outcomes[0], text);
    doubt(answer, &outcomes[best], answer->why_not);
    answer->recorded = outcomes[best];
    answer->memory = memories[best];
    answer->settings = settings[best];
    if (count == 2)
        free(settings[!best]);
    free(outcomes);
}

/*
 * Threads of the program were between two calls each, and one after the other they need less at a time. Where a replay of several serves the
 * request for that, replays have the highest bound below the recorded one within which it is refused.
 */
static void tighten(struct answer *answer)
{
    const struct refusal *refusal = answer->refusal;
    bool at_cap = refusal->event.b;
    uint64_t bound = at_cap ? refusal_cap(refusal) : answer->memory ? answer->memory : refusal->memory, bounds[TIGHTER];
    char *texts[TIGHTER];
    if (!serves(&answer->recorded) || answer->script.asking_count < 2 || bound < (uint64_t)TIGHTER_PART << 20)
        return;
    struct outcome *outcomes = must(calloc(TIGHTER, sizeof *outcomes));
    for (unsigned i = 0; i < TIGHTER; i++) {
        bounds[i] = bound / TIGHTER_PART * (TIGHTER_PART - 1 - i) >> 20 << 20;
        texts[i] = at_cap ? format_text("pools.%s.max_size=%" PRIu64 "MiB", answer->changes.pools[0], bounds[i] >> 20)
                          : settings_of(answer, bounds[i]);
    }
    replay_each(answer, at_cap ? NULL : texts, at_cap ? texts : NULL, outcomes, TIGHTER);
    unsigned best = 0;
    while (best < TIGHTER && (!outcomes[best].is_done || serves(&outcomes[best])))
        best++;
    for (unsigned i = 0; i < TIGHTER; i++)
        if (i != best)
            free(texts[i]);
    if (best < TIGHTER) {
        answer->recorded = outcomes[best];
        answer->why_not[0] = '\0';
        if (at_cap) {
            answer->cap = texts[best];
        } else {
            free(answer->settings);
            answer->settings = texts[best];
            answer->memory = bounds[best];
        }
    }
    free(outcomes);
}

/* Replays changes from `first` on. A change of max_size stands in place of the lower one. */
static void try_changes(struct answer *answer, size_t first)
{
    size_t count = answer->changes.count - first;
    char **assignments = must(calloc(count + 1, sizeof *assignments));
    for (size_t i = 0; i < count; i++) {
        const char *own = answer->changes.items[first + i].assignments;
        bool has_cap = answer->cap && !strstr(own, ".max_size=");
        assignments[i] = format_text("%s%s%s", has_cap ? answer->cap : "", has_cap ? "," : "", own);
    }
    answer->outcomes = must(realloc(answer->outcomes, (answer->changes.count + 1) * sizeof *answer->outcomes));
    replay_each(answer, NULL, assignments, answer->outcomes + first, count);
    for (size_t i = 0; i < count; i++)
        free(assignments[i]);
    free(assignments);
}

/* Whether a smaller change of the same key comes to the same. */
static bool is_needless(const struct answer *answer, size_t place)
{
    const struct outcome *outcome = &answer->outcomes[place];
    const char *text = answer->changes.items[place].text;
    size_t key = strcspn(text, ":") + 1;
    for (size_t i = 0; i < answer->served_count; i++) {
        const struct outcome *other = &answer->outcomes[answer->served[i]];
        if (strncmp(answer->changes.items[answer->served[i]].text, text, key) == 0 && other->area == outcome->area &&
            other->stall == outcome->stall && other->peak_reserved == outcome->peak_reserved)
            return true;
    }
    return false;
}

/* In the order of what they cost; those that cost the same in the order in which they were tried. */
static void collect(struct answer *answer)
{
    answer->served = must(realloc(answer->served, (answer->changes.count + 1) * sizeof *answer->served));
    answer->served_count = answer->costly = 0;
    for (size_t i = 0; i < answer->changes.count; i++) {
        const struct outcome *outcome = &answer->outcomes[i];
        if (!serves(outcome) || outcome->refused > answer->recorded.refused) {
            answer->costly += serves(outcome);
            continue;
        }
        if (is_needless(answer, i))
            continue;
        size_t place = answer->served_count++;
        for (; place && is_cheaper(outcome, &answer->outcomes[answer->served[place - 1]]); place--)
            answer->served[place] = answer->served[place - 1];
        answer->served[place] = i;
    }
}

/* Judging ------------------------------------------------------------------------------------------------------------------------------ */

static void find_guesses(struct answer *answer)
{
    const struct script *script = &answer->script;
    const char *lack = report_incomplete(script), *reason = script->trace->header.reason;
    if (lack)
        guess(answer, "%s", lack);
    if (!script->has_caches)
        guess(answer, "the trace has level 'pool', which does not tell what caches served, so caches are off in all replays");
    if (reason && strcmp(reason, "file") != 0)
        guess(answer, "the recording began when the program had memory already, and the replays lay that out anew");
    if (answer->memory)
        guess(answer,
              "what others had of the device is not in the trace: the replays have %s of it, with which the request is refused as it was",
              SIZE_TEXT(answer->memory));
    if (answer->cap)
        guess(answer, "what other threads had at that moment is not in the trace: the replays have %s, with which the request is refused as it was",
              answer->cap);
    if (answer->recorded.refused)
        guess(answer, "under the policy that was recorded the replay refuses %s of %s requests before it that were served",
              COUNT_TEXT(answer->recorded.refused), COUNT_TEXT(answer->recorded.requests));
    const struct verdict verdict = report_compare(script, &answer->recorded, answer->machine.apart);
    if (answer->machine.apart)
        guess(answer, "times are not compared with those of the recording: %s", answer->machine.apart);
    else if (verdict.stall_error > REPORT_STALL_ERROR)
        guess(answer, "times are %.0f %% off: under the policy that was recorded slow calls of the replay took %s, and those of the recording %s",
              verdict.stall_error * 100, TIME_TEXT(answer->recorded.slow_stall), TIME_TEXT(script->recorded.stall));
    if (script->graphs)
        guess(answer, "%s events of graphs are not replayed", COUNT_TEXT(script->graphs));
    if (script->unknown_frees)
        guess(answer, "%s frees were of blocks that the trace does not know", COUNT_TEXT(script->unknown_frees));
}

/* Whether a pool was asleep at the refusal. */
static bool had_sleeper(const struct model *model)
{
    size_t i = 0;
    while (i < model->pool_count && !model->pools[i].is_asleep)
        i++;
    return i < model->pool_count;
}

/* Whether there is something to replay. */
static bool can_replay(struct answer *answer)
{
    const struct trace *trace = answer->script.trace;
    const char *why = NULL;
    if (!answer->policy && answer->script.unaware.is_so && !unaware_is_replayed(answer->refusal->event.pool))
        why = "the program called CUDA by itself, and no pool of a device serves such memory";
    else if (!answer->policy && answer->script.unaware.is_so)
        why = "the program called CUDA by itself, under no policy; 'weir replay --policy=FILE' says whether it is refused under one";
    else if (!answer->policy)
        why = "the trace does not tell which policy was recorded";
    else if (trace->header.reason && strcmp(trace->header.reason, "out of memory") == 0)
        why = "the file has only the last events before the request, and not how what was live came to be; record with 'weir record' or "
              "record.file";
    else if (!answer->changes.pool_count)
        why = "the name of the pool is none that a policy can have";
    else if (!answer->refusal->event.b && answer->refusal->model.pools[answer->refusal->event.pool->number + 1].has_changed)
        why = "the settings of the pool had changed since the recording began, and no replay changes them";
    else if (had_sleeper(&answer->refusal->model))
        why = "a pool was asleep then, and no replay puts pools to sleep";
    if (why)
        snprintf(answer->why_not, sizeof answer->why_not, "%s", why);
    return !why;
}

/* false, after a complaint: there is no answer. */
static bool answer_make(struct answer *answer, const struct refusal *refusal, struct trace *trace)
{
    *answer = (struct answer){.refusal = refusal};
    if (!script_make_until(&answer->script, trace, refusal->events) || machine_of(&answer->script, NULL, &answer->machine) != EXIT_GOOD)
        return false;
    char *recorded = replay_policy_recorded(trace);
    answer->policy = recorded ? replay_policy_by_index(recorded, trace) : NULL;
    free(recorded);
    changes_make(&answer->changes, &answer->script, refusal);
    if (can_replay(answer)) {
        settle(answer);
        tighten(answer);
    }
    if (answer->why_not[0])
        return true;
    find_guesses(answer);
    try_changes(answer, 0);
    collect(answer);
    if (answer->served_count)
        return true;
    size_t first = answer->changes.count;
    changes_add_several(&answer->changes);
    try_changes(answer, first);
    collect(answer);
    return true;
}

static void answer_free(struct answer *answer)
{
    for (size_t i = 0; i < answer->guess_count; i++)
        free(answer->guesses[i]);
    free(answer->policy);
    free(answer->settings);
    free(answer->cap);
    free(answer->outcomes);
    free(answer->served);
    changes_free(&answer->changes);
    machine_free(&answer->machine);
    script_free(&answer->script);
}

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

static void print_refusal(struct view_file *file, const struct refusal *refusal)
{
    char lines[REFUSAL_LINES][REFUSAL_LINE_LEN];
    const struct trace_event *event = &refusal->event;
    printf("At %s pool %s had no %s for stream %s: %s. It is refusal %s of %s.\n", MOMENT_TEXT(file, event->time), POOL_TEXT(event->pool),
           SIZE_TEXT(event->a), STREAM_TEXT(event->stream, event->stream_name), refusal_reason(refusal),
           COUNT_TEXT(refusal->number), COUNT_TEXT(refusal->count));
    size_t count = refusal_conclude(refusal, lines);
    for (size_t i = 0; i < count; i++)
        printf("  %s\n", lines[i]);
}

static void print_pools(const struct answer *answer)
{
    printf("  Changes are of pool");
    for (size_t i = 0; i < answer->changes.pool_count; i++)
        printf("%s %s", i == 0 ? (answer->changes.pool_count > 1 ? "s" : "") : ",", SHOWN(answer->changes.pools[i]));
    puts(".");
}

static void print_row(struct table *table, const char *name, const struct outcome *outcome)
{
    table_row(table, name, TIME_TEXT(outcome->stall), TIME_TEXT(outcome->worst), SIZE_TEXT(outcome->peak_reserved),
              SIZE_TEXT(outcome_mean_reserved(outcome)));
}

static void print_changes(const struct view *view, const struct answer *answer)
{
    struct table table = TABLE_INIT("lrrrr");
    table_row(&table, "CHANGE", "STALL", "WORST", "PEAK", "MEAN");
    print_row(&table, "(none: refused)", &answer->recorded);
    for (size_t i = 0; i < answer->served_count && i < view->limit; i++)
        print_row(&table, answer->changes.items[answer->served[i]].text, &answer->outcomes[answer->served[i]]);
    table_print(&table, stdout);
    if (answer->served_count > view->limit)
        printf("  and %s more\n", COUNT_TEXT(answer->served_count - view->limit));
}

static void print_answer(const struct view *view, const struct answer *answer)
{
    putchar('\n');
    if (answer->why_not[0]) {
        printf("Which change of the policy would have served it cannot be judged: %s.\n", SHOWN(answer->why_not));
        return;
    }
    if (answer->served_count) {
        puts("Up to there replayed, these changes of the policy would have served it, the cheapest in memory by time first:");
        print_changes(view, answer);
        print_pools(answer);
    } else {
        printf("No policy that was tried would have served it; %s were.\n", COUNT_TEXT(answer->changes.count));
    }
    if (answer->costly)
        printf("  %s more would have, but would have refused requests before it that were served.\n", COUNT_TEXT(answer->costly));
    printf("  Costs: %s.\n", machine_costs_text(&answer->machine));
    for (size_t i = 0; i < answer->guess_count; i++)
        printf("  This is a guess: %s.\n", answer->guesses[i]);
}

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static void json_refusal(struct json *json, const struct refusal *refusal)
{
    char lines[REFUSAL_LINES][REFUSAL_LINE_LEN];
    size_t count = refusal_conclude(refusal, lines);
    json_object(json, "refusal");
    json_uint(json, "number", refusal->number);
    json_uint(json, "count", refusal->count);
    json_uint(json, "time", refusal->event.time);
    json_uint(json, "asked", refusal->event.a);
    json_bool(json, "at_cap", refusal->event.b);
    json_string(json, "reason", refusal_reason(refusal));
    view_json_pool(json, refusal->event.pool);
    view_json_stream(json, refusal->event.stream, refusal->event.stream_name);
    json_uint(json, "pool_live", refusal_live(refusal, false));
    json_uint(json, "pool_reserved", refusal->model.pools[refusal->event.pool->number + 1].reserved);
    json_uint(json, "device_live", refusal_live(refusal, true));
    json_uint(json, "max_size", refusal_cap(refusal));
    json_uint(json, "memory", refusal->memory);
    json_uint(json, "leave_free", refusal->leave);
    json_uint(json, "others_at_least", refusal->others);
    json_array(json, "conclusions");
    for (size_t i = 0; i < count; i++)
        json_string(json, NULL, lines[i]);
    json_end(json);
    json_end(json);
}

static void json_answer(struct json *json, const struct answer *answer)
{
    bool can_judge = !answer->why_not[0];
    json_bool(json, "can_judge", can_judge);
    json_string(json, "why_not", can_judge ? NULL : answer->why_not);
    json_array(json, "guesses");
    for (size_t i = 0; i < answer->guess_count; i++)
        json_string(json, NULL, answer->guesses[i]);
    json_end(json);
    machine_costs_json(json, &answer->machine);
    if (!can_judge)
        return;
    json_uint(json, "tried", answer->changes.count);
    json_uint(json, "refusing_others", answer->costly);
    json_object(json, "recorded");
    report_json_outcome(json, &answer->recorded);
    json_end(json);
    json_array(json, "failed");
    for (size_t i = 0; i < answer->changes.count; i++) {
        if (answer->outcomes[i].is_done)
            continue;
        json_object(json, NULL);
        json_string(json, "change", answer->changes.items[i].text);
        json_string(json, "why", answer->outcomes[i].why);
        json_end(json);
    }
    json_end(json);
    json_array(json, "changes");
    for (size_t i = 0; i < answer->served_count; i++) {
        const struct change *change = &answer->changes.items[answer->served[i]];
        json_object(json, NULL);
        json_string(json, "change", change->text);
        json_string(json, "assignments", change->assignments);
        report_json_outcome(json, &answer->outcomes[answer->served[i]]);
        json_end(json);
    }
    json_end(json);
}

/* The whole ---------------------------------------------------------------------------------------------------------------------------- */

int view_why(const struct view *view, struct view_file *file)
{
    struct refusal refusal;
    struct answer answer;
    if (!refusal_find(&refusal, view, file)) {
        refusal_free(&refusal);
        return EXIT_FAILED;
    }
    if (view->json)
        json_refusal(view->json, &refusal);
    else
        print_refusal(file, &refusal);
    const bool has_segments = refusal.event.pool->flags & TRACE_POOL_UNAWARE && view_has_segments(&file->trace);
    if (view->json)
        json_bool(view->json, "has_segments", has_segments);
    else if (has_segments)
        puts("  " VIEW_SEGMENTS);
    bool is_made = answer_make(&answer, &refusal, &file->trace);
    if (is_made && view->json)
        json_answer(view->json, &answer);
    else if (is_made)
        print_answer(view, &answer);
    if (!view->json)
        putchar('\n');
    view_print_holders(view, file, &refusal.model, refusal.event.time);
    int status = !is_made || answer.why_not[0] ? EXIT_FAILED : EXIT_GOOD;
    answer_free(&answer);
    refusal_free(&refusal);
    return status;
}
