/* SPDX-License-Identifier: MIT */
#include "tools/trace/proto.h"
#include "tools/common/complain.h"
#include "tools/common/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { TYPE_NUMBER = 0, TYPE_DOUBLE = 1, TYPE_BYTES = 2, NUMBER_LEN_MAX = 10 };

/* The length of a message is not known before its end: so much is left for it. */
enum { LENGTH_LEN = 4 };

static uint8_t *reserve(struct proto *proto, size_t len)
{
    if (len > proto->room - proto->len) {
        proto->room = 2 * proto->room + len;
        proto->bytes = must(realloc(proto->bytes, proto->room));
    }
    return proto->bytes + proto->len;
}

static void put_number(struct proto *proto, uint64_t value)
{
    uint8_t *at = reserve(proto, NUMBER_LEN_MAX), *begin = at;
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    proto->len += (size_t)(at - begin);
}

static void put_bytes(struct proto *proto, const char *bytes, size_t len)
{
    memcpy(reserve(proto, len), bytes, len);
    proto->len += len;
}

void proto_number(struct proto *proto, unsigned field, uint64_t value)
{
    put_number(proto, field << 3 | TYPE_NUMBER);
    put_number(proto, value);
}

void proto_double(struct proto *proto, unsigned field, double value)
{
    uint64_t bits;
    char bytes[sizeof bits] = {0};
    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(uint8_t)(bits >> 8 * i);
    put_number(proto, field << 3 | TYPE_DOUBLE);
    put_bytes(proto, bytes, sizeof bytes);
}

void proto_text(struct proto *proto, unsigned field, const char *text)
{
    const char *piece;
    put_number(proto, field << 3 | TYPE_BYTES);
    put_number(proto, utf8_clean_len(text));
    for (size_t len; (len = utf8_next(&text, &piece)) > 0;)
        put_bytes(proto, piece, len);
}

void proto_begin(struct proto *proto, unsigned field)
{
    put_number(proto, field << 3 | TYPE_BYTES);
    proto->open[proto->depth++] = proto->len;
    put_bytes(proto, "\x80\x80\x80", LENGTH_LEN);
}

void proto_end(struct proto *proto)
{
    uint8_t *at = proto->bytes + proto->open[--proto->depth];
    size_t len = (size_t)(proto->bytes + proto->len - at) - LENGTH_LEN;
    for (unsigned i = 0; i < LENGTH_LEN; i++)
        at[i] = (uint8_t)((len >> 7 * i & 0x7F) | (i + 1 < LENGTH_LEN ? 0x80 : 0));
}

void proto_flush(struct proto *proto, FILE *out)
{
    if (proto->len)
        fwrite(proto->bytes, 1, proto->len, out);
    proto->len = 0;
}

void proto_free(struct proto *proto)
{
    free(proto->bytes);
    *proto = (struct proto){0};
}
