/* SPDX-License-Identifier: MIT */
/*
 * record.h - one event as its record in a block of events, as doc/trace.md has it: for the recorder's traces (encode.h), and for those that
 * are made of other programs' files (libweir-trace).
 *
 * A coder belongs to the block that is made, and knows what the record before left. Pure; one thread at a time.
 */
#ifndef WEIR_LIB_TRACE_RECORD_H
#define WEIR_LIB_TRACE_RECORD_H

#include "lib/record/kind.h"
#include "lib/trace/block.h"

enum weir__trace_definition {
    WEIR__TRACE_POOL = 1,
    WEIR__TRACE_TAG = 2,
    WEIR__TRACE_NAME = 3,
    WEIR__TRACE_STACK = 4,
    WEIR__TRACE_MODULE = 5,
    WEIR__TRACE_FRAME = 6,
};

#define WEIR__TRACE_SOURCE_FULL (UINT32_C(192) << 10) /* bytes of content after which a block is written */
#define WEIR__TRACE_SOURCE_ROOM (UINT32_C(256) << 10)

/* An event with the ids that the file defines. Of fields that its kind does not have nothing is written. */
struct weir__trace_record {
    enum weir__kind kind;
    uint64_t time; /* nanoseconds since the trace was started */
    uint64_t order, after;
    uint64_t stream, pool, address, size, given, tag, stack, a, b;
};

struct weir__trace_coder {
    struct weir__trace_bytes content;
    uint64_t time, stream, address; /* of the record before */
    uint64_t orders[2];             /* 1 + the last one of each sort: in the weir, in a stream's cache */
};

/* Begins the content of a block, whose first event is at that time or later. */
void weir__trace_coder_begin(struct weir__trace_coder *coder, uint64_t thread, uint64_t time, uint64_t lost);

/* A time before the record before counts as that: a coarse clock may be a little early. A kind that is none is left out: false. */
bool weir__trace_coder_put(struct weir__trace_coder *coder, const struct weir__trace_record *record);

void weir__trace_put_code(struct weir__trace_bytes *out, unsigned code);

#endif
