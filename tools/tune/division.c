/* SPDX-License-Identifier: MIT */
#include "tools/tune/division.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/replay/policy.h"
#include "tools/trace/view.h"
#include "tools/tune/tune.h"

/* A block that is live, in the pool. */
struct block {
    uint64_t time, size;
    uint16_t tag, stream; /* labels; 0: none */
    bool is_counted;
};

struct sum {
    uint64_t blocks;
    double life; /* of all together, ns */
};

struct reader {
    const struct script *script;
    size_t until;
    bool *is_of;     /* of each pool of the script: it is the one that is looked at */
    bool *is_routed; /* [label]: the policy routes streams of that name to this pool already */
    uint16_t *names; /* of each stream: its label now */
    uint16_t *pools; /* of each stream: the pool of the script that it has now */
    struct block *blocks;
    struct sum *sums; /* by label; 0: all */
};

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

static struct reader reader_of(const struct script *script, size_t until, const struct policy *policy, const char *pool)
{
    struct reader reader = {.script = script, .until = until};
    reader.is_of = must(calloc(script->pool_count + 1, sizeof *reader.is_of));
    reader.is_routed = must(calloc(script->label_count + 1, sizeof *reader.is_routed));
    reader.names = must(calloc(script->stream_count + 1, sizeof *reader.names));
    reader.pools = must(calloc(script->stream_count + 1, sizeof *reader.pools));
    reader.blocks = must(calloc(script->block_count + 1, sizeof *reader.blocks));
    reader.sums = must(calloc(script->label_count + 1, sizeof *reader.sums));
    const char *first = policy->pools[policy->default_pool].name;
    for (size_t i = 0; i < script->pool_count; i++) {
        const struct trace_pool *other = script->pools[i];
        const char *name = script_pool_name(other) && policy_find_pool(policy, other->name) ? other->name : first;
        reader.is_of[i] = !(other->flags & TRACE_POOL_PRIVATE) && strcmp(name, pool) == 0;
    }
    for (size_t i = 0; i < script->label_count; i++) {
        const struct policy_stream *stream = policy_find_stream(policy, script->labels[i].text);
        const char *name = stream ? policy->pools[stream->pool].name : first;
        reader.is_routed[i + 1] = script->labels[i].is_stream && !(stream && stream->own_pool) && strcmp(name, pool) == 0;
    }
    return reader;
}

static void reader_free(struct reader *reader)
{
    free(reader->is_of);
    free(reader->is_routed);
    free(reader->names);
    free(reader->pools);
    free(reader->blocks);
    free(reader->sums);
}

/* What the operation begins or ends; NULL: no block of the pool. */
static struct block *look(struct reader *reader, const struct script_op *op)
{
    struct block *block = &reader->blocks[op->block];
    if (op->what == SCRIPT_OPEN) {
        reader->names[op->stream] = op->label;
        reader->pools[op->stream] = op->pool;
    } else if (op->what == SCRIPT_CLOSE) {
        reader->names[op->stream] = 0;
    } else if (op->what == SCRIPT_MALLOC) {
        /* What came by the way of the stream's name goes where the policy has that now, whatever pool was recorded. */
        uint16_t name = reader->pools[op->stream] == op->pool ? reader->names[op->stream] : 0;
        *block = (struct block){.time = op->time, .size = op->size, .tag = op->label, .stream = name};
        block->is_counted = name ? reader->is_routed[name] : reader->is_of[op->pool];
    }
    return (op->what == SCRIPT_MALLOC || op->what == SCRIPT_FREE) && block->is_counted ? block : NULL;
}

/* Lifetimes ---------------------------------------------------------------------------------------------------------------------------- */

static void add_life(struct sum *sum, uint64_t life)
{
    sum->blocks++;
    sum->life += (double)life;
}

static void end_block(struct reader *reader, struct block *block, uint64_t time)
{
    uint64_t life = time > block->time ? time - block->time : 0;
    add_life(&reader->sums[0], life);
    if (block->tag)
        add_life(&reader->sums[block->tag], life);
    if (block->stream)
        add_life(&reader->sums[block->stream], life);
    block->is_counted = false;
}

