/* SPDX-License-Identifier: MIT */
/*
 * ownership.h - a map of memory that finds blocks which overlap: who gets a block claims it, and gives the claim up right before the free.
 *
 * One bit for each 512 bytes, CUDA's alignment, in regions of 2 MiB that are added when they are first touched. One map for each process.
 * Without locks, so that the threads under test meet in the allocator and not here.
 */
#ifndef WEIR_TESTS_OWNERSHIP_H
#define WEIR_TESTS_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>

/* false: some of the bytes are claimed already; what could be claimed is. */
bool ownership_claim(const void *ptr, size_t size);

/* false: some of the bytes were not claimed. */
bool ownership_give_up(const void *ptr, size_t size);

/* Whether the map had no room for a region: then it knows nothing of some blocks, and a test that ends so has shown nothing. */
bool ownership_is_full(void);

#endif
