/* SPDX-License-Identifier: MIT */
/*
 * interpreter.h - the interpreter whose frames stand in stacks, such as Python: how its host tells of them, and who waits for whom.
 *
 * One for the process, the host's, who takes it away before the interpreter goes. There is no lock: a thread that is with the interpreter
 * is counted, and taking it away waits until there is none. The interpreter may take locks of its own, such as Python's GIL, whose holders
 * may be in any call of Weir's. So a thread is sent there before it takes the first lock of Weir's, or not at all.
 *
 * An interpreter tells of places: the address of some code, and where in it. That is all on the usual way; which function, file and line a
 * place is, is asked once for each table of stacks, which keeps the answer. Code that is freed could leave its address to other code. So it
 * is kept before its place enters a table, while a frame of the calling thread still runs it, and for good: what is in a table has an
 * address that never comes again. Tables keep a bounded number of places. Those beyond it are asked for each time, and their code is not
 * kept.
 */
#ifndef WEIR_RECORD_INTERPRETER_H
#define WEIR_RECORD_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/record/stack.h"

struct weir__place {
    uint64_t code;     /* the address of an object of the interpreter's */
    uint64_t position; /* in it */
};

/* What a place is. */
struct weir__place_name {
    char function[WEIR__FRAME_FUNCTION_MAX + 1];
    char file[WEIR__FRAME_FILE_MAX + 1]; /* the end of a longer path */
    uint32_t line;
};

/* Both functions are called with no lock of Weir's held. They must not fail in a way that leaves traces in the interpreter. */
struct weir__interpreter {
    uintptr_t low, high; /* its own code: where the frames of the program's calls to it, and not those of its callees, lie */
    /* Writes the places of up to `max` frames of the calling thread, the innermost first, and returns how many. 0: it has none. */
    unsigned (*find)(struct weir__place *places, unsigned max);
    /* What that place is, which find() has just told this thread of. keeps: the code is kept for good. false: nobody knows. */
    bool (*name)(const struct weir__place *place, bool keeps, struct weir__place_name *name);
};

/* From now on stacks have the frames of that interpreter, whose struct stays where it is; NULL: of none, and nobody is with the former one
   when it returns, which may take until its locks are free: the caller holds none of them. In the child of a fork it does not wait. */
void weir__interpreter_set(const struct weir__interpreter *interpreter);

/*
 * Appends the interpreter's frames of the calling thread to the `count` native elements of its stack, of which those from the interpreter's
 * own code on go: behind it there is its machinery, and the program's start. Returns how many elements there are then, `max` at most, and
 * `count` where it has no frames.
 */
unsigned weir__interpreter_append(struct weir__stacks *stacks, uint64_t *elements, unsigned count, unsigned max);

#endif