static void sum_lives(struct reader *reader)
{
    uint64_t last = 0;
    for (size_t i = 0; i < reader->until; i++) {
        const struct script_op *op = &reader->script->ops[i];
        struct block *block = look(reader, op);
        last = op->time > last ? op->time : last;
        if (block && op->what == SCRIPT_FREE)
            end_block(reader, block, op->time);
    }
    for (size_t i = 0; i < reader->script->block_count; i++)
        if (reader->blocks[i].is_counted)
            end_block(reader, &reader->blocks[i], last);
}

/* How many bytes the part and the rest have at most, each for itself. */
static void find_peaks(struct reader *reader, struct part *part)
{
    uint64_t live[2] = {0}, *peaks[2] = {&part->rest.peak, &part->own.peak};
    memset(reader->names, 0, reader->script->stream_count * sizeof *reader->names);
    for (size_t i = 0; i < reader->until; i++) {
        const struct script_op *op = &reader->script->ops[i];
        struct block *block = look(reader, op);
        if (!block)
            continue;
        bool is_own = block->tag == part->label || block->stream == part->label;
        live[is_own] += op->what == SCRIPT_MALLOC ? block->size : 0 - block->size;
        *peaks[is_own] = live[is_own] > *peaks[is_own] ? live[is_own] : *peaks[is_own];
        block->is_counted = op->what == SCRIPT_MALLOC;
    }
    for (size_t i = 0; i < reader->script->block_count; i++)
        reader->blocks[i].is_counted = false;
}

/* The whole ---------------------------------------------------------------------------------------------------------------------------- */

static struct part_sum mean_of(uint64_t blocks, double life)
{
    double mean = blocks ? life / (double)blocks : 0;
    return (struct part_sum){.blocks = blocks, .life = mean > 1 ? (uint64_t)mean : 1};
}

static double ratio_of(const struct part *part)
{
    double own = (double)part->own.life, rest = (double)part->rest.life;
    return own > rest ? own / rest : rest / own;
}

/* Of two parts that are all of the pool, the one that lives longer is the part: it has fewer calls, and a tag's have no caches. */
static bool mixes_less(const struct part *a, const struct part *b)
{
    double x = ratio_of(a), y = ratio_of(b);
    return x > y || (x == y && a->own.life > b->own.life);
}

/* Puts it where it belongs among the best. Returns how many there are. */
static size_t insert(struct part parts[static PARTS_MAX], size_t count, struct part part)
{
    size_t at = count;
    while (at > 0 && mixes_less(&part, &parts[at - 1]))
        at--;
    for (size_t i = count < PARTS_MAX ? count : PARTS_MAX - 1; i > at; i--)
        parts[i] = parts[i - 1];
    if (at < PARTS_MAX)
        parts[at] = part;
    return count < PARTS_MAX ? count + 1 : count;
}

size_t parts_find(const struct script *script, size_t until, const struct policy *policy, const char *pool,
                  struct part parts[static PARTS_MAX])
{
    struct reader reader = reader_of(script, until, policy, pool);
    size_t count = 0;
    sum_lives(&reader);
    for (size_t i = 0; i < script->label_count; i++) {
        const struct sum *all = &reader.sums[0], *own = &reader.sums[i + 1];
        struct part part = {.label = (uint16_t)(i + 1), .name = script->labels[i].text, .is_stream = script->labels[i].is_stream};
        part.own = mean_of(own->blocks, own->life);
        part.rest = mean_of(all->blocks - own->blocks, all->life - own->life);
        if (part.own.blocks && part.rest.blocks && ratio_of(&part) >= PART_RATIO)
            count = insert(parts, count, part);
    }
    for (size_t i = 0; i < count; i++)
        find_peaks(&reader, &parts[i]);
    reader_free(&reader);
    return count;
}

struct division_name division_name_of(const struct part *part)
{
    struct division_name name;
    char shown[SHOWN_LEN];
    snprintf(name.chars, sizeof name.chars, "%s '%s'", part->is_stream ? "stream" : "tag", utf8_shown(shown, part->name));
    return name;
}

