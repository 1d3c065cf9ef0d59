/* SPDX-License-Identifier: MIT */
#include "tools/common/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/keys.h"
#include "policy/number.h"

/* In the unit that gives less than 1024; one decimal below 100, and none where it would be a zero. */
const char *format_size(struct text *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    /* 1023.6 MiB would be printed as 1024 MiB. */
    for (; value >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    unsigned tenths = (unsigned)(value * 10 + 0.5);
    if (tenths >= 1000 || tenths % 10 == 0)
        snprintf(text->chars, sizeof(text->chars), "%u %s", (tenths + (tenths >= 1000 ? 5 : 0)) / 10, units[unit]);
    else
        snprintf(text->chars, sizeof(text->chars), "%u.%u %s", tenths / 10, tenths % 10, units[unit]);
    return text->chars;
}

const char *format_count(struct text *text, uint64_t count)
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count);
    char *to = text->chars;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text->chars;
}

/* plain: the factor of a number without a unit. */
static bool read_quantity(const char *text, const struct policy_unit *units, uint64_t plain, uint64_t *value)
{
    struct policy_number number;
    if (policy_number_read(text, &number) != POLICY_NUMBER_OK)
        return false;
    uint64_t factor = number.unit[0] ? 0 : plain;
    for (const struct policy_unit *unit = units; unit->name; unit++)
        if (strcmp(number.unit, unit->name) == 0)
            factor = unit->factor;
    return factor && policy_number_scale(&number, factor, value) == POLICY_NUMBER_OK;
}

bool size_read(const char *text, uint64_t *bytes)
{
    return read_quantity(text, policy_size_units, 1, bytes);
}

bool time_read(const char *text, uint64_t *nanoseconds)
{
    return read_quantity(text, policy_time_units, POLICY_SECOND, nanoseconds);
}
