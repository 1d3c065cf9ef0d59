/* SPDX-License-Identifier: MIT */
#include "tools/common/format.h"

#include <inttypes.h>
#include <stdio.h>

/* In the unit that gives less than `step`; one decimal below 100, and none where it would be a zero. units: NULL at the end. */
static const char *print_scaled(struct text *text, double value, double step, const char *const *units)
{
    /* 1023.6 MiB would be printed as 1024 MiB. */
    for (; value >= step - 0.5 && units[1]; units++)
        value /= step;
    /* In seconds the largest time has eleven digits. */
    uint64_t tenths = (uint64_t)(value * 10 + 0.5);
    if (tenths >= 1000 || tenths % 10 == 0)
        snprintf(text->chars, sizeof(text->chars), "%" PRIu64 " %s", (tenths + (tenths >= 1000 ? 5 : 0)) / 10, *units);
    else
        snprintf(text->chars, sizeof(text->chars), "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10, *units);
    return text->chars;
}

const char *format_size(struct text *text, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", NULL};
    return print_scaled(text, (double)bytes, 1024, units);
}

const char *format_time(struct text *text, uint64_t nanoseconds)
{
    static const char *const units[] = {"ns", "µs", "ms", "s", NULL};
    return print_scaled(text, (double)nanoseconds, 1000, units);
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
