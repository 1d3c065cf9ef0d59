/* SPDX-License-Identifier: MIT */
/* traced.h - the trace of a weir: what the writer (writer.h) is told of it. */
#ifndef WEIR_LIB_TRACE_TRACED_H
#define WEIR_LIB_TRACE_TRACED_H

#include "lib/pool/weir_internal.h"
#include "lib/trace/writer.h"

/* As weir__trace_begin(). The trace is to be ended before its weir is closed. WEIR_NO_HOST_MEMORY (also if the thread cannot be started). */
weir_status weir__trace_start(weir *w, int fd, enum weir__trace_span span, const char *reason, weir_error *error,
                              struct weir__trace **trace);

#endif
