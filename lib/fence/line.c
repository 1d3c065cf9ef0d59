/* SPDX-License-Identifier: MIT */
/* line.c - the tables of fences, lines and debts: which there are, and until when. */
#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/base/valid.h"
#include "lib/fence/fence_internal.h"

#define LINES_FEW 64                  /* lines of a device that are kept though nobody needs them */
#define LEGACY_ID (UINT64_C(1) << 63) /* stream 0 goes by this id: ids count up from 1, and numbers of Weir's own down from the largest */

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
struct weir__fences *weir__fences_first; /* guarded by it, as is the next */
static struct weir__line *lines;         /* all of the process, the latest first */

void weir__tables_lock(void)
{
    pthread_mutex_lock(&tables);
}

void weir__tables_unlock(void)
{
    pthread_mutex_unlock(&tables);
}

/* Making and dropping ------------------------------------------------------------------------------------------------------------------ */

/* Called with the tables' lock, but for that of a device. */
static struct weir__line *new_line(struct weir__fences *fences, enum weir__line_kind kind, const struct weir__caller *caller)
{
    struct weir__line *line = calloc(1, sizeof *line);
    if (!line)
        return NULL;
    pthread_mutex_init(&line->lock, NULL);
    line->fences = fences;
    line->handle = caller->handle;
    line->id = caller->id;
    atomic_init(&line->kind, kind);
    atomic_init(&line->step, 1);
    line->next = lines;
    if (lines)
        lines->before = line;
    lines = line;
    if (kind == WEIR__LINE_DEVICE)
        return line;
    fences->count++;
    line->is_listed = line->id;
    if (line->is_listed)
        weir__table_add(&fences->lines, &line->link, line->id, line->id);
    return line;
}

/* Called with the tables' lock: nobody finds the line from now on. */
static void unlist(struct weir__line *line)
{
    *(line->before ? &line->before->next : &lines) = line->next;
    if (line->next)
        line->next->before = line->before;
    if (line->is_listed)
        weir__table_remove(&line->fences->lines, &line->link);
    line->fences->count -= line != line->fences->whole;
}

/* A list by `next` of lines that are unlisted. Their fences may have gone by now. */
static void destroy_lines(const struct gpu *gpu, struct weir__line *first)
{
    while (first) {
        struct weir__line *line = first;
        first = line->next;
        while (line->count)
            gpu->event_destroy(line->marks[--line->count].event);
        if (line->spare)
            gpu->event_destroy(line->spare);
        while (line->debts) {
            struct weir__debt *debt = line->debts;
            line->debts = debt->next;
            free(debt);
        }
        pthread_mutex_destroy(&line->lock);
        free(line);
    }
}

/* Called with the tables' lock. */
static bool has_pending(const struct weir__line *line)
{
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (weir__debt_pending(debt))
            return true;
    return false;
}

/* Whether the line tells nobody anything any more. Called with the tables' lock. */
static bool is_needless(const struct weir__line *line)
{
    enum weir__line_kind kind = atomic_load(&line->kind);
    return !line->users && kind != WEIR__LINE_OPEN && kind != WEIR__LINE_DEVICE && !has_pending(line);
}

/* Takes the needless lines of the device out of the tables: a list by `next`. Called with the tables' lock. */
static struct weir__line *take_needless(struct weir__fences *fences)
{
    struct weir__line *taken = NULL;
    for (struct weir__line *line = lines, *next; line; line = next) {
        next = line->next;
        if (line->fences != fences || !is_needless(line))
            continue;
        unlist(line);
        line->next = taken;
        taken = line;
    }
    fences->limit = 2 * fences->count > LINES_FEW ? 2 * fences->count : LINES_FEW;
    return taken;
}

/* Looks first, since a line of which everything is complete may not know. */
static void drop_needless(struct weir__fences *fences)
{
    const struct weir__scope scope = {.fences = fences};
    weir__scope_look(&scope);
    weir__tables_lock();
    struct weir__line *taken = take_needless(fences);
    weir__tables_unlock();
    destroy_lines(fences->gpu, taken);
}

/* Fences ------------------------------------------------------------------------------------------------------------------------------- */

