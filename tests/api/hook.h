/* SPDX-License-Identifier: MIT */
/*
 * hook.h - calls of CUDA that a test takes over while its weir is open, so that something happens within them: another thread's request, a
 * reload, a failure. The linker gives gpu_find() of the whole program to hook.c, and so each weir has hook.c's table from its opening on:
 * threads of Weir read that pointer at any time, for which a test cannot store another. Programs that use this file link hook.c, and have
 * -Wl,--wrap=gpu_find in their flags.
 */
#ifndef WEIR_TESTS_HOOK_H
#define WEIR_TESTS_HOOK_H

#include "lib/gpu/gpu.h"

/* The functions that a hook falls back on, of the simulator or of CUDA. */
const struct gpu *hook_base(void);

/* From now on calls of CUDA go to `gpu`, a copy of hook_base() in which the test has put its own functions; NULL: to hook_base() again. What
   other threads have begun goes on in the former one. Any thread may call this, in a hook too. */
void hook_set(const struct gpu *gpu);

#endif
