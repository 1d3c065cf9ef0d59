/* SPDX-License-Identifier: MIT */
/*
 * outbox.h - messages that the other side of a connection is still to get, in order: what did not fit into its socket follows when there is
 * room. Owned by the connection, and guarded as it is.
 */
#ifndef WEIR_SHARE_OUTBOX_H
#define WEIR_SHARE_OUTBOX_H

#include "share/wire/socket.h"
#include "share/wire/wire.h"

struct share_outbox {
    unsigned char *bytes; /* each message behind its length, two bytes of this machine */
    size_t len, capacity;
    size_t at; /* the first that is not sent yet; len: there is none */
    bool is_short; /* a message was lost for want of host memory */
};

static inline bool share_outbox_is_empty(const struct share_outbox *outbox)
{
    return outbox->at == outbox->len;
}

/* false: no host memory; the message is not kept, which the outbox remembers. */
bool share_outbox_add(struct share_outbox *outbox, const struct wire_message *message);
void share_outbox_clear(struct share_outbox *outbox);

/* Sends what there is. SHARE_AGAIN: the socket is full, and something is left. */
enum share_io share_outbox_flush(struct share_outbox *outbox, int fd);
/* Sends the message behind what there is, or keeps it, up to `most` bytes of messages. SHARE_AGAIN: it is kept. SHARE_BROKEN: it is lost,
   since the other side has not read for too long, or there is no host memory. */
enum share_io share_outbox_say(struct share_outbox *outbox, int fd, const struct wire_message *message, size_t most);

#endif
