/* SPDX-License-Identifier: MIT */
/* wait.c - pending memory: its bytes, how the host or a stream waits for it, and the blocks released when nothing is pending. */
#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/base/event.h"
#include "lib/fence/fence_internal.h"

#define IDLE_MAX 256 /* the most OPEN lines without counted frees that weir__scope_cover() covers: each event costs 1 to 2 µs */

/* The host ----------------------------------------------------------------------------------------------------------------------------- */

/* weir__scope_pending_on() for callers that do not hold the tables' lock. */
static uint64_t pending_on(const struct weir__scope *scope, const struct weir__line *line, uint64_t step)
{
    weir__tables_lock();
    uint64_t bytes = weir__scope_pending_on(scope, line, step);
    weir__tables_unlock();
    return bytes;
}

/* Returns the step of the newest mark, or 0. The caller holds the line's lock. */
static uint64_t newest_step(const struct weir__line *line)
{
    return line->count ? line->marks[line->count - 1].step : 0;
}

uint64_t weir__scope_marked(const struct weir__scope *scope)
{
    uint64_t bytes = 0;
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line)) {
        pthread_mutex_lock(&line->lock);
        bytes += pending_on(scope, line, newest_step(line));
        pthread_mutex_unlock(&line->lock);
    }
    return bytes;
}

uint64_t weir__scope_lost(const struct weir__scope *scope)
{
    uint64_t bytes = 0;
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line)) {
        pthread_mutex_lock(&line->lock);
        if (atomic_load(&line->kind) != WEIR__LINE_OPEN)
            bytes += pending_on(scope, line, UINT64_MAX) - pending_on(scope, line, newest_step(line));
        pthread_mutex_unlock(&line->lock);
    }
    return bytes;
}

static bool is_late(const struct weir__scope *scope)
{
    return scope->deadline && scope->fences->gpu->now() > scope->deadline;
}

void weir__scope_cover(const struct weir__scope *scope, bool all)
{
    unsigned idle = 0;
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line)) {
        if (is_late(scope))
            continue;
        if (all && atomic_load(&line->kind) == WEIR__LINE_OPEN && (atomic_load(&line->uncovered) || idle++ < IDLE_MAX))
            weir__line_cover_anyway(line, false);
        else
            weir__line_cover(line, false);
    }
}

unsigned weir__scope_look(const struct weir__scope *scope)
{
    unsigned left = 0;
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line)) {
        left += is_late(scope) ? weir__line_marks(line, scope) : weir__line_look_for(line, scope);
        pending_on(scope, line, 0); /* called for its effect: bytes that have become complete leave the debts, which raises `completed` */
    }
    return left;
}

bool weir__scope_finish(const struct weir__scope *scope, uint64_t deadline)
{
    uint64_t pause = 0;
    unsigned left;
    do
        left = weir__scope_look(scope);
    while (left && weir__event_pause(scope->fences->gpu, &pause, deadline));
    return !left;
}

void weir__wait_begin(struct weir__wait *wait, const struct weir__scope *scope, bool all)
{
    /* Called for its effect: bytes that are complete already leave the debts, and the wait does not count them. */
    weir__scope_pending(scope);
    *wait = (struct weir__wait){.scope = *scope, .completed = atomic_load(&scope->fences->completed)};
    weir__scope_cover(scope, all);
    if (!wait->scope.until)
        wait->scope.until = weir__marks_made();
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line))
        wait->left += weir__line_marks(line, &wait->scope);
}

bool weir__wait_look(struct weir__wait *wait, uint64_t *bytes)
{
    unsigned left = weir__scope_look(&wait->scope);
    uint64_t completed = atomic_load(&wait->scope.fences->completed);
    *bytes = completed - wait->completed;
    bool has_ended = *bytes || left < wait->left;
    wait->completed = completed;
    wait->left = left;
    return has_ended;
}

