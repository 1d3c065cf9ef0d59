/* SPDX-License-Identifier: MIT */
/* import.h - opens what a user calls a trace: a `.weir` file, or another program's file, of which the Python package weir.trace makes one.
 */
#ifndef WEIR_TRACE_IMPORT_H
#define WEIR_TRACE_IMPORT_H

#include "trace/merge.h"

/*
 * Opens a trace; "-" is standard input. What is none is given to `python3 -m weir.trace import` of this installation, and its trace is kept
 * in memory. What a file of another program does not tell is said on stderr. false after a complaint; close the trace also then.
 */
bool import_open(struct trace *trace, const char *path);

#endif
