/* SPDX-License-Identifier: MIT */
#include "trace/record.h"
#include "trace/reader.h"

#include <inttypes.h>
#include <stdio.h>

enum { CODE_SKIPPED = 64 };

const char *trace_kind_name(unsigned kind)
{
    static const char *const names[TRACE_KIND_COUNT] = {
#define X(code, name, text, fields) [code] = (text),
        TRACE_KINDS(X)
#undef X
    };
    return kind < TRACE_KIND_COUNT ? names[kind] : NULL;
}

void trace_rung_text(char text[static TRACE_RUNG_LEN], uint64_t rung)
{
    static const char *const names[] = {"flush", "wait", "trim", "callbacks", "neighbours"};
    if (rung < sizeof names / sizeof names[0])
        snprintf(text, TRACE_RUNG_LEN, "rung %s", names[rung]);
    else
        snprintf(text, TRACE_RUNG_LEN, "rung %" PRIu64, rung);
}

void trace_call_text(char text[static TRACE_CALL_LEN], uint64_t call)
{
    static const char *const names[] = {"call 0",          "cudaFree",      "cudaFreeHost",     "cudaHostAlloc", "cudaMalloc", "cudaMallocManaged",
                                        "cudaMallocAsync", "cudaFreeAsync", "cudaMemPoolTrimTo", "cuMemCreate",   "cuMemMap",   "cuMemUnmap",
                                        "cuMemRelease"};
    if (call < sizeof names / sizeof names[0])
        snprintf(text, TRACE_CALL_LEN, "%s", names[call]);
    else
        snprintf(text, TRACE_CALL_LEN, "call %" PRIu64, call);
}

unsigned trace_kind_fields(unsigned kind)
{
    static const uint8_t fields_of[TRACE_KIND_COUNT] = {
#define X(code, name, text, fields) [code] = (fields),
        TRACE_KINDS(X)
#undef X
    };
    return kind < TRACE_KIND_COUNT ? fields_of[kind] : 0;
}

bool trace_decoder_begin(struct trace_decoder *decoder, const uint8_t *content, size_t len)
{
    *decoder = (struct trace_decoder){.bytes = {content, content + len}, .begin = content};
    if (!trace_take_number(&decoder->bytes, &decoder->thread) || !trace_take_number(&decoder->bytes, &decoder->base) ||
        !trace_take_number(&decoder->bytes, &decoder->lost)) {
        decoder->wrong = "it does not begin with a thread, a time and a count";
        return false;
    }
    decoder->time = decoder->base;
    return true;
}

static enum trace_found wrong(struct trace_decoder *decoder, const char *why)
{
    decoder->wrong = why;
    return TRACE_FOUND_WRONG;
}

/* Reads a signed difference, and adds it to *value, the field's value in the event before. */
static bool take_step(struct trace_bytes *bytes, uint64_t *value)
{
    uint64_t step;
    if (!trace_take_signed(bytes, &step))
        return false;
    *value += step;
    return true;
}

static bool take_block_fields(struct trace_decoder *decoder, struct trace_record *record)
{
    struct trace_bytes *bytes = &decoder->bytes;
    uint64_t more;
    if (!take_step(bytes, &decoder->address) || !trace_take_number(bytes, &record->size) || !trace_take_number(bytes, &more) ||
        !trace_take_number(bytes, &record->tag) || !trace_take_number(bytes, &record->stack))
        return false;
    record->address = decoder->address;
    record->given = more > UINT64_MAX - record->size ? UINT64_MAX : record->size + more;
    return true;
}

static bool take_after(struct trace_decoder *decoder, struct trace_record *record)
{
    record->after = decoder->orders[0] ? decoder->orders[0] - 1 : 0;
    return take_step(&decoder->bytes, &record->after);
}

