/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/fence.h"

#include <errno.h>
#include <time.h>
#if HAVE_DECL_MEMBARRIER_CMD_PRIVATE_EXPEDITED
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Nanoseconds after which no processor holds back a store any more, nor works with what it read before, by a wide margin: 10 ms. */
#define LONG_ENOUGH 10000000

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
