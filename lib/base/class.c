/* SPDX-License-Identifier: MIT */
#include "lib/base/class.h"

/* EIGHT(log) lists the eight classes above 2 to the power of `log`: 9/8, 10/8, … 16/8 of that power. */
#define OF(log, eighths) (UINT64_C(eighths) << ((log) - 3))
#define EIGHT(log) \
    OF(log, 9), OF(log, 10), OF(log, 11), OF(log, 12), OF(log, 13), OF(log, 14), OF(log, 15), OF(log, 16)

const uint64_t weir__class_bytes[WEIR__CLASS_COUNT] = {
    0, 512, 1024, 1536, 2048, 2560, 3072, 3584, 4096,
    EIGHT(12), EIGHT(13), EIGHT(14), EIGHT(15), EIGHT(16), EIGHT(17),
    EIGHT(18), EIGHT(19), EIGHT(20), EIGHT(21), EIGHT(22), EIGHT(23),
    EIGHT(24), EIGHT(25), EIGHT(26), EIGHT(27), EIGHT(28), EIGHT(29),
    EIGHT(30), EIGHT(31), EIGHT(32), EIGHT(33), EIGHT(34), EIGHT(35),
};
