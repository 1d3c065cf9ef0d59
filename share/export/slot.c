/* SPDX-License-Identifier: MIT */
/*
 * slot.c - the producer's side of a ring: takes a slot, waiting for one if it must, and pushes it as a frame or drops it.
 */
#include "config.h"

#include "lib/base/call.h"
#include "share/base/order.h"
#include "share/base/wait.h"
#include "share/export/ring.h"
#include "share/export/serve.h"

/* Choosing a slot; the caller holds e->lock ------------------------------------------------------------------------------------------- */

/* Returns a free slot, or NULL. The slot of the newest frame is the last choice, since late readers can have that frame until its slot
   is taken. */
static struct share_block *free_slot(const weir_ring *ring)
{
    struct share_block *newest = NULL;
    for (unsigned i = 0; i < ring->depth; i++) {
        if (ring->slots[i]->slot != SHARE_SLOT_FREE)
            continue;
        if (ring->slots[i] != ring->newest)
            return ring->slots[i];
        newest = ring->slots[i];
    }
    return newest;
}

/* Whether the producer has taken all slots, so that no reader can free one. */
static bool are_all_taken(const weir_ring *ring)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < ring->depth; i++)
        taken += ring->slots[i]->slot == SHARE_SLOT_TAKEN;
    return taken == ring->depth;
}

static struct share_block *oldest_unleased(const weir_ring *ring)
{
    struct share_block *slot = ring->oldest;
    while (slot && slot->leases)
        slot = slot->later;
    return slot;
}

static void drop(weir_ring *ring, struct share_block *slot)
{
    share_ring_unqueue(ring, slot);
    slot->slot = SHARE_SLOT_FREE;
    ring->figures.dropped++;
}

static bool has_leased(const struct share_reader *reader, const struct share_block *slot)
{
    const struct share_client *client = reader->client;
    for (unsigned i = 0; i < client->lease_count; i++)
        if (client->leases[i]->reader == reader && client->leases[i]->mapping && client->leases[i]->mapping->block == slot)
            return true;
    return false;
}

/* Bit mask of the readers that have not got the frame or not released it. Hung readers do not count. */
static uint64_t find_slow(const weir_ring *ring, const struct share_block *slot)
{
    uint64_t slow = slot->awaited;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && !ring->readers[i]->is_hung && has_leased(ring->readers[i], slot))
            slow |= UINT64_C(1) << i;
    return slow;
}

/* Declares hung the readers that hold up the oldest frame, passing over frames that only hung readers hold. The producer waits for a
   hung reader no more; frames that it has leased stay leased. */
static void declare_hung(weir_ring *ring)
{
    uint64_t slow = 0;
    for (const struct share_block *slot = ring->oldest; slot && !slow; slot = slot->later)
        slow = find_slow(ring, slot);
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (slow & UINT64_C(1) << i) {
            struct share_reader *reader = ring->readers[i];
            reader->is_hung = true;
            ring->figures.hangs++;
            share_news_add(&ring->e->news, WEIR_LOG_WARNING,
                           "ring '%s': process %d (%s) keeps the producer waiting: it is not waited for until it calls weir_reader_next() "
                           "or releases a frame",
                           ring->name, (int)reader->client->process.pid, reader->client->name);
            weir__service_wake(&ring->e->job, 0);
            share_reader_skip(reader);
        }
}

/* Reads the messages of readers, then looks for a free slot. Releases e->lock for the reading. */
static struct share_block *hear_readers(weir_ring *ring, bool everything)
{
    pthread_mutex_unlock(&ring->e->lock);
    share_serve(ring->e, everything);
    pthread_mutex_lock(&ring->e->lock);
    return free_slot(ring);
}

/* Waits for a free slot until the deadline. Releases e->lock while it waits. At the end the messages are read once more, since another
   thread that served may have been late itself. */
static struct share_block *wait_for_slot(weir_ring *ring, uint64_t deadline)
{
    struct share_block *slot = NULL;
    uint64_t since = weir__service_now();
    while (!(slot = free_slot(ring)) && !are_all_taken(ring) && weir__service_now() < deadline)
        share_serve_wait(ring->e, since, deadline);
    return slot ? slot : hear_readers(ring, true);
}

