/* SPDX-License-Identifier: MIT */
/* output.h - a file that a view writes: for this user alone, as it has the names and paths that the trace has, and none of the traces. */
#ifndef WEIR_TRACE_OUTPUT_H
#define WEIR_TRACE_OUTPUT_H

#include "tools/trace/view.h"

#include <stdio.h>

/* Writes over what has that name. NULL after a complaint. */
FILE *output_open(const struct view *view, const char *path);
/* Closes it; false after a complaint. A part is none, so a file that lacks the rest goes. */
bool output_close(FILE *out, const char *path, bool is_whole);

#endif