/* The policy --------------------------------------------------------------------------------------------------------------------------- */

/* "main-weights", unless the policy has such a pool. */
static void name_pool(char name[static POLICY_NAME_MAX + 1], const struct policy *policy, const char *pool, const struct part *part)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    snprintf(name, POLICY_NAME_MAX + 1, "%.30s-%.28s", pool, part->name);
    for (size_t i = strlen(pool) < 30 ? strlen(pool) : 30; name[i]; i++)
        name[i] = strchr(letters, name[i]) ? name[i] : '-';
    size_t len = strlen(name);
    for (unsigned i = 2; policy_find_pool(policy, name); i++)
        snprintf(name + len, POLICY_NAME_MAX + 1 - len, "-%u", i % 1000);
}

/* The part's share of the whole, in proportion to the peaks of the part and of the rest. */
static uint64_t share_of(uint64_t whole, const struct part *part)
{
    unsigned __int128 both = (unsigned __int128)part->own.peak + part->rest.peak;
    return both ? (uint64_t)((unsigned __int128)whole * part->own.peak / both) : whole / 2;
}

/* The part's share of a bound, in steps of growth, with room for a twin. */
static uint64_t bound_of(uint64_t bound, const struct part *part)
{
    uint64_t share = candidate_steps(share_of(bound, part));
    return share > 2 * POLICY_GROWTH_STEP ? share : 2 * POLICY_GROWTH_STEP;
}

/* Policies that are made of one, value by value. */
struct maker {
    const struct division_trial *trial;
    const struct policy_pool *whole;
    char *prefix, *stream; /* paths of the pool's values, and of what the policy says of the part's streams */
    FILE *out, *part;      /* the pool's own, which come behind the others of the pool that is divided */
    char *part_text;
    size_t part_len;
};

static void write_divided(const struct maker *maker, const char *key, const struct policy_size *size)
{
    const struct part *part = &maker->trial->part;
    const char *pool = maker->trial->pool;
    char text[32];
    if (size->kind != POLICY_SIZE_BYTES) {
        uint64_t whole = size->kind == POLICY_SIZE_QUOTA ? 10000 : size->value; /* the quota is 100 % */
        uint64_t own = share_of(whole, part), rest = whole - own;
        fprintf(maker->out, "%s%s: %" PRIu64 ".%02u%%\n", maker->prefix, key, rest / 100, (unsigned)(rest % 100));
        fprintf(maker->part, "pools.%s.%s: %" PRIu64 ".%02u%%\n", pool, key, own / 100, (unsigned)(own % 100));
    } else {
        uint64_t own = bound_of(size->value, part);
        fprintf(maker->out, "%s%s: %s\n", maker->prefix, key, candidate_bytes(text, size->value > own ? size->value - own : 0));
        fprintf(maker->part, "pools.%s.%s: %s\n", pool, key, candidate_bytes(text, own));
    }
}

static bool is_divided(const struct policy_size *size)
{
    return size->kind == POLICY_SIZE_PERCENT || size->kind == POLICY_SIZE_QUOTA || (size->kind == POLICY_SIZE_BYTES && size->value);
}

static void end_pool(struct maker *maker)
{
    if (!maker->part)
        return;
    fclose(maker->part);
    maker->part = NULL;
    fputs(must(maker->part_text), maker->out);
    free(maker->part_text);
}

static void write_value(const struct policy_value *value, void *data)
{
    struct maker *maker = data;
    size_t len = strlen(maker->prefix);
    bool is_of = strncmp(value->path, maker->prefix, len) == 0;
    const char *key = is_of ? value->path + len : "";
    if (is_of && !maker->part)
        maker->part = must(open_memstream(&maker->part_text, &maker->part_len));
    else if (!is_of)
        end_pool(maker);
    if (strcmp(key, "max_size") == 0 && is_divided(&maker->whole->max_size)) {
        write_divided(maker, key, &maker->whole->max_size);
    } else if (strcmp(key, "keep") == 0 && is_divided(&maker->whole->keep)) {
        write_divided(maker, key, &maker->whole->keep);
    } else if (!maker->trial->part.is_stream || strncmp(value->path, maker->stream, strlen(maker->stream)) != 0) {
        fprintf(maker->out, "%s: %s\n", value->path, value->text);
        /* A device has one current pool. */
        if (is_of && strcmp(key, "current") != 0)
            fprintf(maker->part, "pools.%s.%s: %s\n", maker->trial->pool, key, value->text);
    }
}

