/* SPDX-License-Identifier: MIT */
#include "tools/replay/outcome.h"

/* Eight parts of each power of two; below 8 each number has its own. */
static unsigned part_of(uint64_t ns)
{
    if (ns < 8)
        return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    return (power - 2) * 8 + (unsigned)(ns >> (power - 3) & 7);
}

static uint64_t highest_of(unsigned part)
{
    if (part < 8)
        return part;
    unsigned power = part / 8 + 2;
    uint64_t step = UINT64_C(1) << (power - 3);
    return (UINT64_C(1) << power) + (part % 8 + 1) * step - 1;
}

void outcome_add_time(struct outcome *outcome, uint64_t ns)
{
    outcome->times[part_of(ns)]++;
    outcome->calls++;
    outcome->stall += ns;
    if (outcome->worst < ns)
        outcome->worst = ns;
}

uint64_t outcome_time(const struct outcome *outcome, double share)
{
    uint64_t most = (uint64_t)((double)outcome->calls * share), seen = 0;
    for (unsigned part = 0; part < OUTCOME_TIMES; part++) {
        seen += outcome->times[part];
        if (seen && seen >= most)
            return highest_of(part) < outcome->worst ? highest_of(part) : outcome->worst;
    }
    return outcome->worst;
}
