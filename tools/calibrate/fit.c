/* SPDX-License-Identifier: MIT */
#include "tools/calibrate/fit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
/* Nanoseconds about the nearest line in which an exact cost is looked for: one of a page of 2 MiB is 512 of a GiB. */
#define NEAR_CALL 3
#define NEAR_GIB 1024

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

uint64_t median(uint64_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, compare);
    return numbers[count / 2];
}

/* Least squares of the relative errors; neither part is negative. */
static struct gpu_cost nearest(const struct sample *samples, size_t count)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < count; i++) {
        double time = samples[i].time > 0 ? (double)samples[i].time : 1, size = (double)samples[i].size / (double)GIB;
        double weight = 1 / (time * time);
        w += weight;
        x += weight * size;
        y += weight * time;
        xx += weight * size * size;
        xy += weight * size * time;
    }
    double spread = w * xx - x * x, gib = spread > 0 ? (w * xy - x * y) / spread : 0;
    if (gib < 0)
        gib = 0;
    double call = (y - gib * x) / w;
    if (call < 0) {
        call = 0;
        gib = xy / xx;
    }
    return (struct gpu_cost){ .call = (uint64_t)(call + 0.5), .gib = (uint64_t)(gib + 0.5) };
}

static bool is_exact(struct gpu_cost cost, const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (gpu_cost_of(cost, samples[i].size) != samples[i].time)
            return false;
    return true;
}

static size_t text_length(struct gpu_cost cost)
{
    char text[GPU_COST_TEXT_SIZE];
    return strlen(gpu_cost_format(cost, text));
}

struct gpu_cost fit_cost(const struct sample *samples, size_t count)
{
    if (count == 0)
        return (struct gpu_cost){ 0 };
    struct gpu_cost middle = nearest(samples, count), best = middle;
    bool found = false;
    for (int a = -NEAR_CALL; a <= NEAR_CALL; a++)
        for (int b = -NEAR_GIB; b <= NEAR_GIB; b++) {
            struct gpu_cost cost = { .call = middle.call + (uint64_t)a, .gib = middle.gib + (uint64_t)b };
            if (cost.call > GPU_COST_MOST || cost.gib > GPU_COST_MOST || !is_exact(cost, samples, count))
                continue; /* below nothing, it would be above the most */
            if (!found || text_length(cost) < text_length(best))
                best = cost;
            found = true;
        }
    return best;
}
