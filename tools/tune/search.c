/* SPDX-License-Identifier: MIT */
#include "tools/tune/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"

bool candidate_equals(const struct candidate *a, const struct candidate *b)
{
    return a->threshold == b->threshold && a->largest == b->largest && a->per_stream == b->per_stream && a->small_below == b->small_below &&
           a->initial == b->initial && a->max_size == b->max_size && a->is_arena == b->is_arena;
}

/* The caller's to free. */
static char *cache_text(const struct candidate *candidate, const char *pool)
{
    if (candidate->largest == 0)
        return format_text("pools.%s.cache=off", pool);
    uint64_t per_device = 4 * candidate->per_stream;
    return format_text("pools.%s.cache.largest=%" PRIu64 ",pools.%s.cache.per_stream=%" PRIu64 ",pools.%s.cache.per_device=%" PRIu64,
                       pool, candidate->largest, pool, candidate->per_stream, pool, per_device);
}

char *candidate_assignments(const struct candidate *candidate, const char *pool, const char *before)
{
    char *cache = cache_text(candidate, pool);
    char threshold[32];
    const char *first = before ? before : "";
    /* No key may be set twice. */
    bool needs_keeper = candidate->threshold == CANDIDATE_AUTO && !policy_sets(first, "keeper");
    char *cap = candidate->max_size ? format_text(",pools.%s.max_size=%" PRIu64, pool, candidate->max_size) : format_text("%s", "");
    char *text = format_text("%s%s%s%s,pools.%s.backing=%s,pools.%s.release_threshold=%s,pools.%s.small_below=%" PRIu64
                             ",pools.%s.initial_size=%" PRIu64 "%s",
                             first, *first ? "," : "", needs_keeper ? "keeper=true," : "", cache, pool,
                             candidate->is_arena ? "arena" : "new", pool, candidate_threshold(threshold, candidate->threshold), pool,
                             candidate->is_arena ? 0 : candidate->small_below, pool, candidate->initial, cap);
    free(cache);
    free(cap);
    return text;
}

const char *candidate_bytes(char text[static 32], uint64_t bytes)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    unsigned unit = 0;
    for (; unit < 3 && bytes && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(text, 32, "%" PRIu64 "%s", bytes, units[unit]);
    return text;
}

const char *candidate_threshold(char text[static 32], uint64_t threshold)
{
    return threshold == CANDIDATE_ALL ? "all" : threshold == CANDIDATE_AUTO ? "auto" : candidate_bytes(text, threshold);
}

const char *gain_text(char text[static GAIN_MAX], const struct outcome *now, const struct outcome *before)
{
    bool is_less = now->peak_reserved <= before->peak_reserved, is_faster = now->stall <= before->stall;
    bool is_refusing = now->refused > before->refused;
    int len = snprintf(text, GAIN_MAX, "%s %s at the peak, %s %s of stalls",
                       SIZE_TEXT(is_less ? before->peak_reserved - now->peak_reserved : now->peak_reserved - before->peak_reserved),
                       is_less ? "less" : "more", TIME_TEXT(is_faster ? before->stall - now->stall : now->stall - before->stall),
                       is_faster ? "less" : "more");
    if (now->refused != before->refused)
        snprintf(text + len, GAIN_MAX - (size_t)len, ", %s requests %s refused",
                 COUNT_TEXT(is_refusing ? now->refused - before->refused : before->refused - now->refused), is_refusing ? "more" : "fewer");
    return text;
}

bool trial_beats(const struct trial *a, const struct trial *b)
{
    const struct outcome *x = &a->outcome, *y = &b->outcome;
    if (x->refused != y->refused)
        return x->refused < y->refused;
    bool is_no_worse = x->peak_reserved <= y->peak_reserved && x->stall <= y->stall;
    return is_no_worse && (x->peak_reserved < y->peak_reserved || x->stall < y->stall || x->area < y->area);
}

#define MIB (UINT64_C(1) << 20)
#define ROUNDS 5
#define BATCH_MAX 128
#define THRESHOLDS_MAX 10

static const uint64_t largest_sizes[] = {0, 64 * 1024, 256 * 1024, MIB, 2 * MIB, 8 * MIB, 32 * MIB};
static const uint64_t stream_sizes[] = {16 * MIB, 64 * MIB, 256 * MIB, 512 * MIB};
static const uint64_t small_sizes[] = {0, 64 * 1024, MIB};

