/* SPDX-License-Identifier: MIT */
/* wire_data.h - one message of each type, and its bytes as doc/protocol.md has them, written by hand: the standard of the codec's tests. */
#ifndef WEIR_TEST_WIRE_DATA_H
#define WEIR_TEST_WIRE_DATA_H

#include "share/wire/wire.h"

struct wire_golden {
    struct wire_message message;
    size_t len;
    unsigned char bytes[WIRE_SIZE_MAX];
};

extern const struct wire_golden wire_goldens[];
extern const size_t wire_golden_count;

/* The first of the type. */
const struct wire_golden *wire_golden_of(enum wire_type type);

/* A valid message of random type and contents, every byte of it set; the same for the same seed, which it moves on. */
void wire_random(uint64_t *seed, struct wire_message *message);

#endif