/* Finds a slot that can be taken: a free one, or that of a frame to be dropped. Returns NULL if there is none in time. */
static struct share_block *find_slot(weir_ring *ring, unsigned timeout_ms)
{
    bool is_time = share_serve_begin(ring->e);
    struct share_block *slot = free_slot(ring);
    /* First read the messages of readers: they may have released frames, and then no frame needs to be dropped and the ring is not full. */
    if (!slot || is_time)
        slot = hear_readers(ring, !slot);
    if (!slot && ring->overflow == WEIR_OVERFLOW_DROP_OLDEST)
        slot = oldest_unleased(ring);
    if (!slot && ring->overflow == WEIR_OVERFLOW_BLOCK && timeout_ms)
        slot = wait_for_slot(ring, share_deadline(timeout_ms));
    return slot;
}

static weir_status no_slot(const weir_ring *ring, unsigned timeout_ms, weir_error *error)
{
    if (are_all_taken(ring))
        return weir__fail(error, WEIR_BUSY,
                          "ring '%s': all %u slots are taken, and neither pushed nor dropped: push or drop one, or give the ring more depth",
                          ring->name, ring->depth);
    if (ring->overflow == WEIR_OVERFLOW_BLOCK)
        return weir__fail(error, WEIR_TIMEOUT, "ring '%s': no slot of %u became free within %u ms: give readers more time, the ring more "
                                               "depth, or let it drop frames", ring->name, ring->depth, timeout_ms);
    return weir__fail(error, WEIR_BUSY,
                      "ring '%s': all %u slots are %s: give the ring more depth, or see with `weir leases` who holds them", ring->name,
                      ring->depth, ring->overflow == WEIR_OVERFLOW_FAIL ? "in use" : "leased or taken");
}

/* Takes a slot. Readers are declared hung only after find_slot() has read all messages that say otherwise. */
static weir_status take_slot(weir_ring *ring, unsigned timeout_ms, weir_error *error, struct share_block **taken)
{
    struct share_block *slot = find_slot(ring, timeout_ms);
    if (!slot && ring->overflow == WEIR_OVERFLOW_BLOCK && timeout_ms && !are_all_taken(ring)) {
        declare_hung(ring);
        slot = free_slot(ring);
    }
    if (!slot) {
        ring->figures.refused++;
        return no_slot(ring, timeout_ms, error);
    }
    if (slot->slot == SHARE_SLOT_QUEUED)
        drop(ring, slot);
    if (slot == ring->newest)
        ring->newest = NULL;
    slot->slot = SHARE_SLOT_TAKEN;
    *taken = slot;
    return WEIR_OK;
}

/* The public functions ----------------------------------------------------------------------------------------------------------------- */

weir_status(weir_ring_take)(weir_ring *ring, unsigned timeout_ms, weir_cuda_stream stream, weir_error *error, void **ptr)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!ring || !ptr)
        return weir__fail(error, WEIR_INVALID, "weir_ring_take: ring and ptr must not be NULL");
    weir_export *e = ring->e;
    struct share_block *slot = NULL;
    pthread_mutex_lock(&e->lock);
    weir_status status = take_slot(ring, timeout_ms, error, &slot);
    pthread_mutex_unlock(&e->lock);
    if (!slot)
        return status;
    /* The readers are done with the slot, as the host has seen. Its last writer may not be: a dropped frame was never waited for. */
    status = share_order(SHARE_ORDER_WAIT, e->gpu, e->device, stream, slot->ready, "weir_ring_take", error);
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

weir_status weir_ring_wait(weir_ring *ring, unsigned timeout_ms, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!ring)
        return weir__fail(error, WEIR_INVALID, "weir_ring_wait: ring must not be NULL");
    pthread_mutex_lock(&ring->e->lock);
    weir_status status = find_slot(ring, timeout_ms) ? WEIR_OK : no_slot(ring, timeout_ms, error);
    pthread_mutex_unlock(&ring->e->lock);
    return status;
}

