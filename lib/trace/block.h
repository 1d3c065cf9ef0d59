/* SPDX-License-Identifier: MIT */
/* block.h - writes the parts of a trace file: numbers, strings and blocks, in the format of doc/trace.md. Pure functions; the caller owns
   all buffers. */
#ifndef WEIR_LIB_TRACE_BLOCK_H
#define WEIR_LIB_TRACE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__TRACE_FORMAT 1
#define WEIR__TRACE_FILE_HEADER 8   /* bytes before the first block */
#define WEIR__TRACE_BLOCK_HEADER 20 /* bytes before the content of a block */
#define WEIR__TRACE_CONTENT_MAX (UINT32_C(4) << 20)
#define WEIR__TRACE_STRING_MAX 4096

enum weir__trace_block { WEIR__TRACE_BLOCK_HEAD = 1, WEIR__TRACE_BLOCK_EVENTS = 2, WEIR__TRACE_BLOCK_END = 3 };

/* The content of a block that is being made. A put that does not fit adds nothing and sets `is_full`. */
struct weir__trace_bytes {
    uint8_t *bytes;
    size_t len, room;
    bool is_full;
};

void weir__trace_put(struct weir__trace_bytes *out, const void *bytes, size_t len);
void weir__trace_put_long(struct weir__trace_bytes *out, uint64_t number);
/* Puts a varint. Inline, since most numbers of an event are below 128 and take one byte. */
static inline void weir__trace_put_number(struct weir__trace_bytes *out, uint64_t number)
{
    if (number < 0x80 && out->len < out->room && !out->is_full)
        out->bytes[out->len++] = (uint8_t)number;
    else
        weir__trace_put_long(out, number);
}
static inline void weir__trace_put_signed(struct weir__trace_bytes *out, uint64_t difference)
{
    weir__trace_put_number(out, difference << 1 ^ (0 - (difference >> 63)));
}
/* Puts a string, of which at most the first `most` bytes are written. */
void weir__trace_put_string(struct weir__trace_bytes *out, const char *text, size_t most);

/* Writes the first bytes of a file. */
void weir__trace_file_header(uint8_t header[static WEIR__TRACE_FILE_HEADER]);

/* Returns the largest possible size of a block with `len` bytes of content. */
size_t weir__trace_block_bound(size_t len);
/* Compresses the content if that makes it shorter, and writes the block to `out`, which has room for weir__trace_block_bound(len) bytes.
   Returns the size of the block. */
size_t weir__trace_block_write(enum weir__trace_block kind, const uint8_t *content, size_t len, uint8_t *out);

/* Returns the CRC32C of the bytes. `before` is the CRC32C of the bytes before them, or 0. */
uint32_t weir__trace_crc(uint32_t before, const uint8_t *bytes, size_t len);

#endif
