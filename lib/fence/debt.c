/* SPDX-License-Identifier: MIT */
/* debt.c - the parts of a debt, which are bytes by the step in which they were freed, the debts of one owner, and the end of owners. */
#include <stdlib.h>

#include "lib/base/context.h"
#include "lib/fence/fence_internal.h"

/* Returns the bytes of the steps above `after` and up to `step`, and removes them from the debt if `takes`. *behind: the step behind which all of
   these bytes were freed: `after`, or an earlier step if a part stands for earlier parts. The caller holds the debt's lock. */
static uint64_t sum(struct weir__debt *debt, uint64_t after, uint64_t step, bool takes, uint64_t *behind)
{
    uint64_t bytes = 0;
    *behind = after;
    unsigned left = 0;
    for (unsigned i = 0; i < debt->count; i++) {
        bool is_in = debt->parts[i].step > after && debt->parts[i].step <= step;
        bytes += is_in ? debt->parts[i].bytes : 0;
        if (is_in && debt->parts[i].first <= *behind)
            *behind = debt->parts[i].first - 1;
        if (!is_in || !takes)
            debt->parts[left++] = debt->parts[i];
    }
    debt->count = left;
    return bytes;
}

/* Removes the bytes of the steps up to `done`, which are complete, from the debt. The caller holds the debt's lock. */
static void settle(struct weir__debt *debt, uint64_t done)
{
    uint64_t behind, bytes = sum(debt, 0, done, true, &behind);
    if (!bytes)
        return;
    if (debt->owner->tracker)
        debt->owner->tracker->pass(debt, 0, done, NULL, 0);
    atomic_fetch_add(&debt->owner->fences->completed, bytes);
}

/* Returns the index at which a part of that step belongs: behind all parts of the same and of earlier steps. The caller holds the debt's
   lock. */
static unsigned place_of(const struct weir__debt *debt, uint64_t step)
{
    unsigned at = debt->count;
    while (at && debt->parts[at - 1].step > step)
        at--; /* another thread has already added a free of a later step */
    return at;
}

/* Makes room for a part: merges the two neighbouring parts with the fewest bytes, but never the oldest part, into the later one. Counting
   bytes as freed in a later step than they were is safe: they only become complete later. The caller holds the debt's lock. */
static void merge_two(struct weir__debt *debt)
{
    struct weir__part *parts = debt->parts;
    unsigned at = 1;
    for (unsigned i = 2; i + 1 < debt->count; i++)
        if (parts[i].bytes + parts[i + 1].bytes < parts[at].bytes + parts[at + 1].bytes)
            at = i;
    parts[at + 1].bytes += parts[at].bytes;
    parts[at + 1].first = parts[at].first;
    for (unsigned i = at + 1; i < debt->count; i++)
        parts[i - 1] = parts[i];
    debt->count--;
}

/* Adds `bytes`, freed in `step`, to the debt's parts. The caller holds the debt's lock. */
static void add(struct weir__debt *debt, uint64_t bytes, uint64_t step)
{
    uint64_t done = atomic_load(&debt->line->done);
    if (debt->count == WEIR__PARTS && debt->parts[0].step <= done)
        settle(debt, done);
    unsigned at = place_of(debt, step);
    if (at && debt->parts[at - 1].step == step) {
        debt->parts[at - 1].bytes += bytes;
    } else {
        if (debt->count == WEIR__PARTS)
            merge_two(debt);
        at = place_of(debt, step);
        for (unsigned i = debt->count++; i > at; i--)
            debt->parts[i] = debt->parts[i - 1];
        debt->parts[at] = (struct weir__part){.first = step, .step = step, .bytes = bytes};
    }
}

void weir__debt_add(struct weir__debt *debt, uint64_t bytes, const uint64_t *step)
{
    weir__spin_lock(&debt->lock);
    add(debt, bytes, *step);
    if (debt->owner->tracker)
        debt->owner->tracker->freed(debt, step);
    weir__spin_unlock(&debt->lock);
}

/* Adds the memory to what the step counts already, if the two overlap or touch, or else notes it alone. Returns the bytes that are new. */
static uint64_t note_again(struct weir__again *again, uintptr_t from, uintptr_t until, uint64_t step)
{
    bool is_near = again->step == step && from <= again->until && again->from <= until;
    const struct weir__again former = *again;
    if (!is_near) {
        *again = (struct weir__again){.step = step, .from = from, .until = until};
        return until - from;
    }
    again->from = from < former.from ? from : former.from;
    again->until = until > former.until ? until : former.until;
    return again->until - again->from - (former.until - former.from);
}

/* The work of an earlier free in the same step is on the stream before this free's, and the event that ends the step comes behind both. So
   one count stands for both. */
uint64_t weir__debt_add_at(struct weir__debt *debt, const void *memory, uint64_t bytes, uint64_t step)
{
    uintptr_t from = (uintptr_t)memory;
    weir__spin_lock(&debt->lock);
    if (memory)
        bytes = note_again(&debt->again, from, from + bytes, step);
    if (bytes)
        add(debt, bytes, step);
    weir__spin_unlock(&debt->lock);
    return bytes;
}

uint64_t weir__debt_pass(struct weir__debt *debt, uint64_t after, uint64_t until, struct weir__debt *to, uint64_t step)
{
    weir__spin_lock(&debt->lock);
    uint64_t behind, bytes = sum(debt, after, until, true, &behind);
    debt->again.step = 0; /* the bytes may be counted elsewhere from now on */
    if (bytes && debt->owner->tracker)
        bytes = debt->owner->tracker->pass(debt, behind, until, to, step);
    weir__spin_unlock(&debt->lock);
    weir__spin_lock(&to->lock);
    if (bytes)
        add(to, bytes, step);
    weir__spin_unlock(&to->lock);
    return bytes;
}

