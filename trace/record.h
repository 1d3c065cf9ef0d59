/* SPDX-License-Identifier: MIT */
/*
 * record.h - the records in the content of a block of events, one after the other, as they stand there.
 *
 * Pure. The content belongs to somebody else and has to outlive the decoder, and what it returns, which points into it.
 */
#ifndef WEIR_TRACE_RECORD_H
#define WEIR_TRACE_RECORD_H

#include "trace/bytes.h"
#include "trace/event.h"

enum trace_definition_code {
    TRACE_DEFINES_POOL = 1,
    TRACE_DEFINES_TAG,
    TRACE_DEFINES_NAME,
    TRACE_DEFINES_STACK,
    TRACE_DEFINES_MODULE,
    TRACE_DEFINES_LINE,
    TRACE_DEFINES_COUNT
};

struct trace_definition {
    enum trace_definition_code code;
    uint64_t id;
    uint64_t numbers[3]; /* in their order; of a stack the count of frames */
    const char *strings[2];
    size_t lengths[2];
    struct trace_bytes frames; /* of a stack, each good */
};

/* An event with ids. */
struct trace_record {
    enum trace_kind kind;
    uint64_t time, order, after, stream, pool, address, size, given, tag, stack, a, b;
};

struct trace_decoder {
    struct trace_bytes bytes;
    const uint8_t *begin;
    uint64_t thread, base, lost; /* what the block begins with */
    uint64_t time, stream, address;
    uint64_t orders[2]; /* 1 + the last: in the weir; in any stream */
    const char *wrong;
};

enum trace_found { TRACE_FOUND_EVENT, TRACE_FOUND_DEFINITION, TRACE_FOUND_END, TRACE_FOUND_WRONG };

/* false, with decoder->wrong: the content does not begin as one of events does. */
bool trace_decoder_begin(struct trace_decoder *decoder, const uint8_t *content, size_t len);

/* The next record, in `record` or `definition`. WRONG, with decoder->wrong: what follows cannot be read. */
enum trace_found trace_decoder_next(struct trace_decoder *decoder, struct trace_record *record, struct trace_definition *definition);

#endif
