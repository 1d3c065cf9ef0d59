/* SPDX-License-Identifier: MIT */
/*
 * bias.h - a lock that one thread takes nearly always, for less than what a locked instruction costs.
 *
 * It is a spin lock until one thread, its home, has taken it often enough with nobody in between. From then on it is biased: the home
 * thread enters by clearing `outside` and leaves by writing itself there again, with plain stores. Anyone else takes `spin`, revokes the
 * bias, and waits until the home thread is outside; then it is a spin lock again, until the home thread has earned the bias once more.
 * This takes twice as long each time, so that a lock that others want often soon does without; after a bias that lasted, it takes as long
 * as the first time. Visitors, who do not belong to those that use what it guards, never earn it. A lock that threads take in turn, or for
 * which there are no such fences, becomes plain: a spin lock for good, at the cost of one.
 *
 * Why that excludes. The home thread clears `outside`, passes a light fence, and goes on only if the lock is still biased. Who revokes
 * clears `is_biased`, passes a heavy fence, and goes on only once the home thread is outside. The heavy fence makes the home thread pass
 * a fence at some point of its own. If it cleared `outside` before that point, the other sees that, and waits; otherwise its look at
 * `is_biased` lies behind that point and finds the bias gone. What the lock guards is ordered by the release with which the home thread
 * leaves and the acquire of who waits for that, on any processor; and back again by `spin`, which the home thread must take to get the
 * bias anew.
 *
 * A thread that found itself outside long ago may clear `outside` long after, only to write it again when it sees that the bias is gone.
 * This harms nobody as long as no other thread's word stands there by then, so a lock never has a second home: the first thread that
 * earns the bias is the only one ever to. For others that use the lock later it is a spin lock.
 *
 * A thread is known by the address of its own memory. Another one that has the same address later, the first having ended, is the same
 * thread for all that is said here: two that run at the same time have two, and what the first one did lies before the second one began.
 *
 * Reentry, by a signal handler that interrupts who holds the lock, waits for ever, as with any spin lock: the home thread does not find
 * itself outside, so it cannot enter a second time.
 */
#ifndef WEIR_LIB_BIAS_H
#define WEIR_LIB_BIAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/spin.h"

/*
 * A pair of memory fences of which one costs nothing and the other a system call.
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

#define WEIR__BIAS_ALIGNED __attribute__((aligned(64))) /* for structs that it begins */
#define WEIR__BIAS_NEED 256 /* locks in a row that earn the first bias, or the next after one that lasted */
/* That earn any. A bias that as many used has lasted: they have saved many times what a revocation takes. */
#define WEIR__BIAS_NEED_MAX (UINT32_C(1) << 16)

typedef struct weir__bias {
    /* A cache line that all look at, and that is hardly written while many threads share the lock. */
    _Atomic uintptr_t outside; /* the home thread while it is that; 0 while it is inside, or before there is one; with the lowest bit set
                                  once it knows that the bias is gone. Written by the home thread alone */
    atomic_bool is_biased;     /* to the home thread. Changed under spin */
    atomic_bool is_plain;      /* it will never be biased: a spin lock for good. Set under spin */
    bool is_barred;            /* no bias now. This and the rest, but for spin, belong to who has the lock */
    bool has_home;
    uint32_t need;             /* locks in a row */
    char apart[48];
    /* One that flies between them then, with the first members of what the lock guards, if it stands before those. */
    weir__spin spin;
    bool by_bias;   /* how who has the lock got it: by the bias, or by spin */
    uint16_t turns; /* how often `user` has changed since the bias was earned */
    uint32_t row;   /* how many locks `user` has had, or by the bias the home thread since it has that */
    uintptr_t user; /* the home thread, and until there is one who used the lock last */
} weir__bias;

void weir__bias_init(weir__bias *bias);

/* What tells the running thread from all others that run, without a call on the way to it, which would cost what the bias saves. */
static inline uintptr_t weir__bias_self(void)
{
#if defined(__x86_64__)
    uintptr_t self;
    __asm__("mov %%fs:0, %0" : "=r"(self)); /* where the thread pointer points at itself, by the ABI */
    return self;
#elif defined(__aarch64__)
    return (uintptr_t)__builtin_thread_pointer();
#else
    static __thread uint64_t self;
    return (uintptr_t)&self;
#endif
}

