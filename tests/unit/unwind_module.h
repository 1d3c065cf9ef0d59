/* SPDX-License-Identifier: MIT */
/* unwind_module.h - a shared object with a copy of lib/record/unwind.c of its own, as a program has one in libweir, and calls into it. */
#ifndef WEIR_UNWIND_MODULE_H
#define WEIR_UNWIND_MODULE_H

#include <stdint.h>

/* Calls weir__unwind() two functions deep. */
__attribute__((visibility("default"))) unsigned unwind_module_call(uintptr_t *pcs, unsigned max);

#endif
