/* SPDX-License-Identifier: MIT */
/* outbox.h - messages that the other side of a connection is still to get, in order. Owned by the connection, and guarded as it is. */
#ifndef WEIR_SHARE_OUTBOX_H
#define WEIR_SHARE_OUTBOX_H

#include "share/wire.h"

struct share_outbox {
    unsigned char *bytes; /* each message behind its length, two bytes of this machine */
    size_t len, capacity;
    size_t at; /* the first that is not sent yet; len: there is none */
};

/* false: no host memory; nothing changed. */
bool share_outbox_add(struct share_outbox *outbox, const struct wire_message *message);
/* The next message and its length, or NULL. share_outbox_pop() when it is sent. */
const unsigned char *share_outbox_next(const struct share_outbox *outbox, size_t *len);
void share_outbox_pop(struct share_outbox *outbox);
void share_outbox_clear(struct share_outbox *outbox);

#endif