/* Takes the lock if it is biased to the running thread; leave it by weir__bias_leave(). */
static inline bool weir__bias_enter(weir__bias *bias)
{
    uintptr_t self = weir__bias_self();
    if (atomic_load_explicit(&bias->outside, memory_order_acquire) != self)
        return false;
    atomic_store_explicit(&bias->outside, 0, memory_order_relaxed);
    weir__fence_light();
    if (atomic_load_explicit(&bias->is_biased, memory_order_acquire)) {
        bias->row++;
        return true;
    }
    atomic_store_explicit(&bias->outside, self | 1, memory_order_release);
    return false;
}

static inline void weir__bias_leave(weir__bias *bias)
{
    atomic_store_explicit(&bias->outside, weir__bias_self(), memory_order_release);
}

/* Both are called with `spin`, which is what they leave the caller with, but for one who has earned the bias. */
void weir__bias_revoke(weir__bias *bias);
void weir__bias_count(weir__bias *bias);

static inline void weir__bias_note_spin(weir__bias *bias)
{
    if (atomic_load_explicit(&bias->is_biased, memory_order_relaxed))
        weir__bias_revoke(bias);
    bias->by_bias = false;
    if (!atomic_load_explicit(&bias->is_plain, memory_order_relaxed))
        weir__bias_count(bias);
}

/* Takes the lock unless somebody has it by spin; for a home thread that is inside it waits. */
static inline bool weir__bias_try(weir__bias *bias)
{
    if (weir__bias_enter(bias)) {
        bias->by_bias = true;
        return true;
    }
    if (!weir__spin_try(&bias->spin))
        return false;
    weir__bias_note_spin(bias);
    return true;
}

static inline void weir__bias_lock(weir__bias *bias)
{
    if (weir__bias_try(bias))
        return;
    weir__spin_wait(&bias->spin);
    weir__bias_note_spin(bias);
}

/* Takes the lock for who does not count as its user. It is not biased then, and who has it so may bar it. */
void weir__bias_visit(weir__bias *bias);

static inline void weir__bias_unlock(weir__bias *bias)
{
    if (bias->by_bias)
        weir__bias_leave(bias);
    else
        weir__spin_unlock(&bias->spin);
}

/* How a lock can be taken, for who has a way of its own for each. None of them waits for a spin lock that is taken. */
enum weir__bias_way {
    WEIR__BIAS_HOME,  /* only if it is biased to the running thread */
    WEIR__BIAS_PLAIN, /* only for one that is plain */
    WEIR__BIAS_ANY,   /* for all: weir__bias_try() */
};

/* The way that costs least. */
static inline enum weir__bias_way weir__bias_way(const weir__bias *bias)
{
    if (atomic_load_explicit(&bias->is_plain, memory_order_relaxed))
        return WEIR__BIAS_PLAIN;
    return atomic_load_explicit(&bias->outside, memory_order_relaxed) == weir__bias_self() ? WEIR__BIAS_HOME : WEIR__BIAS_ANY;
}

/* Takes the lock in that way, a constant; drop it in the same. */
static inline __attribute__((always_inline)) bool weir__bias_take(weir__bias *bias, enum weir__bias_way way)
{
    return way == WEIR__BIAS_HOME ? weir__bias_enter(bias) : way == WEIR__BIAS_PLAIN ? weir__spin_try(&bias->spin) : weir__bias_try(bias);
}

static inline __attribute__((always_inline)) void weir__bias_drop(weir__bias *bias, enum weir__bias_way way)
{
    if (way == WEIR__BIAS_HOME)
        weir__bias_leave(bias);
    else if (way == WEIR__BIAS_PLAIN)
        weir__spin_unlock(&bias->spin);
    else
        weir__bias_unlock(bias);
}

/* Says whether the lock must not be biased from now on. Called by a visitor, or by who lifts the bar. */
static inline void weir__bias_bar(weir__bias *bias, bool is_barred)
{
    bias->is_barred = is_barred;
}

#endif