/* All work of the device --------------------------------------------------------------------------------------------------------------- */

/* Returns whether the frees of this line need an event behind all work of the device: no call may name the stream any more. Calls can
   always name stream 0, and CUDA releases its frees only behind an event on stream 0. */
static bool is_for_device(const struct weir__line *line)
{
    enum weir__line_kind kind = atomic_load(&line->kind);
    return (kind == WEIR__LINE_PASSING && !weir__line_is_legacy(line)) || kind == WEIR__LINE_GONE || kind == WEIR__LINE_DEVICE;
}

/* Moves frees that only an event behind all work can cover to the DEVICE line. A GONE line has such frees anew if a mark broke. */
static void gather(struct weir__fences *fences)
{
    const struct weir__scope scope = {.fences = fences};
    for (struct weir__line *line = weir__scope_next(&scope, NULL); line; line = weir__scope_next(&scope, line)) {
        if (line->fences != fences)
            continue;
        pthread_mutex_lock(&line->lock);
        if (is_for_device(line))
            weir__line_move_to_device(line);
        pthread_mutex_unlock(&line->lock);
    }
}

/* Returns whether the process uses the device already. If not, there is no work to wait for, and recording an event would make the process
   use the device. */
static bool is_used(const struct weir__fences *fences)
{
    bool used = true;
    fences->gpu->device_is_used(fences->device, &used);
    return used;
}

/* Completes all frees on the DEVICE line without an event. Synchronises the device if the process uses the device (`works`), with no lock
   held, since the device's work may take long. Returns false if CUDA failed to synchronise. */
static bool synchronise(struct weir__line *whole, bool works)
{
    uint64_t taken = atomic_exchange(&whole->uncovered, 0);
    weir__tables_lock();
    bool is_needed = weir__line_is_needed(whole, atomic_load(&whole->done), UINT64_MAX);
    weir__tables_unlock();
    if (!is_needed)
        return true;
    uint64_t ended = atomic_fetch_add(&whole->step, 1);
    if (works && whole->fences->gpu->device_synchronize(whole->fences->device) != GPU_SUCCESS) {
        atomic_fetch_add(&whole->uncovered, taken);
        return false;
    }
    pthread_mutex_lock(&whole->lock);
    if (atomic_load(&whole->done) < ended)
        weir__line_reach(whole, ended);
    pthread_mutex_unlock(&whole->lock);
    return true;
}

bool weir__fences_cover_device(struct weir__fences *fences, bool may_synchronise)
{
    struct weir__line *whole = fences->whole;
    if (!fences->has_device_events && !may_synchronise)
        return false;
    gather(fences);
    bool works = is_used(fences);
    if (!fences->has_device_events || !works)
        return synchronise(whole, works);
    pthread_mutex_lock(&whole->lock);
    bool is_covered = weir__line_cover_locked(whole, true) == GPU_SUCCESS;
    pthread_mutex_unlock(&whole->lock);
    return is_covered;
}

static bool needs_device(const struct weir__line *line)
{
    return is_for_device(line) && atomic_load(&line->uncovered);
}

bool weir__scope_needs_devices(const struct weir__scope *scope)
{
    bool any = false;
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line))
        any = any || needs_device(line);
    return any;
}

void weir__scope_cover_devices(const struct weir__scope *scope, bool may_synchronise)
{
    for (struct weir__line *line = weir__scope_next(scope, NULL); line; line = weir__scope_next(scope, line))
        if (needs_device(line))
            weir__fences_cover_device(line->fences, may_synchronise);
}

/* Another stream ----------------------------------------------------------------------------------------------------------------------- */

