/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/bias.h"

#include <errno.h>
#include <time.h>
#if HAVE_DECL_MEMBARRIER_CMD_PRIVATE_EXPEDITED
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define TURNS_MAX 1000 /* what so many threads take in turn is worth no more counting */

/* Nanoseconds after which no processor holds back a store any more, nor works with what it read before, by a wide margin: 10 ms. */
#define LONG_ENOUGH 10000000

/* Fences ------------------------------------------------------------------------------------------------------------------------------- */

atomic_bool weir__fence_usable;

#if HAVE_DECL_MEMBARRIER_CMD_PRIVATE_EXPEDITED

static bool ask(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

void weir__fence_prepare(void)
{
    int before = errno;
    atomic_store(&weir__fence_usable, ask(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
    errno = before;
}

static bool interrupt_all(void)
{
    return ask(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

#else

void weir__fence_prepare(void)
{
}

static bool interrupt_all(void)
{
    return false;
}

#endif

/*
 * The kernel agreed and refuses now, as under a sandbox that came later. Nobody is to begin with light fences any more; for who did, time
 * has to do: what the fence makes certain is the order of a store that is some nanoseconds old.
 */
static void wait_instead(void)
{
    atomic_store(&weir__fence_usable, false);
    struct timespec left = { .tv_nsec = LONG_ENOUGH };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void weir__fence_heavy(void)
{
    /* Deep inside calls that report by other means, such as free(). */
    int before = errno;
    atomic_thread_fence(memory_order_seq_cst);
    if (!interrupt_all())
        wait_instead();
    atomic_thread_fence(memory_order_seq_cst);
    errno = before;
}

/* The lock ----------------------------------------------------------------------------------------------------------------------------- */

void weir__bias_init(weir__bias *bias)
{
    atomic_init(&bias->outside, 0);
    atomic_init(&bias->is_biased, false);
    weir__spin_init(&bias->spin);
    atomic_init(&bias->is_plain, false);
    bias->by_bias = bias->is_barred = bias->has_home = false;
    bias->need = WEIR__BIAS_NEED;
    bias->row = bias->turns = 0;
    bias->user = 0;
}

void weir__bias_revoke(weir__bias *bias)
{
    atomic_store_explicit(&bias->is_biased, false, memory_order_relaxed);
    /* The home thread itself is where it is. */
    if (atomic_load_explicit(&bias->outside, memory_order_relaxed) != weir__bias_self()) {
        weir__fence_heavy();
        unsigned pauses = 0;
        while (!atomic_load_explicit(&bias->outside, memory_order_acquire))
            weir__spin_back_off(&pauses);
        if (bias->row >= WEIR__BIAS_NEED_MAX)
            bias->need = WEIR__BIAS_NEED;
        else if (bias->need < WEIR__BIAS_NEED_MAX)
            bias->need *= 2;
    }
    bias->row = 0;
}

/* The running thread has the lock by spin, and has it by the bias from here on: who takes spin next finds it inside. */
static void earn(weir__bias *bias)
{
    bias->row = bias->turns = 0;
    if (bias->is_barred)
        return;
    if (!weir__fence_is_ready()) {
        atomic_store_explicit(&bias->is_plain, true, memory_order_relaxed);
        return;
    }
    bias->has_home = true;
    bias->by_bias = true;
    atomic_store_explicit(&bias->outside, 0, memory_order_relaxed);
    atomic_store_explicit(&bias->is_biased, true, memory_order_relaxed);
    weir__spin_unlock(&bias->spin);
}

void weir__bias_count(weir__bias *bias)
{
    uintptr_t self = weir__bias_self();
    if (bias->user == self) {
        if (++bias->row >= bias->need)
            earn(bias);
        return;
    }
    bias->row = 0;
    if (++bias->turns == TURNS_MAX)
        atomic_store_explicit(&bias->is_plain, true, memory_order_relaxed);
    if (!bias->has_home)
        bias->user = self;
}

void weir__bias_visit(weir__bias *bias)
{
    weir__spin_lock(&bias->spin);
    if (atomic_load_explicit(&bias->is_biased, memory_order_relaxed))
        weir__bias_revoke(bias);
    bias->by_bias = false;
    bias->row = 0;
}
