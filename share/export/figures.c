/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/call.h"
#include "lib/base/sized.h"
#include "share/export/ring.h"

void share_figures_add(struct share_figures *sum, const struct share_figures *more)
{
    sum->pushed += more->pushed;
    sum->bytes += more->bytes;
    sum->dropped += more->dropped;
    sum->refused += more->refused;
    sum->hangs += more->hangs;
    sum->leases_given += more->leases_given;
    if (sum->lag_high < more->lag_high)
        sum->lag_high = more->lag_high;
}

/* A ring ------------------------------------------------------------------------------------------------------------------------------- */

static void count_readers(const weir_ring *ring, weir_ring_info *info)
{
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i]) {
            info->readers++;
            info->hung += ring->readers[i]->is_hung;
        }
}

static void count_slots(const weir_ring *ring, weir_ring_info *info)
{
    for (unsigned i = 0; i < ring->depth; i++) {
        info->taken += ring->slots[i]->slot == SHARE_SLOT_TAKEN || ring->slots[i]->slot == SHARE_SLOT_LEAVING;
        info->queued += ring->slots[i]->slot == SHARE_SLOT_QUEUED;
    }
}

void share_ring_figures(const weir_ring *ring, weir_ring_info *info)
{
    *info = (weir_ring_info){
        .size = sizeof *info,
        .slot_size = ring->slot_size,
        .depth = ring->depth,
        .overflow = ring->overflow,
        .pushed = ring->figures.pushed,
        .bytes = ring->figures.bytes,
        .dropped = ring->figures.dropped,
        .refused = ring->figures.refused,
        .hangs = ring->figures.hangs,
        .leases_given = ring->figures.leases_given,
        .lag = share_ring_lag(ring),
        .lag_high = ring->figures.lag_high,
    };
    count_readers(ring, info);
    count_slots(ring, info);
}

weir_status weir_ring_get_info(weir_ring *ring, weir_ring_info *info)
{
    WEIR__CALL;
    if (weir__is_forked())
        return WEIR_FORKED;
    if (!ring || !info || weir__sized_check(info, "weir_ring_info", NULL) != WEIR_OK)
        return WEIR_INVALID;
    weir_ring_info now;
    pthread_mutex_lock(&ring->e->lock);
    share_ring_figures(ring, &now);
    pthread_mutex_unlock(&ring->e->lock);
    weir__sized_write(info, &now, sizeof now);
    return WEIR_OK;
}

/* An export ---------------------------------------------------------------------------------------------------------------------------- */

static void count_client(const struct share_client *client, weir_export_info *info)
{
    unsigned leases = 0, mappings = 0;
    share_client_count(client, &leases, &mappings);
    info->importers++;
    info->leases += leases;
    info->mappings += mappings;
    info->hung += client->connection.fd >= 0 && share_client_is_hung(client);
    info->evicted += client->connection.fd < 0;
}

static void count_rings(const weir_export *e, weir_export_info *info)
{
    struct share_figures sum = e->figures;
    for (const weir_ring *ring = e->rings; ring; ring = ring->next) {
        uint64_t lag = share_ring_lag(ring);
        share_figures_add(&sum, &ring->figures);
        info->lag = lag > info->lag ? lag : info->lag;
    }
    info->pushed = sum.pushed;
    info->bytes = sum.bytes;
    info->dropped = sum.dropped;
    info->refused = sum.refused;
    info->hangs = sum.hangs;
    info->leases_given = sum.leases_given;
    info->lag_high = sum.lag_high;
}

void share_export_figures(const weir_export *e, weir_export_info *info)
{
    *info = (weir_export_info){ .size = sizeof *info, .epoch = e->epoch, .evictions = e->evictions };
    for (const struct share_block *block = e->blocks; block; block = block->next)
        info->blocks++;
    for (const struct share_client *client = e->clients; client; client = client->next)
        if (client->has_pool)
            count_client(client, info);
    count_rings(e, info);
}

weir_status weir_export_get_info(weir_export *e, weir_export_info *info)
{
    WEIR__CALL;
    if (weir__is_forked())
        return WEIR_FORKED;
    if (!e || !info || weir__sized_check(info, "weir_export_info", NULL) != WEIR_OK)
        return WEIR_INVALID;
    weir_export_info now;
    pthread_mutex_lock(&e->lock);
    share_export_figures(e, &now);
    pthread_mutex_unlock(&e->lock);
    weir__sized_write(info, &now, sizeof now);
    return WEIR_OK;
}