/* YAML of the policy with the part's pool; the caller's to free(). */
static char *divide(const struct policy *policy, const char *pool, const struct division_trial *trial)
{
    struct maker maker = {.trial = trial, .whole = policy_find_pool(policy, pool)};
    char *values = NULL;
    size_t len = 0;
    maker.prefix = format_text("pools.%s.", pool);
    maker.stream = format_text("streams.%s.", trial->part.name);
    maker.out = must(open_memstream(&values, &len));
    policy_each_value(policy, write_value, &maker);
    end_pool(&maker);
    if (trial->part.is_stream)
        fprintf(maker.out, "%spool: %s\n", maker.stream, trial->pool);
    fclose(maker.out);
    char *text = replay_policy_of_values(must(values));
    free(values);
    free(maker.prefix);
    free(maker.stream);
    return text;
}

/* The trials --------------------------------------------------------------------------------------------------------------------------- */

static uint64_t initial_of(const struct candidate *candidate, uint64_t peak)
{
    struct candidate own = *candidate;
    uint64_t wanted = candidate_steps(peak), most = own.max_size && own.max_size < own.initial ? own.max_size : own.initial;
    own.initial = wanted < most ? wanted : most;
    return search_initial(&own);
}

/* The settings that were found for both. */
static void divide_candidate(struct division_trial *trial, const struct candidate *found)
{
    struct candidate *rest = &trial->candidates[0], *own = &trial->candidates[1];
    *rest = *own = *found;
    if (found->max_size) {
        own->max_size = bound_of(found->max_size, &trial->part);
        rest->max_size = found->max_size > own->max_size ? found->max_size - own->max_size : 1;
    }
    rest->initial = initial_of(rest, trial->part.rest.peak);
    own->initial = initial_of(own, trial->part.own.peak);
}

static void prepare(struct division *division, const struct tune *tune, const struct part *part, const struct trial *with)
{
    const char *pool = tune->searches[0].pool;
    struct division_trial *trial = &division->trials[division->count++];
    *trial = (struct division_trial){.part = *part, .with = *with};
    name_pool(trial->pool, tune->base, pool, part);
    trial->own = (struct replay_part){.tag = part->label, .of = pool, .own = trial->pool};
    divide_candidate(trial, &with->candidate);
    trial->values = divide(tune->base, pool, trial);
    trial->text = replay_policy_by_index(trial->values, tune->script.trace);
    trial->assignments = candidate_assignments(&trial->candidates[1], trial->pool, NULL);
    for (size_t i = 0; i < tune->count; i++) {
        const struct candidate *candidate = i == 0 ? &trial->candidates[0] : &tune->findings[i].best.candidate;
        char *longer = candidate_assignments(candidate, tune->searches[i].pool, trial->assignments);
        free(trial->assignments);
        trial->assignments = longer;
    }
}

struct replay division_replay(const struct division_trial *trial, const struct tune *tune)
{
    struct replay replay = tune->base_replay;
    replay.policy = trial->text;
    replay.assignments = trial->assignments;
    replay.part = trial->part.is_stream ? NULL : &trial->own;
    return replay;
}

/* Those from `first` on. */
static void run_trials(struct division *division, const struct tune *tune, size_t first, void (*progress)(size_t done, size_t count))
{
    struct replay replays[PARTS_MAX + DIVISION_MORE];
    size_t count = division->count - first;
    if (!count)
        return;
    struct outcome *outcomes = must(calloc(count, sizeof *outcomes));
    for (size_t i = 0; i < count; i++) {
        replays[i] = division_replay(&division->trials[first + i], tune);
        replays[i].until = tune->split;
    }
    replay_run_all(replays, outcomes, count, progress);
    for (size_t i = 0; i < count; i++)
        division->trials[first + i].outcome = outcomes[i];
    free(outcomes);
}

