/* SPDX-License-Identifier: MIT */
/*
 * memory.h - allocation without an error path, for the command and for the reader of traces, which is also a part of libweir-trace.
 *
 * If host memory runs out, memory_lacks() is called, which does not return: the command prints an error and exits (complain.c), and
 * libweir-trace jumps out of its caller's call (library.c). So that the jump leaks nothing, store each allocation in a struct that is freed
 * later, before you allocate again.
 */
#ifndef WEIR_TRACE_MEMORY_H
#define WEIR_TRACE_MEMORY_H

#include <stddef.h>

/* Defined by the program or library that links this file. */
_Noreturn void memory_lacks(void);

/* Returns ptr, or calls memory_lacks() if ptr is NULL. */
void *must(void *ptr);

/* Returns the array of `count` items, reallocated if necessary, so that it has room for at least one more. */
void *must_grow(void *items, size_t count, size_t *room, size_t size);
/* Appends one item to the array, and gives a pointer to it. */
#define MUST_ADD(items, count, room) ((items) = must_grow((items), (count), &(room), sizeof *(items)), (items) + (count)++)

#endif