const struct candidate candidate_of_cuda = {.threshold = 0, .largest = 0, .per_stream = 64 * MIB};

/* Candidates that wait for their replays. */
struct batch {
    struct candidate candidates[BATCH_MAX];
    size_t count;
};

static const struct trial *find(const struct search *search, const struct candidate *candidate)
{
    for (size_t i = 0; i < search->count; i++)
        if (candidate_equals(&search->trials[i].candidate, candidate))
            return &search->trials[i];
    return NULL;
}

static void add(const struct search *search, struct batch *batch, struct candidate candidate)
{
    bool is_known = find(search, &candidate) || batch->count == BATCH_MAX || (candidate.is_arena && !search->may_be_arena);
    for (size_t i = 0; i < batch->count; i++)
        is_known = is_known || candidate_equals(&batch->candidates[i], &candidate);
    if (!is_known)
        batch->candidates[batch->count++] = candidate;
}

static void run_batch(struct search *search, struct batch *batch)
{
    struct replay *replays = must(calloc(batch->count + 1, sizeof *replays));
    struct outcome *outcomes = must(calloc(batch->count + 1, sizeof *outcomes));
    char **texts = must(calloc(batch->count + 1, sizeof *texts));
    for (size_t i = 0; i < batch->count; i++) {
        texts[i] = candidate_assignments(&batch->candidates[i], search->pool, search->fixed);
        replays[i] = search->base;
        replays[i].assignments = texts[i];
    }
    replay_run_all(replays, outcomes, batch->count, search->progress);
    for (size_t i = 0; i < batch->count; i++) {
        free(texts[i]);
        if (!outcomes[i].is_done) {
            if (!search->why)
                search->why = memcpy(search->why_text, outcomes[i].why, sizeof search->why_text);
            continue;
        }
        *MUST_ADD(search->trials, search->count, search->room) = (struct trial){batch->candidates[i], outcomes[i]};
    }
    batch->count = 0;
    free(replays);
    free(outcomes);
    free(texts);
}

const struct trial *search_try(struct search *search, const struct candidate *candidate)
{
    struct batch batch = {.count = 0};
    add(search, &batch, *candidate);
    run_batch(search, &batch);
    return find(search, candidate);
}

/* Choosing ----------------------------------------------------------------------------------------------------------------------------- */

static const struct trial *least_memory(const struct search *search)
{
    const struct trial *least = NULL;
    for (size_t i = 0; i < search->count; i++)
        if (!least || search->trials[i].outcome.refused < least->outcome.refused ||
            (search->trials[i].outcome.refused == least->outcome.refused &&
             search->trials[i].outcome.peak_reserved < least->outcome.peak_reserved))
            least = &search->trials[i];
    return least;
}

/* Lower is better. */
static double cost_of(const struct search *search, const struct outcome *outcome, const struct outcome *least)
{
    double memory = (double)outcome->peak_reserved / (double)(least->peak_reserved ? least->peak_reserved : 1);
    uint64_t run = least->elapsed > least->stall ? least->elapsed - least->stall : 1;
    double percent = 100 * (double)outcome->stall / (double)run;
    /* Mean memory decides between those that are equal otherwise. */
    double mean = outcome->area / ((double)(least->peak_reserved ? least->peak_reserved : 1) * (double)run);
    switch (search->goal) {
    case GOAL_TIME:
        return percent + memory / 1e3 + mean / 1e5;
    case GOAL_MEMORY:
        return memory + percent / 1e3 + mean / 1e5;
    default:
        return memory + GOAL_MEMORY_PER_PERCENT * percent + mean / 1e4;
    }
}

static const struct trial *best(const struct search *search)
{
    const struct trial *least = least_memory(search), *found = least;
    for (size_t i = 0; i < search->count; i++) {
        const struct trial *trial = &search->trials[i];
        if (trial->outcome.refused == least->outcome.refused &&
            cost_of(search, &trial->outcome, &least->outcome) < cost_of(search, &found->outcome, &least->outcome))
            found = trial;
    }
    return found;
}

