/* SPDX-License-Identifier: MIT */
/* actor_export.c - what an actor does as an exporter. */
#include "config.h"

#include "tests/share/actor.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_TIMEOUT_MS 20000
#define SHARED_BYTES 1048576

static weir_status export_open(char **words)
{
    weir_pool *pool;
    weir_status status = weir_pool_get(actor.w, words[1], actor.device, &actor.error, &pool);
    if (status == WEIR_OK)
        status = weir_export_open(pool, &actor.error, &actor.e);
    return status;
}

/* The blocks are the export's from the publication on, so their names here are forgotten. */
static weir_status publish(char **words)
{
    struct block *block = actor_get(KIND_BLOCK, words[2]);
    weir_cuda_stream stream;
    weir_status status = actor_stream(words[3], &stream);
    if (!block || status != WEIR_OK)
        return block ? status : actor_fail(WEIR_NOT_FOUND, "actor: no block '%s'", words[2]);
    size_t size = actor_number(words[4]);
    const char *metadata = words[4] ? words[5] : NULL;
    status = weir_export_publish(actor.e, words[1], block->ptr, size, metadata, metadata ? strlen(metadata) : 0, stream, &actor.error);
    return status;
}

/* A new block, which is the export's at once, and so has no name here. */
static weir_status share(char **words)
{
    void *ptr;
    weir_cuda_stream stream;
    size_t size = words[4] ? actor_number(words[4]) : SHARED_BYTES;
    weir_status status = actor_stream(words[3], &stream);
    if (status != WEIR_OK)
        return status;
    status = weir_malloc(actor.w, &ptr, size, actor.device, stream);
    if (status != WEIR_OK) {
        weir_last_error(&actor.error);
        return status;
    }
    status = actor_fill(ptr, size, actor_number(words[2]), stream);
    if (status == WEIR_OK)
        status = weir_export_publish(actor.e, words[1], ptr, 0, NULL, 0, stream, &actor.error);
    if (status != WEIR_OK)
        weir_free(actor.w, ptr, stream);
    return status;
}

static weir_status forget(char **words)
{
    struct block *block = actor_get(KIND_BLOCK, words[1]);
    actor_set(KIND_BLOCK, words[1], NULL);
    free(block);
    return WEIR_OK;
}

static weir_status withdraw(char **words)
{
    return weir_export_withdraw(actor.e, words[1], &actor.error);
}

static weir_status evict(char **words)
{
    return weir_export_evict(actor.e, (int)actor_number(words[1]), &actor.error);
}

static weir_status info(char **words)
{
    (void)words;
    weir_export_info got = { .size = sizeof got };
    weir_status status = weir_export_get_info(actor.e, &got);
    actor_say(" epoch=%llu importers=%u hung=%u evicted=%u blocks=%llu leases=%llu mappings=%llu", (unsigned long long)got.epoch,
              got.importers, got.hung, got.evicted, (unsigned long long)got.blocks, (unsigned long long)got.leases,
              (unsigned long long)got.mappings);
    return status;
}

static weir_status export_close(char **words)
{
    weir_export_close(actor.e, (unsigned)actor_number(words[1]));
    actor.e = NULL;
    while (actor_next(KIND_RING))
        actor_set(KIND_RING, actor_next(KIND_RING), NULL);
    return WEIR_OK;
}

static weir_status trim(char **words)
{
    weir_pool *pool;
    uint64_t released;
    weir_status status = weir_pool_get(actor.w, words[1], actor.device, &actor.error, &pool);
    if (status == WEIR_OK)
        status = weir_pool_trim(pool, 0, &actor.error, &released);
    if (status == WEIR_OK)
        actor_say(" released=%llu", (unsigned long long)released);
    return status;
}

/* Rings -------------------------------------------------------------------------------------------------------------------------------- */

static weir_status ring_open(char **words)
{
    static const char *const policies[] = { "block", "drop_oldest", "fail" };
    weir_ring_options options = { .size = sizeof options, .slot_size = actor_number(words[2]), .depth = (unsigned)actor_number(words[3]) };
    weir_cuda_stream stream;
    weir_ring *ring;
    weir_status status = actor_stream(words[5], &stream);
    for (int i = 0; i < 3; i++)
        if (strcmp(words[4], policies[i]) == 0)
            options.overflow = (weir_overflow)i;
    if (status == WEIR_OK)
        status = weir_ring_open(actor.e, words[1], &options, stream, &actor.error, &ring);
    if (status == WEIR_OK)
        actor_set(KIND_RING, words[1], ring);
    return status;
}

static weir_status find_ring(const char *name, weir_ring **ring)
{
    *ring = actor_get(KIND_RING, name);
    return *ring ? WEIR_OK : actor_fail(WEIR_NOT_FOUND, "actor: no ring '%s'", name);
}

