/* SPDX-License-Identifier: MIT */
#include "lib/gpu/cost.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint64_t nanoseconds;
} units[] = { { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 } };
#define UNITS (sizeof units / sizeof *units)
#define RATE "/GiB"

/* Reads a time such as "830us" from the front of *text, and moves *text behind it. Returns false if there is no such time, or it is too
   long. */
static bool take_time(const char **text, uint64_t *time)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)**text))
        return false;
    uint64_t count = strtoull(*text, &end, 10);
    for (size_t i = 0; i < UNITS && errno == 0; i++)
        if (strncmp(end, units[i].name, 2) == 0) {
            *text = end + 2;
            return !__builtin_mul_overflow(count, units[i].nanoseconds, time) && *time <= GPU_COST_MOST;
        }
    return false;
}

bool gpu_cost_parse(const char *text, struct gpu_cost *cost)
{
    struct gpu_cost read = { 0 };
    uint64_t time;
    if (!take_time(&text, &time))
        return false;
    if (*text == '\0') {
        *cost = (struct gpu_cost){ .call = time };
        return true;
    }
    if (*text == '+') {
        read.call = time;
        text++;
        if (!take_time(&text, &time))
            return false;
    }
    read.gib = time;
    if (strcmp(text, RATE) != 0)
        return false;
    *cost = read;
    return true;
}

static int format_time(char *text, size_t len, uint64_t time)
{
    size_t unit = 0;
    while (time % units[unit].nanoseconds != 0 || (time == 0 && unit < UNITS - 1))
        unit++;
    return snprintf(text, len, "%" PRIu64 "%s", time / units[unit].nanoseconds, units[unit].name);
}

const char *gpu_cost_format(struct gpu_cost cost, char text[static GPU_COST_TEXT_SIZE])
{
    int len = 0;
    if (cost.call || !cost.gib)
        len = format_time(text, GPU_COST_TEXT_SIZE, cost.call);
    if (cost.call && cost.gib)
        text[len++] = '+';
    if (cost.gib) {
        len += format_time(text + len, GPU_COST_TEXT_SIZE - (size_t)len, cost.gib);
        snprintf(text + len, GPU_COST_TEXT_SIZE - (size_t)len, RATE);
    }
    return text;
}

uint64_t gpu_cost_of(struct gpu_cost cost, uint64_t bytes)
{
    return cost.call + (uint64_t)((double)bytes / (1 << 30) * (double)cost.gib);
}
