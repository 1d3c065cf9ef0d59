/* SPDX-License-Identifier: MIT */
#include "tools/tune/advice.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/replay/policy.h"

#define TEXT_MAX 512
#define REASON_MAX (2 * TEXT_MAX + 64) /* two of them, and words of its own */

/* Reasons ------------------------------------------------------------------------------------------------------------------------------ */

enum part { PART_THRESHOLD, PART_LARGEST, PART_PER_STREAM, PART_SMALL, PART_INITIAL, PART_MAX_SIZE, PART_BACKING, PART_COUNT };

static const struct {
    const char *key;
    size_t offset; /* of the bytes in a candidate; backing is a bool, and has none */
} parts[PART_COUNT] = {
    [PART_THRESHOLD] = {"release_threshold", offsetof(struct candidate, threshold)},
    [PART_LARGEST] = {"cache.largest", offsetof(struct candidate, largest)},
    [PART_PER_STREAM] = {"cache.per_stream", offsetof(struct candidate, per_stream)},
    [PART_SMALL] = {"small_below", offsetof(struct candidate, small_below)},
    [PART_INITIAL] = {"initial_size", offsetof(struct candidate, initial)},
    [PART_MAX_SIZE] = {"max_size", offsetof(struct candidate, max_size)},
    [PART_BACKING] = {"backing", 0},
};

static void make_equal(struct candidate *candidate, const struct candidate *to, enum part part)
{
    if (part == PART_BACKING)
        candidate->is_arena = to->is_arena;
    else
        memcpy((char *)candidate + parts[part].offset, (const char *)to + parts[part].offset, sizeof(uint64_t));
}

static const char *value_text(char text[static 32], const struct candidate *candidate, enum part part)
{
    uint64_t bytes;
    if (part == PART_BACKING)
        return candidate->is_arena ? "arena" : "new";
    memcpy(&bytes, (const char *)candidate + parts[part].offset, sizeof bytes);
    return part == PART_LARGEST && !bytes ? "no cache" : candidate_threshold(text, bytes);
}

/* "256MiB would save 64 MiB and cost 4 ms". */
static void compare(char text[static TEXT_MAX], const struct trial *other, const struct trial *best, enum part part)
{
    char value[32];
    const struct outcome *a = &other->outcome, *b = &best->outcome;
    int len = snprintf(text, TEXT_MAX, "%s would ", value_text(value, &other->candidate, part));
    if (a->refused > b->refused)
        len += snprintf(text + len, TEXT_MAX - (size_t)len, "refuse %s requests and ", COUNT_TEXT(a->refused - b->refused));
    if (a->peak_reserved != b->peak_reserved) {
        bool saves = a->peak_reserved < b->peak_reserved;
        len += snprintf(text + len, TEXT_MAX - (size_t)len, "%s %s", saves ? "save" : "take",
                        SIZE_TEXT(saves ? b->peak_reserved - a->peak_reserved : a->peak_reserved - b->peak_reserved));
        len += snprintf(text + len, TEXT_MAX - (size_t)len, "%s", saves ? "" : " more");
    } else {
        len += snprintf(text + len, TEXT_MAX - (size_t)len, "save no memory at the peak");
    }
    if (a->stall != b->stall)
        snprintf(text + len, TEXT_MAX - (size_t)len, " and %s %s", a->stall > b->stall ? "cost" : "spare",
                 TIME_TEXT(a->stall > b->stall ? a->stall - b->stall : b->stall - a->stall));
}

static double distance(const struct outcome *a, const struct outcome *b)
{
    double memory = (double)a->peak_reserved - (double)b->peak_reserved, time = (double)a->stall - (double)b->stall;
    memory /= (double)(b->peak_reserved ? b->peak_reserved : 1);
    time /= (double)(b->stall ? b->stall : 1);
    return memory * memory + time * time;
}

/* The nearest trial that differs in that part alone and takes less memory, or less time. NULL: none. */
static const struct trial *nearest(const struct finding *finding, enum part part, bool in_memory)
{
    const struct trial *found = NULL;
    for (size_t i = 0; i < finding->search->count; i++) {
        const struct trial *trial = &finding->search->trials[i];
        const struct outcome *a = &trial->outcome, *b = &finding->best.outcome;
        struct candidate same = trial->candidate;
        make_equal(&same, &finding->best.candidate, part);
        bool is_off = part == PART_PER_STREAM && trial->candidate.largest == 0;
        bool differs = candidate_equals(&same, &finding->best.candidate) && !candidate_equals(&trial->candidate, &finding->best.candidate);
        bool is_less = in_memory ? a->peak_reserved < b->peak_reserved : a->stall < b->stall;
        if (differs && !is_off && is_less && (!found || distance(a, b) < distance(&found->outcome, b)))
            found = trial;
    }
    return found;
}