static weir_status ring_close(char **words)
{
    weir_ring *ring;
    weir_status status = find_ring(words[1], &ring);
    actor_set(KIND_RING, words[1], NULL);
    weir_ring_close(ring);
    return status;
}

static weir_status readers(char **words)
{
    weir_ring *ring;
    weir_status status = find_ring(words[1], &ring);
    if (status == WEIR_OK)
        actor_say(" readers=%u", weir_ring_readers(ring));
    return status;
}

static weir_status take(char **words)
{
    weir_ring *ring;
    weir_cuda_stream stream;
    struct block *slot = calloc(1, sizeof *slot);
    weir_status status = find_ring(words[1], &ring);
    if (status == WEIR_OK)
        status = actor_stream(words[5], &stream);
    if (status == WEIR_OK)
        status = weir_ring_take(ring, (unsigned)actor_number(words[4]), stream, &actor.error, &slot->ptr);
    if (status != WEIR_OK) {
        free(slot);
        return status;
    }
    slot->size = actor_number(words[3]);
    actor_set(KIND_BLOCK, words[2], slot);
    actor_say(" ptr=%p", slot->ptr);
    return WEIR_OK;
}

static weir_status give_slot(char **words, bool as_frame)
{
    weir_ring *ring;
    weir_cuda_stream stream;
    struct block *slot = actor_get(KIND_BLOCK, words[2]);
    weir_status status = find_ring(words[1], &ring);
    if (status == WEIR_OK)
        status = actor_stream(words[3], &stream);
    if (status == WEIR_OK && !slot)
        status = actor_fail(WEIR_NOT_FOUND, "actor: no slot '%s'", words[2]);
    if (status == WEIR_OK && as_frame)
        status = weir_ring_push(ring, slot->ptr, slot->size, words[4], words[4] ? strlen(words[4]) : 0, stream, &actor.error);
    else if (status == WEIR_OK)
        status = weir_ring_drop(ring, slot->ptr, stream, &actor.error);
    if (status == WEIR_OK) {
        actor_set(KIND_BLOCK, words[2], NULL);
        free(slot);
    }
    return status;
}

static weir_status push(char **words)
{
    return give_slot(words, true);
}

static weir_status drop(char **words)
{
    return give_slot(words, false);
}

weir_status actor_write_frame(weir_ring *ring, unsigned long long number, size_t size, unsigned timeout, weir_cuda_stream stream)
{
    void *ptr;
    weir_status status;
    while ((status = weir_ring_take(ring, timeout ? timeout : FRAME_TIMEOUT_MS, stream, NULL, &ptr)) == WEIR_BUSY)
        actor.gpu->pause(100000);
    if (status == WEIR_OK)
        status = actor_fill(ptr, size, number, stream);
    return status == WEIR_OK ? weir_ring_push(ring, ptr, size, NULL, 0, stream, &actor.error) : status;
}

/* Where all slots are leased it tries again. */
static weir_status write_frames(char **words)
{
    weir_ring *ring;
    weir_cuda_stream stream;
    unsigned long long first = actor_number(words[2]), count = actor_number(words[3]);
    weir_status status = find_ring(words[1], &ring);
    if (status == WEIR_OK)
        status = actor_stream(words[5], &stream);
    for (unsigned long long number = first; number < first + count && status == WEIR_OK; number++)
        status = actor_write_frame(ring, number, actor_number(words[4]), (unsigned)actor_number(words[6]), stream);
    return status;
}

const struct command actor_export_commands[] = {
    { "export", 1, "POOL", export_open },
    { "export_close", 1, "TIMEOUT", export_close },
    { "publish", 3, "NAME BLOCK STREAM [BYTES [METADATA]]", publish },
    { "share", 3, "NAME NUMBER STREAM [BYTES]: publishes a new block, of 1 MiB or so many bytes, with contents of that number", share },
    { "forget", 1, "BLOCK: it was published, and is the export's to free", forget },
    { "withdraw", 1, "NAME", withdraw },
    { "evict", 1, "PID", evict },
    { "info", 0, "who has what", info },
    { "trim", 1, "POOL", trim },
    { "ring", 5, "RING SLOT-BYTES DEPTH block|drop_oldest|fail STREAM", ring_open },
    { "ring_close", 1, "RING", ring_close },
    { "readers", 1, "RING", readers },
    { "take", 5, "RING SLOT BYTES TIMEOUT STREAM: a slot, of which so many bytes will be used", take },
    { "push", 3, "RING SLOT STREAM [METADATA]", push },
    { "drop", 3, "RING SLOT STREAM", drop },
    { "write", 5, "RING FIRST COUNT BYTES STREAM [TIMEOUT]: frames of numbers from the first on", write_frames },
    { NULL, 0, NULL, NULL },
};
