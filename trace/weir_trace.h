/* SPDX-License-Identifier: MIT */
/*
 * weir_trace.h - libweir-trace: a recorded trace as columns, and traces made of other programs' files. For the Python package weir.trace;
 * programs in C that want only figures are better served by `weir trace --json`.
 *
 * Every function may be called from any thread, but one trace, or one writer, is used by one thread at a time. Files are hostile: whatever
 * a file says, functions fail with a text or give what is whole. Nothing here prints, exits or aborts. The library is not tied to libweir,
 * and uses no GPU.
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

/* The release of Weir that the library is of. A caller of another release must not go on, as structs may differ. */
WEIR_TRACE_API const char *weir_trace_version(void);

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct weir_trace weir_trace;

/* Opens a trace and looks through it once. false: it cannot be opened, is no trace, is of a newer format, or there is no host memory; then
 *trace is not set. */
WEIR_TRACE_API bool weir_trace_open(const char *path, weir_trace_error *error, weir_trace **trace);
/* Takes NULL. What weir_trace_row() and weir_trace_symbol() gave goes with it. */
WEIR_TRACE_API void weir_trace_close(weir_trace *trace);

/*
 * Events, in the order that `weir trace events` has. Each column is the caller's, with room for weir_trace_count(WEIR_TRACE_EVENTS) items;
 * a column that is NULL is not wanted. A field that the kind of event does not have is 0, and a number of a table's row is -1 for none.
 */
typedef struct {
    uint8_t *kind;                             /* the code of doc/trace.md */
    uint64_t *time;                            /* nanoseconds since the recording was started */
    uint64_t *thread;                          /* as the operating system numbers it */
    uint64_t *stream, *address, *size, *given; /* size: bytes asked for; given: bytes got */
    uint64_t *a, *b;                           /* by kind: doc/trace.md */
    int32_t *pool, *tag, *stack, *name;        /* rows of these tables */
    uint64_t *live, *held;                     /* bytes of the event's pool behind it: what the program has, what the pool holds */
} weir_trace_events;

/*
 * Blocks, each from the event with which the program got it to the one with which it let go, in the order in which they began. Columns have
 * room for weir_trace_count(WEIR_TRACE_BLOCKS) items, which is more than there are as a rule.
 */
typedef struct {
    uint64_t *address, *size, *given, *stream;
    uint64_t *born, *died; /* times; died is that of the last event where the block was never freed */
    int32_t *first, *last; /* the events; last is -1 where the block was never freed */
    int32_t *pool, *tag, *stack;
} weir_trace_blocks;

/* Memory of devices that blocks lie in, each from its device (or an arena) until it went back: a block of a cache is the same memory for
   all who have it in turn. Host memory has none. Columns have room as those of blocks. */
typedef struct {
    uint64_t *address, *given;
    int32_t *first, *last; /* events; last is -1 where it never went back */
    int32_t *pool;
} weir_trace_segments;

/* Plays the trace into columns; NULL: none of that table. Sets how many blocks and segments there are. false: the file changed
   or asks for too much memory, it has 2^31 events or more, or there is no host memory. */
WEIR_TRACE_API bool weir_trace_play(weir_trace *trace, const weir_trace_events *events, const weir_trace_blocks *blocks,
                                    const weir_trace_segments *segments, weir_trace_error *error, uint64_t *block_count,
                                    uint64_t *segment_count);

typedef enum {
    WEIR_TRACE_EVENTS = 0,
    WEIR_TRACE_BLOCKS = 1,  /* the most that weir_trace_play() may give, of segments too */
    WEIR_TRACE_VALUES = 2,  /* of the header. texts: key, value */
    WEIR_TRACE_POOLS = 3,   /* numbers: id, device, flags (1 arena, 2 host, 4 private, 8 unaware). texts: name */
    WEIR_TRACE_TAGS = 4,    /* texts: name */
    WEIR_TRACE_NAMES = 5,   /* of marks and streams. texts: name */
    WEIR_TRACE_STACKS = 6,  /* numbers: how many frames */
    WEIR_TRACE_MODULES = 7, /* numbers: first address, bytes, offset in the file. texts: build id, path */
    WEIR_TRACE_LINES = 8,   /* frames of an interpreter. numbers: line. texts: function, file */
    WEIR_TRACE_LOSSES =
        9, /* one row. numbers: events, blocks of the file, bytes of the file, whether it was closed. texts: what is wrong first */
    WEIR_TRACE_KINDS = 10, /* by code. texts: name; "" where there is no such kind */
} weir_trace_table;

/* One row of a table. Texts are the trace's, and may have any byte. */
typedef struct {
    uint64_t numbers[4];
    const char *texts[2];
} weir_trace_row;

/* How many rows; to be asked after weir_trace_play(), which may find names that the file does not define. */
WEIR_TRACE_API uint64_t weir_trace_count(const weir_trace *trace, weir_trace_table table);
/* false: there is no such row. */
WEIR_TRACE_API bool weir_trace_get(const weir_trace *trace, weir_trace_table table, uint64_t row, weir_trace_row *values);

/* The frames of a stack, the innermost first, into columns with room for as many as its row says: the return address, or the row of
   WEIR_TRACE_LINES; and the row of WEIR_TRACE_MODULES that the address is in. -1 for none. false: there is no such stack. */
WEIR_TRACE_API bool weir_trace_frames(const weir_trace *trace, uint64_t stack, uint64_t *address, int32_t *line, int32_t *module);

/* What is known of a return address, from the recorded files where they are on this machine. numbers: line. texts: function, file of the
   source; "" where nothing is known. false: no host memory. */
WEIR_TRACE_API bool weir_trace_symbol(weir_trace *trace, uint64_t address, weir_trace_error *error, weir_trace_row *values);

/* Writing ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct weir_trace_writer weir_trace_writer;

/* Begins a trace in an open descriptor, which stays the caller's. false: no host memory. */
WEIR_TRACE_API bool weir_trace_write_begin(int fd, weir_trace_error *error, weir_trace_writer **writer);

/* Adds a row, whose number is the count of those before it: of values, pools (numbers: 0, device, flags), tags, names, lines. Values come
   before all else. Texts beyond 4,096 bytes are cut, values beyond 512 KiB. What fails is told by weir_trace_write_end(). */
WEIR_TRACE_API void weir_trace_write_row(weir_trace_writer *writer, weir_trace_table table, const weir_trace_row *values);
/* Adds a stack of rows of lines, the innermost first; of more than 256 the outermost are left out. */
WEIR_TRACE_API void weir_trace_write_stack(weir_trace_writer *writer, const uint32_t *lines, size_t count);
/* Adds all events, in their order, which no later event precedes. `live`, `held` and `thread`'s order in the file are not the caller's. */
WEIR_TRACE_API void weir_trace_write_events(weir_trace_writer *writer, const weir_trace_events *events, uint64_t count);

/* Ends the trace, of which so many events were lost before it was made, and frees the writer. false: it was not written whole. */
WEIR_TRACE_API bool weir_trace_write_end(weir_trace_writer *writer, uint64_t lost, weir_trace_error *error);

#ifdef __cplusplus
}
#endif
#endif
