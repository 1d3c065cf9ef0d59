/* SPDX-License-Identifier: MIT */
/*
 * writer.h - a trace being written: what a recorder has, or gets from now on, goes to a file by a thread of its own.
 *
 * Owned by whoever starts it, and ended before what it is of goes. Requests never wait for it: where the file is slow, events are
 * overwritten in their rings and counted as lost; where it is full, nothing more is written, and what is lost is counted. `lock` is a leaf
 * and guards what the owner and the thread tell each other.
 */
#ifndef WEIR_LIB_TRACE_WRITER_H
#define WEIR_LIB_TRACE_WRITER_H

#include "lib/record/recorder.h"
#include "lib/trace/head.h"

#define WEIR__TRACE_BYTES_MAX (UINT64_C(16) << 30) /* of a file */

struct weir__trace;

enum weir__trace_span {
    WEIR__TRACE_FROM_NOW, /* with what is live, until it is ended */
    WEIR__TRACE_FROM_OPEN, /* all that the rings ever have: from before the first request, until it is ended */
    WEIR__TRACE_UNTIL_NOW, /* what the rings have, and what is live now; then it ends by itself */
};

struct weir__trace_result {
    uint64_t bytes, events, lost;
    int error; /* errno of the write that failed, which was logged but with WEIR__TRACE_FROM_NOW; 0: none */
};

/*
 * What a trace is of, and what its writer asks for. All are called without locks, `sample` and `failed` by the writer's thread alone; `live`
 * may be NULL in a trace from open on, and `sample` where pools are looked at otherwise.
 */
struct weir__traced {
    struct weir__recorder *recorder;
    void *data; /* given back with each call */
    /* Makes the content of the first block, whose bytes are the caller's to free(), also after a failure. false: no host memory. */
    bool (*head)(void *data, const char *reason, struct weir__trace_bytes *head);
    /* Calls `use` with an event of each block that is live now, which may be under a lock. */
    void (*live)(void *data, void (*use)(const struct weir__event *event, void *to), void *to);
    void (*sample)(void *data); /* makes the figures of pools events of the calling thread */
    void (*failed)(void *data, enum weir__trace_span span, const struct weir__trace_result *result); /* the file ends early */
};

/* Begins. fd: a file at its beginning, taken over also where this fails. reason: as in the header. NULL: there is no host memory, or no
   thread to write it. */
struct weir__trace *weir__trace_begin(const struct weir__traced *of, int fd, enum weir__trace_span span, const char *reason);

/* Whether it has ended by itself: after a failed write, at its greatest length, or with WEIR__TRACE_UNTIL_NOW. */
bool weir__trace_is_over(struct weir__trace *trace);
/* The weir's pools are about to go: their figures are not asked for any more. */
void weir__trace_settle(struct weir__trace *trace);
/* It shall write what there is and end, which weir__trace_is_over() then tells; waits for nothing. */
void weir__trace_ask_end(struct weir__trace *trace);
/* Writes what there is, ends it and frees it. Waits for the file, unless it is over. */
struct weir__trace_result weir__trace_end(struct weir__trace *trace);

#endif
