/* SPDX-License-Identifier: MIT */
/*
 * rmm.h - a log of RMM's logging resource as a trace: lines of Thread,Time,Action,Pointer,Size,Stream. Called by merge.c alone.
 *
 * Its events are malloc, free and out of memory, in the order of the lines, in one pool called "rmm". Times count from the first line,
 * whose day is not known. The log belongs to the trace.
 */
#ifndef WEIR_TRACE_RMM_H
#define WEIR_TRACE_RMM_H

#include "tools/trace/merge.h"

/* Whether the file begins as such a log does. Does not move in it. */
bool trace_rmm_is(int fd);
/* The descriptor is the trace's from now on. */
bool trace_rmm_open(struct trace *trace, int fd);
bool trace_rmm_play(struct trace *trace, trace_event_fn *look, void *context);
void trace_rmm_close(struct trace *trace);

#endif
