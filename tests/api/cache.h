/* SPDX-License-Identifier: MIT */
/* cache.h - what the files of tests/api/cache share: one program, on the simulator and on a GPU. */
#ifndef WEIR_TESTS_CACHE_H
#define WEIR_TESTS_CACHE_H

#include "tests/api/scene.h"

#define KIB (UINT64_C(1) << 10)

/* Opens a weir with the pools `main` (the default, with this value of `cache`, as in "on" or "{ largest: 4KiB }") and `other`, and the
   streams `side` (of `other`) and `own` (of `main`, private). */
void cache_open(const char *cache);
/* The same policy with another value of `cache`, in a file of its own that the weir is reloaded from. */
void cache_reload(const char *cache);

/* What the caches of the pool hold, and how many requests they have served. */
uint64_t cache_bytes(const char *pool);
uint64_t cache_hits(const char *pool);

/* Allocates a block of that size on the stream, and frees it there. Returns where it was. */
void *cache_fill(weir_stream *s, uint64_t size);
/* The same with so many blocks at a time. */
void cache_fill_many(weir_stream *s, uint64_t size, unsigned count);

/* A capture on the stream, whose end must find it whole; returns how many nodes it has. */
void cache_begin_capture(gpu_stream stream);
size_t cache_end_capture(gpu_stream stream);

void add_bounds_cases(Suite *suite);
void add_flush_cases(Suite *suite);
void add_cache_simulator_cases(Suite *suite);

#endif
