/* SPDX-License-Identifier: MIT */
#include "lib/format.h"

#include <stdio.h>

const char *weir__bytes(char text[WEIR__BYTES_LEN], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    if (bytes == UINT64_MAX) {
        snprintf(text, WEIR__BYTES_LEN, "all");
        return text;
    }
    if (bytes < 1024) {
        snprintf(text, WEIR__BYTES_LEN, "%u B", (unsigned)bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, WEIR__BYTES_LEN, value == (double)(uint64_t)value ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return text;
}
