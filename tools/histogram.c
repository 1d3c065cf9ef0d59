/* SPDX-License-Identifier: MIT */
#include "tools/histogram.h"

#include <stddef.h>

static size_t bucket_of(uint64_t value)
{
    if (value < 16)
        return (size_t)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return (size_t)(power - 3) * 16 + (size_t)(value >> (power - 4) & 15);
}

/* The greatest value that falls into the bucket. */
static uint64_t bound_of(size_t bucket)
{
    if (bucket < 16)
        return bucket;
    unsigned power = (unsigned)(bucket / 16) + 3;
    uint64_t width = UINT64_C(1) << (power - 4);
    return (UINT64_C(1) << power) + (bucket % 16) * width + (width - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->buckets[bucket_of(value)]++;
    if (value > histogram->max)
        histogram->max = value;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    uint64_t seen = 0;
    double wanted = (double)histogram->count * percent / 100;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (histogram->buckets[i] && (double)seen >= wanted)
            return bound_of(i) < histogram->max ? bound_of(i) : histogram->max;
    }
    return histogram->max;
}
