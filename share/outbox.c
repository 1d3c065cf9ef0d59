/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/outbox.h"

#include <stdlib.h>
#include <string.h>

bool share_outbox_add(struct share_outbox *outbox, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    uint16_t len = (uint16_t)wire_encode(message, bytes);
    if (outbox->capacity - outbox->len < sizeof len + len) {
        size_t capacity = outbox->capacity ? 2 * outbox->capacity : 4 * WIRE_SIZE_MAX;
        unsigned char *larger = realloc(outbox->bytes, capacity);
        if (!larger)
            return false;
        outbox->bytes = larger;
        outbox->capacity = capacity;
    }
    memcpy(outbox->bytes + outbox->len, &len, sizeof len);
    memcpy(outbox->bytes + outbox->len + sizeof len, bytes, len);
    outbox->len += sizeof len + len;
    return true;
}

const unsigned char *share_outbox_next(const struct share_outbox *outbox, size_t *len)
{
    uint16_t bytes;
    if (outbox->at == outbox->len)
        return NULL;
    memcpy(&bytes, outbox->bytes + outbox->at, sizeof bytes);
    *len = bytes;
    return outbox->bytes + outbox->at + sizeof bytes;
}

void share_outbox_pop(struct share_outbox *outbox)
{
    uint16_t bytes;
    memcpy(&bytes, outbox->bytes + outbox->at, sizeof bytes);
    outbox->at += sizeof bytes + bytes;
    if (outbox->at == outbox->len)
        share_outbox_clear(outbox);
}

void share_outbox_clear(struct share_outbox *outbox)
{
    free(outbox->bytes);
    *outbox = (struct share_outbox){ 0 };
}