/* Makes the stream of `user` wait for the mark of `lender`. Returns whether CUDA's call succeeded. The caller holds the lender's lock. */
static bool wait_for(struct weir__line *user, struct weir__line *lender, const struct weir__mark *mark)
{
    const struct gpu *gpu = user->fences->gpu;
    int former = weir__current_begin(gpu, user->fences->device, user->handle);
    bool waits = weir__line_is_current(user) && gpu->stream_wait_event(user->handle, mark->event) == GPU_SUCCESS;
    weir__current_end(gpu, former);
    if (waits && lender->passed < mark->step)
        lender->passed = mark->step;
    return waits;
}

/* Makes the stream of `own` wait for the mark, and moves the bytes of `debt` that the mark covers to `own`. Adds these bytes to *got.
   Returns false if the wait failed. The caller holds the lock of the line of `debt`. */
static bool pass(struct weir__debt *debt, const struct weir__mark *mark, struct weir__debt *own, uint64_t *got)
{
    struct weir__line *lender = debt->line, *user = own->line;
    if (!wait_for(user, lender, mark))
        return false;
    weir__tables_lock(); /* so that no other thread counts pending bytes while these are in neither debt */
    uint64_t bytes = weir__debt_pass(debt, atomic_load(&lender->done), mark->step, own, atomic_load(&user->step));
    weir__tables_unlock();
    atomic_fetch_add(&user->uncovered, bytes);
    *got += bytes;
    return true;
}

/* Moves bytes of the owner from `lender` to `own`, until *got is at least `enough`: first the bytes that the lender's marks cover, then, if
   these are too few, those that one new mark covers. */
static void borrow(struct weir__line *lender, struct weir__debt *own, uint64_t enough, uint64_t *got)
{
    weir__tables_lock();
    struct weir__debt *debt = weir__debt_find(lender, own->owner);
    weir__tables_unlock();
    pthread_mutex_lock(&lender->lock);
    bool goes_on = debt, is_covered = false;
    for (unsigned i = 0; goes_on && *got < enough && weir__debt_has(debt, atomic_load(&lender->done), UINT64_MAX); i++) {
        if (i >= lender->count) {
            if (is_covered || weir__line_cover_locked(lender, false) != GPU_SUCCESS || !lender->count)
                break;
            is_covered = true;
            i = lender->count - 1; /* the new mark */
        }
        const struct weir__mark *mark = &lender->marks[i];
        if (weir__debt_has(debt, atomic_load(&lender->done), mark->step))
            goes_on = pass(debt, mark, own, got);
    }
    pthread_mutex_unlock(&lender->lock);
}

/* If a mark covers all frees of `lender`, or can be recorded now, makes the stream of `own` wait for that mark, and adds the bytes pending
   on `lender` to *got. */
static void borrow_all(struct weir__line *lender, struct weir__debt *own, uint64_t enough, uint64_t *got)
{
    (void)enough;
    weir__tables_lock();
    struct weir__debt *debt = weir__debt_find(lender, own->owner);
    weir__tables_unlock();
    pthread_mutex_lock(&lender->lock);
    uint64_t bytes = debt && lender->fences == own->line->fences ? weir__debt_pending(debt) : 0;
    if (bytes && weir__line_cover_locked(lender, false) == GPU_SUCCESS && lender->count &&
        wait_for(own->line, lender, &lender->marks[lender->count - 1]))
        *got += bytes;
    pthread_mutex_unlock(&lender->lock);
}

/* Calls `borrow_from` for the lines on which the owner has memory pending, but not for `user`, until *got is at least `bytes`. */
static uint64_t order(struct weir__debts *debts, struct weir__line *user, uint64_t bytes,
                      void (*borrow_from)(struct weir__line *lender, struct weir__debt *own, uint64_t enough, uint64_t *got))
{
    const struct weir__scope scope = {.fences = debts->fences, .debts = debts};
    struct weir__debt *own = weir__debt_of(debts, user);
    struct weir__line *line = own ? weir__scope_next(&scope, NULL) : NULL;
    uint64_t got = 0;
    pthread_mutex_lock(&user->lock);
    weir__line_revive(user);
    pthread_mutex_unlock(&user->lock);
    for (; line && got < bytes; line = weir__scope_next(&scope, line))
        if (line != user && atomic_load(&line->kind) != WEIR__LINE_DEVICE)
            borrow_from(line, own, bytes, &got);
    if (line)
        weir__line_put(line);
    /* Weir may not use the stream of a PASSING line after this call, so record its mark now. */
    if (got && atomic_load(&user->kind) == WEIR__LINE_PASSING)
        weir__line_cover(user, true);
    return got;
}

