/* SPDX-License-Identifier: MIT */
/* receive.c - handles the messages of an exporter. The caller holds the import's lock, and CUDA is not called. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "share/import/import.h"

static struct share_request *find_request(const struct share_session *session, uint32_t number)
{
    struct share_request *request = session->i->requests;
    while (request && (request->session != session || request->number != number || request->is_answered))
        request = request->next;
    return request;
}

static weir_reader *find_reader(const struct share_session *session, uint32_t ring)
{
    weir_reader *reader = session->i->readers;
    while (reader && (reader->session != session || reader->ring != ring))
        reader = reader->next;
    return reader;
}

static struct share_mapped *find_mapped(const struct share_session *session, uint64_t block)
{
    struct share_mapped *mapped = session->mappings;
    while (mapped && mapped->id != block)
        mapped = mapped->next;
    return mapped;
}

static struct share_mapped *learn_block(struct share_session *session, const struct wire_message *message)
{
    struct share_mapped *mapped = find_mapped(session, message->u.lease.block);
    if (!(message->u.lease.flags & WIRE_HAS_BLOCK) || mapped)
        return message->u.lease.flags & WIRE_HAS_BLOCK ? NULL : mapped;
    if (message->u.lease.block_size > SHARE_BLOCK_MAX || !(mapped = calloc(1, sizeof *mapped)))
        return NULL;
    mapped->id = message->u.lease.block;
    mapped->bytes = message->u.lease.block_size;
    mapped->handle = message->u.lease.shared;
    mapped->ready_handle = message->u.lease.ready;
    mapped->next = session->mappings;
    session->mappings = mapped;
    return mapped;
}

/* The generation of a frame: the number of the publication, which all slots of one ring share. Exporters before 0.2 number blocks in
   another way; for them it is the epoch. */
static uint64_t generation_of(const struct share_session *session, uint64_t block)
{
    return block >= WIRE_BLOCK_PUBLISHED ? block >> WIRE_BLOCK_INDEX : session->epoch;
}

static weir_lease *new_lease(struct share_session *session, struct share_mapped *mapped, const struct wire_message *message)
{
    weir_lease *lease = calloc(1, sizeof *lease);
    if (!lease)
        return NULL;
    lease->session = session;
    lease->mapped = mapped;
    lease->number = message->u.lease.lease;
    memcpy(lease->metadata, message->u.lease.metadata, message->u.lease.metadata_size);
    lease->info = (weir_lease_info){ .size = message->u.lease.size, .device = session->device, .sequence = message->u.lease.sequence,
                                     .metadata_size = message->u.lease.metadata_size, .metadata = lease->metadata,
                                     .generation = generation_of(session, message->u.lease.block) };
    mapped->leases++;
    session->leases++;
    session->numbers[lease->number].is_leased = true;
    return lease;
}

static void queue_frame(weir_reader *reader, weir_lease *lease)
{
    lease->reader = reader;
    lease->next = NULL;
    *reader->latest = lease;
    reader->latest = &lease->next;
    share_reader_show(reader);
}

static bool receive_lease(struct share_session *session, const struct wire_message *message)
{
    struct share_mapped *mapped = learn_block(session, message);
    struct share_number *number = &session->numbers[message->u.lease.lease];
    struct share_request *request = message->request ? find_request(session, message->request) : NULL;
    if (request && !request->can_be_leased)
        return false;
    if (!mapped || mapped->is_withdrawn || number->is_leased || message->u.lease.size > mapped->bytes)
        return false;
    if (message->u.lease.flags & WIRE_HAS_RELEASE) {
        if (number->has_handle)
            return false;
        number->handle = message->u.lease.release;
        number->has_handle = true;
    }
    weir_lease *lease = number->has_handle ? new_lease(session, mapped, message) : NULL;
    if (!lease)
        return false;
    weir_reader *reader = message->request ? NULL : find_reader(session, message->u.lease.ring);
    if (request) {
        request->lease = lease;
        request->is_answered = true;
    } else if (reader) {
        queue_frame(reader, lease);
    } else {
        share_lease_return(lease); /* the frame's reader is closed */
    }
    return true;
}

static bool receive_answer(struct share_session *session, const struct wire_message *message)
{
    struct share_request *request = find_request(session, message->request);
    /* If the session is about to end, its requests no longer wait for answers. */
    if (!request)
        return session->farewell != 0;
    if (message->type == WIRE_DONE && !request->can_be_done)
        return false;
    /* Frames may follow right after the answer, so the reader is set up here, for them to find it. */
    if (message->type == WIRE_SUBSCRIBED) {
        if (!request->reader)
            return false;
        request->reader->session = session;
        request->reader->ring = message->u.subscribed.ring;
        request->reader->limit = message->u.subscribed.leases;
        request->reader->end = SHARE_END_NONE;
        share_reader_show(request->reader);
    }
    request->answer = *message;
    request->is_answered = true;
    return true;
}

static bool receive_withdraw(struct share_session *session, const struct wire_message *message)
{
    struct share_mapped *mapped = find_mapped(session, message->u.block.block);
    if (mapped) {
        mapped->is_withdrawn = true;
        weir__service_wake(&session->i->job, 0);
    }
    return true;
}

static bool receive_retire(struct share_session *session, const struct wire_message *message)
{
    if (message->u.epoch.epoch != session->epoch)
        return false;
    session->farewell = WIRE_RETIRED;
    share_readers_show(session);
    weir__service_wake(&session->i->job, 0);
    return true;
}

static bool receive_ended(struct share_session *session, const struct wire_message *message)
{
    weir_reader *reader = find_reader(session, message->u.ended.ring);
    if (reader) {
        reader->end = SHARE_END_CLOSED;
        share_reader_show(reader);
    }
    return true;
}

/* Handles REFUSED. With request 0 the exporter gives the reason why it closes the connection. */
static bool receive_refused(struct share_session *session, const struct wire_message *message)
{
    if (message->request)
        return receive_answer(session, message);
    session->is_refused = true;
    share_news_add(&session->i->news, WEIR_LOG_WARNING, "import '%s': the exporter closes the connection: %s", session->i->socket,
                   message->u.refused.text);
    return true;
}

bool share_receive_message(struct share_session *session, const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_LEASE: return receive_lease(session, message);
    case WIRE_SUBSCRIBED:
    case WIRE_DONE: return receive_answer(session, message);
    case WIRE_REFUSED: return receive_refused(session, message);
    case WIRE_WITHDRAW: return receive_withdraw(session, message);
    case WIRE_RETIRE: return receive_retire(session, message);
    case WIRE_ENDED: return receive_ended(session, message);
    default: return false;
    }
}
