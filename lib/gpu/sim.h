/* SPDX-License-Identifier: MIT */
/*
 * sim.h - what tests ask of the simulator beyond gpu.h. State is process-wide, behind one lock; any thread may call.
 *
 * With name=X among the settings the machine is one that all processes of this user with that name share, at most 64 at a time, all
 * with the same other settings but for fail=: device memory, exported pools, shared events and the clock, which then is CLOCK_MONOTONIC and
 * passes by itself. What is below is of the calling process alone there too. A process is on a machine from its first operation until it
 * ends or configures another one; it holds one descriptor meanwhile.
 */
#ifndef WEIR_SIM_H
#define WEIR_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/cost.h"

/* Forgets all state and starts anew with settings in the syntax of $WEIR_SIM ("devices=2,memory=8GiB"; NULL or "": the defaults).
   Returns 0; else writes into why which setting is wrong and what to write, and keeps the former state. Without a call the first use
   of the simulator reads $WEIR_SIM. */
int sim_configure(const char *settings, char *why, size_t len);

/* Makes the nth call from now (1: the next) of the named operation of struct gpu ("malloc_async"), or of any operation for NULL, fail once
   with `code` and do nothing else. nth 0 clears. An operation that cannot fail is never chosen. */
void sim_fail(const char *operation, unsigned nth, int code);

/* How often the named operation, or for NULL any that can fail, was called since sim_configure(). UINT64_MAX: no such operation. */
uint64_t sim_calls(const char *operation);

/* What grow, grow_host, first, trim, or a call of the named operation of struct gpu costs where no setting says otherwise. Pure. false: there
   is none of that name. */
bool sim_standard_cost(const char *name, struct gpu_cost *cost);

/* Lets time pass, as a blocking call would: virtual time, or that of a named machine. */
void sim_advance(uint64_t nanoseconds);

/* A context of the program's own on that device, as cuCtxCreate() makes it: current for the calling thread, which makes streams and events
   of that device in it until it chooses another device. NULL: no host memory, or no such device. */
void *sim_context_create(int device);
/* Makes such a context current, NULL: the one of the current device. The thread has called the simulator before. */
void sim_context_set_current(void *context);
/* As cuCtxDestroy() has it (measured): waits for the work of the context. Its streams are destroyed, its events fail with
   GPU_CONTEXT_DESTROYED, and the next context gets its handle. */
void sim_context_destroy(void *context);

/* As long as this number stays what it is, no pool has come or gone, or reserves more or less, and no page was made, mapped, unmapped or
   given back. Takes no lock. */
uint64_t sim_changes(void);

/* What exists now in this process, for leak checks: everything that Weir made, imported or opened and has not given back. Default pools do
   not count. */
struct sim_census {
    size_t blocks, pools, streams, events, ranges, pages;
    uint64_t reserved; /* bytes, all pools of all devices, default pools too; of imported ones what is mapped */
};
void sim_census(struct sim_census *census);

#endif