uint64_t weir__debts_order(struct weir__debts *debts, struct weir__line *user, uint64_t bytes)
{
    return order(debts, user, bytes, borrow);
}

uint64_t weir__debts_order_newest(struct weir__debts *debts, struct weir__line *user, uint64_t bytes)
{
    return order(debts, user, bytes, borrow_all);
}

/* Parking ------------------------------------------------------------------------------------------------------------------------------ */

struct weir__parked *weir__parked_new(size_t room)
{
    size_t bytes;
    if (__builtin_mul_overflow(room, sizeof(struct weir__point), &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct weir__parked), &bytes))
        return NULL;
    struct weir__parked *parked = calloc(1, bytes);
    if (parked)
        parked->room = room;
    return parked;
}

/* The caller holds the tables' lock. */
static void link_parked(struct weir__fences *fences, struct weir__parked *parked)
{
    parked->next = atomic_load(&fences->parked);
    atomic_store(&fences->parked, parked);
    atomic_fetch_add(&weir__points_reached, 1);
}

/* A point on a GONE line moves to the DEVICE line, and so becomes complete, after weir__fences_cover_device(). */
void weir__park(struct weir__fences *fences, struct weir__parked *parked, struct weir__line *const *lines, size_t count)
{
    weir__tables_lock();
    for (size_t i = 0; i < count && parked->count < parked->room; i++) {
        struct weir__line *line = lines[i];
        weir__line_add_point(line, parked->group);
        parked->points[parked->count++] = (struct weir__point){.line = line, .step = atomic_load(&line->step)};
        atomic_fetch_add(&line->uncovered, 1); /* not 0, so that covering the line records a mark behind the parked blocks, too */
    }
    link_parked(fences, parked);
    weir__tables_unlock();
}

/* Returns whether each point of the block is complete or lies on the line `own`. */
static bool is_reached(const struct weir__parked *parked, const struct weir__line *own)
{
    for (size_t i = 0; i < parked->count; i++)
        if (parked->points[i].line != own && atomic_load(&parked->points[i].line->done) < parked->points[i].step)
            return false;
    return true;
}

/* Takes the group's parked blocks out of the list, all of them or those that is_reached() accepts; none if nothing has changed since the
   last call for `own`. A point that is reached during this call is found by the next one. Returns a list by `next`. */
static struct weir__parked *take(struct weir__fences *fences, const void *group, struct weir__line *own, bool all)
{
    struct weir__parked *taken, **end = &taken;
    uint64_t reached = atomic_load(&weir__points_reached);
    weir__tables_lock();
    bool is_vain = own && own->looked == reached && own->looked_for == group;
    if (own) {
        own->looked = reached;
        own->looked_for = group;
    }
    struct weir__parked *first = atomic_load(&fences->parked), *parked;
    for (struct weir__parked **link = &first; !is_vain && (parked = *link);) {
        if (parked->group != group || !(all || is_reached(parked, own))) {
            link = &parked->next;
            continue;
        }
        *link = parked->next;
        *end = parked;
        end = &parked->next;
        for (size_t i = 0; i < parked->count; i++)
            weir__line_drop_point(parked->points[i].line);
    }
    atomic_store(&fences->parked, first);
    *end = NULL;
    weir__tables_unlock();
    for (parked = taken; parked; parked = parked->next)
        while (parked->count)
            weir__line_put(parked->points[--parked->count].line);
    return taken;
}

