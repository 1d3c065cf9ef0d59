/* SPDX-License-Identifier: MIT */
/*
 * outbox.h - an outbox keeps messages that did not fit into a socket, in order, until the socket has room.
 *
 * Part of a connection, and guarded by the same lock as the connection.
 */
#ifndef WEIR_SHARE_OUTBOX_H
#define WEIR_SHARE_OUTBOX_H

#include "share/wire/socket.h"
#include "share/wire/wire.h"

struct share_outbox {
    unsigned char *bytes; /* each message follows its length, which has two bytes in the byte order of this machine */
    size_t len, capacity;
    size_t at; /* index of the first message that is not sent yet; equal to len if all are sent */
    bool is_short; /* a message was lost because host memory ran out */
};

static inline bool share_outbox_is_empty(const struct share_outbox *outbox)
{
    return outbox->at == outbox->len;
}

/* Keeps the message. Returns false, and sets is_short, if host memory runs out. */
bool share_outbox_add(struct share_outbox *outbox, const struct wire_message *message);
void share_outbox_clear(struct share_outbox *outbox);

/* Sends the kept messages. Returns SHARE_AGAIN if the socket is full and messages are left. */
enum share_io share_outbox_flush(struct share_outbox *outbox, int fd);
/* Sends the kept messages and then `message`. Returns SHARE_AGAIN if the socket is full and `message` is kept, and SHARE_BROKEN if
   `message` is lost: `most` bytes are kept already, because the other side has not read for long, or host memory runs out. */
enum share_io share_outbox_say(struct share_outbox *outbox, int fd, const struct wire_message *message, size_t most);

#endif
