/* SPDX-License-Identifier: MIT */
/*
 * library.h - what the files of libweir-trace share: a trace that is open for a caller outside, and how its calls are left without memory.
 *
 * The reader (merge.h) takes memory as given. Here its calls run within library_run(), which returns false where there was none: all
 * that the reader had under way belongs to the trace, and is freed when that is closed. A trace that was left so answers nothing more.
 */
#ifndef WEIR_TRACE_LIBRARY_H
#define WEIR_TRACE_LIBRARY_H

#include "trace/merge.h"
#include "trace/symbols.h"
#include "trace/weir_trace.h"

struct columns;

struct weir_trace {
    struct trace trace;
    struct symbols *symbols; /* NULL before the first is asked for */
    struct columns *columns; /* while it is played */
    bool is_broken;          /* a call was left */
};

/* Whether work(context) was done, and returned true. Without host memory the error says so. */
bool library_run(bool (*work)(void *context), void *context, weir_trace_error *error);

/* Always false. */
bool library_fail(weir_trace_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Frees what a play that was left had. */
void columns_free(struct weir_trace *trace);

#endif
