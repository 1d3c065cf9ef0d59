/* SPDX-License-Identifier: MIT */
#include "lib/base/valid.h"

#include <stdio.h>
#include <unistd.h>

#ifdef WEIR_DEBUG
void weir__must_hold(bool holds, const char *condition, const char *file, int line)
{
    if (holds)
        return;
    dprintf(STDERR_FILENO, "weir: %s:%d: does not hold: %s\n", file, line, condition);
    __builtin_trap();
}
#endif
