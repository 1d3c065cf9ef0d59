/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - times in buckets that are each at most 1/16 wider than the one before, so that any span of nanoseconds fits into a fixed
 * size with an error of 6 %. Owned by one thread while it records; merged when the thread has ended.
 */
#ifndef WEIR_HISTOGRAM_H
#define WEIR_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 976 /* 16 exact ones, then 16 for each of the 60 powers of two from 2^4 to 2^63 */

struct histogram {
    uint64_t count, max;
    uint64_t buckets[HISTOGRAM_BUCKETS]; /* their sum is count */
};

void histogram_add(struct histogram *histogram, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The least bound that `percent` of the values do not exceed, up to the width of a bucket; 0 without values. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