/* Why the value is what it is. false: no other one that was tried would help in anything. */
static bool reason_of(char text[static REASON_MAX], const struct finding *finding, enum part part)
{
    const struct trial *less = nearest(finding, part, true), *faster = nearest(finding, part, false);
    char one[TEXT_MAX] = "", other[TEXT_MAX] = "";
    if (less)
        compare(one, less, &finding->best, part);
    if (faster && faster != less)
        compare(other, faster, &finding->best, part);
    const char *none = less || faster ? "" : "no other value that was tried takes less memory or less time";
    snprintf(text, REASON_MAX, "%s%s%s%s", one, *one && *other ? "; " : "", other, none);
    return less || faster;
}

/* Values ------------------------------------------------------------------------------------------------------------------------------- */

struct writer {
    FILE *out;
    const struct policy *base;     /* with what was found */
    const struct policy *before;   /* without the pool of a part; NULL: there is none */
    const struct policy *defaults; /* the same pools and streams, and nothing else */
    const struct finding *findings;
    size_t count;
    char former[256]; /* the path before */
    const char *pool; /* of which `is_there` is asked */
    bool is_there;    /* a value of it has to be written */
};

/* The default of that path; the caller's to free(). NULL: it has none. */
struct lookup {
    const char *path;
    char *text;
};

static void look_up(const struct policy_value *value, void *data)
{
    struct lookup *lookup = data;
    if (!lookup->text && strcmp(value->path, lookup->path) == 0)
        lookup->text = must(strdup(value->text));
}

static bool is_as_in(const struct policy *policy, const struct policy_value *value)
{
    struct lookup lookup = {.path = value->path};
    policy_each_value(policy, look_up, &lookup);
    bool is_same = lookup.text && strcmp(lookup.text, value->text) == 0;
    free(lookup.text);
    return is_same;
}

/* Whether the path is that of a key of the object, "pools.main." or "streams.". */
static bool is_below(const char *path, const char *object)
{
    return strncmp(path, object, strlen(object)) == 0;
}

/* Without it the policy would be another one. What had the program recorded is no part of it. */
static bool is_needed(const struct writer *writer, const struct policy_value *value)
{
    const char *key = strrchr(value->path, '.');
    bool is_route = is_below(value->path, "streams.") && strcmp(key, ".pool") == 0;
    bool is_chosen = strcmp(value->path, "defaults.pool") == 0 && writer->base->pool_count > 1;
    return strcmp(value->path, "weir") == 0 || is_route || is_chosen ||
           (!is_below(value->path, "record.") && !is_as_in(writer->defaults, value));
}

static void look_at_pool(const struct policy_value *value, void *data)
{
    struct writer *writer = data;
    writer->is_there = writer->is_there || (is_below(value->path, writer->pool) && is_needed(writer, value));
}

/* A pool of which all is as it would be by itself has to be named all the same: its backing stands for it. */
static bool is_only_one(struct writer *writer, const char *path)
{
    const char *key = strrchr(path, '.');
    if (!is_below(path, "pools.") || strcmp(key, ".backing") != 0)
        return false;
    char *pool = format_text("%.*s", (int)(key + 1 - path), path);
    writer->pool = pool;
    writer->is_there = false;
    policy_each_value(writer->base, look_at_pool, writer);
    free(pool);
    return !writer->is_there;
}

/* The finding that the path belongs to, and which part; NULL: none. */
static const struct finding *finding_of(const struct writer *writer, const char *path, enum part *part)
{
    for (size_t i = 0; i < writer->count; i++) {
        char *prefix = format_text("pools.%s.", writer->findings[i].pool);
        bool is_of = strncmp(path, prefix, strlen(prefix)) == 0;
        const char *key = is_of ? path + strlen(prefix) : "";
        bool is_cache_off = strcmp(key, "cache") == 0;
        for (*part = 0; *part < PART_COUNT && strcmp(key, parts[*part].key) != 0;)
            (*part)++;
        *part = is_cache_off ? PART_LARGEST : *part;
        free(prefix);
        if (is_of && *part < PART_COUNT)
            return &writer->findings[i];
    }
    return NULL;
}

