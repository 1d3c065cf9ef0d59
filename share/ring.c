/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/sized.h"
#include "share/order.h"
#include "share/serve.h"
#include "share/wait.h"

/* Readers, with the lock ----------------------------------------------------------------------------------------------------------------- */

weir_ring *share_ring_find(weir_export *e, const char *name)
{
    weir_ring *ring = e->rings;
    while (ring && (ring->is_closed || strcmp(ring->name, name) != 0))
        ring = ring->next;
    return ring;
}

bool share_ring_join(weir_ring *ring, struct share_reader *reader)
{
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (!ring->readers[i]) {
            ring->readers[i] = reader;
            reader->ring = ring;
            reader->index = i;
            return true;
        }
    return false;
}

/* The reader waits for nothing that is queued. */
static void give_up(struct share_reader *reader)
{
    weir_ring *ring = reader->ring;
    for (struct share_block *slot = ring->oldest, *later; slot; slot = later) {
        later = slot->later;
        slot->awaited &= ~(UINT64_C(1) << reader->index);
        share_ring_settle(ring, slot);
    }
}

void share_ring_leave(struct share_reader *reader)
{
    if (!reader->ring)
        return;
    give_up(reader);
    reader->ring->readers[reader->index] = NULL;
    if (reader->ring->is_closed)
        weir__service_wake(&reader->ring->e->job, 0);
    reader->ring = NULL;
}

/* One of its lease numbers that it does not use. */
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

/* Slots, with the lock ------------------------------------------------------------------------------------------------------------------- */

static void unqueue(weir_ring *ring, struct share_block *slot)
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

void share_ring_settle(weir_ring *ring, struct share_block *slot)
{
    if (slot->slot != SHARE_SLOT_QUEUED || slot->awaited || slot->leases)
        return;
    unqueue(ring, slot);
    slot->slot = SHARE_SLOT_FREE;
    share_serve_stir(ring->e);
}

static struct share_block *free_slot(const weir_ring *ring)
{
    for (unsigned i = 0; i < ring->depth; i++)
        if (ring->slots[i]->slot == SHARE_SLOT_FREE)
            return ring->slots[i];
    return NULL;
}

static struct share_block *drop_oldest(weir_ring *ring)
{
    struct share_block *slot = ring->oldest;
    while (slot && slot->leases)
        slot = slot->later;
    if (slot) {
        unqueue(ring, slot);
        slot->slot = SHARE_SLOT_FREE;
    }
    return slot;
}

static bool has_leased(const struct share_reader *reader, const struct share_block *slot)
{
    const struct share_client *client = reader->client;
    for (unsigned i = 0; i < client->lease_count; i++)
        if (client->leases[i]->reader == reader && client->leases[i]->mapping && client->leases[i]->mapping->block == slot)
            return true;
    return false;
}

/* The readers that the frame waits for, to get it or to release it; hung ones are not waited for. */
static uint64_t find_slow(const weir_ring *ring, const struct share_block *slot)
{
    uint64_t slow = slot->awaited;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && !ring->readers[i]->is_hung && has_leased(ring->readers[i], slot))
            slow |= UINT64_C(1) << i;
    return slow;
}

/* Who holds up the oldest frame that is not only a hung reader's is waited for no more. What it has leased stays leased. */
static void declare_hung(weir_ring *ring)
{
    uint64_t slow = 0;
    for (const struct share_block *slot = ring->oldest; slot && !slow; slot = slot->later)
        slow = find_slow(ring, slot);
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (slow & UINT64_C(1) << i) {
            struct share_reader *reader = ring->readers[i];
            reader->is_hung = true;
            share_news_add(&ring->e->news, WEIR_LOG_WARNING,
                           "ring '%s': process %d (%s) keeps the producer waiting: it is not waited for until it says something",
                           ring->name, (int)reader->client->process.pid, reader->client->name);
            weir__service_wake(&ring->e->job, 0);
            give_up(reader);
        }
}

/* Reads what readers have said. The lock is let go meanwhile. */
static struct share_block *hear_readers(weir_ring *ring, bool everything)
{
    pthread_mutex_unlock(&ring->e->lock);
    share_serve(ring->e, everything);
    pthread_mutex_lock(&ring->e->lock);
    return free_slot(ring);
}

/* Waits for a free slot until the deadline, the lock let go meanwhile. Nobody is called hung who has said by then that it is not: what has
   come since is read here, since whoever else could have may be late itself. */
static struct share_block *wait_for_slot(weir_ring *ring, uint64_t deadline)
{
    struct share_block *slot = NULL;
    uint64_t since = weir__service_now();
    while (!(slot = free_slot(ring)) && weir__service_now() < deadline)
        share_serve_wait(ring->e, since, deadline);
    if (slot || (slot = hear_readers(ring, true)))
        return slot;
    declare_hung(ring);
    return free_slot(ring);
}

