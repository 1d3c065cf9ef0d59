/* SPDX-License-Identifier: MIT */
/*
 * stack.h - a table that stores each distinct stack once, under a number, and also the interpreter's frames (interpreter.h) in these
 * stacks.
 *
 * A stack is an array of elements. An element is a return address times two, or the number of an interpreter's frame times two plus one.
 * Numbers begin at 1; 0 means no stack or no frame. Entries never change or move until the owner destroys the table, when no thread uses
 * the table any more.
 *
 * Looking up a stack takes no lock; adding one takes `lock`, a spin lock that is held over no call of other files. The address space for
 * the largest size is reserved when the table is made, and gets memory as the table grows. If the table is full, new stacks get number 0
 * and are counted as lost.
 */
#ifndef WEIR_RECORD_STACK_H
#define WEIR_RECORD_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/record/unwind.h"

#define WEIR__STACK_MAX 128 /* elements of a stack, of which up to WEIR__UNWIND_MAX are native; a deeper stack loses its outermost ones */
#define WEIR__STACKS_BYTES ((size_t)64 << 20)
#define WEIR__STACKS_COUNT (UINT32_C(1) << 20)
#define WEIR__PLACES_COUNT (UINT32_C(1) << 16) /* places in a table; the code of these places is never freed */
#define WEIR__FRAME_FUNCTION_MAX 255 /* bytes; longer names lose their end */
#define WEIR__FRAME_FILE_MAX 511     /* bytes; longer paths lose their beginning */

struct weir__stacks;

/* One frame of an interpreter. The strings belong to the table. */
struct weir__frame {
    const char *function, *file;
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
 * Makes a table for up to `count` stacks in up to `bytes` bytes, and for a quarter of that many frames in a quarter of the bytes. Larger
 * values than WEIR__STACKS_COUNT and WEIR__STACKS_BYTES are reduced to these. If the process has too little address space, the table is
 * smaller. Returns NULL if host memory runs out.
 */
struct weir__stacks *weir__stacks_new(size_t bytes, uint32_t count);
void weir__stacks_destroy(struct weir__stacks *stacks);

/* Finds or adds the stack with these elements. Returns its number, or 0 if `count` is 0 or the table is full. */
uint32_t weir__stacks_add(struct weir__stacks *stacks, const uint64_t *elements, unsigned count);
/* Unwinds the calling thread's stack, appends the interpreter's frames, and finds or adds the stack. Returns its number, or 0 if the table
   is full or this call is nested in another call of this function. The caller holds no lock of Weir. */
uint32_t weir__stacks_here(struct weir__stacks *stacks);
/* Finds or adds the frame with that function, file and line; NULL stands for "". Returns its number, or 0 if the table is full. */
uint32_t weir__stacks_frame(struct weir__stacks *stacks, const char *function, const char *file, uint32_t line);

/* Returns the number of the frame at a place (interpreter.h); 0 if the table does not have the place. */
uint32_t weir__stacks_find_place(const struct weir__stacks *stacks, uint64_t code, uint64_t position);
/* Returns whether there is room for another place. Other threads may take the room before the caller adds one. */
bool weir__stacks_takes_places(const struct weir__stacks *stacks);
void weir__stacks_add_place(struct weir__stacks *stacks, uint64_t code, uint64_t position, uint32_t frame);

/* Return the stack, or the frame, with that number. Return false if there is none. */
bool weir__stacks_get(const struct weir__stacks *stacks, uint32_t id, const uint64_t **elements, unsigned *count);
bool weir__stacks_get_frame(const struct weir__stacks *stacks, uint32_t id, struct weir__frame *frame);

/* Return the highest number of a stack, and of a frame. All numbers from 1 up to the highest are in use. */
uint32_t weir__stacks_count(const struct weir__stacks *stacks);
uint32_t weir__stacks_frame_count(const struct weir__stacks *stacks);
/* Returns how often a stack or a frame could not be added because the table was full. */
uint64_t weir__stacks_lost(const struct weir__stacks *stacks);

/* Returns the hash by which the table finds a stack. */
uint32_t weir__stacks_hash(const uint64_t *elements, unsigned count);

#endif
