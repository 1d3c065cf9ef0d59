/* SPDX-License-Identifier: MIT */
/*
 * interpreter.h - an interpreter, such as Python, whose frames appear in recorded stacks.
 *
 * A process has at most one such interpreter. The host, which is the module that knows the interpreter (such as Weir's plug-in for
 * PyTorch), sets it and must unset it before the interpreter is shut down. There is no lock: threads that call the interpreter's functions
 * are counted, and unsetting waits until there are none. The functions may take locks of the interpreter, such as Python's GIL, and a
 * thread that holds the GIL may be in any call of Weir. So they are only called by threads that hold no lock of Weir.
 *
 * For each frame the interpreter first reports a place: the address of a code object and a position in it. That is cheap. The function,
 * file and line of a place are asked for once for each table of stacks (stack.h), which keeps the answer. If a code object were freed,
 * another one could get the same address, and the table's answer would be wrong. So before a place enters a table the interpreter keeps the
 * code object alive for ever; it can do so because a frame of the calling thread is still running the code. A table keeps a bounded number
 * of places. Further places are asked for each time, and their code is not kept.
 */
#ifndef WEIR_RECORD_INTERPRETER_H
#define WEIR_RECORD_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/record/stack.h"

struct weir__place {
    uint64_t code;     /* the address of the interpreter's code object */
    uint64_t position; /* in that code */
};

/* The function, file and line of a place. */
struct weir__place_name {
    char function[WEIR__FRAME_FUNCTION_MAX + 1];
    char file[WEIR__FRAME_FILE_MAX + 1]; /* a longer path loses its beginning */
    uint32_t line;
};

/* Both functions are called with no lock of Weir held. If they fail, no pending error (such as a Python exception) may remain in the
   interpreter. */
struct weir__interpreter {
    uintptr_t low, high; /* the addresses of the interpreter's own machine code: a native frame in this range is the interpreter's */
    /* Writes the places of the calling thread's frames, the innermost first and `max` at most. Returns their number, 0 if there are
       none. */
    unsigned (*find)(struct weir__place *places, unsigned max);
    /* Writes the function, file and line of a place that find() has just reported to this thread. keeps: keep the code object alive for
       ever. Returns false if they are unknown. */
    bool (*name)(const struct weir__place *place, bool keeps, struct weir__place_name *name);
};

/* Sets the interpreter whose frames are appended to stacks; the struct must stay valid until the interpreter is unset. NULL unsets it: the
   function then waits until no thread is within the functions of the former interpreter, except in the child of a fork. Such a thread may
   wait for a lock of the interpreter, so the caller must not hold one. */
void weir__interpreter_set(const struct weir__interpreter *interpreter);

/*
 * Appends the interpreter's frames of the calling thread to its `count` native frames. Before that, removes the first native frame that
 * lies in the interpreter's own code and all frames outside of it: they are the interpreter's machinery and the program's start. Returns
 * the new number of elements, `max` at most. If the thread has no frames of the interpreter, changes nothing and returns `count`.
 */
unsigned weir__interpreter_append(struct weir__stacks *stacks, uint64_t *elements, unsigned count, unsigned max);

#endif
