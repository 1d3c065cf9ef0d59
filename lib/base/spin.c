/* SPDX-License-Identifier: MIT */
#include "lib/base/spin.h"

#include <sched.h>

#define SHORTEST 4   /* pause instructions before the second attempt */
#define LONGEST 1024 /* pause instructions between two attempts, at most: about 30 µs, in which a lock can change hands hundreds of times */

/* Executes the processor's pause instruction, which makes a waiting loop cheap for the processor's other thread. */
static void pause_once(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void weir__spin_back_off(unsigned *pauses)
{
    if (*pauses < LONGEST)
        *pauses = *pauses ? *pauses * 2 : SHORTEST;
    else
        sched_yield();
    for (unsigned i = 0; i < *pauses; i++)
        pause_once();
}

void weir__spin_wait(weir__spin *spin)
{
    unsigned pauses = 0;
    do
        weir__spin_back_off(&pauses);
    while (atomic_load_explicit(&spin->taken, memory_order_relaxed) || !weir__spin_try(spin));
}
