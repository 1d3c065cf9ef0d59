/* SPDX-License-Identifier: MIT */
/*
 * stack.h - a table that keeps each distinct stack once, under a number, with the frames of interpreters that stacks refer to.
 *
 * An element of a stack is a return address times two, or the number of an interpreter's frame times two plus one. Numbers begin at 1; 0 is
 * no stack, or no frame. What is in the table stays as it is and where it is until the table is destroyed, by its owner, once nobody uses
 * it.
 *
 * Looking a stack up takes no lock; adding one takes `lock`, a spin lock under which nothing is called. Memory is reserved at the start,
 * bounded, and used as the table grows. Where it is full, stacks have number 0 and are counted.
 */
#ifndef WEIR_RECORD_STACK_H
#define WEIR_RECORD_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/record/unwind.h"

#define WEIR__STACK_MAX 128 /* elements, of which WEIR__UNWIND_MAX are native; the outermost of more are left out */
#define WEIR__STACKS_BYTES ((size_t)64 << 20)
#define WEIR__STACKS_COUNT (UINT32_C(1) << 20)
#define WEIR__PLACES_COUNT (UINT32_C(1) << 16) /* places in an interpreter's code, which is never freed then */
#define WEIR__FRAME_FUNCTION_MAX 255 /* bytes; longer names lose their end */
#define WEIR__FRAME_FILE_MAX 511     /* bytes; longer paths lose their beginning */

struct weir__stacks;

/* One frame of an interpreter. */
struct weir__frame {
    const char *function, *file; /* the table's */
    uint32_t line;
};

static inline uint64_t weir__stack_address(uintptr_t pc)
{
    return (uint64_t)pc << 1;
}

static inline uint64_t weir__stack_frame(uint32_t frame)
{
    return (uint64_t)frame << 1 | 1;
}

/*
 * Makes a table for up to `count` stacks in `bytes`, and for frames of interpreters in a quarter of both: WEIR__STACKS_COUNT and
 * WEIR__STACKS_BYTES at most. Where the address space is short the table is smaller. NULL: no host memory.
 */
struct weir__stacks *weir__stacks_new(size_t bytes, uint32_t count);
void weir__stacks_destroy(struct weir__stacks *stacks);

/* Finds or adds the stack with these elements. Returns its number; 0: there are no elements, or the table is full. */
uint32_t weir__stacks_add(struct weir__stacks *stacks, const uint64_t *elements, unsigned count);
/* The number of the calling thread's stack, with the frames of an interpreter (interpreter.h); the caller holds no lock. 0 also if
   this thread is within another call of this function. */
uint32_t weir__stacks_here(struct weir__stacks *stacks);
/* The number of the frame with that function, file and line. NULL is "". */
uint32_t weir__stacks_frame(struct weir__stacks *stacks, const char *function, const char *file, uint32_t line);

/* The number of the frame at a place in an interpreter's code; 0: the table does not have that place. */
uint32_t weir__stacks_find_place(const struct weir__stacks *stacks, uint64_t code, uint64_t position);
/* Whether there is room for another place; it may be gone by the time that one is added. */
bool weir__stacks_takes_places(const struct weir__stacks *stacks);
void weir__stacks_add_place(struct weir__stacks *stacks, uint64_t code, uint64_t position, uint32_t frame);

/* Look a number up. Return false if no stack, or no frame, has it. */
bool weir__stacks_get(const struct weir__stacks *stacks, uint32_t id, const uint64_t **elements, unsigned *count);
bool weir__stacks_get_frame(const struct weir__stacks *stacks, uint32_t id, struct weir__frame *frame);

/* The highest number of a stack, and of a frame. All numbers from 1 to that are in use. */
uint32_t weir__stacks_count(const struct weir__stacks *stacks);
uint32_t weir__stacks_frame_count(const struct weir__stacks *stacks);
/* How often a stack, or a frame, got no number because the table is full. */
uint64_t weir__stacks_lost(const struct weir__stacks *stacks);

/* The hash by which the table finds a stack. */
uint32_t weir__stacks_hash(const uint64_t *elements, unsigned count);

#endif
