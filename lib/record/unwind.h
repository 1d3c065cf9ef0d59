/* SPDX-License-Identifier: MIT */
/*
 * unwind.h - the return addresses of the calling thread, fast enough for every allocation.
 *
 * There are three ways, of which the process chooses one, once: libunwind, which keeps what it knows of each function and is loaded by
 * name, since a program that links it gets its backtrace() and _Unwind_*() in the place of the host's; frame pointers, where the first
 * stack has them all; backtrace(), which is always there and slow. On aarch64 libunwind is no such way.
 *
 * No locks of its own. The C library's loader takes one in all three, so callers hold none of Weir's. A thread that comes back here from
 * within, through an allocator that was hooked, gets no frames.
 */
#ifndef WEIR_RECORD_UNWIND_H
#define WEIR_RECORD_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__UNWIND_MAX 64 /* frames of a stack; those further out are left out */

enum weir__unwind_way {
    WEIR__UNWIND_NONE, /* nothing was chosen yet */
    WEIR__UNWIND_LIBUNWIND,
    WEIR__UNWIND_FRAME_POINTERS,
    WEIR__UNWIND_BACKTRACE,
    WEIR__UNWIND_WAYS,
};

/* Chooses the way and warms it: it takes up to a millisecond. Before that every stack is empty. libunwind keeps a pipe, two descriptors,
 * open. */
void weir__unwind_prepare(void);
/* The name of the chosen way: "libunwind", "frame pointers", "backtrace"; "none" before it was chosen. */
const char *weir__unwind_way(void);

/*
 * Writes up to `max` return addresses, the innermost first, and returns how many. The first is that of the caller's own call, or where Weir
 * is a shared library, that of the call into it.
 */
unsigned weir__unwind_by(enum weir__unwind_way way, uintptr_t *pcs, unsigned max);
/* By the way that was chosen. */
unsigned weir__unwind(uintptr_t *pcs, unsigned max);

/* Whether that way works in this process, and for frame pointers, in the calling thread's stack. */
bool weir__unwind_can(enum weir__unwind_way way);

/*
 * Follows frame pointers from `frame`, the address of a saved frame pointer with a return address above it. Reads nothing outside of
 * [low, high), and stops where frames do not lie one above the other.
 */
unsigned weir__unwind_follow(uintptr_t frame, uintptr_t low, uintptr_t high, void **pcs, unsigned max);

/* Whether `frames`, which frame pointers gave, has the frames of `all` but for the outermost few, which are the C library's. */
bool weir__unwind_agree(void *const *frames, unsigned frame_count, void *const *all, unsigned all_count);

#endif
