/* SPDX-License-Identifier: MIT */
/* census.c - lists an export's clients and leases, and its figures, as messages for an observer. */
#include "config.h"

#include <stdio.h>

#include "share/export/ring.h"

static uint16_t state_of(const struct share_client *client)
{
    if (client->connection.fd < 0)
        return WIRE_STATE_EVICTED;
    return share_client_is_hung(client) ? WIRE_STATE_HUNG : WIRE_STATE_CONNECTED;
}

static void add_client(struct share_outbox *outbox, const struct share_client *client, uint32_t request, uint64_t now)
{
    struct wire_message message = { .type = WIRE_IMPORTER, .request = request };
    message.u.importer.pid = client->process.pid;
    message.u.importer.uid = client->process.uid;
    message.u.importer.state = state_of(client);
    share_client_count(client, &message.u.importer.leases, &message.u.importer.mappings);
    message.u.importer.idle_ms = (now - client->heard) / GPU_MILLISECOND;
    snprintf(message.u.importer.name, sizeof message.u.importer.name, "%s", client->name);
    share_outbox_add(outbox, &message);
}

static void add_hold(struct share_outbox *outbox, const struct share_mapping *mapping, const struct share_lease *lease, uint32_t request,
                     uint64_t now)
{
    static const uint16_t holds[] = { [SHARE_LEASE_HELD] = WIRE_HOLD_LEASED, [SHARE_LEASE_RELEASING] = WIRE_HOLD_RELEASING };
    const struct share_block *block = mapping->block;
    struct wire_message message = { .type = WIRE_HOLDS, .request = request };
    message.u.holds.pid = mapping->client->process.pid;
    message.u.holds.hold = lease ? holds[lease->state] : WIRE_HOLD_MAPPED;
    message.u.holds.ring = block->ring ? block->ring->id : 0;
    message.u.holds.sequence = lease ? lease->sequence : 0;
    message.u.holds.block = block->id;
    message.u.holds.size = block->bytes;
    message.u.holds.held_ms = lease ? (now - lease->since) / GPU_MILLISECOND : 0;
    snprintf(message.u.holds.name, sizeof message.u.holds.name, "%s", block->name);
    share_outbox_add(outbox, &message);
}

static void add_holds(struct share_outbox *outbox, const struct share_client *client, uint32_t request, uint64_t now)
{
    for (unsigned i = 0; i < client->lease_count; i++)
        if (client->leases[i]->mapping)
            add_hold(outbox, client->leases[i]->mapping, client->leases[i], request, now);
    for (const struct share_mapping *mapping = client->mappings; mapping; mapping = mapping->next_of_client)
        if (!mapping->leases)
            add_hold(outbox, mapping, NULL, request, now);
}

static void add_clients(struct share_outbox *outbox, const weir_export *e, uint32_t request)
{
    uint64_t now = weir__service_now();
    for (const struct share_client *client = e->clients; client; client = client->next)
        if (client->has_pool) {
            add_client(outbox, client, request, now);
            add_holds(outbox, client, request, now);
        }
}

static void add_export(struct share_outbox *outbox, const weir_export *e, uint32_t request)
{
    struct wire_message message = { .type = WIRE_EXPORT, .request = request };
    weir_export_info info;
    share_export_figures(e, &info);
#define COPY(name) message.u.export.name = info.name;
    WIRE_EXPORT_FIGURES(COPY)
#undef COPY
    share_outbox_add(outbox, &message);
}

static void add_ring(struct share_outbox *outbox, const weir_ring *ring, uint32_t request)
{
    struct wire_message message = { .type = WIRE_RING, .request = request };
    weir_ring_info info;
    share_ring_figures(ring, &info);
    message.u.ring.ring = ring->id;
    message.u.ring.overflow = info.overflow;
    snprintf(message.u.ring.name, sizeof message.u.ring.name, "%s", ring->name);
#define COPY(name) message.u.ring.name = info.name;
    WIRE_RING_FIGURES(COPY)
#undef COPY
    share_outbox_add(outbox, &message);
}

/* Closed rings count in the export's figures only: another ring may have their name. */
static void add_figures(struct share_outbox *outbox, const weir_export *e, uint32_t request)
{
    add_export(outbox, e, request);
    for (const weir_ring *ring = e->rings; ring; ring = ring->next)
        if (!ring->is_closed)
            add_ring(outbox, ring, request);
}

bool share_census_take(struct share_client *observer, const struct wire_message *question)
{
    struct wire_message end = { .type = WIRE_DONE, .request = question->request };
    struct share_outbox outbox = { 0 };
    if (question->type == WIRE_COUNT)
        add_figures(&outbox, observer->e, question->request);
    else
        add_clients(&outbox, observer->e, question->request);
    share_outbox_add(&outbox, &end);
    bool is_whole = !outbox.is_short;
    if (is_whole)
        observer->connection.outbox = outbox;
    else
        share_outbox_clear(&outbox);
    return is_whole;
}