bool search_prefers(const struct search *search, const struct outcome *a, const struct outcome *b, double share)
{
    const struct outcome *least = &least_memory(search)->outcome;
    if (a->refused != b->refused)
        return a->refused < b->refused;
    if (a->refused < least->refused || (a->refused == least->refused && a->peak_reserved < least->peak_reserved))
        least = a;
    return cost_of(search, a, least) < cost_of(search, b, least) * (1 - share);
}

static int by_memory(const void *left, const void *right)
{
    const struct outcome *a = &(*(const struct trial *const *)left)->outcome, *b = &(*(const struct trial *const *)right)->outcome;
    if (a->peak_reserved != b->peak_reserved)
        return a->peak_reserved < b->peak_reserved ? -1 : 1;
    return a->stall < b->stall ? -1 : a->stall > b->stall;
}

const struct trial **search_front(const struct search *search, size_t *count)
{
    const struct trial **front = must(calloc(search->count + 1, sizeof(void *)));
    *count = 0;
    for (size_t i = 0; i < search->count; i++) {
        bool is_beaten = false;
        for (size_t j = 0; j < search->count && !is_beaten; j++) {
            const struct outcome *a = &search->trials[i].outcome, *b = &search->trials[j].outcome;
            bool is_twin = a->peak_reserved == b->peak_reserved && a->stall == b->stall && a->area == b->area;
            is_beaten = trial_beats(&search->trials[j], &search->trials[i]) || (is_twin && j < i);
        }
        if (!is_beaten)
            front[(*count)++] = &search->trials[i];
    }
    qsort(front, *count, sizeof(void *), by_memory);
    return front;
}

const struct trial *search_next_best(const struct search *search, const struct candidate *but)
{
    size_t count;
    const struct trial **front = search_front(search, &count), *least = least_memory(search), *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (!candidate_equals(&front[i]->candidate, but) &&
            (!found || cost_of(search, &front[i]->outcome, &least->outcome) < cost_of(search, &found->outcome, &least->outcome)))
            found = front[i];
    free(front);
    return found;
}

/* The stages --------------------------------------------------------------------------------------------------------------------------- */

/* The most by which what is live swings between two synchronises; without any, in a fiftieth of the run. */
static uint64_t swing_of(const struct search *search)
{
    const struct script *script = search->base.script;
    uint64_t *sizes = must(calloc(script->block_count + 1, sizeof *sizes));
    uint64_t live = 0, low = 0, high = 0, swing = 0;
    size_t window = search->base.until / 50 + 1;
    for (size_t i = 0; i < search->base.until; i++) {
        const struct script_op *op = &script->ops[i];
        if (op->what == SCRIPT_MALLOC)
            live += sizes[op->block] = op->size;
        else if (op->what == SCRIPT_FREE)
            live -= sizes[op->block];
        low = live < low ? live : low;
        high = live > high ? live : high;
        if (script->has_synchronises ? op->what == SCRIPT_SYNCHRONISE : i % window == 0) {
            swing = high - low > swing ? high - low : swing;
            low = high = live;
        }
    }
    free(sizes);
    return high - low > swing ? high - low : swing;
}

static size_t thresholds_of(const struct search *search, uint64_t peak, uint64_t thresholds[static THRESHOLDS_MAX])
{
    const uint64_t wanted[] = {0, candidate_steps(peak / 8), candidate_steps(peak / 4), candidate_steps(peak / 2), candidate_steps(peak * 3 / 4),
                               candidate_steps(swing_of(search)), candidate_steps(peak), CANDIDATE_ALL, CANDIDATE_AUTO};
    size_t count = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        /* Others act at synchronises. Where the program made them behind Weir's back, nothing tells when. */
        bool is_new = search->base.script->has_synchronises || wanted[i] >= CANDIDATE_AUTO;
        for (size_t j = 0; j < count; j++)
            is_new = is_new && thresholds[j] != wanted[i];
        if (is_new)
            thresholds[count++] = wanted[i];
    }
    return count;
}

static void run_grid(struct search *search, const uint64_t *thresholds, size_t count)
{
    struct batch batch = {.count = 0};
    for (size_t i = 0; i < count; i++)
        for (unsigned arena = 0; arena < 2; arena++)
            for (unsigned cached = 0; cached < 2; cached++)
                add(search, &batch,
                    (struct candidate){.threshold = thresholds[i],
                                       .largest = cached ? MIB : 0,
                                       .per_stream = 64 * MIB,
                                       .max_size = search->max_size,
                                       .is_arena = arena});
    run_batch(search, &batch);
}