struct weir__parked *weir__fences_settled(struct weir__fences *fences, const void *group, struct weir__line *own)
{
    return take(fences, group, own, false);
}

/* Unlinks and returns the oldest parked block of the group that waits for streams and for no DEVICE line, or NULL. */
static struct weir__parked *unlink_oldest(struct weir__fences *fences, const void *group)
{
    struct weir__parked *before = NULL, *oldest = NULL, *last = NULL;
    weir__tables_lock();
    for (struct weir__parked *parked = atomic_load(&fences->parked); parked; last = parked, parked = parked->next) {
        bool is_streams = parked->group == group && parked->count;
        for (size_t i = 0; i < parked->count && is_streams; i++)
            is_streams = atomic_load(&parked->points[i].line->kind) != WEIR__LINE_DEVICE;
        if (is_streams) {
            before = last;
            oldest = parked;
        }
    }
    if (oldest && before)
        before->next = oldest->next;
    else if (oldest)
        atomic_store(&fences->parked, oldest->next);
    weir__tables_unlock();
    return oldest;
}

/* Makes the stream of `user` wait for the point. Returns false if no mark covers the point and none can be recorded, or if CUDA refuses the
   wait. */
static bool wait_for_point(struct weir__line *user, const struct weir__point *point)
{
    struct weir__line *line = point->line;
    unsigned i = 0;
    if (line == user)
        return true;
    pthread_mutex_lock(&line->lock);
    bool is_done = atomic_load(&line->done) >= point->step;
    while (i < line->count && line->marks[i].step < point->step)
        i++;
    if (!is_done && i == line->count && weir__line_cover_locked(line, false) == GPU_SUCCESS && line->count)
        i = line->count - 1;
    bool waits = is_done || (i < line->count && line->marks[i].step >= point->step && wait_for(user, line, &line->marks[i]));
    pthread_mutex_unlock(&line->lock);
    return waits;
}

/* Links the block again. Lines that became GONE since unlink_oldest() could not find its points, so GONE lines move theirs now. */
static void relink(struct weir__fences *fences, struct weir__parked *parked)
{
    const struct weir__scope scope = {.fences = fences, .group = parked->group, .is_parked = true};
    weir__tables_lock();
    link_parked(fences, parked);
    for (size_t i = 0; i < parked->count; i++)
        atomic_fetch_add(&parked->points[i].line->uncovered, 1); /* as weir__park() does: what was moved meanwhile left 0 */
    weir__tables_unlock();
    for (struct weir__line *line = weir__scope_next(&scope, NULL); line; line = weir__scope_next(&scope, line))
        weir__line_end_if(line, WEIR__LINE_GONE);
}

struct weir__parked *weir__fences_order(struct weir__fences *fences, const void *group, struct weir__line *user)
{
    struct weir__parked *parked = unlink_oldest(fences, group);
    bool waits = true;
    if (!parked)
        return NULL;
    for (size_t i = 0; waits && i < parked->count; i++)
        waits = wait_for_point(user, &parked->points[i]);
    if (!waits) {
        relink(fences, parked);
        return NULL;
    }
    weir__tables_lock();
    for (size_t i = 0; i < parked->count; i++)
        weir__line_drop_point(parked->points[i].line);
    weir__tables_unlock();
    while (parked->count)
        weir__line_put(parked->points[--parked->count].line);
    parked->next = NULL;
    return parked;
}

struct weir__parked *weir__fences_unpark(struct weir__fences *fences, const void *group)
{
    return take(fences, group, NULL, true);
}

void weir__parked_visit(struct weir__fences *fences, const void *group, void (*use)(const struct weir__parked *parked, void *data),
                        void *data)
{
    weir__tables_lock();
    for (const struct weir__parked *parked = fences->parked; parked; parked = parked->next)
        if (parked->group == group)
            use(parked, data);
    weir__tables_unlock();
}
