/* SPDX-License-Identifier: MIT */
/*
 * weir_trace.h - libweir-trace: reads a recorded trace into columns, and makes traces from other programs' files. It serves the Python
 * package weir.trace. For a C program that needs only figures `weir trace --json` is the simpler way.
 *
 * Every function may be called from any thread, but only one thread at a time may use a trace or a writer. Files are not trusted: if a file
 * is damaged, functions fail with an error text or return the data that is undamaged. The library never prints, exits or aborts. It does
 * not depend on libweir, and uses no GPU.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_TRACE_API __attribute__((visibility("default")))

/* Why a call failed: one sentence, without the name of the file. Set only by a call that failed. */
typedef struct {
    char text[400];
} weir_trace_error;

/* Returns the release of Weir to which the library belongs. A caller from another release must stop, since structs may differ. */
WEIR_TRACE_API const char *weir_trace_version(void);

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct weir_trace weir_trace;

/* Opens a trace and reads through it once. Returns false, and leaves *trace as it is, if the file cannot be opened, is not a trace or has a
   newer format, or if host memory runs out. */
WEIR_TRACE_API bool weir_trace_open(const char *path, weir_trace_error *error, weir_trace **trace);
/* Closes a trace; NULL is allowed. The texts that weir_trace_get() and weir_trace_symbol() returned are not valid any more. */
WEIR_TRACE_API void weir_trace_close(weir_trace *trace);

/*
 * The table of events, in the order of `weir trace events`. Each column is an array of the caller's, with room for
 * weir_trace_count(WEIR_TRACE_EVENTS) items; set the columns that you do not need to NULL. A field that the kind of event does not have is
 * 0. A row number of another table is -1 if the event has none.
 */
typedef struct {
    uint8_t *kind;                             /* the code in doc/trace.md */
    uint64_t *time;                            /* nanoseconds since the recorder was started */
    uint64_t *thread;                          /* the operating system's number of the thread */
    uint64_t *stream, *address, *size, *given; /* size: bytes that the program asked for; given: bytes that it got */
    uint64_t *a, *b;                           /* the meaning depends on the kind: doc/trace.md */
    int32_t *pool, *tag, *stack, *name;        /* row numbers of the tables WEIR_TRACE_POOLS, _TAGS, _STACKS and _NAMES */
    uint64_t *live, *held;                     /* after the event: bytes of the pool's live blocks, and bytes that the pool holds */
} weir_trace_events;

/*
 * The table of the program's blocks, in the order in which the program got them. A block lasts from the event by which the program got it
 * to the event by which the program freed it. Columns need room for weir_trace_count(WEIR_TRACE_BLOCKS) items, which is mostly more than
 * are used.
 */
typedef struct {
    uint64_t *address, *size, *given, *stream;
    uint64_t *born, *died; /* times of these two events; for a block that was never freed, died is the time of the last event */
    int32_t *first, *last; /* row numbers of these two events; for a block that was never freed, last is -1 */
    int32_t *pool, *tag, *stack;
} weir_trace_blocks;

/* The table of segments: pieces of device memory in which blocks lie. A segment lasts from the event by which its memory came from the
   device (or an arena) to the event by which the memory went back. Blocks that a cache serves one after the other from the same memory
   share a segment. Host memory has no segments. Columns need the same room as those of blocks. */
typedef struct {
    uint64_t *address, *given;
    int32_t *first, *last; /* row numbers of these two events; if the memory never went back, last is -1 */
    int32_t *pool;
} weir_trace_segments;

/* Plays the trace into the columns of the tables that are not NULL. Sets *block_count and *segment_count to the number of rows. Returns
   false if the file has changed, needs too much memory, or has 2^31 events or more, or if host memory runs out. */
WEIR_TRACE_API bool weir_trace_play(weir_trace *trace, const weir_trace_events *events, const weir_trace_blocks *blocks,
                                    const weir_trace_segments *segments, weir_trace_error *error, uint64_t *block_count,
                                    uint64_t *segment_count);

