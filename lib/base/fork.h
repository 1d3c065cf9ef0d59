/* SPDX-License-Identifier: MIT */
/*
 * fork.h - whether this process is the child of a fork() after weir_open(). CUDA does not work in such a child, and a lock that another
 * thread held at the fork stays locked for ever.
 *
 * The flag is process-wide. A handler of pthread_atfork() sets it in the child before fork() returns.
 */
#ifndef WEIR_LIB_FORK_H
#define WEIR_LIB_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "include/weir.h"

extern atomic_bool weir__forked __attribute__((visibility("hidden")));
static inline bool weir__is_forked(void)
{
    return atomic_load_explicit(&weir__forked, memory_order_relaxed);
}

/* Returns WEIR_FORKED, and fills the error, in such a child; WEIR_OK otherwise. */
weir_status weir__check_fork(weir_error *error);

/* Registers the handler. Call it when the process begins to use a GPU: children that are forked from then on are marked. */
void weir__fork_watch(void);

#endif
