/* SPDX-License-Identifier: MIT */
/*
 * spin.h - a lock for a few cache lines' worth of work.
 *
 * Ours, because pthread_spin_lock() is a call through the PLT, which on this path is felt (10 ns a pair), and because it neither backs off,
 * so that many threads at one lock keep its line flying between them, nor yields, so that a holder that lost its processor keeps every
 * other thread spinning for a whole time slice.
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

/* Takes the lock if nobody has it. */
static inline bool weir__spin_try(weir__spin *spin)
{
    return !atomic_exchange_explicit(&spin->taken, true, memory_order_acquire);
}

/* Takes a lock that somebody has. */
void weir__spin_wait(weir__spin *spin);

/* Waits a little between two looks at what another thread is about to do, longer each time. *pauses begins at 0. */
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
