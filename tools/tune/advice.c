/* SPDX-License-Identifier: MIT */
#include "tools/tune/advice.h"

#include <inttypes.h>
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

static const char *const part_keys[PART_COUNT] = {
    [PART_THRESHOLD] = "release_threshold", [PART_LARGEST] = "cache.largest", [PART_PER_STREAM] = "cache.per_stream",
    [PART_SMALL] = "small_below",           [PART_INITIAL] = "initial_size",  [PART_MAX_SIZE] = "max_size",
    [PART_BACKING] = "backing",
};

static void make_equal(struct candidate *candidate, const struct candidate *to, enum part part)
{
    switch (part) {
    case PART_THRESHOLD:
        candidate->threshold = to->threshold;
        break;
    case PART_LARGEST:
        candidate->largest = to->largest;
        break;
    case PART_PER_STREAM:
        candidate->per_stream = to->per_stream;
        break;
    case PART_SMALL:
        candidate->small_below = to->small_below;
        break;
    case PART_INITIAL:
        candidate->initial = to->initial;
        break;
    case PART_MAX_SIZE:
        candidate->max_size = to->max_size;
        break;
    default:
        candidate->is_arena = to->is_arena;
    }
}

static const char *value_text(char text[static 32], const struct candidate *candidate, enum part part)
{
    switch (part) {
    case PART_THRESHOLD:
        return candidate_threshold(text, candidate->threshold);
    case PART_LARGEST:
        return candidate->largest ? candidate_bytes(text, candidate->largest) : "no cache";
    case PART_PER_STREAM:
        return candidate_bytes(text, candidate->per_stream);
    case PART_SMALL:
        return candidate_bytes(text, candidate->small_below);
    case PART_INITIAL:
        return candidate_bytes(text, candidate->initial);
    case PART_MAX_SIZE:
        return candidate_bytes(text, candidate->max_size);
    default:
        return candidate->is_arena ? "arena" : "new";
    }
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
    const struct policy *defaults; /* the same pools and streams, and nothing else */
    const struct finding *findings;
    size_t count;
    char former[256]; /* the path before */
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

static bool is_default(const struct writer *writer, const struct policy_value *value)
{
    struct lookup lookup = {.path = value->path};
    policy_each_value(writer->defaults, look_up, &lookup);
    bool is_same = lookup.text && strcmp(lookup.text, value->text) == 0;
    free(lookup.text);
    return is_same;
}

/* The finding that the path belongs to, and which part; NULL: none. */
static const struct finding *finding_of(const struct writer *writer, const char *path, enum part *part)
{
    for (size_t i = 0; i < writer->count; i++) {
        char *prefix = format_text("pools.%s.", writer->findings[i].search->pool);
        bool is_of = strncmp(path, prefix, strlen(prefix)) == 0;
        const char *key = is_of ? path + strlen(prefix) : "";
        bool is_cache_off = strcmp(key, "cache") == 0;
        for (*part = 0; *part < PART_COUNT && strcmp(key, part_keys[*part]) != 0;)
            (*part)++;
        *part = is_cache_off ? PART_LARGEST : *part;
        free(prefix);
        if (is_of && *part < PART_COUNT)
            return &writer->findings[i];
    }
    return NULL;
}

static void write_value(const struct policy_value *value, void *data)
{
    struct writer *writer = data;
    enum part part;
    const struct finding *finding = finding_of(writer, value->path, &part);
    const char *last = strrchr(value->path, '.');
    /* What had the program recorded is no part of its policy. */
    bool is_needed = strcmp(value->path, "weir") == 0 || (!is_default(writer, value) && strncmp(value->path, "record.", 7) != 0);
    char reason[REASON_MAX] = "";
    bool has_reason = finding && reason_of(reason, finding, part);
    if (!is_needed && !has_reason)
        return;
    unsigned depth = replay_policy_put_parents(writer->out, value->path, strlen(value->path), writer->former, strlen(writer->former));
    if (*reason)
        fprintf(writer->out, "%*s# %s.\n", (int)(2 * depth), "", reason);
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

void advice_write(FILE *out, const struct policy *base, const struct finding *findings, size_t count, const char *comment)
{
    struct writer writer = {.out = out, .defaults = defaults_of(base), .findings = findings, .count = count};
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    char *all = must(strdup(""));
    for (size_t i = 0; i < count; i++) {
        char *own = candidate_assignments(&findings[i].best.candidate, findings[i].search->pool);
        char *longer = format_text("%s%s%s", all, *all ? "," : "", own);
        free(own);
        free(all);
        all = longer;
    }
    for (const char *at = comment; *at; at += strcspn(at, "\n"), at += *at == '\n')
        fprintf(out, "# %.*s\n", (int)strcspn(at, "\n"), at);
    if (policy_override(base, all, &errors, &policy) == POLICY_OK)
        policy_each_value(policy, write_value, &writer);
    policy_errors_clear(&errors);
    policy_free(policy);
    policy_free((struct policy *)(uintptr_t)writer.defaults);
    free(all);
}