/* Called with the tables' lock. */
static struct weir__fences *new_fences(const struct gpu *gpu, int device, bool has_device_events)
{
    struct weir__fences *fences = calloc(1, sizeof *fences);
    if (!fences)
        return NULL;
    fences->gpu = gpu;
    fences->device = device;
    fences->has_device_events = has_device_events;
    fences->limit = LINES_FEW;
    fences->whole = new_line(fences, WEIR__LINE_DEVICE, &(struct weir__caller){.id = 0});
    if (!fences->whole) {
        free(fences);
        return NULL;
    }
    weir__table_init(&fences->lines);
    fences->next = weir__fences_first;
    weir__fences_first = fences;
    return fences;
}

struct weir__fences *weir__fences_join(const struct gpu *gpu, int device)
{
    bool has_device_events = gpu->supports(device, GPU_FEATURE_DEVICE_EVENT, NULL, 0);
    weir__tables_lock();
    struct weir__fences *fences = weir__fences_first;
    while (fences && (fences->gpu != gpu || fences->device != device))
        fences = fences->next;
    if (!fences)
        fences = new_fences(gpu, device, has_device_events);
    if (fences)
        fences->users++;
    weir__tables_unlock();
    return fences;
}

/* Takes the fences out of the list if nobody uses them, and no line is left but the device's, which no one waits for. Called with the
   tables' lock. */
static bool take_unused(struct weir__fences *fences)
{
    if (fences->users || fences->count || fences->parked || fences->retired || fences->whole->users || has_pending(fences->whole))
        return false;
    struct weir__fences **link = &weir__fences_first;
    while (*link != fences)
        link = &(*link)->next;
    *link = fences->next;
    unlist(fences->whole);
    fences->whole->next = NULL;
    return true;
}

static void destroy_fences(struct weir__fences *fences)
{
    destroy_lines(fences->gpu, fences->whole);
    weir__table_destroy(&fences->lines);
    free(fences);
}

void weir__fences_leave(struct weir__fences *fences)
{
    const struct weir__scope scope = {.fences = fences};
    const struct gpu *gpu = fences->gpu;
    weir__scope_look(&scope);
    weir__tables_lock();
    fences->users--;
    struct weir__line *taken = fences->users ? NULL : take_needless(fences);
    bool is_unused = take_unused(fences);
    weir__tables_unlock();
    destroy_lines(gpu, taken);
    if (is_unused)
        destroy_fences(fences);
}

/* Lines -------------------------------------------------------------------------------------------------------------------------------- */

static struct weir__caller one_name(const struct weir__caller *caller)
{
    if (!caller->handle || caller->handle == GPU_STREAM_LEGACY)
        return (struct weir__caller){.handle = GPU_STREAM_LEGACY, .id = LEGACY_ID};
    return *caller;
}

/* Called with the tables' lock. */
static struct weir__line *find(const struct weir__fences *fences, uint64_t id)
{
    struct weir__link *link = id ? weir__table_first(&fences->lines, id) : NULL;
    return link ? WEIR__ITEM(link, struct weir__line, link) : NULL;
}

struct weir__line *weir__line_of(struct weir__fences *fences, const struct weir__caller *caller)
{
    const struct weir__caller named = one_name(caller);
    weir__tables_lock();
    struct weir__line *line = find(fences, named.id);
    if (!line)
        line = new_line(fences, WEIR__LINE_PASSING, &named);
    bool is_full = fences->count > fences->limit;
    if (line)
        line->users++;
    weir__tables_unlock();
    if (is_full)
        drop_needless(fences);
    return line;
}

struct weir__line *weir__line_open(struct weir__fences *fences, const struct weir__caller *caller)
{
    const struct gpu *gpu = fences->gpu;
    struct weir__line *line = weir__line_of(fences, caller);
    if (!line)
        return NULL;
    struct gpu_context context = {.handle = NULL}; /* where the driver cannot tell, it counts as alive */
    int former = weir__current_begin(gpu, fences->device, line->handle);
    gpu->stream_context(line->handle, &context);
    weir__current_end(gpu, former);
    pthread_mutex_lock(&line->lock);
    line->context = context;
    line->openers++;
    atomic_store(&line->kind, WEIR__LINE_OPEN);
    pthread_mutex_unlock(&line->lock);
    return line;
}

void weir__line_put(struct weir__line *line)
{
    struct weir__fences *fences = line->fences;
    const struct gpu *gpu = fences->gpu;
    weir__tables_lock();
    bool is_lost = !line->id && line->users == 1;
    weir__tables_unlock();
    if (is_lost)
        weir__line_end_if(line, WEIR__LINE_PASSING); /* no other call will ever find it */
    weir__tables_lock();
    line->users--;
    bool is_dropped = is_needless(line) && (atomic_load(&line->kind) == WEIR__LINE_GONE || !fences->users);
    if (is_dropped) {
        unlist(line);
        line->next = NULL;
    }
    bool is_unused = take_unused(fences);
    weir__tables_unlock();
    if (is_dropped)
        destroy_lines(gpu, line);
    if (is_unused)
        destroy_fences(fences);
}

