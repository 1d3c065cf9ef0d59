/* SPDX-License-Identifier: MIT */
/*
 * merge.h - an open trace: its header, and the events of all its threads merged into one order.
 *
 * The code that opens a trace owns it; one thread uses a trace. trace_play() may be called any number of times, and gives the same events
 * each time: a reader that wants to know the events before a certain moment plays the trace once to find the moment, and once more up to
 * it.
 *
 *     static bool look(void *context, const struct trace_event *event) { … return true; }
 *     if (trace_open(&trace, path) && trace_play(&trace, look, &mine)) …
 *     trace_close(&trace);
 */
#ifndef WEIR_TRACE_MERGE_H
#define WEIR_TRACE_MERGE_H

#include "trace/define.h"
#include "trace/event.h"
#include "trace/reader.h"

/* The values of the header (doc/trace.md). A text is NULL, and a number 0, if the header does not have the value. */
struct trace_header {
    const char *weir, *program, *rank, *reason, *level, *policy;
    const char *imported, *lacks; /* for a trace made from another program's file: the kind of file, and the data that it lacks */
    uint64_t pid;
    uint64_t started_real; /* the moment from which the times of events count, in nanoseconds since 1970 */
    uint64_t driver;
    bool has_stacks;
};

/* The blocks of a thread. */
struct trace_thread {
    uint64_t id, begin; /* the operating system's number, and the base time of the first block */
    uint32_t number;
    size_t first_block, last_block;
};

#define TRACE_NO_BLOCK SIZE_MAX

struct trace_orders; /* all order numbers in the file (orders.h) */

struct trace {
    const char *path; /* owned by the caller */
    struct trace_header header;
    struct trace_losses losses;
    uint64_t events, kinds[TRACE_KIND_COUNT]; /* the number of events, and of events of each kind */
    uint64_t first, last;                     /* the times of the earliest and the latest event */
    size_t thread_count;
    char error[TRACE_ERROR_LEN]; /* the reason if a function has failed */
    /* Only merge.c and play.c use the following members. */
    struct trace_reader reader;
    struct trace_definitions definitions;
    struct trace_thread *threads;
    size_t *next_blocks; /* for each block the next block of the same thread, or TRACE_NO_BLOCK */
    struct trace_orders *orders;
    struct census *census; /* NULL unless the trace is being opened */
    struct play *play;     /* NULL unless the trace is being played */
};

/* Returns the present place of a decoder in the file, as the "position" of define.h: the number of the block, and in the lowest 23 bits the
   offset in its content. */
static inline uint64_t trace_place(size_t block, const struct trace_decoder *decoder)
{
    return (uint64_t)block << 23 | (uint64_t)(decoder->bytes.at - decoder->begin);
}

/* Opens a file and reads through it once. Returns false, and sets the error, if the file cannot be read as a trace. Damaged or missing
   parts of a trace are no error: `losses` counts them. Call trace_close() in either case. */
bool trace_open(struct trace *trace, const char *path);
/* trace_open() for an open descriptor, which belongs to the trace from now on. path: the file's name. */
bool trace_open_fd(struct trace *trace, int fd, const char *path);
/* Frees everything, also after trace_open() has failed. */
void trace_close(struct trace *trace);

/* The type of the function that trace_play() calls for each event. The event is valid until the function returns. To end the play, return
   false. */
typedef bool trace_event_fn(void *context, const struct trace_event *event);

/*
 * Plays the trace: calls look() for each event from the beginning to the end, or until look() returns false. The events of one thread come
 * in the thread's order. The kinds SERVE and KEEP come in the order of their stream, all other kinds in the order of the weir. Where this
 * leaves a choice, the earlier event comes first; all the same, times may step back a little. Returns false, and sets the error, if the
 * file has changed, or if the play needs too much memory.
 */
bool trace_play(struct trace *trace, trace_event_fn *look, void *context);

/* Frees the state of a play out of which memory_lacks() has jumped (memory.h). Only trace_close() and trace_play() call it. */
void trace_play_end(struct trace *trace);

/* Returns the value of a key of the header, or NULL if the header does not have the key. */
const char *trace_value(const struct trace *trace, const char *key);
/* Returns the bytes of memory that the device has, or 0 if the header does not say. */
uint64_t trace_memory(const struct trace *trace, uint64_t device);

/* Returns the module that contains the address, the last defined one if there are several; NULL if there is none. */
const struct trace_module *trace_module_of(const struct trace *trace, uint64_t address);
/* Returns whether the process had loaded a file with that name, from any directory. */
bool trace_has_module(const struct trace *trace, const char *name);

#endif
