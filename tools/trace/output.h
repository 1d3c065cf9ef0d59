/* SPDX-License-Identifier: MIT */
/* output.h - a file that a view writes: for this user alone, as it has the names and paths that the trace has, and none of the traces. */
#ifndef WEIR_TRACE_OUTPUT_H
#define WEIR_TRACE_OUTPUT_H

#include "tools/common/new_file.h"
#include "tools/trace/view.h"

/* Begins what takes the place of a file of that name, or is written to a device or a pipe. false after a complaint. */
bool output_begin(struct new_file *file, const struct view *view, const char *path);

#endif