/* Scopes ------------------------------------------------------------------------------------------------------------------------------- */

/* What is pending on the line. Called with the tables' lock. */
static uint64_t pending_on(const struct weir__scope *scope, const struct weir__line *line)
{
    uint64_t bytes = 0;
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (scope->debts ? debt->owner == scope->debts : debt->owner->fences == scope->fences)
            bytes += weir__debt_pending(debt);
    return bytes;
}

/* In one look, so that what moves from line to line meanwhile counts once. */
uint64_t weir__scope_pending(const struct weir__scope *scope)
{
    uint64_t bytes = 0;
    weir__tables_lock();
    for (const struct weir__line *line = lines; line; line = line->next)
        if (!scope->line || line == scope->line)
            bytes += pending_on(scope, line);
    weir__tables_unlock();
    return bytes;
}

/* Whether something of the scope is pending on the line. Called with the tables' lock. */
static bool is_in(const struct weir__scope *scope, const struct weir__line *line)
{
    if (scope->line)
        return line == scope->line;
    if (!scope->debts && line->fences == scope->fences && (line->users || has_pending(line)))
        return true;
    return pending_on(scope, line);
}

struct weir__line *weir__scope_next(const struct weir__scope *scope, struct weir__line *after)
{
    weir__tables_lock();
    struct weir__line *line = after ? after->next : lines;
    while (line && !is_in(scope, line))
        line = line->next;
    if (line)
        line->users++;
    weir__tables_unlock();
    if (after)
        weir__line_put(after);
    return line;
}

void weir__fences_captures_over(struct weir__fences *fences)
{
    const struct weir__scope scope = {.fences = fences};
    for (struct weir__line *line = weir__scope_next(&scope, NULL); line; line = weir__scope_next(&scope, line))
        weir__line_end_if(line, WEIR__LINE_CAPTURED);
}

/* Debts -------------------------------------------------------------------------------------------------------------------------------- */

void weir__debts_init(struct weir__debts *debts, struct weir__fences *fences)
{
    *debts = (struct weir__debts){.fences = fences};
}

struct weir__debt *weir__debt_find(const struct weir__line *line, const struct weir__debts *debts)
{
    struct weir__debt *debt = line->debts;
    while (debt && debt->owner != debts)
        debt = debt->next;
    return debt;
}

/* Called with the tables' lock. */
static struct weir__debt *find_or_make(struct weir__line *line, struct weir__debts *debts)
{
    struct weir__debt *debt = weir__debt_find(line, debts);
    if (debt || !(debt = calloc(1, sizeof *debt)))
        return debt;
    weir__spin_init(&debt->lock);
    debt->owner = debts;
    debt->line = line;
    debt->next = line->debts;
    line->debts = debt;
    return debt;
}

struct weir__debt *weir__debt_of(struct weir__debts *debts, struct weir__line *line)
{
    weir__tables_lock();
    /* What the line cannot cover moves to that of its device, for which no memory may be missing then. */
    struct weir__debt *debt = find_or_make(line->fences->whole, debts) ? find_or_make(line, debts) : NULL;
    weir__tables_unlock();
    return debt;
}

bool weir__debts_have_none(const struct weir__debts *debts)
{
    for (const struct weir__line *line = lines; line; line = line->next) {
        struct weir__debt *debt = weir__debt_find(line, debts);
        if (debt && weir__debt_pending(debt))
            return false;
    }
    return !atomic_load(&debts->is_unknown);
}

bool weir__debts_are_settled(const struct weir__debts *debts)
{
    weir__tables_lock();
    bool are_settled = weir__debts_have_none(debts);
    weir__tables_unlock();
    return are_settled;
}

void weir__debts_end(struct weir__debts *debts)
{
    weir__tables_lock();
    for (struct weir__line *line = lines; line; line = line->next)
        for (struct weir__debt **link = &line->debts, *debt; (debt = *link);) {
            if (debt->owner != debts) {
                link = &debt->next;
                continue;
            }
            *link = debt->next;
            free(debt);
        }
    weir__tables_unlock();
}
