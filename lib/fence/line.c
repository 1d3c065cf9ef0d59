/* SPDX-License-Identifier: MIT */
/* line.c - the tables of fences, lines and debts: how lines are found, opened, used and destroyed. */
#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/base/valid.h"
#include "lib/fence/fence_internal.h"

#define LINES_FEW 64                  /* weir__line_of() drops no lines while the device has at most this number */
#define LEGACY_ID (UINT64_C(1) << 63) /* the id of stream 0 here: CUDA's ids count up from 1, and Weir's own count down from the largest */

/* All threads use one and the same handle value for their per-thread streams. In the tables the address of this variable, which differs
   from thread to thread, replaces that value. */
static __thread char thread_name;

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
struct weir__fences *weir__fences_first; /* guarded by `tables`, as is weir__lines_first */
struct weir__line *weir__lines_first;    /* all lines of the process, the newest first */
_Atomic uint64_t weir__points_reached;

void weir__tables_lock(void)
{
    pthread_mutex_lock(&tables);
}

void weir__tables_unlock(void)
{
    pthread_mutex_unlock(&tables);
}

/* Making and dropping ------------------------------------------------------------------------------------------------------------------ */

/* Returns the hash key (`at`) of a line in fences->lines: the stream's handle, or an address for a per-thread stream. Two streams may have
   the same handle one after the other; the id, which is the item's `key`, tells them apart. */
static uint64_t place_of(gpu_stream handle)
{
    return handle == GPU_STREAM_PER_THREAD ? (uint64_t)(uintptr_t)&thread_name : (uint64_t)(uintptr_t)handle;
}

/* Makes a line and adds it to the tables. Returns NULL if host memory runs out. The caller holds the tables' lock. */
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
    line->next = weir__lines_first;
    if (line->next)
        line->next->before = line;
    weir__lines_first = line;
    if (kind == WEIR__LINE_DEVICE)
        return line;
    fences->count++;
    line->is_listed = line->id;
    if (line->is_listed)
        weir__table_add(&fences->lines, &line->link, place_of(line->handle), line->id);
    return line;
}

/* Takes the line out of the tables, so that no thread finds it any more. The caller holds the tables' lock. */
static void unlist(struct weir__line *line)
{
    *(line->before ? &line->before->next : &weir__lines_first) = line->next;
    if (line->next)
        line->next->before = line->before;
    if (line->is_listed)
        weir__table_remove(&line->fences->lines, &line->link);
    line->fences->count -= line != line->fences->whole;
}

/* Destroys a list, linked by `next`, of lines that unlist() has taken out of the tables. Their fences may be destroyed already. */
static void destroy_lines(const struct gpu *gpu, struct weir__line *first)
{
    while (first) {
        struct weir__line *line = first;
        first = line->next;
        while (line->count)
            weir__event_destroy(gpu, line->marks[--line->count].event);
        if (line->spare)
            weir__event_destroy(gpu, line->spare);
        while (line->debts) {
            struct weir__debt *debt = line->debts;
            line->debts = debt->next;
            free(debt);
        }
        pthread_mutex_destroy(&line->lock);
        free(line);
    }
}

/* Returns whether anything is pending on the line. The caller holds the tables' lock. */
static bool has_pending(const struct weir__line *line)
{
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (weir__debt_pending(debt))
            return true;
    return false;
}

/* Returns whether the line can be destroyed: no caller uses the line, nothing is pending on it, and it is neither OPEN nor the DEVICE line.
   The caller holds the tables' lock. */
static bool is_needless(const struct weir__line *line)
{
    enum weir__line_kind kind = atomic_load(&line->kind);
    return !line->users && kind != WEIR__LINE_OPEN && kind != WEIR__LINE_DEVICE && !has_pending(line);
}

