/* SPDX-License-Identifier: MIT */
/* debt.c - the parts of a debt, bytes by the steps in which they were freed, and the debts of an owner. */
#include <stdlib.h>

#include "lib/fence/fence_internal.h"

/* Called with the lock. */
static uint64_t sum(struct weir__debt *debt, uint64_t after, uint64_t step, bool takes)
{
    uint64_t bytes = 0;
    unsigned left = 0;
    for (unsigned i = 0; i < debt->count; i++) {
        bool is_in = debt->parts[i].step > after && debt->parts[i].step <= step;
        bytes += is_in ? debt->parts[i].bytes : 0;
        if (!is_in || !takes)
            debt->parts[left++] = debt->parts[i];
    }
    debt->count = left;
    return bytes;
}

/* What is complete leaves the debt. Called with the lock. */
static void settle(struct weir__debt *debt, uint64_t done)
{
    uint64_t bytes = sum(debt, 0, done, true);
    if (bytes)
        atomic_fetch_add(&debt->owner->fences->completed, bytes);
}

void weir__debt_add(struct weir__debt *debt, uint64_t step, uint64_t bytes)
{
    weir__spin_lock(&debt->lock);
    if (debt->count == WEIR__PARTS)
        settle(debt, atomic_load(&debt->line->done));
    unsigned at = debt->count;
    while (at && debt->parts[at - 1].step > step)
        at--; /* another thread's free has a later step already */
    if (at && debt->parts[at - 1].step == step) {
        debt->parts[at - 1].bytes += bytes;
    } else if (debt->count < WEIR__PARTS) {
        for (unsigned i = debt->count++; i > at; i--)
            debt->parts[i] = debt->parts[i - 1];
        debt->parts[at] = (struct weir__part){.step = step, .bytes = bytes};
    } else {
        /* No room: what counts as freed in a later step than it was is safe. */
        struct weir__part *last = &debt->parts[debt->count - 1];
        last->bytes += bytes;
        last->step = step > last->step ? step : last->step;
    }
    weir__spin_unlock(&debt->lock);
}

uint64_t weir__debt_take(struct weir__debt *debt, uint64_t after, uint64_t step)
{
    weir__spin_lock(&debt->lock);
    uint64_t bytes = sum(debt, after, step, true);
    weir__spin_unlock(&debt->lock);
    return bytes;
}

uint64_t weir__debt_bytes(struct weir__debt *debt, uint64_t after, uint64_t step)
{
    weir__spin_lock(&debt->lock);
    uint64_t bytes = sum(debt, after, step, false);
    weir__spin_unlock(&debt->lock);
    return bytes;
}

void weir__debt_need(struct weir__debt *debt, bool is_needed[static WEIR__MARKS])
{
    const struct weir__line *line = debt->line;
    uint64_t done = atomic_load(&line->done);
    weir__spin_lock(&debt->lock);
    for (unsigned i = 0, mark = 0; i < debt->count; i++) {
        while (mark < line->count && line->marks[mark].step < debt->parts[i].step)
            mark++;
        if (mark < line->count && debt->parts[i].step > done)
            is_needed[mark] = true;
    }
    weir__spin_unlock(&debt->lock);
}

uint64_t weir__debt_pending(struct weir__debt *debt)
{
    weir__spin_lock(&debt->lock);
    uint64_t done = atomic_load(&debt->line->done);
    settle(debt, done);
    uint64_t bytes = sum(debt, done, UINT64_MAX, false);
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

/* Called with the tables' lock. */
static struct weir__debt *make_debt(struct weir__line *line, struct weir__debts *debts)
{
    struct weir__debt *debt = calloc(1, sizeof *debt);
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
    /* What the line cannot cover moves to that of its device, for which no memory may be missing then. */
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

void weir__debts_end(struct weir__debts *debts)
{
    weir__tables_lock();
    for (struct weir__line *line = weir__lines_first; line; line = line->next)
        for (struct weir__debt **link = &line->debts, *debt; (debt = *link);) {
            if (debt->owner != debts) {
                link = &debt->next;
                continue;
            }
            *link = debt->next;
            free(debt);
        }
    debts->whole = NULL;
    weir__tables_unlock();
}
