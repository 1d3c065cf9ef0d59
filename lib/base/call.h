/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call of the program into the library, and the program's own code that it comes to run.
 *
 * A function of weir.h that may wait, or log, begins with WEIR__CALL. Until that function returns its thread cannot be cancelled, since
 * cancellation would leave locks taken and others waiting. What it logs is kept until it has done all it does, and only then given to the
 * program's log function: such a function may throw an exception or end its thread, and then nothing of Weir is left half-done. Callbacks
 * run in the middle of a call instead. Each function between the callback and the program restores what it changed by a clean-up (the
 * attribute `cleanup`, with -fexceptions), which runs when an exception or pthread_exit() passes through as well.
 *
 * All of it is the calling thread's own.
 */
#ifndef WEIR_LIB_CALL_H
#define WEIR_LIB_CALL_H

#include <pthread.h>
#include <stdbool.h>

#include "include/weir.h"

/* A line for a log function, that waits for the end of the call. */
struct weir__line;

/* What a thread is in the middle of. */
struct weir__calls {
    unsigned depth;           /* calls in progress: 2 and more within the program's own code that Weir runs */
    struct weir__line *lines; /* the oldest first; none with a depth of 0 */
    struct weir__line **last; /* where the next one goes */
};

extern __thread struct weir__calls weir__calls __attribute__((visibility("hidden")));

struct weir__call {
    struct weir__calls *calls; /* of this thread */
    int former;                /* whether the thread could be cancelled */
};

static inline struct weir__call weir__call_begin(void)
{
    struct weir__call call = { .calls = &weir__calls };
    call.calls->depth++;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.former);
    return call;
}

/* Gives the lines to their log functions, and ends the call. */
void weir__call_deliver(struct weir__call *call);

static inline void weir__call_end(struct weir__call *call)
{
    if (call->calls->depth == 1 && call->calls->lines) {
        weir__call_deliver(call);
        return;
    }
    call->calls->depth--;
    pthread_setcancelstate(call->former, NULL);
}

/* From here to the end of the block. */
#define WEIR__CALL struct weir__call weir__this_call __attribute__((cleanup(weir__call_end), unused)) = weir__call_begin()

/* Whether the program's own code makes this call, run by Weir on this thread. Asked after WEIR__CALL. */
static inline bool weir__call_is_nested(void)
{
    return weir__calls.depth > 1;
}

/* A line for the log function `say`: at the end of the call, or at once where there is none or no host memory. */
void weir__call_say(weir_log_fn say, void *data, weir_log_level level, const char *text);

#endif
