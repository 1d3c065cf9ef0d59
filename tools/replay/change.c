/* SPDX-License-Identifier: MIT */
#include "tools/replay/change.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "policy/policy.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"

#define MEMORY_MOST (UINT64_C(1) << 40)

/* One key and its value. */
struct setting {
    const char *key, *value;
};

#define KEYS_MAX 6

enum { NO_MORE, STEPS, DEADLINE, THRESHOLD_NONE, THRESHOLD_SOME, THRESHOLD_ALL, CACHE_OFF, TWIN, LARGER_TWIN, LARGE_TWIN, NO_TWIN, ARENA, UNCAPPED };

static const struct setting settings[] = {
    [STEPS] = {"on_oom.steps", "[flush, wait, trim, callbacks, neighbours]"},
    [DEADLINE] = {"on_oom.deadline", "60s"},
    [THRESHOLD_NONE] = {"release_threshold", "none"},
    [THRESHOLD_SOME] = {"release_threshold", "256MiB"},
    [THRESHOLD_ALL] = {"release_threshold", "all"},
    [CACHE_OFF] = {"cache", "off"},
    [TWIN] = {"small_below", "1MiB"},
    [LARGER_TWIN] = {"small_below", "4MiB"},
    [LARGE_TWIN] = {"small_below", "16MiB"},
    [NO_TWIN] = {"small_below", "0"},
    [ARENA] = {"backing", "arena"},
    [UNCAPPED] = {"max_size", "none"},
};

/* Each row is one change, of these settings. */
static const unsigned char several[][KEYS_MAX] = {
    {STEPS, DEADLINE},
    {STEPS, THRESHOLD_NONE},
    {STEPS, CACHE_OFF},
    {THRESHOLD_NONE, CACHE_OFF},
    {THRESHOLD_NONE, TWIN},
    {CACHE_OFF, TWIN},
    {ARENA, THRESHOLD_NONE},
    {ARENA, CACHE_OFF},
    {ARENA, STEPS},
    {LARGER_TWIN, CACHE_OFF},
    {LARGE_TWIN, CACHE_OFF},
    {LARGE_TWIN, CACHE_OFF, STEPS},
    {ARENA, THRESHOLD_NONE, CACHE_OFF, STEPS, DEADLINE},
};

/* At a cap only. */
static const unsigned char uncapped[][KEYS_MAX] = {
    {UNCAPPED, STEPS}, {UNCAPPED, CACHE_OFF}, {UNCAPPED, THRESHOLD_NONE}, {UNCAPPED, ARENA}, {UNCAPPED, ARENA, CACHE_OFF, STEPS, DEADLINE},
};

/* Of all pools, or of the request's own alone. */
static void add_to(struct changes *changes, const struct setting *chosen, size_t pool_count)
{
    for (size_t i = 0; chosen[i].key; i++)
        if (!changes->has_caches && strcmp(chosen[i].key, "cache") == 0)
            return;
    char *text = NULL, *assignments = NULL;
    size_t text_size, size;
    FILE *words = must(open_memstream(&text, &text_size)), *out = must(open_memstream(&assignments, &size));
    for (size_t i = 0; chosen[i].key; i++) {
        fprintf(words, "%s%s: %s", i ? ", " : "", chosen[i].key, chosen[i].value);
        for (size_t pool = 0; pool < pool_count; pool++)
            fprintf(out, "%spools.%s.%s=%s", i || pool ? "," : "", changes->pools[pool], chosen[i].key, chosen[i].value);
    }
    if (pool_count < changes->pool_count)
        fprintf(words, ", of %s alone", changes->pools[0]);
    fclose(words);
    fclose(out);
    changes->items = must_grow(changes->items, changes->count, &changes->room, sizeof *changes->items);
    changes->items[changes->count++] = (struct change){must(text), must(assignments)};
}

static void add(struct changes *changes, const struct setting *chosen)
{
    add_to(changes, chosen, changes->pool_count);
    /* What one pool cannot be, as an exportable one no arena, spoils the change of all. */
    if (changes->pool_count > 1)
        add_to(changes, chosen, 1);
}

static void add_row(struct changes *changes, const unsigned char row[static KEYS_MAX])
{
    struct setting chosen[KEYS_MAX + 1] = {0};
    for (size_t i = 0; i < KEYS_MAX && row[i] != NO_MORE; i++)
        chosen[i] = settings[row[i]];
    add(changes, chosen);
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

static void add_pool(struct changes *changes, const struct trace_pool *pool)
{
    /* A trace is a stranger's, and its names become part of assignments. */
    if (!policy_name_is_valid(pool->name))
        return;
    for (size_t i = 0; i < changes->pool_count; i++)
        if (strcmp(changes->pools[i], pool->name) == 0)
            return;
    changes->pools = must_grow(changes->pools, changes->pool_count, &changes->pool_room, sizeof *changes->pools);
    changes->pools[changes->pool_count++] = format_text("%s", pool->name);
}

/* Caps --------------------------------------------------------------------------------------------------------------------------------- */

/* The least that could do, in whole steps, and some more. */
static void add_caps(struct changes *changes)
{
    static const unsigned eighths[] = {8, 9, 10, 12, 16};
    const struct refusal *refusal = changes->refusal;
    uint64_t cap = refusal_cap(refusal), live = refusal_live(refusal, false), most = refusal->memory;
    most = most && most < MEMORY_MOST ? most : MEMORY_MOST;
    uint64_t least = live < most && refusal->event.a < most ? live + refusal->event.a : most;
    least = least > cap ? least : cap;
    for (size_t i = 0; i < sizeof eighths / sizeof eighths[0]; i++) {
        uint64_t bytes = (least / 8 * eighths[i] + POLICY_GROWTH_STEP - 1) / POLICY_GROWTH_STEP * POLICY_GROWTH_STEP;
        if (bytes <= cap || bytes > most)
            continue;
        char *value = format_text("%" PRIu64 "MiB", bytes >> 20);
        add(changes, (const struct setting[]){{"max_size", value}, {NULL, NULL}});
        free(value);
    }
    add_row(changes, (const unsigned char[KEYS_MAX]){UNCAPPED});
}

/* The whole ---------------------------------------------------------------------------------------------------------------------------- */

void changes_make(struct changes *changes, const struct script *script, const struct refusal *refusal)
{
    const struct trace_pool *own = refusal->event.pool;
    *changes = (struct changes){.refusal = refusal, .has_caches = script->has_caches};
    add_pool(changes, own);
    for (size_t i = 0; i < script->pool_count && !refusal->event.b; i++)
        if (script->pools[i]->device == own->device && !(script->pools[i]->flags & TRACE_POOL_HOST))
            add_pool(changes, script->pools[i]);
    if (!changes->pool_count)
        return;
    if (refusal->event.b)
        add_caps(changes);
    for (unsigned i = STEPS; i <= ARENA; i++)
        add_row(changes, (const unsigned char[KEYS_MAX]){(unsigned char)i});
}

void changes_add_several(struct changes *changes)
{
    for (size_t i = 0; i < sizeof several / sizeof several[0] && changes->pool_count; i++)
        add_row(changes, several[i]);
    for (size_t i = 0; i < sizeof uncapped / sizeof uncapped[0] && changes->pool_count && changes->refusal->event.b; i++)
        add_row(changes, uncapped[i]);
}

void changes_free(struct changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        free(changes->items[i].text);
        free(changes->items[i].assignments);
    }
    for (size_t i = 0; i < changes->pool_count; i++)
        free(changes->pools[i]);
    free(changes->items);
    free(changes->pools);
}
