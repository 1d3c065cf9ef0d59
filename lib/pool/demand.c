/* SPDX-License-Identifier: MIT */
#include "lib/pool/demand.h"

#include <string.h>

#include "lib/base/number.h"

#define FADE 128 /* each epoch takes 1/FADE off the costs so far, which halves old costs after about 90 epochs */

void weir__demand_begin(struct weir__demand *demand)
{
    memset(demand, 0, sizeof *demand);
}

uint64_t weir__demand_cost(uint64_t bytes, uint64_t cost)
{
    return (uint64_t)(((unsigned __int128)bytes * cost) >> 30);
}

static const struct weir__demand_epoch *epoch_before(const struct weir__demand *demand, unsigned epochs)
{
    return &demand->epochs[(demand->next + WEIR__DEMAND_EPOCHS - 1 - epochs) % WEIR__DEMAND_EPOCHS];
}

/* Returns the bytes that the patience `choice` expects. Swings count for only three quarters of its epochs (`brief`), so that a peak is
   forgotten before a floor is. */
static uint64_t wanted_by(const struct weir__demand *demand, unsigned choice)
{
    unsigned lasting = 1U << choice, brief = lasting - lasting / 4;
    uint64_t floor = 0, swing = 0, peak = 0;
    for (unsigned i = 0; i < lasting && i < demand->count; i++) {
        const struct weir__demand_epoch *epoch = epoch_before(demand, i);
        floor = weir__larger(floor, epoch->low);
        peak = weir__larger(peak, epoch->high);
        if (i < brief)
            swing = weir__larger(swing, epoch->high - epoch->low);
    }
    return floor + swing < peak ? floor + swing : peak;
}

uint64_t weir__demand_wanted(const struct weir__demand *demand)
{
    return wanted_by(demand, demand->choice);
}

uint64_t weir__demand_least(const struct weir__demand *demand)
{
    uint64_t least = demand->count ? UINT64_MAX : 0;
    for (unsigned i = 0; i < 1U << demand->choice && i < demand->count; i++)
        if (epoch_before(demand, i)->low < least)
            least = epoch_before(demand, i)->low;
    return least;
}

/* Returns the longest patience for which keeping idle memory costs no more than giving it back and growing again. */
static unsigned break_even(const struct weir__demand_costs *costs)
{
    unsigned choice = 0;
    while (choice + 1 < WEIR__DEMAND_CHOICES && (costs->rent << (choice + 1)) <= costs->grow + costs->trim)
        choice++;
    return choice;
}

/* Adds to the cost of the patience `choice` what the latest epoch would have cost with it. */
static void reckon(struct weir__demand *demand, unsigned choice, const struct weir__demand_epoch *epoch,
                   const struct weir__demand_costs *costs)
{
    uint64_t kept = demand->choices[choice].kept, cost = 0, wanted = wanted_by(demand, choice);
    if (epoch->high > kept) {
        cost += weir__demand_cost(epoch->high - kept, costs->grow);
        kept = epoch->high;
    }
    cost += weir__demand_cost(kept - epoch->low, costs->rent);
    if (wanted < kept) {
        cost += weir__demand_cost(kept - wanted, costs->trim);
        kept = wanted;
    }
    demand->choices[choice].kept = kept;
    demand->choices[choice].cost += cost - demand->choices[choice].cost / FADE;
}

void weir__demand_add(struct weir__demand *demand, uint64_t low, uint64_t high, const struct weir__demand_costs *costs)
{
    const struct weir__demand_epoch epoch = {.low = low, .high = high};
    demand->epochs[demand->next] = epoch;
    demand->next = (demand->next + 1) % WEIR__DEMAND_EPOCHS;
    demand->count += demand->count < WEIR__DEMAND_EPOCHS;
    unsigned usual = break_even(costs), best = usual;
    for (unsigned choice = 0; choice < WEIR__DEMAND_CHOICES; choice++)
        reckon(demand, choice, &epoch, costs);
    for (unsigned choice = 0; choice < WEIR__DEMAND_CHOICES; choice++)
        if (demand->choices[choice].cost < demand->choices[best].cost)
            best = choice;
    demand->choice = demand->choices[best].cost < demand->choices[usual].cost / 8 * 7 ? best : usual;
}
