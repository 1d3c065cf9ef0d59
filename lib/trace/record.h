/* SPDX-License-Identifier: MIT */
/*
 * record.h - writes one event as a record of a block, in the format of doc/trace.md. Used for the recorder's traces (encode.h), and for
 * traces that are made from other programs' files (libweir-trace).
 *
 * Most fields of a record are differences from the record before. So each block has a coder, which remembers the values of the last record.
 * Pure functions; one thread at a time uses a coder.
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

#define WEIR__TRACE_SOURCE_FULL (UINT32_C(192) << 10) /* a block with so many bytes of content is written */
#define WEIR__TRACE_SOURCE_ROOM (UINT32_C(256) << 10) /* room for the content, so that one more record or definition always fits */

/* The fields of an event; pool, tag, stack and names are ids that the file defines. Fields that the kind does not have are not written. */
struct weir__trace_record {
    enum weir__kind kind;
    uint64_t time; /* nanoseconds since the recorder was started */
    uint64_t order, after;
    uint64_t stream, pool, address, size, given, tag, stack, a, b;
};

struct weir__trace_coder {
    struct weir__trace_bytes content;
    uint64_t time, stream, address; /* the values of the last record that had them */
    uint64_t orders[2];             /* 1 + the last order number of the weir, and 1 + that of a stream's cache (doc/trace.md, "Orders") */
};

/* Begins the content of a block. thread: the thread's number; time: the base time, which is not later than the first event; lost: the
   number of the thread's events that were lost right before this block. */
void weir__trace_coder_begin(struct weir__trace_coder *coder, uint64_t thread, uint64_t time, uint64_t lost);

/* Puts a record. If its time is earlier than that of the last record, which a coarse clock can cause, it gets the time of the last record.
   Returns false, and puts nothing, if the kind is unknown. */
bool weir__trace_coder_put(struct weir__trace_coder *coder, const struct weir__trace_record *record);

/* Puts the byte with which a record begins: a kind of event or of definition. */
void weir__trace_put_code(struct weir__trace_bytes *out, unsigned code);

#endif
