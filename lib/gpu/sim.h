/* SPDX-License-Identifier: MIT */
/*
 * sim.h - functions of the simulator beyond gpu.h, for tests. The state belongs to the process, behind one lock; any thread may call.
 *
 * The simulator has one machine for each process, unless the settings contain name=X. Then all processes of this user with the same name
 * share one machine, a *named machine*: its device memory, exported pools, shared events and clock, which then is CLOCK_MONOTONIC and runs
 * by itself. At most 64 processes may share a machine; all need the same other settings, except for fail=. A process is on its machine from
 * its first operation until the process ends or configures another machine; meanwhile it holds one file descriptor. On a named machine,
 * too, the functions below concern only the calling process.
 */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/cost.h"

/* Forgets all state, and starts anew with settings in the syntax of $WEIR_SIM ("devices=2,memory=8GiB"; NULL or "": the defaults). Returns
   0. If a setting is wrong, returns -1, writes to `why` which setting is wrong and what to write, and keeps the former state. Without this
   call the first use of the simulator reads $WEIR_SIM. */
int sim_configure(const char *settings, char *why, size_t len);

/* Makes the nth call from now on (1: the next) of the named operation of struct gpu ("malloc_async"; NULL: of any operation) fail once with
   `code` and do nothing else. nth 0 cancels that. Operations that cannot fail are not affected. */
void sim_fail(const char *operation, unsigned nth, int code);

/* Returns how often the named operation (NULL: any that can fail) was called since sim_configure(), or UINT64_MAX if there is no such
   operation. */
uint64_t sim_calls(const char *operation);

/* Sets *cost to the default cost of `name`: of the setting grow, grow_host, grow_each, first, first_of_all or trim, or of a call of the
   named operation of struct gpu. Pure. Returns false if there is no such name. */
bool sim_standard_cost(const char *name, struct gpu_cost *cost);

/* Lets time pass, as a blocking call would: virtual time, or real time on a named machine. */
void sim_advance(uint64_t nanoseconds);

/* Makes a context of the program's own on the device, as cuCtxCreate() does, and makes it current: until the thread chooses another device,
   it makes streams and events of that device in this context. Returns NULL if host memory runs out or there is no such device. */
void *sim_context_create(int device);
/* Makes such a context current; NULL: the device's own context. The thread must have called the simulator before. */
void sim_context_set_current(void *context);
/* Destroys a context as cuCtxDestroy() does (measured): waits for the work of the context, destroys its streams, and makes its events fail
   with GPU_CONTEXT_DESTROYED. The next new context gets the same handle. */
void sim_context_destroy(void *context);

/* Returns a number that changes whenever a pool is made or destroyed, or reserves more or less, or a page is made, mapped, unmapped or
   released. Takes no lock. */
uint64_t sim_changes(void);

/* Counts the objects of this process, for leak checks: all that were made, imported or opened and not given back yet. Default pools are not
   counted. */
struct sim_census {
    size_t blocks, pools, streams, events, ranges, pages, hosts; /* hosts: of host_alloc() */
    uint64_t reserved; /* bytes that all pools have reserved, default pools too; of an imported pool the mapped blocks */
};
void sim_census(struct sim_census *census);

#endif