typedef enum {
    WEIR_TRACE_EVENTS = 0,
    WEIR_TRACE_BLOCKS = 1,  /* weir_trace_count() gives an upper bound for the rows of blocks, and also for those of segments */
    WEIR_TRACE_VALUES = 2,  /* values of the header. texts: key, value */
    WEIR_TRACE_POOLS = 3,   /* numbers: id, device, flags (1 arena, 2 host, 4 private, 8 unaware). texts: name */
    WEIR_TRACE_TAGS = 4,    /* texts: name */
    WEIR_TRACE_NAMES = 5,   /* names of marks and streams. texts: name */
    WEIR_TRACE_STACKS = 6,  /* numbers: the number of frames */
    WEIR_TRACE_MODULES = 7, /* numbers: first address, bytes, offset in the file. texts: build id, path */
    WEIR_TRACE_LINES = 8,   /* frames of an interpreter. numbers: line. texts: function, file */
    WEIR_TRACE_LOSSES =
        9, /* one row. numbers: lost events, damaged blocks, lost bytes of the file, 1 if the file has its end. texts: the first loss */
    WEIR_TRACE_KINDS = 10, /* one row for each code. texts: the name of the kind; "" if no kind has that code */
} weir_trace_table;

/* One row of a table. The texts belong to the trace, and may contain any byte. */
typedef struct {
    uint64_t numbers[4];
    const char *texts[2];
} weir_trace_row;

/* Returns the number of rows of a table. weir_trace_play() may add rows, for ids that the file does not define, so ask again after it. */
WEIR_TRACE_API uint64_t weir_trace_count(const weir_trace *trace, weir_trace_table table);
/* Gets one row. Returns false if there is no such row; the tables of events and blocks have none here, use weir_trace_play(). */
WEIR_TRACE_API bool weir_trace_get(const weir_trace *trace, weir_trace_table table, uint64_t row, weir_trace_row *values);

/* Gets the frames of a stack, the innermost first. Each column needs room for the number of frames in the stack's row. address: the return
   address of a native frame, or 0; line: the row of WEIR_TRACE_LINES for a frame of an interpreter, or -1; module: the row of
   WEIR_TRACE_MODULES in which the address lies, or -1. Returns false if there is no such stack. */
WEIR_TRACE_API bool weir_trace_frames(const weir_trace *trace, uint64_t stack, uint64_t *address, int32_t *line, int32_t *module);

/* Finds the function and source line of a return address, if the recorded program and libraries are on this machine. numbers: line. texts:
   function, source file; "" if unknown. Returns false if host memory runs out. */
WEIR_TRACE_API bool weir_trace_symbol(weir_trace *trace, uint64_t address, weir_trace_error *error, weir_trace_row *values);

/* Writing ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct weir_trace_writer weir_trace_writer;

/* Begins to write a trace to an open descriptor, which the caller closes in the end. Returns false if host memory runs out. */
WEIR_TRACE_API bool weir_trace_write_begin(int fd, weir_trace_error *error, weir_trace_writer **writer);

/* Adds a row to the table of values, pools (numbers: 0, device, flags), tags, names or lines. Rows are numbered from 0, in the order in
   which they are added. Write all values before anything else. Texts are cut after 4,096 bytes, values after 512 KiB.
   weir_trace_write_end() reports failures. */
WEIR_TRACE_API void weir_trace_write_row(weir_trace_writer *writer, weir_trace_table table, const weir_trace_row *values);
/* Adds a stack, given as row numbers of lines, the innermost first. A stack with more than 256 frames loses its outermost ones. */
WEIR_TRACE_API void weir_trace_write_stack(weir_trace_writer *writer, const uint32_t *lines, size_t count);
/* Adds all events of the trace, in the order in which they happened; call it once. The columns `live` and `held` are not used. */
WEIR_TRACE_API void weir_trace_write_events(weir_trace_writer *writer, const weir_trace_events *events, uint64_t count);

/* Ends the trace and frees the writer. lost: the number of events that the caller's source had lost, for the trace's end. Returns false if
   the trace could not be written completely. */
WEIR_TRACE_API bool weir_trace_write_end(weir_trace_writer *writer, uint64_t lost, weir_trace_error *error);

#ifdef __cplusplus
}
#endif
#endif