static enum trace_found take_event(struct trace_decoder *decoder, unsigned code, struct trace_record *record)
{
    struct trace_bytes *bytes = &decoder->bytes;
    unsigned fields = trace_kind_fields(code);
    uint64_t later, *order = &decoder->orders[trace_event_is_of_stream((enum trace_kind)code)];
    *record = (struct trace_record){.kind = (enum trace_kind)code};
    if (!trace_take_number(bytes, &later) || !take_step(bytes, order) ||
        (trace_event_is_of_stream((enum trace_kind)code) && !take_after(decoder, record)) ||
        ((fields & TRACE_HAS_STREAM) && !take_step(bytes, &decoder->stream)) ||
        ((fields & TRACE_HAS_POOL) && !trace_take_number(bytes, &record->pool)) ||
        ((fields & TRACE_HAS_ADDRESS) && !take_block_fields(decoder, record)) ||
        ((fields & TRACE_HAS_A) && !trace_take_number(bytes, &record->a)) ||
        ((fields & TRACE_HAS_B) && !trace_take_number(bytes, &record->b)))
        return wrong(decoder, "an event is cut off, or has a number above 64 bits");
    if (later > UINT64_MAX - decoder->time)
        return wrong(decoder, "the time of an event is above 64 bits");
    decoder->time += later;
    record->time = decoder->time;
    record->order = (*order)++;
    record->stream = fields & TRACE_HAS_STREAM ? decoder->stream : 0;
    return TRACE_FOUND_EVENT;
}

static enum trace_found take_stack(struct trace_decoder *decoder, struct trace_definition *definition)
{
    uint64_t count, frame;
    if (!trace_take_number(&decoder->bytes, &count))
        return wrong(decoder, "a stack is cut off");
    if (count > TRACE_FRAMES_MAX)
        return wrong(decoder, "a stack has more than 256 frames");
    definition->numbers[0] = count;
    definition->frames.at = decoder->bytes.at;
    for (; count > 0; count--)
        if (!trace_take_number(&decoder->bytes, &frame))
            return wrong(decoder, "a stack is cut off");
    definition->frames.end = decoder->bytes.at;
    return TRACE_FOUND_DEFINITION;
}

static enum trace_found take_definition(struct trace_decoder *decoder, unsigned code, struct trace_definition *definition)
{
    static const struct {
        uint8_t numbers, strings;
    } shapes[TRACE_DEFINES_COUNT] = {
        [TRACE_DEFINES_POOL] = {2, 1},  [TRACE_DEFINES_TAG] = {0, 1},    [TRACE_DEFINES_NAME] = {0, 1},
        [TRACE_DEFINES_STACK] = {0, 0}, [TRACE_DEFINES_MODULE] = {3, 2}, [TRACE_DEFINES_LINE] = {1, 2},
    };
    *definition = (struct trace_definition){.code = (enum trace_definition_code)code};
    if (!trace_take_number(&decoder->bytes, &definition->id) || definition->id == 0)
        return wrong(decoder, "a definition has no id");
    if (code == TRACE_DEFINES_STACK)
        return take_stack(decoder, definition);
    for (unsigned i = 0; i < shapes[code].numbers; i++)
        if (!trace_take_number(&decoder->bytes, &definition->numbers[i]))
            return wrong(decoder, "a definition is cut off");
    for (unsigned i = 0; i < shapes[code].strings; i++)
        if (!trace_take_string(&decoder->bytes, TRACE_STRING_MAX, &definition->strings[i], &definition->lengths[i]))
            return wrong(decoder, "a string of a definition is cut off, or longer than 4,096 bytes");
    return TRACE_FOUND_DEFINITION;
}

/* Skips a record with a code that this version does not know. */
static bool skip(struct trace_decoder *decoder)
{
    uint64_t len;
    if (!trace_take_number(&decoder->bytes, &len) || len > (size_t)(decoder->bytes.end - decoder->bytes.at))
        return false;
    decoder->bytes.at += len;
    return true;
}

enum trace_found trace_decoder_next(struct trace_decoder *decoder, struct trace_record *record, struct trace_definition *definition)
{
    uint8_t code;
    while (trace_take_byte(&decoder->bytes, &code)) {
        if (trace_kind_fields(code))
            return take_event(decoder, code, record);
        if (code > 0 && code < TRACE_DEFINES_COUNT)
            return take_definition(decoder, code, definition);
        if (code < CODE_SKIPPED)
            return wrong(decoder, "a record has a code that format 1 does not have");
        if (!skip(decoder))
            return wrong(decoder, "a record that is not known is cut off");
    }
    return TRACE_FOUND_END;
}