/* Takes the needless lines of the device out of the tables, and returns them as a list by `next`. The caller holds the tables' lock. */
static struct weir__line *take_needless(struct weir__fences *fences)
{
    struct weir__line *taken = NULL;
    for (struct weir__line *line = weir__lines_first, *next; line; line = next) {
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

/* Makes PASSING lines of the device GONE, except stream 0 and lines with marks. Otherwise a program that makes and destroys many streams
   would pile up lines. Pending frees on a GONE line move to the DEVICE line. */
static void forget_passing(struct weir__fences *fences)
{
    const struct weir__scope scope = {.fences = fences};
    for (struct weir__line *line = weir__scope_next(&scope, NULL); line; line = weir__scope_next(&scope, line))
        if (line->fences == fences && !weir__line_look(line) && !weir__line_is_legacy(line))
            weir__line_end_if(line, WEIR__LINE_PASSING);
}

/* Destroys the needless lines of the device. forget_passing() queries the marks of each line first, since frees can be complete without
   Weir having noticed. */
static void drop_needless(struct weir__fences *fences)
{
    forget_passing(fences);
    weir__tables_lock();
    struct weir__line *taken = take_needless(fences);
    weir__tables_unlock();
    destroy_lines(fences->gpu, taken);
}

/* Fences ------------------------------------------------------------------------------------------------------------------------------- */

/* Makes the fences of a device and adds them to the list. Returns NULL if host memory runs out. The caller holds the tables' lock. */
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

/* Takes the fences out of the list if they have no users, no parked blocks and no line but an unused DEVICE line with nothing pending.
   Returns whether it did: the caller then destroys the fences. The caller holds the tables' lock. */
static bool take_unused(struct weir__fences *fences)
{
    if (fences->users || fences->count || fences->parked || fences->whole->users || has_pending(fences->whole))
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

/* Returns the caller under the name by which the tables know its stream. Stream 0 has two handles, NULL and GPU_STREAM_LEGACY, and one
   name. */
static struct weir__caller one_name(const struct weir__caller *caller)
{
    if (!caller->handle || caller->handle == GPU_STREAM_LEGACY)
        return (struct weir__caller){.handle = GPU_STREAM_LEGACY, .id = LEGACY_ID};
    return *caller;
}

/* Returns the line of that handle and id, or NULL. The caller holds the tables' lock. */
static struct weir__line *find(const struct weir__fences *fences, const struct weir__caller *named)
{
    struct weir__link *link = named->id ? weir__table_first(&fences->lines, place_of(named->handle)) : NULL;
    while (link && atomic_load(&link->key) != named->id)
        link = weir__table_next(link);
    return link ? WEIR__ITEM(link, struct weir__line, link) : NULL;
}

/* Returns the line with that handle that is OPEN, or else one that is PASSING, or NULL. If `owner` is not NULL, only lines on which the
   owner has a debt count. The caller holds the tables' lock. */
static struct weir__line *find_alive(const struct weir__fences *fences, gpu_stream handle, const struct weir__debts *owner)
{
    struct weir__line *found = NULL;
    for (struct weir__link *link = weir__table_first(&fences->lines, place_of(handle)); link; link = weir__table_next(link)) {
        struct weir__line *line = WEIR__ITEM(link, struct weir__line, link);
        enum weir__line_kind kind = atomic_load(&line->kind);
        bool is_better = kind == WEIR__LINE_OPEN || (kind == WEIR__LINE_PASSING && !found);
        if (is_better && (!owner || weir__debt_find(line, owner)))
            found = line;
    }
    return found;
}

/* The line can become GONE at any moment. A line that becomes GONE moves its debts under the tables' lock. This function holds that lock,
   so the move includes the bytes counted here. */
bool weir__line_count_by_handle(struct weir__fences *fences, gpu_stream handle, struct weir__debts *debts, const void *memory,
                                uint64_t bytes, struct weir__line **due)
{
    const struct weir__caller named = one_name(&(struct weir__caller){.handle = handle});
    weir__tables_lock();
    struct weir__line *line = find_alive(fences, named.handle, debts);
    struct weir__debt *debt = line ? weir__debt_find(line, debts) : NULL;
    *due = NULL;
    if (debt) {
        uint64_t added = weir__debt_add_at(debt, memory, bytes, atomic_load(&line->step));
        bool is_due = atomic_fetch_add(&line->uncovered, added) + added >= WEIR__PASSING_BYTES;
        if (is_due && atomic_load(&line->kind) != WEIR__LINE_OPEN) {
            line->users++;
            *due = line;
        }
    }
    weir__tables_unlock();
    return debt;
}

bool weir__line_is_legacy(const struct weir__line *line)
{
    return line->id == LEGACY_ID;
}

void weir__fences_cover_legacy(struct weir__fences *fences)
{
    weir__tables_lock();
    struct weir__line *line = find_alive(fences, GPU_STREAM_LEGACY, NULL);
    if (line)
        line->users++;
    weir__tables_unlock();
    if (!line)
        return;
    weir__line_cover(line, true);
    weir__line_put(line);
}

struct weir__line *weir__line_of(struct weir__fences *fences, const struct weir__caller *caller)
{
    const struct weir__caller named = one_name(caller);
    weir__tables_lock();
    struct weir__line *line = find(fences, &named);
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
    struct gpu_context context = {.handle = NULL}; /* if the driver cannot tell the context, the handle stays NULL, which counts as alive */
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

/* A line and fences to destroy after the tables' lock is released, or NULL. */
struct dropped {
    const struct gpu *gpu;
    struct weir__line *line;
    struct weir__fences *fences;
};

/* Ends one use of the line, and fills `dropped`. The caller holds the tables' lock, and passes `dropped` to drop() after releasing it. */
static void put(struct weir__line *line, struct dropped *dropped)
{
    struct weir__fences *fences = line->fences;
    dropped->gpu = fences->gpu;
    line->users--;
    if (is_needless(line) && (atomic_load(&line->kind) == WEIR__LINE_GONE || !fences->users)) {
        unlist(line);
        line->next = NULL;
        dropped->line = line;
    }
    dropped->fences = take_unused(fences) ? fences : NULL;
}

static void drop(const struct dropped *dropped)
{
    destroy_lines(dropped->gpu, dropped->line);
    if (dropped->fences)
        destroy_fences(dropped->fences);
}

void weir__line_hold(struct weir__line *line)
{
    weir__tables_lock();
    line->users++;
    weir__tables_unlock();
}

void weir__line_put(struct weir__line *line)
{
    struct dropped dropped = {.line = NULL};
    weir__tables_lock();
    if (!line->id && line->users == 1) {
        weir__tables_unlock();
        weir__line_end_if(line, WEIR__LINE_PASSING); /* without an id, no later call finds the line, so this use is the last */
        weir__tables_lock();
    }
    put(line, &dropped);
    weir__tables_unlock();
    drop(&dropped);
}

void weir__line_end(struct weir__line *line, bool is_seen)
{
    pthread_mutex_lock(&line->lock);
    if (is_seen) {
        atomic_store(&line->uncovered, 0);
        weir__line_reach(line, atomic_fetch_add(&line->step, 1));
    }
    pthread_mutex_unlock(&line->lock);
    weir__line_close(line);
    weir__line_put(line);
}

/* Scopes ------------------------------------------------------------------------------------------------------------------------------- */

bool weir__scope_has(const struct weir__scope *scope, const struct weir__debts *owner)
{
    if (scope->debts)
        return owner == scope->debts;
    return owner->fences == scope->fences && (!scope->group || owner->group == scope->group);
}

uint64_t weir__scope_pending_on(const struct weir__scope *scope, const struct weir__line *line, uint64_t step)
{
    uint64_t bytes = 0;
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (weir__scope_has(scope, debt->owner) && weir__debt_pending(debt))
            bytes += weir__debt_bytes(debt, atomic_load(&line->done), step);
    return bytes;
}

/* The loop holds the tables' lock throughout, so that bytes which move from one line to another are counted once. */
uint64_t weir__scope_pending(const struct weir__scope *scope)
{
    uint64_t bytes = 0;
    weir__tables_lock();
    for (const struct weir__line *line = weir__lines_first; line; line = line->next)
        if (!scope->line || line == scope->line)
            bytes += weir__scope_pending_on(scope, line, UINT64_MAX);
    weir__tables_unlock();
    return bytes;
}

void weir__line_add_point(struct weir__line *line, const void *group)
{
    line->is_mixed = line->points && (line->is_mixed || line->group != group);
    if (!line->points)
        line->group = group;
    atomic_fetch_add(&line->points, 1);
    line->users++;
}

/* Returns whether the scope's group has parked a block with a point on the line. Looks through the blocks only if several groups have
   points there. The caller holds the tables' lock. */
static bool has_point(const struct weir__scope *scope, const struct weir__line *line)
{
    if (!line->is_mixed || !line->points)
        return line->points && line->group == scope->group;
    for (const struct weir__parked *parked = scope->fences->parked; parked; parked = parked->next)
        for (size_t i = 0; i < parked->count && parked->group == scope->group; i++)
            if (parked->points[i].line == line)
                return true;
    return false;
}

/* Returns whether the line belongs to the scope: memory of the scope is pending there, or may become pending, since the line is in use. The
   caller holds the tables' lock. */
static bool is_in(const struct weir__scope *scope, const struct weir__line *line)
{
    if (scope->line)
        return line == scope->line;
    bool is_waited_for = (scope->is_parked || scope->group) && has_point(scope, line);
    if (is_waited_for || scope->is_parked)
        return is_waited_for;
    bool is_whole = !scope->debts && !scope->group && line->fences == scope->fences;
    if (is_whole && (line->users || has_pending(line)))
        return true;
    for (struct weir__debt *debt = line->debts; debt; debt = debt->next)
        if (weir__scope_has(scope, debt->owner) && (line->users || weir__debt_pending(debt)))
            return true;
    return false;
}

struct weir__line *weir__scope_next(const struct weir__scope *scope, struct weir__line *after)
{
    struct dropped dropped = {.line = NULL};
    weir__tables_lock();
    struct weir__line *line = after ? after->next : weir__lines_first;
    while (line && !is_in(scope, line))
        line = line->next;
    if (line)
        line->users++;
    bool may_be_lost = after && !after->id;
    if (after && !may_be_lost)
        put(after, &dropped);
    weir__tables_unlock();
    drop(&dropped);
    if (may_be_lost)
        weir__line_put(after);
    return line;
}

void weir__fences_captures_over(struct weir__fences *fences, const void *group)
{
    const struct weir__scope scope = {.fences = fences, .group = group};
    for (struct weir__line *line = weir__scope_next(&scope, NULL); line; line = weir__scope_next(&scope, line))
        weir__line_end_if(line, WEIR__LINE_CAPTURED);
}
