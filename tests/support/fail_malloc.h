/* SPDX-License-Identifier: MIT */
/*
 * fail_malloc.h - makes the nth allocation of the program fail, in its own code and in the libraries it uses.
 *
 * Linking it replaces malloc, calloc, realloc, aligned_alloc and free of the whole program, which sanitizers and valgrind want for
 * themselves: there fail_malloc_works() is false and nothing is replaced. Meant for single-threaded sweeps; the counters are atomic, so
 * that other threads do no harm.
 */
#ifndef WEIR_FAIL_MALLOC_H
#define WEIR_FAIL_MALLOC_H

#include <stdbool.h>

/* Lets the nth allocation from now (1: the next) fail, once. 0: none any more; what happened stays known. */
void fail_malloc_at(unsigned nth);
/* The same, but only allocations of the calling thread count: for tests beside which the library's own threads run. */
void fail_malloc_here_at(unsigned nth);
/* Whether the allocation that was last chosen came and failed. */
bool fail_malloc_happened(void);
/* Whether allocations can be made to fail in this program. */
bool fail_malloc_works(void);
/* Blocks allocated and not freed, of the whole program. */
long fail_malloc_live(void);

#endif
