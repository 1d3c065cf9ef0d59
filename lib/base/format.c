/* SPDX-License-Identifier: MIT */
#include "lib/base/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *weir__bytes(char text[WEIR__BYTES_LEN], uint64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
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

const char *weir__bytes_kept(char text[WEIR__BYTES_LEN], uint64_t bytes)
{
    if (bytes != UINT64_MAX)
        return weir__bytes(text, bytes);
    snprintf(text, WEIR__BYTES_LEN, "all");
    return text;
}

const char *weir__plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

const char *weir__why(char text[WEIR__WHY_LEN], int code, const char *remedy)
{
    static const struct {
        int code;
        const char *remedy;
    } table[] = {
        { EMFILE, "close descriptors or raise ulimit -n" },
        { ENFILE, "close descriptors of other programs or raise fs.file-max" },
        { ENOMEM, "free host memory" },
        { ENOBUFS, "free host memory" },
        { ENOSPC, "make room there" },
        { EDQUOT, "make room there or raise the quota" },
        { EROFS, "choose a place that can be written to" },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].code == code)
            remedy = table[i].remedy;
    snprintf(text, WEIR__WHY_LEN, "%s: %s", strerror(code), remedy);
    return text;
}