uint64_t search_initial(const struct candidate *candidate)
{
    bool is_kept = candidate->threshold == CANDIDATE_ALL ||
                   (candidate->threshold < CANDIDATE_AUTO && candidate->initial <= candidate->threshold);
    return is_kept ? candidate->initial : 0;
}

/*
 * Where the pool is to be bounded: tighter bounds, at which it gives idle memory back rather than grow. The next run may need a little more
 * than this one, so none is nearer to what was live than an eighth of that.
 */
static void add_caps(const struct search *search, struct batch *batch, const struct candidate *centre)
{
    static const unsigned parts[] = {9, 10, 12, 16}; /* of eight */
    uint64_t live = search->trials[0].outcome.peak_live;
    struct candidate other = *centre;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && search->max_size; i++, other = *centre) {
        uint64_t cap = candidate_steps(live / 8 * parts[i]);
        other.max_size = cap < search->max_size ? cap : search->max_size;
        other.initial = other.initial < other.max_size ? other.initial : other.max_size;
        add(search, batch, other);
    }
}

/* Each value alone, around that candidate. */
static void run_around(struct search *search, const struct candidate *centre, const uint64_t *thresholds, size_t count, uint64_t peak)
{
    struct batch batch = {.count = 0};
    struct candidate other = *centre;
    for (size_t i = 0; i < count; i++, other = *centre) {
        other.threshold = thresholds[i];
        other.initial = search_initial(&other);
        add(search, &batch, other);
    }
    static const unsigned parts[] = {2, 3, 5, 6}; /* of four */
    for (size_t i = 0; i < 4 && centre->threshold && centre->threshold < CANDIDATE_AUTO; i++, other = *centre) {
        other.threshold = candidate_steps(centre->threshold / 4 * parts[i]);
        other.initial = search_initial(&other);
        add(search, &batch, other);
    }
    for (size_t i = 0; i < sizeof largest_sizes / sizeof largest_sizes[0]; i++, other = *centre) {
        other.largest = largest_sizes[i];
        other.per_stream = other.per_stream < other.largest ? other.largest : other.per_stream;
        add(search, &batch, other);
    }
    for (size_t i = 0; i < sizeof stream_sizes / sizeof stream_sizes[0] && centre->largest; i++, other = *centre) {
        other.per_stream = stream_sizes[i] > centre->largest ? stream_sizes[i] : centre->largest;
        add(search, &batch, other);
    }
    for (size_t i = 0; i < sizeof small_sizes / sizeof small_sizes[0] && !centre->is_arena; i++, other = *centre) {
        other.small_below = small_sizes[i];
        add(search, &batch, other);
    }
    other.is_arena = !centre->is_arena;
    other.small_below = 0;
    add(search, &batch, other);
    const uint64_t initial[] = {candidate_steps(peak), candidate_steps(search->trials[0].outcome.peak_live)};
    for (size_t i = 0; i < 2; i++) {
        other = *centre;
        other.initial = initial[i];
        other.threshold = other.threshold < other.initial ? other.initial : other.threshold;
        other.initial = search_initial(&other);
        add(search, &batch, other);
    }
    add_caps(search, &batch, centre);
    run_batch(search, &batch);
}

const struct trial *search_run(struct search *search)
{
    const struct candidate all = {.threshold = CANDIDATE_ALL, .largest = MIB, .per_stream = 64 * MIB, .max_size = search->max_size};
    uint64_t thresholds[THRESHOLDS_MAX];
    const struct trial *first = search_try(search, &all);
    if (!first)
        return NULL;
    size_t count = thresholds_of(search, first->outcome.peak_reserved, thresholds);
    struct candidate cuda = candidate_of_cuda;
    cuda.max_size = search->max_size;
    if (search->base.script->has_synchronises)
        search_try(search, &cuda);
    run_grid(search, thresholds, count);
    struct candidate centre = best(search)->candidate, former;
    unsigned round = 0;
    do {
        former = centre;
        run_around(search, &centre, thresholds, count, best(search)->outcome.peak_reserved);
        centre = best(search)->candidate;
    } while (!candidate_equals(&centre, &former) && ++round < ROUNDS);
    return best(search);
}

void search_free(struct search *search)
{
    free(search->trials);
    search->trials = NULL;
    search->count = 0;
}
