/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/sized.h"
#include "lib/base/call.h"
#include "lib/base/list.h"
#include "share/base/order.h"
#include "share/base/wait.h"

/* Readers; the caller holds e->lock --------------------------------------------------------------------------------------------------- */

weir_ring *share_ring_find(weir_export *e, const char *name)
{
    weir_ring *ring = e->rings;
    while (ring && (ring->is_closed || strcmp(ring->name, name) != 0))
        ring = ring->next;
    return ring;
}

/* Gives a late reader the newest frame, if its slot still has it: the frame waits for the reader as if the reader had joined before the
   push. */
static void offer_newest(weir_ring *ring, struct share_reader *reader)
{
    struct share_block *slot = ring->newest;
    if (!slot)
        return;
    if (slot->slot == SHARE_SLOT_FREE)
        share_ring_queue(ring, slot);
    slot->awaited |= UINT64_C(1) << reader->index;
    reader->released = slot->sequence - 1;
}

bool share_ring_join(weir_ring *ring, struct share_reader *reader)
{
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (!ring->readers[i]) {
            ring->readers[i] = reader;
            reader->ring = ring;
            reader->index = i;
            reader->released = ring->sequence;
            offer_newest(ring, reader);
            return true;
        }
    return false;
}

void share_reader_skip(struct share_reader *reader)
{
    weir_ring *ring = reader->ring;
    for (struct share_block *slot = ring->oldest, *later; slot; slot = later) {
        later = slot->later;
        slot->awaited &= ~(UINT64_C(1) << reader->index);
        share_slot_reclaim(ring, slot);
    }
}

void share_ring_leave(struct share_reader *reader)
{
    if (!reader->ring)
        return;
    share_reader_skip(reader);
    reader->ring->readers[reader->index] = NULL;
    if (reader->ring->is_closed)
        weir__service_wake(&reader->ring->e->job, 0);
    reader->ring = NULL;
}

uint64_t share_ring_lag(const weir_ring *ring)
{
    uint64_t lag = 0;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && ring->sequence - ring->readers[i]->released > lag)
            lag = ring->sequence - ring->readers[i]->released;
    return lag;
}

/* Returns an idle lease that is assigned to the reader, or NULL. */
static struct share_lease *idle_lease(const struct share_reader *reader)
{
    struct share_client *client = reader->client;
    for (unsigned i = 0; i < client->lease_count; i++)
        if (client->leases[i]->reader == reader && client->leases[i]->state == SHARE_LEASE_IDLE)
            return client->leases[i];
    return NULL;
}

void share_ring_feed(struct share_reader *reader)
{
    uint64_t bit = UINT64_C(1) << reader->index;
    if (!reader->ring)
        return;
    for (struct share_block *slot = reader->ring->oldest; slot && reader->leases < reader->limit; slot = slot->later) {
        struct share_lease *lease = slot->awaited & bit ? idle_lease(reader) : NULL;
        if (!lease)
            continue;
        if (share_client_grant(reader->client, slot, lease, 0) != SHARE_DONE)
            return;
        slot->awaited &= ~bit;
        reader->leases++;
    }
}

/* Slots; the caller holds e->lock ----------------------------------------------------------------------------------------------------- */

void share_ring_queue(weir_ring *ring, struct share_block *slot)
{
    slot->slot = SHARE_SLOT_QUEUED;
    slot->later = NULL;
    *ring->latest = slot;
    ring->latest = &slot->later;
}

void share_ring_unqueue(weir_ring *ring, struct share_block *slot)
{
    struct share_block **link = &ring->oldest;
    while (*link != slot)
        link = &(*link)->later;
    *link = slot->later;
    if (!slot->later)
        ring->latest = link;
    slot->later = NULL;
    slot->awaited = 0;
}

void share_slot_reclaim(weir_ring *ring, struct share_block *slot)
{
    if (slot->slot != SHARE_SLOT_QUEUED || slot->awaited || slot->leases)
        return;
    share_ring_unqueue(ring, slot);
    slot->slot = SHARE_SLOT_FREE;
    share_serve_stir(ring->e);
}

