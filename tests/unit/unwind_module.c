/* SPDX-License-Identifier: MIT */
#include "tests/unit/unwind_module.h"

#include "lib/record/unwind.h"

/* What is done with the count keeps the call from being the function's last deed, which would leave no frame. */
static __attribute__((noinline)) unsigned inner(uintptr_t *pcs, unsigned max)
{
    volatile unsigned count = weir__unwind(pcs, max);
    return count;
}

unsigned unwind_module_call(uintptr_t *pcs, unsigned max)
{
    weir__unwind_prepare();
    volatile unsigned count = inner(pcs, max);
    return count;
}
