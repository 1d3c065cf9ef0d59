/* SPDX-License-Identifier: MIT */
/* traced.h - starts the trace of a weir: gives the writer (writer.h) access to the weir's devices, policy, blocks and pools. */
#ifndef WEIR_LIB_TRACE_TRACED_H
#define WEIR_LIB_TRACE_TRACED_H

#include "lib/pool/weir_internal.h"
#include "lib/trace/writer.h"

/* weir__trace_begin() for a weir. End the trace before the weir is closed. Returns WEIR_NO_HOST_MEMORY if host memory runs out or the
   writing thread cannot be started. */
weir_status weir__trace_start(weir *w, int fd, enum weir__trace_span span, const char *reason, weir_error *error,
                              struct weir__trace **trace);

#endif
