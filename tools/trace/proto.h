/* SPDX-License-Identifier: MIT */
/*
 * proto.h - writes messages of Protocol Buffers: numbers, texts and messages in messages.
 *
 * It belongs to its maker; zeroed, it is empty. One thread.
 */
#ifndef WEIR_TRACE_PROTO_H
#define WEIR_TRACE_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { PROTO_DEPTH_MAX = 8 };

struct proto {
    uint8_t *bytes;
    size_t len, room;
    size_t open[PROTO_DEPTH_MAX]; /* where the messages that are open have their lengths */
    unsigned depth;
};

void proto_number(struct proto *proto, unsigned field, uint64_t value);
void proto_double(struct proto *proto, unsigned field, double value);
/* Bytes that are not UTF-8 become U+FFFD, as texts must be. */
void proto_text(struct proto *proto, unsigned field, const char *text);

/* What is written between them is in the message. One has less than 256 MiB. */
void proto_begin(struct proto *proto, unsigned field);
void proto_end(struct proto *proto);

/* Writes what there is and forgets it. */
void proto_flush(struct proto *proto, FILE *out);
void proto_free(struct proto *proto);

#endif
