/* SPDX-License-Identifier: MIT */
#include "tools/tune/candidate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
