/* SPDX-License-Identifier: MIT */
/*
 * merge.h - a trace that is open: what its header says, and its events in one order, over all threads.
 *
 * The opener owns it; one thread. trace_play() may be called as often as wanted, and gives the same events each time: a reader that wants
 * to know what led to a moment plays the trace once to find it, and once more up to it.
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

/* What the header says. Texts are NULL and numbers 0 where it does not. */
struct trace_header {
    const char *weir, *program, *rank, *reason, *level, *policy;
    const char *imported, *lacks; /* of what other program's file it was made, and what that does not tell */
    uint64_t pid;
    uint64_t started_real; /* nanoseconds since 1970 of the moment that times count from */
    uint64_t driver;
    bool has_stacks;
};

/* The blocks of a thread. */
struct trace_thread {
    uint64_t id, begin; /* begin: the base time of the first block */
    uint32_t number;
    size_t first_block, last_block;
};

#define TRACE_NO_BLOCK SIZE_MAX

struct trace_orders; /* which numbers there are, to know which one comes next */

struct trace {
    const char *path; /* the caller's */
    struct trace_header header;
    struct trace_losses losses;
    uint64_t events, kinds[TRACE_KIND_COUNT]; /* in all, and of each kind */
    uint64_t first, last;                     /* times of the earliest and the latest event */
    size_t thread_count;
    char error[TRACE_ERROR_LEN]; /* why a function failed */
    /* The rest is of merge.c and play.c. */
    struct trace_reader reader;
    struct trace_definitions definitions;
    struct trace_thread *threads;
    size_t *next_blocks; /* of each block: the next one of its thread, or TRACE_NO_BLOCK */
    struct trace_orders *orders;
    struct census *census; /* while it is opened */
    struct play *play;     /* while it is played */
};

/* A place in the file, as definitions have it: the block's number, then the offset in its content, which has less than 23 bits. */
static inline uint64_t trace_place(size_t block, const struct trace_decoder *decoder)
{
    return (uint64_t)block << 23 | (uint64_t)(decoder->bytes.at - decoder->begin);
}

/* Opens a file and looks through it once. false, with the error: it cannot be read at all. What is lost of it is no error: `losses` says
 * so. */
bool trace_open(struct trace *trace, const char *path);
/* The same of an open descriptor, which is the trace's from now on; path: what errors call it. */
bool trace_open_fd(struct trace *trace, int fd, const char *path);
/* Also after trace_open() failed. */
void trace_close(struct trace *trace);

/* Is called for each event, which is valid until it returns; false ends the play. */
typedef bool trace_event_fn(void *context, const struct trace_event *event);

/*
 * Plays the trace, from its beginning to its end, or until `look` returns false. Events of a thread come in its order; serve and keep come
 * in the order of their stream, all others in that of the weir; what is left open goes by time. So times may step back a little. false,
 * with the error: the file changed, or needs too much memory.
 */
bool trace_play(struct trace *trace, trace_event_fn *look, void *context);

/* For trace_close() alone: of a play that was left (trace/memory.h). */
void trace_play_end(struct trace *trace);

/* The value of a key of the header; NULL without it. */
const char *trace_value(const struct trace *trace, const char *key);
/* Bytes that the device has; 0: the header does not tell. */
uint64_t trace_memory(const struct trace *trace, uint64_t device);

/* The module that has the address, of several the last; NULL: none. */
const struct trace_module *trace_module_of(const struct trace *trace, uint64_t address);
/* Whether the process had a file of that name among its modules, in whatever folder. */
bool trace_has_module(const struct trace *trace, const char *name);

#endif
