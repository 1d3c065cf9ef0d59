/* SPDX-License-Identifier: MIT */
#include "lib/base/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/number.h"

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

static unsigned digits_of(uint64_t number)
{
    unsigned digits = 1;
    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

/* Rounds before it chooses the unit, since 999.6 µs with three digits are 1.00 ms. Whole seconds keep all their digits. */
const char *weir__time_digits(char text[WEIR__TIME_LEN], uint64_t nanoseconds, unsigned digits)
{
    static const struct {
        const char *name;
        unsigned places;
        uint64_t nanoseconds;
    } units[] = {{"ns", 0, 1}, {"\u00b5s", 3, 1000}, {"ms", 6, 1000000}, {"s", 9, 1000000000}};
    unsigned all = digits_of(nanoseconds), dropped = 0;
    uint64_t step = 1; /* nanoseconds that a 1 in the last printed digit stands for */
    for (; dropped + digits < all && dropped < 9; dropped++)
        step *= 10;
    uint64_t half = step / 2, rounded = nanoseconds > UINT64_MAX - half ? UINT64_MAX : nanoseconds + half;
    rounded -= rounded % step;
    if (digits_of(rounded) > all && dropped && dropped < 9) {
        step *= 10;
        dropped++;
    }
    size_t unit = rounded ? weir__smaller((digits_of(rounded) - 1) / 3, 3) : 3;
    uint64_t whole = rounded / units[unit].nanoseconds, rest = rounded % units[unit].nanoseconds / step;
    if (rounded && units[unit].places > dropped)
        snprintf(text, WEIR__TIME_LEN, "%" PRIu64 ".%0*" PRIu64 " %s", whole, (int)(units[unit].places - dropped), rest, units[unit].name);
    else
        snprintf(text, WEIR__TIME_LEN, "%" PRIu64 " %s", whole, units[unit].name);
    return text;
}

const char *weir__time(char text[WEIR__TIME_LEN], uint64_t nanoseconds)
{
    return weir__time_digits(text, nanoseconds, WEIR__TIME_DIGITS);
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
