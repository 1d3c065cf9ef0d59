/* SPDX-License-Identifier: MIT */
/*
 * pickle.h - writes a pickle of Python's protocol 4, of what torch's viewers of memory read: numbers, texts, lists, dictionaries, pairs.
 *
 * The caller owns it, pairs begin with end, and looks at ferror() of the stream. What is used often is remembered: written once, and then
 * named by a number. A list is appended to in batches, as the viewers put a batch on a stack that is bounded.
 */
#ifndef WEIR_TRACE_PICKLE_H
#define WEIR_TRACE_PICKLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { PICKLE_BATCH = 1000, PICKLE_DEPTH_MAX = 16 };

struct pickle {
    FILE *out;
    uint32_t remembered;                /* how many */
    unsigned depth;                     /* lists and dictionaries that are open */
    unsigned batches[PICKLE_DEPTH_MAX]; /* of those that are lists: items since the last APPENDS */
};

/* A text that is written again and again; memo is 0 before the first time. */
struct pickle_word {
    const char *text;
    uint32_t memo;
};

void pickle_begin(struct pickle *pickle, FILE *out);
void pickle_end(struct pickle *pickle);

/* Members follow: a word or text, and a value. */
void pickle_dict(struct pickle *pickle);
void pickle_dict_end(struct pickle *pickle);

/* Before each item of a list stands pickle_item(). */
void pickle_list(struct pickle *pickle);
void pickle_item(struct pickle *pickle);
void pickle_list_end(struct pickle *pickle);

void pickle_number(struct pickle *pickle, uint64_t value);
void pickle_pair(struct pickle *pickle, uint64_t one, uint64_t other);
void pickle_bool(struct pickle *pickle, bool value);
/* Bytes that are not UTF-8 become U+FFFD, as Python refuses them. */
void pickle_text(struct pickle *pickle, const char *text);
void pickle_word(struct pickle *pickle, struct pickle_word *word);

/* Remembers the value that was written last, and returns its number, above 0. */
uint32_t pickle_remember(struct pickle *pickle);
void pickle_again(struct pickle *pickle, uint32_t memo);

#endif