/* Finds the taken slot at `ptr` and makes it LEAVING: only this thread may now push, drop or put it back. */
static weir_status claim(weir_ring *ring, const void *ptr, const char *function, weir_error *error, struct share_block **slot)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!ring || !ptr)
        return weir__fail(error, WEIR_INVALID, "%s: ring and ptr must not be NULL", function);
    pthread_mutex_lock(&ring->e->lock);
    for (unsigned i = 0; i < ring->depth && !*slot; i++)
        if (ring->slots[i]->ptr == ptr && ring->slots[i]->slot == SHARE_SLOT_TAKEN) {
            *slot = ring->slots[i];
            (*slot)->slot = SHARE_SLOT_LEAVING;
        }
    pthread_mutex_unlock(&ring->e->lock);
    if (!*slot)
        return weir__fail(error, WEIR_INVALID, "%s: %p is not a taken slot of ring '%s': pass the pointer that weir_ring_take() returned",
                          function, ptr, ring->name);
    return WEIR_OK;
}

/* The push or drop failed: the slot is taken again, so that the user may try again. */
static weir_status put_back(weir_ring *ring, struct share_block *slot, weir_status status)
{
    pthread_mutex_lock(&ring->e->lock);
    slot->slot = SHARE_SLOT_TAKEN;
    share_serve_stir(ring->e); /* the waiting producers check whether all slots are taken now */
    pthread_mutex_unlock(&ring->e->lock);
    return status;
}

static void queue(weir_ring *ring, struct share_block *slot)
{
    slot->sequence = ++ring->sequence;
    share_ring_queue(ring, slot);
    if (ring->late == WEIR_LATE_NEWEST)
        ring->newest = slot;
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (ring->readers[i] && !ring->readers[i]->is_hung)
            slot->awaited |= UINT64_C(1) << i;
    ring->figures.pushed++;
    ring->figures.bytes += slot->size;
    uint64_t lag = share_ring_lag(ring);
    if (ring->figures.lag_high < lag)
        ring->figures.lag_high = lag;
}

weir_status(weir_ring_push)(weir_ring *ring, void *ptr, size_t size, const void *metadata, size_t metadata_size, weir_cuda_stream stream,
                            weir_error *error)
{
    WEIR__CALL;
    struct share_block *slot = NULL;
    struct share_content content = { size, metadata, metadata_size };
    weir_status status = claim(ring, ptr, "weir_ring_push", error, &slot);
    if (!slot)
        return status;
    status = share_content_check(slot, &content, "weir_ring_push", error);
    if (status == WEIR_OK)
        status = share_block_record(ring->e, slot, stream, "weir_ring_push", error);
    if (status != WEIR_OK)
        return put_back(ring, slot, status);
    pthread_mutex_lock(&ring->e->lock);
    share_block_describe(slot, &content);
    queue(ring, slot);
    for (unsigned i = 0; i < SHARE_READERS_MAX; i++)
        if (slot->awaited & UINT64_C(1) << i)
            share_ring_feed(ring->readers[i]);
    bool is_awaited = slot->awaited;
    if (is_awaited)
        share_serve_begin(ring->e);
    share_slot_reclaim(ring, slot);
    pthread_mutex_unlock(&ring->e->lock);
    /* A reader may have released frames whose RELEASE nobody has read yet. */
    if (is_awaited)
        share_serve(ring->e, false);
    return WEIR_OK;
}

weir_status(weir_ring_drop)(weir_ring *ring, void *ptr, weir_cuda_stream stream, weir_error *error)
{
    WEIR__CALL;
    struct share_block *slot = NULL;
    weir_status status = claim(ring, ptr, "weir_ring_drop", error, &slot);
    if (!slot)
        return status;
    status = share_block_record(ring->e, slot, stream, "weir_ring_drop", error);
    if (status != WEIR_OK)
        return put_back(ring, slot, status);
    pthread_mutex_lock(&ring->e->lock);
    slot->slot = SHARE_SLOT_FREE;
    share_serve_stir(ring->e);
    pthread_mutex_unlock(&ring->e->lock);
    return WEIR_OK;
}
