/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/page/pack.h"

#include "tools/common/complain.h"

#include <stdlib.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

/* Base64 ------------------------------------------------------------------------------------------------------------------------------- */

struct base64 {
    FILE *out;
    uint32_t bits;
    unsigned count; /* of bytes in `bits` */
};

static void base64_write(struct base64 *base64, unsigned characters)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned i = 0; i < 4; i++)
        fputc(i < characters ? digits[base64->bits >> (18 - 6 * i) & 63] : '=', base64->out);
    base64->bits = base64->count = 0;
}

static void base64_put(struct base64 *base64, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        base64->bits |= (uint32_t)bytes[i] << (16 - 8 * base64->count);
        if (++base64->count == 3)
            base64_write(base64, 4);
    }
}

static void base64_end(struct base64 *base64)
{
    if (base64->count)
        base64_write(base64, base64->count + 1);
}

/* Deflating ---------------------------------------------------------------------------------------------------------------------------- */

struct page_packer {
    struct base64 base64;
#ifdef HAVE_ZLIB
    z_stream stream;
#endif
};

#ifdef HAVE_ZLIB
const char page_coding[] = "deflate";

static void deflate_some(struct page_packer *packer, int flush)
{
    uint8_t packed[16384];
    do {
        packer->stream.next_out = packed;
        packer->stream.avail_out = sizeof packed;
        deflate(&packer->stream, flush);
        base64_put(&packer->base64, packed, sizeof packed - packer->stream.avail_out);
    } while (packer->stream.avail_out == 0);
}

struct page_packer *page_pack_begin(FILE *out)
{
    struct page_packer *packer = must(calloc(1, sizeof *packer));
    packer->base64.out = out;
    if (deflateInit(&packer->stream, Z_BEST_COMPRESSION) != Z_OK)
        must(NULL);
    return packer;
}

void page_pack_put(struct page_packer *packer, const void *bytes, size_t len)
{
    uint8_t *at = (uint8_t *)(uintptr_t)bytes; /* which zlib does not write to */
    while (len) {
        unsigned part = len < 1U << 30 ? (unsigned)len : 1U << 30;
        packer->stream.next_in = at;
        packer->stream.avail_in = part;
        deflate_some(packer, Z_NO_FLUSH);
        at += part;
        len -= part;
    }
}

void page_pack_end(struct page_packer *packer)
{
    deflate_some(packer, Z_FINISH);
    deflateEnd(&packer->stream);
    base64_end(&packer->base64);
    free(packer);
}
#else
const char page_coding[] = "none";

struct page_packer *page_pack_begin(FILE *out)
{
    struct page_packer *packer = must(calloc(1, sizeof *packer));
    packer->base64.out = out;
    return packer;
}

void page_pack_put(struct page_packer *packer, const void *bytes, size_t len)
{
    base64_put(&packer->base64, bytes, len);
}

void page_pack_end(struct page_packer *packer)
{
    base64_end(&packer->base64);
    free(packer);
}
#endif
