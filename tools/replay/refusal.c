/* SPDX-License-Identifier: MIT */
#include "tools/replay/refusal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "policy/policy.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/replay/policy.h"

#define STEP (UINT64_C(32) << 20) /* by which pools of CUDA grow */
#define PAGE (UINT64_C(2) << 20)  /* and arenas, and what unaware programs have, at least */

/* Finding it --------------------------------------------------------------------------------------------------------------------------- */

struct moment {
    uint64_t events, time;
};

struct search {
    struct moment *refusals;
    size_t count, room;
    uint64_t events;
    const char *mark; /* NULL: none is looked for */
    size_t behind;    /* refusals before the last mark of that name */
    bool has_mark;
};

static bool look_for(void *context, const struct trace_event *event)
{
    struct search *search = context;
    search->events++;
    if (event->kind == TRACE_MARK && search->mark && event->name && strcmp(event->name->text, search->mark) == 0) {
        search->behind = search->count;
        search->has_mark = true;
    } else if (event->kind == TRACE_OUT_OF_MEMORY && event->pool) {
        *MUST_ADD(search->refusals, search->count, search->room) = (struct moment){search->events, event->time};
    }
    return true;
}

static size_t nearest(const struct search *search, uint64_t time)
{
    size_t best = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < search->count; i++) {
        uint64_t at = search->refusals[i].time, distance = at > time ? at - time : time - at;
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

/* The place of the one that is asked for; search->count, after a complaint: none. */
static size_t choose(const struct search *search, const struct view *view, const struct view_file *file)
{
    uint64_t time;
    const char *path = file->trace.path;
    if (search->count == 0)
        complain("%s: no request in it failed for want of memory", path);
    else if (!view->at)
        return search->count - 1;
    else if (view_read_time(view->at, &time))
        return nearest(search, time > file->shift ? time - file->shift : 0);
    else if (!search->has_mark)
        complain("%s: --at=%s: it has no such mark, and this is no time, as 1.5s or 300ms; 'weir trace summary' lists the marks", path,
                 view->at);
    else if (search->behind == search->count)
        complain("%s: --at=%s: no request behind that mark failed for want of memory", path, view->at);
    else
        return search->behind;
    return search->count;
}

/* Managed memory goes to the host where the device is full. */
static bool is_managed(const struct trace_pool *pool)
{
    return pool->flags & TRACE_POOL_UNAWARE && strcmp(pool->name, "managed") == 0;
}

/* A pool that sleeps has nothing there. */
static bool is_of_device(const struct model_pool *pool, uint64_t device)
{
    const struct trace_pool *of = pool->pool;
    return of && !pool->is_asleep && !(of->flags & TRACE_POOL_HOST) && !is_managed(of) && of->device == device;
}

static const struct model_pool *own_pool(const struct refusal *refusal)
{
    return &refusal->model.pools[refusal->event.pool->number + 1];
}

/* Bytes that its pools on that device hold. */
static uint64_t held(const struct refusal *refusal, uint64_t device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < refusal->model.pool_count; i++)
        if (is_of_device(&refusal->model.pools[i], device))
            bytes += model_held(&refusal->model.pools[i]);
    return bytes;
}

struct copy {
    struct refusal *refusal;
    bool is_dump; /* what was live then follows it */
    bool has_trimmed; /* the thread, for a request that was not served since: */
    uint64_t thread, held;
};

/* A request that fails may leave the pool all that the device still had, and then nothing tells what others have; but it failed behind its
   trim as well. */
static void look_at_trim(struct copy *copy, const struct trace_event *event)
{
    if (event->kind == TRACE_TRIM && event->pool) {
        copy->has_trimmed = true;
        copy->thread = event->thread_number;
        copy->held = held(copy->refusal, event->pool->device);
    } else if (event->kind == TRACE_MALLOC && event->thread_number == copy->thread) {
        copy->has_trimmed = false;
    }
}

