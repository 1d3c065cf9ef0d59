/* SPDX-License-Identifier: MIT */
/*
 * event.h - what a trace is made of: events, with what they name resolved. doc/trace.md explains each kind and field.
 *
 * Definitions belong to the trace they come from (merge.h) and live as long; equal ones of a trace are one object. An event belongs to
 * whoever has the struct. Nothing in it was checked against anything: any number may be anything.
 */
#ifndef WEIR_TRACE_EVENT_H
#define WEIR_TRACE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds: code, name in C, name for people, fields. The codes are those of the format. */
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
    X(45, HELD, "held", TRACE_BLOCK | TRACE_HAS_A | TRACE_HAS_B)

enum {
    TRACE_HAS_STREAM = 1,
    TRACE_HAS_POOL = 2,
    TRACE_HAS_ADDRESS = 4, /* and size, given, tag and stack */
    TRACE_HAS_A = 8,
    TRACE_HAS_B = 16,
};

enum trace_kind {
#define X(code, name, text, fields) TRACE_##name = code,
    TRACE_KINDS(X)
#undef X
        TRACE_KIND_COUNT = 64, /* above all kinds */
};

/* The name for people; NULL for a code that is no kind. */
const char *trace_kind_name(unsigned kind);
/* "rung trim"; of a number that has no name "rung 7". */
#define TRACE_RUNG_LEN 32
void trace_rung_text(char text[static TRACE_RUNG_LEN], uint64_t rung);
/* Calls of HELD that others than readers of texts tell apart. */
enum { TRACE_CALL_FREE = 1, TRACE_CALL_FREE_ASYNC = 7 };
/* The call that held the host up: "cudaFree"; of a number that has no name "call 70". */
#define TRACE_CALL_LEN 32
void trace_call_text(char text[static TRACE_CALL_LEN], uint64_t call);
/* Which fields it has, of TRACE_HAS_*; 0 for a code that is no kind. */
unsigned trace_kind_fields(unsigned kind);

/* Of trace_pool's flags. Unaware: the memory of a program that calls CUDA by itself. */
enum { TRACE_POOL_ARENA = 1, TRACE_POOL_HOST = 2, TRACE_POOL_PRIVATE = 4, TRACE_POOL_UNAWARE = 8 };

/* number, in all of them: counts up from 0 in the trace, over the objects of that sort. */
struct trace_pool {
    uint32_t number;
    uint64_t id, device, flags;
    const char *name; /* of one that the file does not define: "pool ID?" */
    bool is_defined;
};

/* A tag, or the name of a mark or a stream. */
struct trace_text {
    uint32_t number;
    const char *text; /* of one that the file does not define: "tag ID?", "name ID?" */
    uint32_t streams; /* how many were opened by this name, by their handles */
};

struct trace_module {
    uint32_t number;
    uint64_t first, bytes, offset; /* of the file at the first address */
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
    const struct trace_line *line;     /* of an interpreter; NULL for a native one, and for one that the file does not define */
    const struct trace_module *module; /* that has the address; NULL if none is known */
};

struct trace_stack {
    uint32_t number;
    uint64_t id;                      /* the first that it had */
    uint32_t count;                   /* 0 of one that the file does not define */
    const struct trace_frame *frames; /* the innermost first */
};

struct trace_event {
    enum trace_kind kind;
    uint32_t thread_number; /* counts up from 0 in the trace */
    uint64_t thread;        /* the operating system's */
    uint64_t time;          /* nanoseconds since the trace was started */
    uint64_t order;         /* of serve and keep: in the stream; of the others: in the weir */
    uint64_t stream, address, size, given;
    uint64_t a, b;
    const struct trace_pool *pool;   /* NULL: none */
    const struct trace_text *tag;    /* NULL: none */
    const struct trace_stack *stack; /* NULL: none */
    const struct trace_text *name;   /* of a mark or of an opened stream; NULL: none */
    const struct trace_text *stream_name; /* that the stream was opened by last; NULL: none, or it is not known to be open */
};

/* Whether the event's order counts in its stream; if not, in the weir as a whole. */
static inline bool trace_event_is_of_stream(enum trace_kind kind)
{
    return kind == TRACE_SERVE || kind == TRACE_KEEP;
}

#endif
