/* SPDX-License-Identifier: MIT */
/* bytes.h - reads numbers and strings from unchecked bytes. Pure functions. Each one advances behind the item that it has read, or returns
   false if the bytes that are left do not contain such an item. */
#ifndef WEIR_TRACE_BYTES_H
#define WEIR_TRACE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that are left to read. They belong to the caller. */
struct trace_bytes {
    const uint8_t *at, *end;
};

static inline bool trace_take_byte(struct trace_bytes *bytes, uint8_t *value)
{
    if (bytes->at == bytes->end)
        return false;
    *value = *bytes->at++;
    return true;
}

static inline bool trace_take_number(struct trace_bytes *bytes, uint64_t *value)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
        uint8_t byte = *bytes->at++;
        if (shift == 63 && byte > 1)
            return false;
        sum |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = sum;
            return true;
        }
    }
    return false;
}

/* Decodes a signed varint (doc/trace.md). The result is added to a 64-bit number, which wraps around. */
static inline uint64_t trace_signed(uint64_t coded)
{
    return coded >> 1 ^ (0 - (coded & 1));
}

static inline bool trace_take_signed(struct trace_bytes *bytes, uint64_t *value)
{
    uint64_t coded;
    if (!trace_take_number(bytes, &coded))
        return false;
    *value = trace_signed(coded);
    return true;
}

/* Reads a string of at most `max` bytes. *text points into the bytes; the string has no terminating zero, and may contain zeros. */
static inline bool trace_take_string(struct trace_bytes *bytes, size_t max, const char **text, size_t *len)
{
    uint64_t count;
    if (!trace_take_number(bytes, &count) || count > max || count > (size_t)(bytes->end - bytes->at))
        return false;
    *text = (const char *)bytes->at;
    *len = (size_t)count;
    bytes->at += count;
    return true;
}

#endif
