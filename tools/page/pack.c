/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/page/pack.h"

#include "tools/common/complain.h"

#include <stdlib.h>
#include <string.h>
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

/* SHA-256, as FIPS 180-4 has it -------------------------------------------------------------------------------------------------------- */

static uint32_t turn(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static void digest_block(uint32_t state[8], const uint8_t block[64])
{
    static const uint32_t constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
        0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
        0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
        0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
        0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
        0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    uint32_t words[64], s[8];
    for (unsigned i = 0; i < 16; i++)
        words[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        words[i] = words[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + words[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (unsigned i = 0; i < 64; i++) {
        uint32_t first =
            s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + words[i];
        uint32_t second = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += first;
        s[0] = first + second;
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] += s[i];
}

const char *page_hash(char text[PAGE_HASH_LEN], const void *bytes, size_t len)
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0}, digest[32];
    size_t whole = len / 64 * 64, rest = len - whole, padded = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64)
        digest_block(state, (const uint8_t *)bytes + at);
    memcpy(last, (const uint8_t *)bytes + whole, rest);
    last[rest] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        last[padded - 1 - i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    for (size_t at = 0; at < padded; at += 64)
        digest_block(state, last + at);
    for (unsigned i = 0; i < 32; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    struct base64 base64 = {.out = must(fmemopen(text, PAGE_HASH_LEN, "w"))};
    fputs("sha256-", base64.out);
    base64_put(&base64, digest, sizeof digest);
    base64_end(&base64);
    fclose(base64.out);
    return text;
}
