/* SPDX-License-Identifier: MIT */
#include "lib/base/fork.h"

#include <pthread.h>

#include "lib/base/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
atomic_bool weir__forked;

static void on_fork_child(void)
{
    atomic_store_explicit(&weir__forked, true, memory_order_relaxed);
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, on_fork_child);
}

void weir__fork_watch(void)
{
    pthread_once(&once, watch);
}

weir_status weir__check_fork(weir_error *error)
{
    if (!weir__is_forked())
        return WEIR_OK;
    return weir__fail(error, WEIR_FORKED, "this process is the child of a fork() after weir_open(): CUDA does not work here; call exec, or "
                                          "fork before the first weir_open()");
}
