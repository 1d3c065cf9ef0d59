/* SPDX-License-Identifier: MIT */
/* chaos.h - one run of random programs: what was asked for, what was done, and what was found. */
#ifndef WEIR_TESTS_CHAOS_CHAOS_H
#define WEIR_TESTS_CHAOS_CHAOS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "include/weir.h"

/* What was done, for the last line. In memory that all processes of a run share. */
struct chaos_figures {
    atomic_uint_fast64_t programs, requests, right, doubtful, recoveries, rescues[WEIR_RUNG_COUNT], faults, reloads;
    atomic_uint_fast64_t frames, late_frames, kills, stops;
    atomic_uint_fast64_t steps, trace; /* of schedules */
    atomic_uint_fast64_t findings;
};
extern struct chaos_figures *chaos_figures;

static inline void chaos_count(atomic_uint_fast64_t *figure, uint64_t more)
{
    atomic_fetch_add(figure, more);
}

/* What the program is, for who reads the finding. */
extern char chaos_plan[1024];

/* Says what was expected and what was seen, with the program's seed, and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void chaos_find(const char *format, ...);
#define CHAOS_EXPECT(condition, ...) \
    do { \
        if (!(condition)) \
            chaos_find(__VA_ARGS__); \
    } while (0)

/* One program from its seed, in a process of its own. Does not return where something is found. */
/* is_plain: without what came later, so that a seed means what it meant before (memory.h). */
void chaos_memory(uint64_t seed, bool is_virtual, bool is_plain);
/* Several processes; called by a process that has no thread and never touched the simulator. */
void chaos_neighbours(uint64_t seed);
void chaos_rings(uint64_t seed);

#endif
