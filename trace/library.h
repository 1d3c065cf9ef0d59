/* SPDX-License-Identifier: MIT */
/*
 * library.h - shared by the files of libweir-trace: the struct of an open trace, and the way out of a call when host memory runs out.
 *
 * The reader (merge.h) has no error path for lack of host memory; it calls memory_lacks() (memory.h). The library calls the reader only
 * within library_run(), which memory_lacks() leaves by a jump (longjmp). All memory that the reader has allocated by then belongs to the
 * trace, and is freed when the trace is closed. After such a jump the trace is broken, and further calls on it fail.
 */
#ifndef WEIR_TRACE_LIBRARY_H
#define WEIR_TRACE_LIBRARY_H

#include "trace/merge.h"
#include "trace/symbols.h"
#include "trace/weir_trace.h"

struct columns;

struct weir_trace {
    struct trace trace;
    struct symbols *symbols; /* NULL until the first symbol is looked up */
    struct columns *columns; /* NULL unless the trace is being played */
    bool is_broken;          /* host memory ran out during a call */
};

/* Calls work(context) and returns its result. If host memory runs out during the call, fills the error and returns false. */
bool library_run(bool (*work)(void *context), void *context, weir_trace_error *error);

/* Fills the error (which may be NULL) and returns false. */
bool library_fail(weir_trace_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Frees the state of weir_trace_play(), also after a jump out of it. */
void columns_free(struct weir_trace *trace);

#endif
