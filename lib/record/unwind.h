/* SPDX-License-Identifier: MIT */
/*
 * unwind.h - unwinds the calling thread's stack, fast enough for every allocation.
 *
 * There are three ways, and the process chooses one of them once:
 * - libunwind, which caches how to unwind each function. It is loaded at run time: in a program that links libunwind, libunwind's
 * backtrace()
 *   and _Unwind_*() functions would replace those of the C library and the compiler. Not on aarch64.
 * - Frame pointers, if all frames of the first stack have them.
 * - backtrace() of the C library, which always works and is slow.
 *
 * This file has no lock, but all three ways may take the lock of the C library's loader, so callers hold no lock of Weir. A nested call,
 * which happens if unwinding allocates memory through a hooked allocator, gets no frames.
 */
#ifndef WEIR_RECORD_UNWIND_H
#define WEIR_RECORD_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__UNWIND_MAX 64 /* frames of a stack; a deeper stack loses its outermost ones */

enum weir__unwind_way {
    WEIR__UNWIND_NONE, /* no way was chosen yet */
    WEIR__UNWIND_LIBUNWIND,
    WEIR__UNWIND_FRAME_POINTERS,
    WEIR__UNWIND_BACKTRACE,
    WEIR__UNWIND_WAYS,
};

/* Chooses the way, and fills its caches, which takes up to a millisecond. Until then all stacks are empty. libunwind keeps two descriptors
   of a pipe open. */
void weir__unwind_prepare(void);
/* Returns the name of the chosen way: "libunwind", "frame pointers" or "backtrace"; "none" if no way was chosen yet. */
const char *weir__unwind_way(void);

/*
 * Unwinds by the given way: writes up to `max` return addresses, the innermost first, and returns their number. Weir's own frames are left
 * out: if Weir is a shared library, the first address is that of the program's call into Weir, otherwise that of the caller's call.
 */
unsigned weir__unwind_by(enum weir__unwind_way way, uintptr_t *pcs, unsigned max);
/* weir__unwind_by() with the chosen way. */
unsigned weir__unwind(uintptr_t *pcs, unsigned max);

/* Returns whether that way works in this process; for frame pointers, whether it works for the calling thread's present stack. */
bool weir__unwind_can(enum weir__unwind_way way);

/*
 * Follows the chain of frame pointers that begins at `frame`, where a saved frame pointer lies with a return address above it. Writes up to
 * `max` return addresses to `pcs` and returns their number. Reads only addresses from `low` to below `high`, and stops at a frame that does
 * not lie above the frame before it.
 */
unsigned weir__unwind_follow(uintptr_t frame, uintptr_t low, uintptr_t high, void **pcs, unsigned max);

/* Returns whether `frames`, found by frame pointers, are the same as the frames `all`, found by backtrace(). The outermost few of `all`,
   which belong to the C library, may be missing. */
bool weir__unwind_agree(void *const *frames, unsigned frame_count, void *const *all, unsigned all_count);

#endif
