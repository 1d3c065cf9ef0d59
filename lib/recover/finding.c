/* SPDX-License-Identifier: MIT */
#include "lib/recover/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/held.h"
#include "lib/alloc/orphans.h"
#include "lib/base/format.h"

#define NOTEWORTHY 128  /* amounts below 1/128 of the request are not mentioned */

/* Sums over the pools that count: at a cap only the request's own pool, else all pools of the device with its memory. */
struct figures {
    const struct weir__report *report;
    const weir_pool *own;
    bool at_cap;
    uint64_t asked, live, cached, barred, orphaned, idle, reserved; /* barred: in caches of streams that capture */
    uint64_t pending, pinned; /* freed, but not seen complete; free, but in pages of arenas with live blocks */
    uint64_t unnoted;         /* freed on streams that are not open, with no event behind the free */
    uint64_t max_size;
    uint64_t free_bytes, total;  /* free and total bytes of the device */
    uint64_t leave;              /* the pool's `leave_free` */
    bool has_device;             /* these two are known, and bound what pools can have */
    const struct weir__tag *tag; /* the tag with the most live bytes; NULL: unknown */
    uint64_t tagged;
};

/* Appends a line if the whole line fits. */
__attribute__((format(printf, 2, 3))) static void say(char *text, const char *format, ...)
{
    size_t len = strlen(text), room = WEIR__FINDINGS_LEN - len;
    va_list arguments;
    va_start(arguments, format);
    int needed = vsnprintf(text + len, room, format, arguments);
    va_end(arguments);
    if (needed < 0 || (size_t)needed >= room)
        text[len] = '\0';
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

/* Adds pending frees of a pool that does not know of streams; the fences (lib/fence) know them. */
static void add_debts(struct figures *figures, const weir_pool *pool)
{
    const struct weir__scope scope = {.fences = pool->device->fences, .debts = &pool->backing->debts};
    uint64_t lost = weir__scope_lost(&scope), freed = weir__scope_pending(&scope);
    figures->unnoted += lost;
    figures->pending += freed > lost ? freed - lost : 0;
}

static void add_pool(struct figures *figures, weir_pool *pool)
{
    const struct weir__held held = weir__pool_held(pool);
    struct weir__backing_figures own;
    uint64_t pinned = 0;
    pool->backing->ops->figures(pool->backing, &own);
    figures->live += weir__less(held.live, weir__pool_asleep(pool));
    figures->cached += held.cached;
    figures->barred += held.cached ? weir__flush_barred(pool) : 0;
    figures->orphaned += weir__orphans_bytes(pool->device, pool);
    figures->reserved += own.reserved;
    figures->idle += own.idle;
    figures->pending += pool->backing->ops->pending(pool->backing);
    if (!pool->backing->ops->names_streams)
        add_debts(figures, pool);
    if (pool->backing->ops->pinned(pool->backing, &pinned))
        figures->pinned += pinned;
}

static bool counts(const struct figures *figures, const weir_pool *pool)
{
    return figures->at_cap ? pool == figures->own : !pool->native.is_host;
}

static void find_tag(struct figures *figures, const struct weir__holder *holders, size_t count)
{
    const struct weir__tags *tags = &figures->own->w->recorder.tags;
    uint64_t *sums = atomic_load(&tags->are_used) ? calloc(WEIR__TAGS_MAX + 1, sizeof *sums) : NULL;
    unsigned most = 0;
    for (size_t i = 0; i < count && sums; i++) {
        unsigned tag = weir__origin_tag(holders[i].origin);
        if (!tag || tag > WEIR__TAGS_MAX || !counts(figures, holders[i].pool))
            continue;
        sums[tag] += holders[i].size * holders[i].blocks;
        most = !most || sums[tag] > sums[most] ? tag : most;
    }
    figures->tag = most ? weir__tags_get(tags, most) : NULL;
    figures->tagged = most ? sums[most] : 0;
    /* Other threads allocate and free meanwhile, so the sums may not match. */
    if (figures->tagged > figures->live)
        figures->tag = NULL;
    free(sums);
}

static void take(struct figures *figures, const struct weir__report *report)
{
    const struct weir__request *request = report->request;
    weir_pool *own = request->pool;
    struct weir__device *device = own->device;
    *figures = (struct figures){.report = report, .own = own, .at_cap = request->at_cap, .asked = request->asked};
    figures->max_size = atomic_load(&own->settings.max_size);
    figures->leave = atomic_load(&own->backing->leave_free);
    figures->has_device =
        !device->info.os_managed && device->w->gpu->device_memory(device->index, &figures->free_bytes, &figures->total) == GPU_SUCCESS;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        if (counts(figures, pool))
            add_pool(figures, pool);
}

/* Words -------------------------------------------------------------------------------------------------------------------------------- */

/* Writes ", 24 GiB of them tag 'optimizer'", or "" without a tag. */
#define OF_THEM_LEN (WEIR__TAG_NAME_MAX + WEIR__BYTES_LEN + 32)
static const char *of_them(char text[static OF_THEM_LEN], const struct figures *figures)
{
    text[0] = '\0';
    if (figures->tag && figures->tagged)
        snprintf(text, OF_THEM_LEN, ", %s of them tag '%s'", WEIR__BYTES(figures->tagged), figures->tag->name);
    return text;
}

/* Returns a remark if the policy leaves this step out, else "". */
static const char *without(const struct figures *figures, weir_rung rung)
{
    bool is_left_out = !(atomic_load(&figures->own->settings.steps) >> rung & 1);
    switch (is_left_out ? rung : WEIR_RUNG_COUNT) {
    case WEIR_RUNG_FLUSH:
        return "; on_oom.steps has no flush";
    case WEIR_RUNG_WAIT:
        return "; on_oom.steps has no wait";
    case WEIR_RUNG_TRIM:
        return "; on_oom.steps has no trim";
    default:
        return "";
    }
}

static bool is_noteworthy(const struct figures *figures, uint64_t bytes)
{
    return bytes && bytes >= figures->asked / NOTEWORTHY;
}

/* The cap ------------------------------------------------------------------------------------------------------------------------------ */

/* Explains the failure by the cap. Returns whether the cap alone explains it. */
static bool say_cap(char *text, const struct figures *figures)
{
    uint64_t needed = sum_of(figures->live, figures->asked), max_size = figures->max_size;
    char tagged[OF_THEM_LEN];
    if (!max_size || needed <= max_size)
        return false;
    if (figures->asked > max_size)
        say(text, "\n  max_size of pool '%s', %s, is %s below what was asked", figures->own->name, WEIR__BYTES(max_size),
            WEIR__BYTES(figures->asked - max_size));
    else
        say(text, "\n  max_size of pool '%s', %s, is %s below what was needed: %s are live in it%s, and %s were asked", figures->own->name,
            WEIR__BYTES(max_size), WEIR__BYTES(needed - max_size), WEIR__BYTES(figures->live), of_them(tagged, figures),
            WEIR__BYTES(figures->asked));
    return true;
}

/* The device --------------------------------------------------------------------------------------------------------------------------- */

/* Returns whether the program has callbacks that were not called because the policy leaves that step out. */
static bool may_callbacks_help(const struct figures *figures)
{
    weir *w = figures->own->w;
    pthread_mutex_lock(&w->leaf);
    bool are_some = w->callbacks.first;
    pthread_mutex_unlock(&w->leaf);
    return are_some && !figures->report->rungs[WEIR_RUNG_CALLBACKS].ran;
}

/* Explains the failure by the live memory on the device. Returns whether that explains it. */
static bool say_device(char *text, const struct figures *figures)
{
    uint64_t needed = sum_of(figures->live, figures->asked);
    uint64_t had = sum_of(figures->free_bytes > figures->leave ? figures->free_bytes - figures->leave : 0, figures->reserved);
    char tagged[OF_THEM_LEN], kept[WEIR__BYTES_LEN + 32] = "";
    if (!figures->has_device || figures->asked > figures->total)
        return false;
    if (needed > figures->total) {
        say(text, "\n  %s are live%s: with %s more that is %s above all that the device has%s", WEIR__BYTES(figures->live),
            of_them(tagged, figures), WEIR__BYTES(figures->asked), WEIR__BYTES(needed - figures->total),
            may_callbacks_help(figures) ? "" : ", so no policy could have served this from it");
        return true;
    }
    if (needed <= had)
        return false;
    if (figures->leave)
        snprintf(kept, sizeof kept, "leave_free, %s, and ", WEIR__BYTES(figures->leave));
    say(text,
        "\n  %s are live%s: with %s more that is %s above what the device has beside %s%s that are in none of these pools (other processes "
        "have them, CUDA, or this program by other ways), so nothing that is cached or idle here could have served this",
        WEIR__BYTES(figures->live), of_them(tagged, figures), WEIR__BYTES(figures->asked), WEIR__BYTES(needed - had), kept,
        WEIR__BYTES(weir__less(figures->total, sum_of(figures->free_bytes, figures->reserved))));
    return true;
}

/* What stands in the way --------------------------------------------------------------------------------------------------------------- */

/* Tells of idle memory in CUDA's pools that no trim gives back. Memory behind unfinished work has a line of its own. */
static void say_left(char *text, const struct figures *figures)
{
    const char *live = figures->live ? ": they share steps of 32 MiB with what is live" : "";
    const char *unnoted = figures->unnoted ? ": they were freed on streams that Weir was not told of, and CUDA gives them back once the program "
                                             "synchronises with these; weir_stream_open() tells Weir of a stream"
                                           : "";
    if (is_noteworthy(figures, figures->report->left))
        say(text, "\n  %s were idle that the trim could not give back%s%s%s", WEIR__BYTES(figures->report->left), live,
            *live && *unnoted ? ", or" : "", *live && *unnoted ? unnoted + 1 : unnoted);
}

static void say_obstacles(char *text, const struct figures *figures)
{
    uint64_t apart = figures->orphaned + figures->barred;
    uint64_t cached = figures->cached > apart ? figures->cached - apart : 0;
    if (is_noteworthy(figures, figures->pinned))
        say(text, "\n  %s are idle but pinned: they are in pages of arenas in which something is live, so that no trim can give them back",
            WEIR__BYTES(figures->pinned));
    say_left(text, figures);
    if (*without(figures, WEIR_RUNG_TRIM) && is_noteworthy(figures, figures->idle))
        say(text, "\n  %s are idle%s", WEIR__BYTES(figures->idle), without(figures, WEIR_RUNG_TRIM));
    if (is_noteworthy(figures, cached))
        say(text, "\n  %s are in caches%s", WEIR__BYTES(cached), without(figures, WEIR_RUNG_FLUSH));
    if (is_noteworthy(figures, figures->barred))
        say(text, "\n  %s are in caches of streams that capture", WEIR__BYTES(figures->barred));
    if (is_noteworthy(figures, figures->orphaned))
        say(text, "\n  %s were freed on streams that captured or are gone, and work that may use them is not known to be done%s",
            WEIR__BYTES(figures->orphaned), without(figures, WEIR_RUNG_WAIT));
    if (is_noteworthy(figures, figures->pending))
        say(text, "\n  %s were freed behind work that is not known to be done%s", WEIR__BYTES(figures->pending),
            without(figures, WEIR_RUNG_WAIT));
}

void weir__findings_write(char text[static WEIR__FINDINGS_LEN], const struct weir__report *report, const struct weir__holder *holders,
                          size_t count)
{
    struct figures figures;
    text[0] = '\0';
    /* In these cases the device had enough memory. */
    if (report->request->ask.lack == WEIR__PAGE_NO_ADDRESSES || report->request->ask.lack == WEIR__PAGE_NO_HOST_MEMORY)
        return;
    take(&figures, report);
    find_tag(&figures, holders, count);
    if (figures.at_cap ? say_cap(text, &figures) : figures.own->native.is_host || say_device(text, &figures))
        return;
    say_obstacles(text, &figures);
}