static bool look_until(void *context, const struct trace_event *event)
{
    struct copy *copy = context;
    struct refusal *refusal = copy->refusal;
    if (refusal->model.applied >= refusal->events &&
        !(copy->is_dump && (event->kind == TRACE_LIVE || event->kind == TRACE_CACHED || event->kind == TRACE_FIGURES)))
        return false;
    model_apply(&refusal->model, event);
    look_at_trim(copy, event);
    if (refusal->model.applied == refusal->events)
        refusal->event = *event;
    return true;
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Bytes of the pool's leave_free under the policy that was recorded. */
static uint64_t leave_of(const struct trace *trace, const struct trace_pool *pool, uint64_t memory)
{
    struct policy_errors errors = {.count = 0};
    struct policy *policy = NULL;
    char *text = replay_policy_recorded(trace);
    bool is_read = text && policy_parse(text, strlen(text), trace->path, NULL, &errors, &policy) == POLICY_OK;
    const struct policy_pool *entry = is_read ? policy_find_pool(policy, pool->name) : NULL;
    uint64_t leave = entry ? policy_size_bytes(entry->leave_free, memory) : 0;
    policy_free(policy);
    policy_errors_clear(&errors);
    free(text);
    return leave < memory ? leave : 0;
}

/* At the device the pools and what was free of it were together less than what the pool would have had to grow to. */
static uint64_t others_of(const struct refusal *refusal, uint64_t had)
{
    const struct trace_event *event = &refusal->event;
    uint64_t unit = event->pool->flags & (TRACE_POOL_ARENA | TRACE_POOL_UNAWARE) ? PAGE : STEP, asked = event->a ? (event->a - 1) / unit * unit : 0;
    if (event->b || event->pool->flags & TRACE_POOL_HOST || is_managed(event->pool) || own_pool(refusal)->has_changed ||
        sum_of(had, refusal->leave) > refusal->memory || asked > refusal->memory - refusal->leave - had)
        return 0;
    return refusal->memory - refusal->leave - had - asked;
}

bool refusal_find(struct refusal *refusal, const struct view *view, struct view_file *file)
{
    struct trace *trace = &file->trace;
    struct search search = {.mark = view->at};
    struct copy copy = {.refusal = refusal};
    *refusal = (struct refusal){.number = 0};
    bool is_read = view_hear(file, look_for, &search);
    size_t chosen = is_read ? choose(&search, view, file) : 0;
    bool is_found = is_read && chosen < search.count;
    if (is_found) {
        copy.is_dump = trace->header.reason && strcmp(trace->header.reason, "out of memory") == 0;
        refusal->events = search.refusals[chosen].events;
        refusal->number = chosen + 1;
        refusal->count = search.count;
        is_read = view_hear(file, look_until, &copy);
    }
    free(search.refusals);
    if (!is_read || !is_found || !refusal->event.pool)
        return false;
    refusal->memory = trace_memory(trace, refusal->event.pool->device);
    refusal->leave = own_pool(refusal)->has_changed ? 0 : leave_of(trace, refusal->event.pool, refusal->memory);
    uint64_t had = held(refusal, refusal->event.pool->device);
    if (copy.has_trimmed && copy.thread == refusal->event.thread_number && copy.held < had)
        had = copy.held;
    refusal->others = others_of(refusal, had);
    return true;
}

void refusal_free(struct refusal *refusal)
{
    model_free(&refusal->model);
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

uint64_t refusal_live(const struct refusal *refusal, bool of_device)
{
    uint64_t bytes = 0;
    if (!of_device)
        return own_pool(refusal)->live.size;
    for (size_t i = 0; i < refusal->model.pool_count; i++)
        if (is_of_device(&refusal->model.pools[i], refusal->event.pool->device))
            bytes += refusal->model.pools[i].live.size;
    return bytes;
}

uint64_t refusal_cap(const struct refusal *refusal)
{
    return own_pool(refusal)->has_settings ? own_pool(refusal)->cap : 0;
}

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

#define TAGGED_LEN 256

/* ", 24 GiB of them tag 'optimizer'": of the tag with the most, if any. */
static const char *of_them(char text[static TAGGED_LEN], const struct refusal *refusal, bool of_device)
{
    size_t count;
    struct holder *holders = view_holders(&refusal->model, BY_TAG | BY_POOL, &count);
    uint64_t *sums = must(calloc(refusal->model.tag_count + 1, sizeof *sums));
    size_t most = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct holder *holder = &holders[i];
        bool counts = of_device ? holder->pool && is_of_device(&refusal->model.pools[holder->pool->number + 1], refusal->event.pool->device)
                                : holder->pool == refusal->event.pool;
        if (!counts || !holder->tag)
            continue;
        size_t place = holder->tag->number + 1;
        sums[place] += holder->bytes;
        most = !most || sums[place] > sums[most] ? place : most;
    }
    if (most)
        snprintf(text, TAGGED_LEN, ", %s of them tag '%.128s'", SIZE_TEXT(sums[most]), SHOWN(refusal->model.tag_names[most]->text));
    free(holders);
    free(sums);
    return text;
}

#define LINE(...) snprintf(lines[count++], REFUSAL_LINE_LEN, __VA_ARGS__)

static size_t conclude_cap(const struct refusal *refusal, char lines[static REFUSAL_LINES][REFUSAL_LINE_LEN])
{
    const struct model_pool *pool = own_pool(refusal);
    uint64_t live = refusal_live(refusal, false), asked = refusal->event.a, cap = refusal_cap(refusal), needed = sum_of(live, asked);
    char tagged[TAGGED_LEN];
    size_t count = 0;
    if (!cap)
        LINE("The pool's max_size was reached; the trace does not tell what it was.");
    else if (asked > cap)
        LINE("max_size, %s, is %s below what was asked.", SIZE_TEXT(cap), SIZE_TEXT(asked - cap));
    else if (needed > cap)
        LINE("max_size, %s, is %s below what was needed: %s were live in the pool%s, and %s were asked.", SIZE_TEXT(cap),
             SIZE_TEXT(needed - cap), SIZE_TEXT(live), of_them(tagged, refusal, false), SIZE_TEXT(asked));
    else
        LINE(
            "With the %s that were live in the pool%s, the request is within max_size, %s: what was cached, idle or pinned was in its way.",
            SIZE_TEXT(live), of_them(tagged, refusal, false), SIZE_TEXT(cap));
    if (pool->has_reserved)
        LINE("The pool held %s, of which %s were live and %s cached.", SIZE_TEXT(model_held(pool)), SIZE_TEXT(live), SIZE_TEXT(pool->cached));
    return count;
}

static size_t conclude_device(const struct refusal *refusal, char lines[static REFUSAL_LINES][REFUSAL_LINE_LEN])
{
    uint64_t live = refusal_live(refusal, true), asked = refusal->event.a, memory = refusal->memory, needed = sum_of(live, asked);
    char tagged[TAGGED_LEN];
    size_t count = 0;
    of_them(tagged, refusal, true);
    if (!memory)
        LINE("%s were live%s; the trace does not tell how much memory the device has.", SIZE_TEXT(live), tagged);
    else if (needed > memory)
        LINE("%s were live%s: with %s more that is %s above all that the device has, %s, so no policy could have served this from it.",
             SIZE_TEXT(live), tagged, SIZE_TEXT(asked), SIZE_TEXT(needed - memory), SIZE_TEXT(memory));
    else if (needed > memory - refusal->others - refusal->leave)
        LINE(
            "%s were live%s: with %s more that is above what was left to the pools of %s, so nothing that was cached or idle in them could "
            "have served this.",
            SIZE_TEXT(live), tagged, SIZE_TEXT(asked), SIZE_TEXT(memory));
    else
        LINE("%s were live%s: with %s more that is within the %s of the device: what the pools held beside, or others, was in its way.",
             SIZE_TEXT(live), tagged, SIZE_TEXT(asked), SIZE_TEXT(memory));
    if (refusal->event.pool->flags & TRACE_POOL_UNAWARE)
        LINE("What an allocator of the program's own keeps for later counts as live.");
    if (own_pool(refusal)->has_changed)
        LINE("The pool's settings had changed since the recording began: it may have had to leave more free; the trace does not tell.");
    if (refusal->leave)
        LINE("The pool's leave_free, %s of the device, had to stay free.", SIZE_TEXT(refusal->leave));
    if (refusal->others)
        LINE("At least %s of the device were in none of these pools: other processes had them, CUDA, or this program by other ways.",
             SIZE_TEXT(refusal->others));
    uint64_t had = held(refusal, refusal->event.pool->device);
    /* What CUDA took from one pool for another is in both until each is asked again. */
    LINE("The pools of the device held %s.", SIZE_TEXT(live <= memory && had > memory ? memory : had));
    return count;
}

const char *refusal_reason(const struct refusal *refusal)
{
    const struct trace_pool *pool = refusal->event.pool;
    if (refusal->event.b)
        return "its max_size was reached";
    if (is_managed(pool))
        return "the driver gave no more";
    if (refusal->leave)
        return "the device had no more memory beside its leave_free";
    return pool->flags & TRACE_POOL_HOST ? "the host had no more memory" : "the device had no more memory";
}

size_t refusal_conclude(const struct refusal *refusal, char lines[static REFUSAL_LINES][REFUSAL_LINE_LEN])
{
    size_t count = 0;
    if (refusal->event.b)
        return conclude_cap(refusal, lines);
    if (!(refusal->event.pool->flags & TRACE_POOL_HOST) && !is_managed(refusal->event.pool))
        return conclude_device(refusal, lines);
    if (is_managed(refusal->event.pool))
        LINE("Managed memory goes to the host where the device is full: what the device had does not tell why the driver gave no more.");
    else
        LINE("The pool is in host memory, of which the host gave no more.");
    return count;
}

/* Changes of the policy that might have served it --------------------------------------------------------------------------------------- */

#define MEMORY_MOST (UINT64_C(1) << 40)

/* One key and its value. */
struct setting {
    const char *key, *value;
};

#define KEYS_MAX 6

enum { NO_MORE, STEPS, DEADLINE, THRESHOLD_NONE, THRESHOLD_SOME, THRESHOLD_ALL, CACHE_OFF, TWIN, LARGER_TWIN, LARGE_TWIN, NO_TWIN, ARENA, UNCAPPED, LEAVING_NONE };

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
    [LEAVING_NONE] = {"leave_free", "none"},
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
    *MUST_ADD(changes->items, changes->count, changes->room) = (struct change){must(text), must(assignments)};
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
    *MUST_ADD(changes->pools, changes->pool_count, changes->pool_room) = format_text("%s", pool->name);
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
    else if (refusal->leave)
        add_row(changes, (const unsigned char[KEYS_MAX]){LEAVING_NONE});
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
