/* SPDX-License-Identifier: MIT */
/*
 * fork.h - whether this process is the child of a fork() after weir_open(): CUDA is dead there, and locks may be held for ever.
 *
 * Process-wide, and set in the child before fork() returns there.
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

/* The same as a status, with the error filled. */
weir_status weir__check_fork(weir_error *error);

/* The process begins to use a GPU: from now on its children cannot. */
void weir__fork_watch(void);

#endif