/* The public functions ----------------------------------------------------------------------------------------------------------------- */

static weir_status check_ring(const weir_export *e, const char *name, const weir_ring_options *options, weir_error *error)
{
    if (!wire_is_name(name))
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: '%s' cannot be a name: use 1 to 63 letters, digits, '_', '-' and '.'",
                          name);
    if (options->depth < 2 || options->depth > WIRE_LEASES_MAX)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: a depth of %u: a ring has 2 to %d slots", options->depth, WIRE_LEASES_MAX);
    if (options->overflow < WEIR_OVERFLOW_BLOCK || options->overflow > WEIR_OVERFLOW_FAIL)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: %d is no weir_overflow", (int)options->overflow);
    if (options->late < WEIR_LATE_DEFAULT || options->late > WEIR_LATE_NEWEST)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: %d is no weir_late", (int)options->late);
    if (options->reserved)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: `reserved` is %u: set it to 0", options->reserved);
    uint64_t max = weir__pool_max_block(e->pool);
    if (options->slot_size == 0 || options->slot_size > max)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: slots of %zu bytes: pools.%s.ipc_max_block allows 1 to %llu",
                          options->slot_size, e->pool->name, (unsigned long long)max);
    return WEIR_OK;
}

/* Frees the slots that were made. */
static void free_slots(weir_ring *ring)
{
    for (unsigned i = 0; i < ring->depth && ring->slots[i]; i++)
        share_block_free(ring->e, ring->slots[i], true);
}

static weir_status new_slots(weir_ring *ring, gpu_stream stream, weir_error *error)
{
    weir_export *e = ring->e;
    for (unsigned i = 0; i < ring->depth; i++) {
        void *ptr;
        weir_status status = (weir_pool_malloc)(e->pool, &ptr, ring->slot_size, stream);
        if (status != WEIR_OK) {
            weir_error why;
            weir_last_error(&why);
            return weir__fail(error, status, "slot %u of ring '%s': %s", i + 1, ring->name, why.text);
        }
        status = share_block_new(e, ptr, error, &ring->slots[i]);
        if (status != WEIR_OK) {
            (weir_free)(e->w, ptr, stream);
            return status;
        }
        /* The event makes a later take or free of the slot wait for the allocation. */
        status = share_block_record(e, ring->slots[i], stream, "weir_ring_open", error);
        if (status != WEIR_OK)
            return status;
        snprintf(ring->slots[i]->name, WIRE_NAME_SIZE, "%s", ring->name);
        ring->slots[i]->ring = ring;
    }
    return WEIR_OK;
}

/* Frees a ring that was not listed, with its slots; does nothing for NULL. As a clean-up function it also runs when a callback throws
   while a slot is allocated. */
static void drop_ring(weir_ring **ring)
{
    if (!*ring)
        return;
    free_slots(*ring);
    free(*ring);
}

static weir_status fail_published(const char *name, weir_error *error)
{
    return weir__fail(error, WEIR_BUSY, "weir_ring_open: '%s' is published already: withdraw it first", name);
}

static weir_status list_ring(weir_ring *ring, weir_error *error)
{
    weir_export *e = ring->e;
    pthread_mutex_lock(&e->lock);
    bool is_free = !share_ring_find(e, ring->name) && !share_block_find(e, ring->name);
    if (is_free) {
        ring->id = ++e->last_ring;
        ring->next = e->rings;
        e->rings = ring;
        uint64_t publication = share_publication_new(e);
        for (unsigned i = 0; i < ring->depth; i++)
            share_block_add(e, ring->slots[i], publication, i);
    }
    pthread_mutex_unlock(&e->lock);
    return is_free ? WEIR_OK : fail_published(ring->name, error);
}