/* Choosing ----------------------------------------------------------------------------------------------------------------------------- */

/* The search that had what was found for all other pools. */
static const struct search *last_search(const struct tune *tune)
{
    return &tune->searches[tune->count - 1];
}

const struct division_trial *division_best(const struct division *division, const struct tune *tune, const struct part *part)
{
    const struct division_trial *best = NULL;
    for (size_t i = 0; i < division->count; i++) {
        const struct division_trial *trial = &division->trials[i];
        if (trial->outcome.is_done && (!part || trial->part.label == part->label) &&
            (!best || search_prefers(last_search(tune), &trial->outcome, &best->outcome, 0)))
            best = trial;
    }
    return best;
}

static bool was_tried(const struct division *division, const struct part *part, const struct trial *with)
{
    for (size_t i = 0; i < division->count; i++)
        if (division->trials[i].part.label == part->label && candidate_equals(&division->trials[i].with.candidate, &with->candidate))
            return true;
    return false;
}

/* The same part with other settings, those first that the goal likes best in one pool. */
static void prepare_more(struct division *division, const struct tune *tune, const struct part *part)
{
    size_t count;
    const struct search *search = &tune->searches[0];
    const struct trial **front = search_front(search, &count);
    for (size_t n = 0; n < DIVISION_MORE; n++) {
        const struct trial *next = NULL;
        for (size_t i = 0; i < count; i++)
            if (!was_tried(division, part, front[i]) && (!next || search_prefers(search, &front[i]->outcome, &next->outcome, 0)))
                next = front[i];
        if (next)
            prepare(division, tune, part, next);
    }
    free(front);
}

static char *why_of(const struct division_trial *trial, const struct tune *tune)
{
    static const char of_tags[] = "\nNo policy routes tags: the program has to ask for this pool itself, as by weir_pool_malloc().";
    char gain[GAIN_MAX];
    return format_text("Blocks of %s live %s on average, the rest of pool '%s' %s.\nIn one pool, at best: %s.%s",
                       division_name_of(&trial->part).chars, TIME_TEXT(trial->part.own.life), tune->searches[0].pool,
                       TIME_TEXT(trial->part.rest.life), gain_text(gain, &tune->undivided, &trial->outcome),
                       trial->part.is_stream ? "" : of_tags);
}

static struct policy *policy_of(const struct division_trial *trial)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    /* Without the assignments a value of before may not go with a bound that is divided. */
    policy_parse(trial->values, strlen(trial->values), "divided", trial->assignments, &errors, &policy);
    policy_errors_clear(&errors);
    return policy;
}

void division_find(struct division *division, const struct tune *tune, void (*progress)(size_t done, size_t count))
{
    struct part parts[PARTS_MAX];
    size_t count = parts_find(&tune->script, tune->split, tune->base, tune->searches[0].pool, parts);
    *division = (struct division){.count = 0};
    for (size_t i = 0; i < count; i++)
        if (!parts[i].is_stream || policy_name_is_valid(parts[i].name))
            prepare(division, tune, &parts[i], &tune->one);
    run_trials(division, tune, 0, progress);
    const struct division_trial *best = division_best(division, tune, NULL);
    size_t first = division->count;
    if (best) {
        prepare_more(division, tune, &best->part);
        run_trials(division, tune, first, progress);
        best = division_best(division, tune, NULL);
    }
    if (!best || !search_prefers(last_search(tune), &best->outcome, &tune->undivided, DIVISION_LEAST_GAIN))
        return;
    division->policy = policy_of(best);
    division->chosen = division->policy ? best : NULL;
    division->why = division->chosen ? why_of(best, tune) : NULL;
}

void division_free(struct division *division)
{
    for (size_t i = 0; i < division->count; i++) {
        free(division->trials[i].values);
        free(division->trials[i].text);
        free(division->trials[i].assignments);
    }
    policy_free(division->policy);
    free(division->why);
    *division = (struct division){.count = 0};
}