/* Why a pool is there that only a part of another one has, above the first of its values. */
static void write_why(const struct writer *writer, const char *path)
{
    for (size_t i = 0; i < writer->count; i++) {
        char *prefix = format_text("pools.%s.", writer->findings[i].pool);
        bool is_first = is_below(path, prefix) && !is_below(writer->former, prefix);
        free(prefix);
        for (const char *at = is_first ? writer->findings[i].why : NULL; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
            fprintf(writer->out, "  # %.*s\n", (int)strcspn(at, "\n"), at);
    }
}

/* Whether a part has left the pool. */
static bool is_divided(const struct writer *writer, const struct finding *finding)
{
    return writer->before && finding == writer->findings;
}

/* Of a pool that a part has left: what both had together. false: the value is not divided. */
static bool share_reason(char text[static REASON_MAX], const struct writer *writer, const struct finding *finding, enum part part,
                         const struct policy_value *value)
{
    char whole[32];
    const struct candidate *found = &finding->best.candidate;
    struct lookup before = {.path = value->path};
    if (!is_divided(writer, finding) || (part != PART_INITIAL && part != PART_MAX_SIZE))
        return false;
    policy_each_value(writer->before, look_up, &before);
    if (part == PART_INITIAL ? found->initial : found->max_size)
        snprintf(text, REASON_MAX, "Its part of %s", value_text(whole, found, part));
    else if (part == PART_MAX_SIZE && before.text && strcmp(before.text, value->text) != 0)
        snprintf(text, REASON_MAX, "Its part of %s", before.text);
    free(before.text);
    return *text;
}

static void write_value(const struct policy_value *value, void *data)
{
    struct writer *writer = data;
    enum part part;
    const struct finding *finding = finding_of(writer, value->path, &part);
    const char *last = strrchr(value->path, '.');
    char reason[REASON_MAX] = "";
    bool is_shared = finding && !finding->why && share_reason(reason, writer, finding, part, value);
    bool has_reason = is_shared || (finding && !finding->why && reason_of(reason, finding, part));
    if (!has_reason && !is_needed(writer, value) && !is_only_one(writer, value->path))
        return;
    write_why(writer, value->path);
    unsigned depth = replay_policy_put_parents(writer->out, value->path, strlen(value->path), writer->former, strlen(writer->former));
    /* Values of a pool that was divided were held beside each other before that. */
    const char *when = is_divided(writer, finding) && !is_shared ? "In one pool: " : "";
    if (*reason)
        fprintf(writer->out, "%*s# %s%s.\n", (int)(2 * depth), "", when, reason);
    fprintf(writer->out, "%*s%s: %s\n", (int)(2 * depth), "", last ? last + 1 : value->path, value->text);
    snprintf(writer->former, sizeof writer->former, "%s", value->path);
}

/* Pools and streams without anything else, to learn what the keys are by themselves. */
static struct policy *defaults_of(const struct policy *policy)
{
    char *text = NULL;
    size_t size = 0;
    struct policy *defaults = NULL;
    struct policy_errors errors = {0};
    FILE *out = must(open_memstream(&text, &size));
    fprintf(out, "weir: 1\ndefaults: { pool: %s }\npools:\n", policy->pools[policy->default_pool].name);
    for (size_t i = 0; i < policy->pool_count; i++)
        fprintf(out, "  %s: {}\n", policy->pools[i].name);
    if (policy->stream_count)
        fprintf(out, "streams:\n");
    for (size_t i = 0; i < policy->stream_count; i++)
        fprintf(out, "  %s: { pool: %s }\n", policy->streams[i].name, policy->pools[policy->streams[i].pool].name);
    fclose(out);
    policy_parse(text, size, "defaults", NULL, &errors, &defaults);
    policy_errors_clear(&errors);
    free(text);
    return must(defaults);
}

void advice_write(FILE *out, const struct policy *base, const struct policy *divided, const struct finding *findings, size_t count,
                  const char *comment)
{
    const struct policy *begin = divided ? divided : base;
    struct writer writer = {.out = out, .before = divided ? base : NULL, .findings = findings, .count = count};
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    char *all = NULL;
    writer.defaults = defaults_of(begin);
    for (size_t i = 0; i < count; i++) {
        char *longer = candidate_assignments(&findings[i].written, findings[i].pool, all);
        free(all);
        all = longer;
    }
    for (const char *at = comment; *at; at += strcspn(at, "\n"), at += *at == '\n')
        fprintf(out, "# %.*s\n", (int)strcspn(at, "\n"), at);
    if (policy_override(begin, all, &errors, &policy) == POLICY_OK) {
        writer.base = policy;
        policy_each_value(policy, write_value, &writer);
    }
    policy_errors_clear(&errors);
    policy_free(policy);
    policy_free((struct policy *)(uintptr_t)writer.defaults);
    free(all);
}
