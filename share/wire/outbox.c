/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/outbox.h"

#include <stdlib.h>
#include <string.h>

bool share_outbox_add(struct share_outbox *outbox, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    uint16_t len = (uint16_t)wire_encode(message, bytes);
    if (outbox->capacity - outbox->len < sizeof len + len && outbox->at) {
        outbox->len -= outbox->at;
        memmove(outbox->bytes, outbox->bytes + outbox->at, outbox->len);
        outbox->at = 0;
    }
    if (outbox->capacity - outbox->len < sizeof len + len) {
        size_t capacity = outbox->capacity ? 2 * outbox->capacity : 4 * WIRE_SIZE_MAX;
        unsigned char *larger = realloc(outbox->bytes, capacity);
        if (!larger) {
            outbox->is_short = true;
            return false;
        }
        outbox->bytes = larger;
        outbox->capacity = capacity;
    }
    memcpy(outbox->bytes + outbox->len, &len, sizeof len);
    memcpy(outbox->bytes + outbox->len + sizeof len, bytes, len);
    outbox->len += sizeof len + len;
    return true;
}

void share_outbox_clear(struct share_outbox *outbox)
{
    free(outbox->bytes);
    *outbox = (struct share_outbox){ 0 };
}

enum share_io share_outbox_flush(struct share_outbox *outbox, int fd)
{
    while (!share_outbox_is_empty(outbox)) {
        const unsigned char *next = outbox->bytes + outbox->at;
        uint16_t len;
        memcpy(&len, next, sizeof len);
        enum share_io io = share_send(fd, next + sizeof len, len, -1);
        if (io != SHARE_DONE)
            return io;
        outbox->at += sizeof len + len;
    }
    share_outbox_clear(outbox);
    return SHARE_DONE;
}

enum share_io share_outbox_say(struct share_outbox *outbox, int fd, const struct wire_message *message, size_t most)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    enum share_io io = share_outbox_flush(outbox, fd);
    if (io == SHARE_DONE)
        io = share_send(fd, bytes, wire_encode(message, bytes), -1);
    if (io == SHARE_AGAIN && (outbox->len - outbox->at >= most || !share_outbox_add(outbox, message)))
        io = SHARE_BROKEN;
    return io;
}
