/* SPDX-License-Identifier: MIT */
/* debt.c - the parts of a debt: bytes by the steps in which they were freed. Pure reckoning, but for the line's `done`. */
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

void weir__debt_add(struct weir__debt *debt, uint64_t step, uint64_t bytes)
{
    weir__spin_lock(&debt->lock);
    if (debt->count == WEIR__PARTS)
        sum(debt, 0, atomic_load(&debt->line->done), true);
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

uint64_t weir__debt_pending(struct weir__debt *debt)
{
    weir__spin_lock(&debt->lock);
    uint64_t done = atomic_load(&debt->line->done);
    sum(debt, 0, done, true);
    uint64_t bytes = sum(debt, done, UINT64_MAX, false);
    weir__spin_unlock(&debt->lock);
    return bytes;
}
