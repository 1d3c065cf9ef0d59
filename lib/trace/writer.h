/* SPDX-License-Identifier: MIT */
/*
 * writer.h - writes a trace: a thread of the trace's own reads the events from a recorder's rings and writes them to a file.
 *
 * The caller of weir__trace_begin() owns the trace, and ends it before the recorder is destroyed. Requests never wait for the trace: if the
 * file is slow, events are overwritten in their rings and counted as lost; if writing fails, nothing more is written and the remaining
 * events are counted as lost. `lock` is a leaf, and guards the members by which the owner and the thread tell each other that the trace
 * should end or is over.
 */
#ifndef WEIR_LIB_TRACE_WRITER_H
#define WEIR_LIB_TRACE_WRITER_H

#include "lib/record/recorder.h"
#include "lib/trace/head.h"

#define WEIR__TRACE_BYTES_MAX (UINT64_C(16) << 30) /* the greatest size of a file */

struct weir__trace;

enum weir__trace_span {
    WEIR__TRACE_FROM_NOW,  /* the blocks that are live at the beginning, and all events from then until the trace is ended */
    WEIR__TRACE_FROM_OPEN, /* begun before the first request: all events until the trace is ended */
    WEIR__TRACE_UNTIL_NOW, /* a dump: the events that the rings hold, and the blocks that are live. The trace ends by itself */
};

struct weir__trace_result {
    uint64_t bytes, events, lost;
    int error; /* errno of the write that failed, or 0. The error was reported to `failed` already, except with WEIR__TRACE_FROM_NOW */
};

/*
 * The recorder of a trace, and functions by which the writer gets more data. The functions are called with no lock held, `sample` and
 * `failed` only by the writer's thread. `live` may be NULL with WEIR__TRACE_FROM_OPEN, and `sample` if the recorder gets the figures of
 * pools in another way.
 */
struct weir__traced {
    struct weir__recorder *recorder;
    void *data; /* passed to each function */
    /* Makes the content of the first block. The caller frees its bytes even if the function fails. Returns false if host memory runs
       out. */
    bool (*head)(void *data, const char *reason, struct weir__trace_bytes *head);
    /* Calls use() with an event for each block that is live now. It may do so under a lock. */
    void (*live)(void *data, void (*use)(const struct weir__event *event, void *to), void *to);
    void (*sample)(void *data); /* writes the present figures of all pools as events of the calling thread */
    void (*failed)(void *data, enum weir__trace_span span, const struct weir__trace_result *result); /* reports that writing has failed */
};

/* Begins a trace and its thread. fd: a new empty file, which is closed in any case, even if this function fails. reason: for the header.
   Returns NULL if host memory runs out or the thread cannot be started. */
struct weir__trace *weir__trace_begin(const struct weir__traced *of, int fd, enum weir__trace_span span, const char *reason);

/* Returns whether the thread has finished: after a failed write, at the greatest size of the file, after weir__trace_ask_end(), or because
   a dump is complete. */
bool weir__trace_is_over(struct weir__trace *trace);
/* The weir's pools are about to be destroyed: does not call `sample` any more. Waits for a call in progress. */
void weir__trace_settle(struct weir__trace *trace);
/* Asks the thread to write the remaining events and to finish. Does not wait. */
void weir__trace_ask_end(struct weir__trace *trace);
/* Asks the thread to finish, waits for its end, and frees the trace. */
struct weir__trace_result weir__trace_end(struct weir__trace *trace);

#endif
