/* SPDX-License-Identifier: MIT */
#include "tools/common/size.h"

#include <string.h>

#include "policy/keys.h"
#include "policy/number.h"

bool size_read(const char *text, uint64_t *bytes)
{
    struct policy_number number;
    if (policy_number_read(text, &number) != POLICY_NUMBER_OK)
        return false;
    uint64_t factor = number.unit[0] ? 0 : 1;
    for (const struct policy_unit *unit = policy_size_units; unit->name; unit++)
        if (strcmp(number.unit, unit->name) == 0)
            factor = unit->factor;
    return factor && policy_number_scale(&number, factor, bytes) == POLICY_NUMBER_OK;
}
