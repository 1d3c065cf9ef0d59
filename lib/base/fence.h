/* SPDX-License-Identifier: MIT */
/*
 * fence.h - a pair of memory fences of which one costs nothing and the other a system call.
 *
 * Two threads that each write a word and then read the other's need a full fence between the two: otherwise both may read what was there
 * before. Where one side does so all the time and the other once in a while, the kernel can stand in for the fence of the frequent side:
 * weir__fence_heavy() makes each running thread of the process pass a full fence at some point of its own program, so what such a thread
 * wrote before that point is seen by whoever called, and what it reads after it is what the caller had written. Only its compiler must
 * keep the order, which is weir__fence_light().
 *
 * All this stands outside the memory model of C11. It orders only the write and the read around the fences; what the two threads guard
 * by them needs its acquire and release as ever.
 *
 * It belongs to the process. Not every kernel has it, and sandboxes refuse it: who cannot do without asks weir__fence_is_ready() before it
 * relies on the light fence, and has another way.
 */
#ifndef WEIR_LIB_FENCE_H
#define WEIR_LIB_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool weir__fence_usable;

/* Asks the kernel for it. Any number of times; a forked child asks anew. */
void weir__fence_prepare(void);

/* Whether light and heavy fences order each other from now on. */
static inline bool weir__fence_is_ready(void)
{
    return atomic_load_explicit(&weir__fence_usable, memory_order_relaxed);
}

static inline void weir__fence_light(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Some microseconds: it interrupts each processor that runs a thread of this process. */
void weir__fence_heavy(void);

#endif
