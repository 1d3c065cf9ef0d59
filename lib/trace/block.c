/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/block.h"

#include <pthread.h>
#include <string.h>

#ifdef HAVE_ZSTD
#include <zstd.h>
#define LEVEL 1 /* measured: 26 ns and 2.5 bytes for each event; higher levels take longer and save little */
#endif

void weir__trace_put(struct weir__trace_bytes *out, const void *bytes, size_t len)
{
    if (out->is_full || len > out->room - out->len) {
        out->is_full = true;
        return;
    }
    memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

void weir__trace_put_long(struct weir__trace_bytes *out, uint64_t number)
{
    uint8_t bytes[10];
    size_t len = 0;
    for (; number >= 0x80; number >>= 7)
        bytes[len++] = (uint8_t)(number | 0x80);
    bytes[len++] = (uint8_t)number;
    weir__trace_put(out, bytes, len);
}

void weir__trace_put_string(struct weir__trace_bytes *out, const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    weir__trace_put_number(out, len);
    weir__trace_put(out, text, len);
}

/* Tables for CRC32C. Weir has its own CRC32C because the libraries that offer one are large compared with these few lines, and the
   processor's instruction would need code for each architecture. Eight tables allow eight bytes for each step: byte by byte, the checksum
   would take half of the time in which a trace is read. */
static uint32_t crc_tables[8][256];

static void make_crc_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82F63B78) : 0); /* 0x1EDC6F41, reflected */
        crc_tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            crc_tables[t][i] = crc_tables[t - 1][i] >> 8 ^ crc_tables[0][crc_tables[t - 1][i] & 0xFF];
}

uint32_t weir__trace_crc(uint32_t before, const uint8_t *bytes, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_crc_tables);
    uint32_t crc = ~before;
    for (; len >= 8; bytes += 8, len -= 8) {
        uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        crc = crc_tables[7][low & 0xFF] ^ crc_tables[6][low >> 8 & 0xFF] ^ crc_tables[5][low >> 16 & 0xFF] ^ crc_tables[4][low >> 24] ^
              crc_tables[3][bytes[4]] ^ crc_tables[2][bytes[5]] ^ crc_tables[1][bytes[6]] ^ crc_tables[0][bytes[7]];
    }
    for (; len; bytes++, len--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *bytes) & 0xFF];
    return ~crc;
}

static void put_fixed(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

void weir__trace_file_header(uint8_t header[static WEIR__TRACE_FILE_HEADER])
{
    put_fixed(header, UINT32_C(0x52494557), 4); /* WEIR */
    put_fixed(header + 4, WEIR__TRACE_FORMAT, 4);
}

size_t weir__trace_block_bound(size_t len)
{
#ifdef HAVE_ZSTD
    return WEIR__TRACE_BLOCK_HEADER + ZSTD_compressBound(len);
#else
    return WEIR__TRACE_BLOCK_HEADER + len;
#endif
}

/* Compresses the content and returns the compressed length, or 0 if compression fails or does not make the content shorter. */
static size_t pack(const uint8_t *content, size_t len, uint8_t *out)
{
#ifdef HAVE_ZSTD
    size_t packed = ZSTD_compress(out, ZSTD_compressBound(len), content, len, LEVEL);
    return !ZSTD_isError(packed) && packed < len ? packed : 0;
#else
    (void)content, (void)len, (void)out;
    return 0;
#endif
}

size_t weir__trace_block_write(enum weir__trace_block kind, const uint8_t *content, size_t len, uint8_t *out)
{
    size_t stored = pack(content, len, out + WEIR__TRACE_BLOCK_HEADER);
    bool is_packed = stored;
    if (!is_packed) {
        memcpy(out + WEIR__TRACE_BLOCK_HEADER, content, len);
        stored = len;
    }
    put_fixed(out, UINT32_C(0x4B4C4257), 4); /* WBLK */
    out[4] = (uint8_t)kind;
    out[5] = is_packed;
    put_fixed(out + 6, 0, 2);
    put_fixed(out + 8, stored, 4);
    put_fixed(out + 12, len, 4);
    put_fixed(out + 16, weir__trace_crc(weir__trace_crc(0, out, 16), out + WEIR__TRACE_BLOCK_HEADER, stored), 4);
    return WEIR__TRACE_BLOCK_HEADER + stored;
}
