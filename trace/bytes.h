/* SPDX-License-Identifier: MIT */
/* bytes.h - numbers and strings from bytes that nobody has checked. Pure; each function returns false where the bytes do not have it. */
#ifndef WEIR_TRACE_BYTES_H
#define WEIR_TRACE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of the bytes; they belong to somebody else. */
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

/* A signed number as what it adds to another of 64 bits, where sums wrap around. */
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

/* Its bytes stay where they are; they may have zeros among them. */
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