static weir_status choose_slot(weir_ring *ring, unsigned timeout_ms, weir_error *error, struct share_block **slot)
{
    bool is_time = share_serve_begin(ring->e);
    *slot = free_slot(ring);
    /* A frame that a reader would have by now, had it been heard, is not dropped, and a ring is not full of what was released. */
    if (!*slot || is_time)
        *slot = hear_readers(ring, !*slot);
    if (!*slot && ring->overflow == WEIR_OVERFLOW_DROP_OLDEST)
        *slot = drop_oldest(ring);
    if (!*slot && ring->overflow == WEIR_OVERFLOW_BLOCK && timeout_ms)
        *slot = wait_for_slot(ring, share_deadline(timeout_ms));
    if (*slot)
        return WEIR_OK;
    if (ring->overflow == WEIR_OVERFLOW_BLOCK)
        return weir__fail(error, WEIR_TIMEOUT, "ring '%s': no slot of %u became free within %u ms: give readers more time, the ring more "
                                               "depth, or let it drop frames", ring->name, ring->depth, timeout_ms);
    return weir__fail(error, WEIR_BUSY,
                      "ring '%s': all %u slots are %s: give the ring more depth, or see with `weir leases` who holds them", ring->name,
                      ring->depth, ring->overflow == WEIR_OVERFLOW_FAIL ? "in use" : "leased");
}

/* The public functions ------------------------------------------------------------------------------------------------------------------- */

static weir_status check_ring(const weir_export *e, const char *name, const weir_ring_options *options, weir_error *error)
{
    if (!wire_is_name(name))
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: '%s' cannot be a name: use 1 to 63 letters, digits, '_', '-' and '.'",
                          name);
    if (options->depth < 2 || options->depth > WIRE_LEASES_MAX)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: a depth of %u: a ring has 2 to %d slots", options->depth, WIRE_LEASES_MAX);
    if (options->overflow < WEIR_OVERFLOW_BLOCK || options->overflow > WEIR_OVERFLOW_FAIL)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: %d is no weir_overflow", (int)options->overflow);
    uint64_t max = weir__pool_max_block(e->pool);
    if (options->slot_size == 0 || options->slot_size > max)
        return weir__fail(error, WEIR_INVALID, "weir_ring_open: slots of %zu bytes: pools.%s.ipc_max_block allows 1 to %llu",
                          options->slot_size, e->pool->name, (unsigned long long)max);
    return WEIR_OK;
}

/* The slots that there are are freed; `stream`: where they were allocated. */
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
        /* Whoever frees it, or takes it, waits until it was allocated. */
        status = share_block_record(e, ring->slots[i], stream, "weir_ring_open", error);
        if (status != WEIR_OK)
            return status;
        snprintf(ring->slots[i]->name, WIRE_NAME_SIZE, "%s", ring->name);
        ring->slots[i]->ring = ring;
    }
    return WEIR_OK;
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
        for (unsigned i = 0; i < ring->depth; i++)
            share_block_add(e, ring->slots[i]);
    }
    pthread_mutex_unlock(&e->lock);
    return is_free ? WEIR_OK : fail_published(ring->name, error);
}

weir_status(weir_ring_open)(weir_export *e, const char *name, const weir_ring_options *given, weir_cuda_stream stream, weir_error *error,
                            weir_ring **out)
{
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
    status = share_order_check(e->gpu, e->device, stream, "weir_ring_open", error);
    if (status != WEIR_OK)
        return status;
    /* Looked for again when it is listed: this is so that no slots are allocated in vain. */
    pthread_mutex_lock(&e->lock);
    bool is_published = share_ring_find(e, name) || share_block_find(e, name);
    pthread_mutex_unlock(&e->lock);
    if (is_published)
        return fail_published(name, error);
    weir_ring *ring = calloc(1, sizeof *ring + options.depth * sizeof ring->slots[0]);
    if (!ring)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a ring of %u slots", options.depth);
    ring->e = e;
    snprintf(ring->name, sizeof ring->name, "%s", name);
    ring->depth = options.depth;
    ring->slot_size = options.slot_size;
    ring->overflow = options.overflow;
    ring->latest = &ring->oldest;
    status = new_slots(ring, stream, error);
    if (status == WEIR_OK)
        status = list_ring(ring, error);
    if (status != WEIR_OK) {
        free_slots(ring);
        free(ring);
        return status;
    }
    *out = ring;
    return WEIR_OK;
}

/* Frees the ring: no reader has it any more. With the lock. */
static void end_ring(weir_ring *ring)
{
    weir_export *e = ring->e;
    weir_ring **link = &e->rings;
    while (*link != ring)
        link = &(*link)->next;
    *link = ring->next;
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

static void tell_end(struct share_reader *reader)
{
    struct wire_message message = { .type = WIRE_ENDED, .u.ended.ring = reader->number };
    share_ring_leave(reader);
    reader->is_ended = share_client_send(reader->client, &message, -1) != SHARE_DONE;
    if (!reader->is_ended)
        share_reader_leave(reader);
}

/* Slots that nobody needs are withdrawn, readers that have got every frame are told, and the ring goes with the last of them. With the
 * lock. */
static void wind_up(weir_ring *ring, bool at_once)
{
    bool has_readers = false;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && (at_once || !is_awaiting(ring->readers[i])))
            tell_end(ring->readers[i]);
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
    if (!ring || weir__is_forked())
        return;
    weir_export *e = ring->e;
    pthread_mutex_lock(&e->lock);
    ring->is_closed = true;
    wind_up(ring, false);
    pthread_mutex_unlock(&e->lock);
}