weir_status(weir_ring_open)(weir_export *e, const char *name, const weir_ring_options *given, weir_cuda_stream stream, weir_error *error,
                            weir_ring **out)
{
    WEIR__CALL;
    weir_ring_options options;
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    if (!e || !name || !given || !out)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: e, name, options and ring must not be NULL");
    status = weir__sized_read(given, "weir_ring_options", &options, sizeof options, error);
    if (status == WEIR_OK)
        status = check_ring(e, name, &options, error);
    if (status != WEIR_OK)
        return status;
    status = share_order(SHARE_ORDER_CHECK, e->gpu, e->device, stream, NULL, "weir_ring_open", error);
    if (status != WEIR_OK)
        return status;
    /* An early check, so that no slots are allocated in vain. list_ring() checks again. */
    pthread_mutex_lock(&e->lock);
    bool is_published = share_ring_find(e, name) || share_block_find(e, name);
    pthread_mutex_unlock(&e->lock);
    if (is_published)
        return fail_published(name, error);
    weir_ring *ring __attribute__((cleanup(drop_ring))) = calloc(1, sizeof *ring + options.depth * sizeof ring->slots[0]);
    if (!ring)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a ring of %u slots", options.depth);
    ring->e = e;
    snprintf(ring->name, sizeof ring->name, "%s", name);
    ring->depth = options.depth;
    ring->slot_size = options.slot_size;
    ring->overflow = options.overflow;
    ring->late = options.late;
    if (ring->late == WEIR_LATE_DEFAULT)
        ring->late = ring->overflow == WEIR_OVERFLOW_DROP_OLDEST ? WEIR_LATE_NEWEST : WEIR_LATE_NEXT;
    ring->latest = &ring->oldest;
    status = new_slots(ring, stream, error);
    if (status == WEIR_OK)
        status = list_ring(ring, error);
    if (status == WEIR_OK) {
        *out = ring;
        ring = NULL;
    }
    return status;
}

/* Frees the ring, which has no readers. The caller holds e->lock. */
static void end_ring(weir_ring *ring)
{
    weir_export *e = ring->e;
    WEIR__UNLINK(e->rings, ring, next);
    share_figures_add(&e->figures, &ring->figures);
    for (unsigned i = 0; i < ring->depth; i++)
        if (ring->slots[i])
            share_block_withdraw(e, ring->slots[i]);
    free(ring);
}

static bool is_awaiting(const struct share_reader *reader)
{
    for (const struct share_block *slot = reader->ring->oldest; slot; slot = slot->later)
        if (slot->awaited & UINT64_C(1) << reader->index)
            return true;
    return false;
}

/* Withdraws the slots that nobody needs, sends ENDED to the readers that have got every frame, and frees the ring once no reader is
   left. The caller holds e->lock. */
static void wind_up(weir_ring *ring, bool at_once)
{
    bool has_readers = false;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && (at_once || !is_awaiting(ring->readers[i])))
            share_reader_end(ring->readers[i]);
        else
            has_readers = has_readers || ring->readers[i];
    for (unsigned i = 0; i < ring->depth; i++)
        if (ring->slots[i] && ring->slots[i]->slot != SHARE_SLOT_QUEUED) {
            share_block_withdraw(ring->e, ring->slots[i]);
            ring->slots[i] = NULL;
        }
    if (!has_readers)
        end_ring(ring);
}

void share_rings_wind_up(weir_export *e, bool at_once)
{
    for (weir_ring *ring = e->rings, *next; ring; ring = next) {
        next = ring->next;
        if (ring->is_closed || at_once)
            wind_up(ring, at_once);
    }
}

void weir_ring_close(weir_ring *ring)
{
    WEIR__CALL;
    if (!ring || weir__is_forked())
        return;
    weir_export *e = ring->e;
    pthread_mutex_lock(&e->lock);
    ring->is_closed = true;
    wind_up(ring, false);
    pthread_mutex_unlock(&e->lock);
}

unsigned weir_ring_readers(weir_ring *ring)
{
    WEIR__CALL;
    unsigned count = 0;
    if (!ring || weir__is_forked())
        return 0;
    pthread_mutex_lock(&ring->e->lock);
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        count += ring->readers[i] != NULL;
    pthread_mutex_unlock(&ring->e->lock);
    return count;
}