uint64_t weir__debt_bytes(struct weir__debt *debt, uint64_t after, uint64_t step)
{
    weir__spin_lock(&debt->lock);
    uint64_t behind, bytes = sum(debt, after, step, false, &behind);
    weir__spin_unlock(&debt->lock);
    return bytes;
}

/* weir__debt_has() for a caller that holds the debt's lock. */
static bool has(struct weir__debt *debt, uint64_t after, uint64_t step)
{
    const struct weir__tracker *tracker = debt->owner->tracker;
    uint64_t behind;
    return sum(debt, after, step, false, &behind) && (!tracker || tracker->has(debt, behind, step));
}

bool weir__debt_has(struct weir__debt *debt, uint64_t after, uint64_t step)
{
    weir__spin_lock(&debt->lock);
    bool is_there = has(debt, after, step);
    weir__spin_unlock(&debt->lock);
    return is_there;
}

void weir__debt_need(struct weir__debt *debt, bool is_needed[static WEIR__MARKS])
{
    const struct weir__line *line = debt->line;
    uint64_t after = atomic_load(&line->done);
    weir__spin_lock(&debt->lock);
    for (unsigned i = 0; i < line->count; i++) {
        is_needed[i] = is_needed[i] || has(debt, after, line->marks[i].step);
        after = line->marks[i].step;
    }
    weir__spin_unlock(&debt->lock);
}

uint64_t weir__debt_pending(struct weir__debt *debt)
{
    weir__spin_lock(&debt->lock);
    uint64_t done = atomic_load(&debt->line->done);
    settle(debt, done);
    uint64_t behind, bytes = sum(debt, done, UINT64_MAX, false, &behind);
    weir__spin_unlock(&debt->lock);
    return bytes;
}

/* Owners ------------------------------------------------------------------------------------------------------------------------------- */

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

struct weir__debt *weir__debt_of_device(const struct weir__line *line, const struct weir__debts *debts)
{
    return line->fences == debts->fences ? debts->whole : weir__debt_find(line->fences->whole, debts);
}

/* Returns a new debt of the owner on the line, or NULL if host memory runs out. The caller holds the tables' lock. */
static struct weir__debt *make_debt(struct weir__line *line, struct weir__debts *debts)
{
    struct weir__debt *debt = calloc(1, sizeof *debt + (debts->tracker ? debts->tracker->room : 0));
    if (!debt)
        return NULL;
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
    /* Bytes that the line can never cover move to the device's line later. That move must not fail, so make the debt on the device's line
       now. */
    struct weir__debt *whole = weir__debt_of_device(line, debts), *debt = NULL;
    if (!whole && (whole = make_debt(line->fences->whole, debts)) && line->fences == debts->fences)
        debts->whole = whole;
    if (whole && !(debt = weir__debt_find(line, debts)))
        debt = make_debt(line, debts);
    weir__tables_unlock();
    return debt;
}

bool weir__debts_are_settled(const struct weir__debts *debts)
{
    const struct weir__scope scope = {.fences = debts->fences, .debts = debts};
    weir__scope_look(&scope);
    return !weir__scope_pending(&scope) && !atomic_load(&debts->is_unknown);
}

/* Destroys one of the owner's debts. Returns the debt's line, which the caller uses from now on and puts, or NULL if the owner has no debt
   left. */
static struct weir__line *end_debt(const struct weir__debts *debts)
{
    struct weir__line *line;
    struct weir__debt *debt = NULL, **link;
    weir__tables_lock();
    for (line = weir__lines_first; line && !(debt = weir__debt_find(line, debts));)
        line = line->next;
    if (line) {
        for (link = &line->debts; *link != debt;)
            link = &(*link)->next;
        *link = debt->next;
        line->users++;
    }
    weir__tables_unlock();
    free(debt);
    return line;
}

/* weir__line_put() may destroy the line: the debt of an owner that outlived its weir may have been all that needed the line. */
void weir__debts_end(struct weir__debts *debts)
{
    struct weir__line *line;
    while ((line = end_debt(debts)))
        weir__line_put(line);
    debts->whole = NULL;
}

void weir__debts_leave_group(struct weir__debts *debts)
{
    weir__tables_lock();
    debts->group = NULL;
    weir__tables_unlock();
}

/* Retiring ----------------------------------------------------------------------------------------------------------------------------- */

static struct weir__debts *retired; /* the first retired owner of the process. Guarded by the tables' lock */

void weir__debts_retire(struct weir__debts *debts, bool (*end)(struct weir__debts *debts))
{
    weir__tables_lock();
    debts->fences->users++;
    debts->group = NULL;
    debts->end = end;
    debts->next = retired;
    retired = debts;
    weir__tables_unlock();
}

void weir__debts_sweep(const struct gpu *gpu)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    weir__tables_lock();
    struct weir__debts *all = retired;
    retired = NULL;
    weir__tables_unlock();
    while (all) {
        struct weir__debts *debts = all;
        struct weir__fences *fences = debts->fences;
        all = debts->next;
        if (fences->gpu == gpu && weir__debts_are_settled(debts) && debts->end(debts)) {
            weir__fences_leave(fences);
            continue;
        }
        weir__tables_lock();
        debts->next = retired;
        retired = debts;
        weir__tables_unlock();
    }
    weir__relaxed_end(gpu, mode);
}
