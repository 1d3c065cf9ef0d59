/* SPDX-License-Identifier: MIT */
/*
 * event.h - the events of a trace, with pointers to the pools, tags, stacks and names that they refer to. doc/trace.md explains each kind
 * and field.
 *
 * The objects that events point to belong to the trace (merge.h) and exist as long as the trace is open; equal definitions of a trace are
 * one object. An event is a plain struct of the caller's. The numbers of an event are not checked: each may have any value.
 */
#ifndef WEIR_TRACE_EVENT_H
#define WEIR_TRACE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of events: code in the file format, name in C, name for people, fields. */
#define TRACE_BLOCK (TRACE_HAS_STREAM | TRACE_HAS_POOL | TRACE_HAS_ADDRESS)
#define TRACE_KINDS(X)                                                                                                                     \
    X(16, MALLOC, "malloc", TRACE_BLOCK)                                                                                                   \
    X(17, FREE, "free", TRACE_BLOCK)                                                                                                       \
    X(18, SERVE, "serve", TRACE_BLOCK)                                                                                                     \
    X(19, KEEP, "keep", TRACE_BLOCK)                                                                                                       \
    X(20, RETURN, "return", TRACE_BLOCK)                                                                                                   \
    X(21, LIVE, "live", TRACE_BLOCK)                                                                                                       \
    X(22, CACHED, "cached", TRACE_BLOCK)                                                                                                   \
    X(23, GRAPH_MALLOC, "graph malloc", TRACE_BLOCK)                                                                                       \
    X(24, GRAPH_FREE, "graph free", TRACE_BLOCK)                                                                                           \
    X(32, MAP, "map", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                          \
    X(33, UNMAP, "unmap", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                      \
    X(34, TRIM, "trim", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                        \
    X(35, FIGURES, "figures", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                  \
    X(36, SETTINGS, "settings", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                \
    X(37, STREAM_OPEN, "stream open", TRACE_HAS_STREAM | TRACE_HAS_POOL | TRACE_HAS_A)                                                     \
    X(38, STREAM_CLOSE, "stream close", TRACE_HAS_STREAM | TRACE_HAS_POOL)                                                                 \
    X(39, SYNCHRONISE, "synchronise", TRACE_HAS_STREAM | TRACE_HAS_POOL | TRACE_HAS_A)                                                     \
    X(40, WAIT, "wait", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                        \
    X(41, RUNG, "rung", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                        \
    X(42, OUT_OF_MEMORY, "out of memory", TRACE_HAS_STREAM | TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                   \
    X(43, MARK, "mark", TRACE_HAS_A)                                                                                                       \
    X(44, ASKED, "asked", TRACE_HAS_A | TRACE_HAS_B)                                                                                       \
    X(45, HELD, "held", TRACE_BLOCK | TRACE_HAS_A | TRACE_HAS_B)                                                                           \
    X(46, YIELD, "yield", TRACE_HAS_POOL)                                                                                                  \
    X(47, SLEEP, "sleep", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)                                                                      \
    X(48, WAKE, "wake", TRACE_HAS_POOL | TRACE_HAS_A | TRACE_HAS_B)

enum {
    TRACE_HAS_STREAM = 1,
    TRACE_HAS_POOL = 2,
    TRACE_HAS_ADDRESS = 4, /* the five fields address, size, given, tag and stack */
    TRACE_HAS_A = 8,
    TRACE_HAS_B = 16,
};

enum trace_kind {
#define X(code, name, text, fields) TRACE_##name = code,
    TRACE_KINDS(X)
#undef X
        TRACE_KIND_COUNT = 64, /* above all kinds */
};

/* Returns the name for people; NULL if the code is not a kind of event. */
const char *trace_kind_name(unsigned kind);
/* Writes the name of a step of recovery, such as "rung trim"; for a number without a name "rung 7". */
#define TRACE_RUNG_LEN 32
void trace_rung_text(char text[static TRACE_RUNG_LEN], uint64_t rung);
/* The numbers of those calls, of events HELD, that the code itself must recognise: cudaFree() and cudaFreeAsync(). */
enum { TRACE_CALL_FREE = 1, TRACE_CALL_FREE_ASYNC = 7 };
/* Writes the name of the call that held up its thread, such as "cudaFree"; for a number without a name "call 70". */
#define TRACE_CALL_LEN 32
void trace_call_text(char text[static TRACE_CALL_LEN], uint64_t call);
/* Returns the fields of the kind, a sum of TRACE_HAS_*; 0 if the code is not a kind of event. */
unsigned trace_kind_fields(unsigned kind);

/* The flags of a trace_pool. Unaware: the memory of a program that calls CUDA by itself, without Weir. */
enum { TRACE_POOL_ARENA = 1, TRACE_POOL_HOST = 2, TRACE_POOL_PRIVATE = 4, TRACE_POOL_UNAWARE = 8 };

/* In each of the following structs `number` counts the objects of that type in the trace, from 0. */

struct trace_pool {
    uint32_t number;
    uint64_t id, device, flags;
    const char *name; /* "pool ID?" if the file does not define the pool */
    bool is_defined;
};

/* A tag, or the name of a mark or a stream. */
struct trace_text {
    uint32_t number;
    const char *text; /* "tag ID?" or "name ID?" if the file does not define it */
    uint32_t streams; /* the number of stream handles that were opened under this name */
};

struct trace_module {
    uint32_t number;
    uint64_t first, bytes, offset; /* first address, length, and the offset in the file that corresponds to the first address */
    const char *build_id, *path;
};

/* A frame of an interpreter. */
struct trace_line {
    uint32_t number;
    uint64_t line;
    const char *function, *file;
};

struct trace_frame {
    uint64_t address;                  /* the return address; 0 for a frame of an interpreter */
    const struct trace_line *line;     /* a frame of an interpreter; NULL for a native frame */
    const struct trace_module *module; /* the module that contains the address; NULL if it is unknown */
};

struct trace_stack {
    uint32_t number;
    uint64_t id;                      /* the id in the stack's first definition */
    uint32_t count;                   /* the number of frames; 0 if the file does not define the stack */
    const struct trace_frame *frames; /* the innermost first */
};

struct trace_event {
    enum trace_kind kind;
    uint32_t thread_number; /* counts the threads of the trace, from 0 */
    uint64_t thread;        /* the operating system's number */
    uint64_t time;          /* nanoseconds since the recorder was started */
    uint64_t order;         /* the order number: within the stream for SERVE and KEEP, within the weir for all other kinds */
    uint64_t stream, address, size, given;
    uint64_t a, b;
    /* The following are NULL if the event has none. */
    const struct trace_pool *pool;
    const struct trace_text *tag;
    const struct trace_stack *stack;
    const struct trace_text *name;        /* of a mark or of a stream that was opened */
    const struct trace_text *stream_name; /* the name of the event's stream; also NULL if the stream is not known to be open */
};

/* Returns whether the kind's order numbers count within a stream (true) or within the weir as a whole (false). */
static inline bool trace_event_is_of_stream(enum trace_kind kind)
{
    return kind == TRACE_SERVE || kind == TRACE_KEEP;
}

#endif
