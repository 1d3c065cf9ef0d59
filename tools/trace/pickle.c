/* SPDX-License-Identifier: MIT */
#include "tools/trace/pickle.h"
#include "tools/common/utf8.h"

/* The codes of the format; all of them are known to viewers that are not Python. */
enum {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_PROTO = 0x80,
    OP_TUPLE2 = 0x86,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8A,
    OP_SHORT_BINUNICODE = 0x8C,
    OP_MEMOIZE = 0x94,
    PROTOCOL = 4,
};

static void put(struct pickle *pickle, unsigned byte)
{
    putc((int)byte, pickle->out);
}

/* Lowest byte first. */
static void put_fixed(struct pickle *pickle, uint64_t value, unsigned len)
{
    for (; len > 0; len--, value >>= 8)
        put(pickle, value & 0xFF);
}

void pickle_begin(struct pickle *pickle, FILE *out)
{
    *pickle = (struct pickle){.out = out};
    put(pickle, OP_PROTO);
    put(pickle, PROTOCOL);
}

void pickle_end(struct pickle *pickle)
{
    put(pickle, OP_STOP);
}

void pickle_dict(struct pickle *pickle)
{
    put(pickle, OP_EMPTY_DICT);
    put(pickle, OP_MARK);
    pickle->depth++;
}

void pickle_dict_end(struct pickle *pickle)
{
    put(pickle, OP_SETITEMS);
    pickle->depth--;
}

void pickle_list(struct pickle *pickle)
{
    put(pickle, OP_EMPTY_LIST);
    put(pickle, OP_MARK);
    pickle->batches[pickle->depth++] = 0;
}

void pickle_item(struct pickle *pickle)
{
    unsigned *batch = &pickle->batches[pickle->depth - 1];
    if (*batch == PICKLE_BATCH) {
        put(pickle, OP_APPENDS);
        put(pickle, OP_MARK);
        *batch = 0;
    }
    ++*batch;
}

void pickle_list_end(struct pickle *pickle)
{
    put(pickle, OP_APPENDS);
    pickle->depth--;
}

/* Those above 31 bits are signed, of as few bytes as hold them. */
void pickle_number(struct pickle *pickle, uint64_t value)
{
    unsigned len = 4;
    if (value <= INT32_MAX) {
        len = value <= UINT8_MAX ? 1 : value <= UINT16_MAX ? 2 : 4;
        put(pickle, len == 1 ? OP_BININT1 : len == 2 ? OP_BININT2 : OP_BININT);
        put_fixed(pickle, value, len);
        return;
    }
    while (len < 9 && value >> (8 * len - 1) != 0)
        len++;
    put(pickle, OP_LONG1);
    put(pickle, len);
    put_fixed(pickle, value, len);
}

void pickle_pair(struct pickle *pickle, uint64_t one, uint64_t other)
{
    pickle_number(pickle, one);
    pickle_number(pickle, other);
    put(pickle, OP_TUPLE2);
}

void pickle_bool(struct pickle *pickle, bool value)
{
    put(pickle, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void pickle_text(struct pickle *pickle, const char *text)
{
    const char *piece;
    size_t whole = utf8_clean_len(text);
    bool is_short = whole <= UINT8_MAX;
    put(pickle, is_short ? OP_SHORT_BINUNICODE : OP_BINUNICODE);
    put_fixed(pickle, whole, is_short ? 1 : 4);
    for (size_t len; (len = utf8_next(&text, &piece)) > 0;)
        fwrite(piece, 1, len, pickle->out);
}

void pickle_word(struct pickle *pickle, struct pickle_word *word)
{
    if (word->memo) {
        pickle_again(pickle, word->memo);
        return;
    }
    pickle_text(pickle, word->text);
    word->memo = pickle_remember(pickle);
}

uint32_t pickle_remember(struct pickle *pickle)
{
    put(pickle, OP_MEMOIZE);
    return ++pickle->remembered;
}

void pickle_again(struct pickle *pickle, uint32_t memo)
{
    uint32_t place = memo - 1;
    put(pickle, place <= UINT8_MAX ? OP_BINGET : OP_LONG_BINGET);
    put_fixed(pickle, place, place <= UINT8_MAX ? 1 : 4);
}
