/* SPDX-License-Identifier: MIT */
/*
 * call.h - one call of the program into the library, and the program's own code (log functions, callbacks) that runs within the call.
 *
 * A function of weir.h that may wait, or log, begins with WEIR__CALL. Until that function returns its thread cannot be cancelled, since
 * cancellation would leave locks taken and other threads waiting. Lines for the log are kept in a list of the thread until the function has
 * done all its work, and only then given to the program's log function: a log function may throw an exception or end its thread, and this
 * way it leaves nothing of Weir half-done. Callbacks run in the middle of a call instead. Each function between the callback and the
 * program restores what it changed by a clean-up (the attribute `cleanup`, with -fexceptions), which runs when an exception or
 * pthread_exit() passes through as well.
 *
 * All data here is thread-local, so there is no lock.
 */
#ifndef WEIR_LIB_CALL_H
#define WEIR_LIB_CALL_H

#include <pthread.h>
#include <stdbool.h>

#include "include/weir.h"

/* One line of the log, kept until the end of the call. */
struct weir__line;

/* The calls in progress of one thread, and the lines that they have logged. */
struct weir__calls {
    unsigned depth;           /* number of nested calls: 2 and more if a log function or a callback calls Weir */
    struct weir__line *lines; /* the oldest line first; empty if depth is 0 */
    struct weir__line **last; /* the pointer at the end of the list, to which the next line is linked */
};

extern __thread struct weir__calls weir__calls __attribute__((visibility("hidden")));

struct weir__call {
    struct weir__calls *calls; /* the calling thread's */
    int former;                /* the thread's cancellation state before the call, which the end of the call restores */
};

static inline struct weir__call weir__call_begin(void)
{
    struct weir__call call = { .calls = &weir__calls };
    call.calls->depth++;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.former);
    return call;
}

/* Gives the kept lines to their log functions, and ends the outermost call of the thread. */
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

/* Begins a call, which ends where the enclosing block ends. */
#define WEIR__CALL struct weir__call weir__this_call __attribute__((cleanup(weir__call_end), unused)) = weir__call_begin()

/* Returns whether a log function or callback, which Weir runs on this thread, makes this call. Use it after WEIR__CALL. */
static inline bool weir__call_is_nested(void)
{
    return weir__calls.depth > 1;
}

/* Gives a line to the log function `say` at the end of the outermost call. Outside of any call, or if host memory runs out, `say` gets the
   line at once. */
void weir__call_say(weir_log_fn say, void *data, weir_log_level level, const char *text);

#endif
