/* SPDX-License-Identifier: MIT */
/*
 * spin.h - a spin lock, for critical sections that touch only a few cache lines.
 *
 * pthread_spin_lock() does not serve, for three reasons. It is a call through the PLT, which costs a cached request 10 ns. It does not back
 * off, so many waiting threads move the lock's cache line back and forth between their cores. And it does not yield, so if the holder of
 * the lock is preempted, all waiting threads spin for a whole time slice.
 */
#ifndef WEIR_LIB_SPIN_H
#define WEIR_LIB_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct weir__spin {
    atomic_bool taken;
} weir__spin;

static inline void weir__spin_init(weir__spin *spin)
{
    atomic_init(&spin->taken, false);
}

/* Takes the lock if it is free. Returns whether the caller has the lock now. */
static inline bool weir__spin_try(weir__spin *spin)
{
    return !atomic_exchange_explicit(&spin->taken, true, memory_order_acquire);
}

/* Waits for a lock that another thread holds, and takes it. */
void weir__spin_wait(weir__spin *spin);

/* Waits a little between two attempts, longer each time, and yields the processor in the end. *pauses keeps the length; it begins at 0. */
void weir__spin_back_off(unsigned *pauses);

static inline void weir__spin_lock(weir__spin *spin)
{
    if (!weir__spin_try(spin))
        weir__spin_wait(spin);
}

static inline void weir__spin_unlock(weir__spin *spin)
{
    atomic_store_explicit(&spin->taken, false, memory_order_release);
}

#endif