weir_status(weir_ring_take)(weir_ring *ring, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error, void **ptr)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!ring || !ptr)
        return weir__fail(error, WEIR_INVALID, "weir_ring_take: ring and ptr must not be NULL");
    weir_export *e = ring->e;
    struct share_block *slot = NULL;
    pthread_mutex_lock(&e->lock);
    weir_status status = choose_slot(ring, timeout_ms, error, &slot);
    if (status == WEIR_OK)
        slot->slot = SHARE_SLOT_TAKEN;
    pthread_mutex_unlock(&e->lock);
    if (status != WEIR_OK)
        return status;
    /* Readers are done with it, as the host has seen. What wrote it before, or allocated it, may have been dropped unread. */
    status = share_order_wait(e->gpu, e->device, stream, slot->ready, "weir_ring_take", error);
    if (status != WEIR_OK) {
        pthread_mutex_lock(&e->lock);
        slot->slot = SHARE_SLOT_FREE;
        share_serve_stir(e);
        pthread_mutex_unlock(&e->lock);
        return status;
    }
    *ptr = slot->ptr;
    return WEIR_OK;
}

/* The slot that the user took, or NULL. Its state is the user's to change, so no lock is needed to look at it. */
static struct share_block *taken_slot(const weir_ring *ring, const void *ptr)
{
    for (unsigned i = 0; i < ring->depth; i++)
        if (ring->slots[i]->ptr == ptr)
            return ring->slots[i]->slot == SHARE_SLOT_TAKEN ? ring->slots[i] : NULL;
    return NULL;
}

static weir_status check_taken(weir_ring *ring, const void *ptr, const char *function, weir_error *error, struct share_block **slot)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!ring || !ptr)
        return weir__fail(error, WEIR_INVALID, "%s: ring and ptr must not be NULL", function);
    pthread_mutex_lock(&ring->e->lock);
    *slot = taken_slot(ring, ptr);
    pthread_mutex_unlock(&ring->e->lock);
    if (!*slot)
        return weir__fail(error, WEIR_INVALID, "%s: %p is no slot of ring '%s' that was taken: use what weir_ring_take() gave", function,
                          ptr, ring->name);
    return WEIR_OK;
}

static void queue(weir_ring *ring, struct share_block *slot)
{
    slot->slot = SHARE_SLOT_QUEUED;
    slot->sequence = ++ring->sequence;
    slot->later = NULL;
    *ring->latest = slot;
    ring->latest = &slot->later;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && !ring->readers[i]->is_hung)
            slot->awaited |= UINT64_C(1) << i;
}

weir_status(weir_ring_push)(weir_ring *ring, void *ptr, size_t size, const void *metadata, size_t metadata_size, weir_cuda_stream stream,
                            weir_error *error)
{
    struct share_block *slot = NULL;
    weir_status status = check_taken(ring, ptr, "weir_ring_push", error, &slot);
    if (!slot)
        return status;
    status = share_check_publication(slot, "weir_ring_push", size, metadata, metadata_size, error);
    if (status == WEIR_OK)
        status = share_block_record(ring->e, slot, stream, "weir_ring_push", error);
    if (status != WEIR_OK)
        return status;
    share_block_describe(slot, size, metadata, metadata_size);
    pthread_mutex_lock(&ring->e->lock);
    queue(ring, slot);
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (slot->awaited & UINT64_C(1) << i)
            share_ring_feed(ring->readers[i]);
    bool is_awaited = slot->awaited;
    if (is_awaited)
        share_serve_begin(ring->e);
    share_ring_settle(ring, slot);
    pthread_mutex_unlock(&ring->e->lock);
    /* What a reader had may have been released, and that not been heard yet. */
    if (is_awaited)
        share_serve(ring->e, false);
    return WEIR_OK;
}

weir_status(weir_ring_drop)(weir_ring *ring, void *ptr, weir_cuda_stream stream, weir_error *error)
{
    struct share_block *slot = NULL;
    weir_status status = check_taken(ring, ptr, "weir_ring_drop", error, &slot);
    if (!slot)
        return status;
    status = share_block_record(ring->e, slot, stream, "weir_ring_drop", error);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&ring->e->lock);
    slot->slot = SHARE_SLOT_FREE;
    share_serve_stir(ring->e);
    pthread_mutex_unlock(&ring->e->lock);
    return WEIR_OK;
}

unsigned weir_ring_readers(weir_ring *ring)
{
    unsigned count = 0;
    if (!ring || weir__is_forked())
        return 0;
    pthread_mutex_lock(&ring->e->lock);
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        count += ring->readers[i] != NULL;
    pthread_mutex_unlock(&ring->e->lock);
    return count;
}
