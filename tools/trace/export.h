/* SPDX-License-Identifier: MIT */
/*
 * export.h - traces in the formats of other tools.
 *
 * The caller opens and closes traces and stream, and looks at ferror(). One thread.
 */
#ifndef WEIR_TRACE_EXPORT_H
#define WEIR_TRACE_EXPORT_H

#include "tools/trace/merge.h"
#include "tools/trace/symbols.h"

#include <stdio.h>

struct export
{
    struct trace *const *traces;
    size_t count; /* 1 at least */
    FILE *out;
    struct symbols *(*symbols_of)(void *context, size_t trace); /* called for a trace whose functions are wanted; it may return NULL */
    void *context;
    uint64_t left_out; /* blocks that the format cannot have: at addresses where no memory is */
    char error[TRACE_ERROR_LEN];
};

/* Writes all traces. false, with the error: they cannot be exported so, or not to their end. */
typedef bool export_fn(struct export *export);

/* A snapshot of torch's: a pickle for torch.cuda._memory_viz and viewers like it. */
bool export_viz(struct export *export);
/* A trace of Perfetto. */
bool export_perfetto(struct export *export);
/* A log of RMM, of one trace. */
bool export_rmm(struct export *export);

#endif
