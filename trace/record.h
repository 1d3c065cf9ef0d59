/* SPDX-License-Identifier: MIT */
/*
 * record.h - decodes the records (events and definitions) in the content of a block, one after the other.
 *
 * Pure functions. The caller owns the content. It must stay valid as long as the decoder and the records are used, since both point into
 * it.
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
    uint64_t numbers[3]; /* the numbers behind the id, in the order of doc/trace.md; for a stack, the number of frames */
    const char *strings[2];
    size_t lengths[2];
    struct trace_bytes frames; /* for a stack, its frames as varints, which were checked */
};

/* An event whose ids are not resolved yet. */
struct trace_record {
    enum trace_kind kind;
    uint64_t time, order, after, stream, pool, address, size, given, tag, stack, a, b;
};

struct trace_decoder {
    struct trace_bytes bytes;
    const uint8_t *begin;
    uint64_t thread, base, lost;    /* the beginning of the block: thread, base time, lost events */
    uint64_t time, stream, address; /* the values of the last event that had them */
    uint64_t orders[2];             /* 1 + the last order number of the weir, and 1 + that of any stream */
    const char *wrong;              /* a description of the error */
};

enum trace_found { TRACE_FOUND_EVENT, TRACE_FOUND_DEFINITION, TRACE_FOUND_END, TRACE_FOUND_WRONG };

/* Begins to decode a block. Returns false, and sets decoder->wrong, if the beginning of the content is wrong. */
bool trace_decoder_begin(struct trace_decoder *decoder, const uint8_t *content, size_t len);

/* Decodes the next record into `record` or `definition`; the result says which. Returns TRACE_FOUND_WRONG, and sets decoder->wrong, if the
   rest of the block cannot be decoded. */
enum trace_found trace_decoder_next(struct trace_decoder *decoder, struct trace_record *record, struct trace_definition *definition);

#endif
