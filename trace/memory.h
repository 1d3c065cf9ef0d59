/* SPDX-License-Identifier: MIT */
/*
 * memory.h - host memory that has to be there: for the command, and for the reader of traces, which is part of a library as well.
 *
 * Where there is none, memory_lacks() is called, which does not return. The command ends there (complain.c); libweir-trace leaves the call
 * that its caller made (library.c). So all that is allocated belongs to something that is freed afterwards, before more is asked for.
 */
#ifndef WEIR_TRACE_MEMORY_H
#define WEIR_TRACE_MEMORY_H

#include <stddef.h>

/* Of whoever links this. */
_Noreturn void memory_lacks(void);

/* Passes ptr on, unless it is NULL. */
void *must(void *ptr);

/* The array of `count` items with room for one more at least. */
void *must_grow(void *items, size_t count, size_t *room, size_t size);
/* The place of one item more, which is counted. */
#define MUST_ADD(items, count, room) ((items) = must_grow((items), (count), &(room), sizeof *(items)), (items) + (count)++)

#endif
