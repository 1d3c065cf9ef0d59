/* SPDX-License-Identifier: MIT */
/* sim_handles.h - a set of all handles of one kind that the simulated machine ever made, of open and of destroyed objects: the struct
   behind each handle in the set can still be read. Handles are never removed. Owned by struct sim and guarded by its lock. */
#ifndef WEIR_SIM_HANDLES_H
#define WEIR_SIM_HANDLES_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised, this is an empty set. */
struct sim_handles {
    const void **items;
    size_t count, room; /* room is a power of two, or 0 */
};

/* Adds a handle. Returns false if host memory runs out. */
bool sim_handles_add(struct sim_handles *handles, const void *handle);
bool sim_handles_have(const struct sim_handles *handles, const void *handle);
void sim_handles_clear(struct sim_handles *handles);

#endif
