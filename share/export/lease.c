/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>

#include "lib/base/list.h"
#include "share/export/ring.h"

unsigned share_leases_spare(const struct share_client *client)
{
    unsigned count = 0;
    for (unsigned i = 0; i < client->lease_count; i++)
        count += !client->leases[i]->reader && client->leases[i]->state == SHARE_LEASE_IDLE;
    return count;
}

bool share_lease_make(struct share_client *client)
{
    weir_export *e = client->e;
    struct share_lease *lease = client->lease_count < WIRE_LEASES_MAX ? calloc(1, sizeof *lease) : NULL;
    if (!lease)
        return false;
    int code = e->gpu->event_create_shared(e->device, &lease->event, &lease->handle);
    if (code != GPU_SUCCESS) {
        weir__log_about(e->w, e->pool, WEIR_LOG_ERROR, "pool '%s': no event for a lease: %s", e->pool->name, e->gpu->code_text(code));
        free(lease);
        return false;
    }
    pthread_mutex_lock(&e->lock);
    client->leases[client->lease_count++] = lease;
    pthread_mutex_unlock(&e->lock);
    return true;
}

static struct share_lease *unassigned(const struct share_client *client)
{
    for (unsigned i = 0; i < client->lease_count; i++)
        if (!client->leases[i]->reader && client->leases[i]->state == SHARE_LEASE_IDLE)
            return client->leases[i];
    return NULL;
}

/* Takes an idle lease from a reader that has more than its limit. NULL: there is none. */
static struct share_lease *take_back(const struct share_client *client)
{
    for (unsigned i = 0; i < client->lease_count; i++) {
        struct share_lease *lease = client->leases[i];
        if (!lease->reader || lease->state != SHARE_LEASE_IDLE || lease->reader->assigned <= lease->reader->limit)
            continue;
        lease->reader->assigned--;
        lease->reader = NULL;
        return lease;
    }
    return NULL;
}

struct share_lease *share_lease_spare(struct share_client *client)
{
    struct share_lease *lease = unassigned(client);
    return lease ? lease : take_back(client);
}

unsigned share_reader_limit(const weir_ring *ring, uint32_t wanted)
{
    unsigned most = ring->depth - 1;
    return wanted && wanted < most ? wanted : most;
}

unsigned share_reader_leases(const weir_ring *ring, unsigned limit)
{
    unsigned most = ring->depth < WIRE_LEASES_MAX ? ring->depth : WIRE_LEASES_MAX - 1;
    if (ring->overflow == WEIR_OVERFLOW_DROP_OLDEST)
        return limit;
    return 2 * limit < most ? 2 * limit : most;
}

unsigned share_leases_assign(struct share_client *client, struct share_reader *reader, unsigned count)
{
    for (struct share_lease *lease; reader->assigned < count; reader->assigned++) {
        lease = reader->assigned < reader->limit ? share_lease_spare(client) : unassigned(client);
        if (!lease)
            break;
        lease->reader = reader;
    }
    return reader->assigned;
}

void share_leases_unassign(struct share_client *client, const struct share_reader *reader)
{
    for (unsigned i = 0; i < client->lease_count; i++)
        if (reader && client->leases[i]->reader == reader)
            client->leases[i]->reader = NULL;
}

/* The reader has released a frame, so it may get the next one. */
static void give_room(const struct share_client *client, struct share_reader *reader, uint64_t sequence)
{
    if (!reader)
        return;
    reader->leases--;
    if (reader->released < sequence)
        reader->released = sequence;
    if (client->state == SHARE_CLIENT_IMPORTER)
        share_ring_feed(reader);
}

void share_lease_await(struct share_client *client, struct share_lease *lease)
{
    WEIR__APPEND(client->releasing, lease, later);
    lease->state = SHARE_LEASE_RELEASING;
    client->e->waits_since = 0; /* 0 makes share_clients_poll() set the current time */
    give_room(client, lease->reader, lease->sequence);
}

void share_lease_end(struct share_client *client, struct share_lease *lease)
{
    struct share_block *block = lease->mapping->block;
    struct share_reader *reader = lease->reader;
    bool was_released = lease->state == SHARE_LEASE_RELEASING;
    WEIR__UNLINK(client->releasing, lease, later);
    lease->state = SHARE_LEASE_IDLE;
    lease->mapping->leases--;
    lease->mapping = NULL;
    block->leases--;
    share_block_released(client->e, block);
    if (!was_released)
        give_room(client, reader, lease->sequence);
    else if (reader && client->state == SHARE_CLIENT_IMPORTER)
        share_ring_feed(reader);
}
