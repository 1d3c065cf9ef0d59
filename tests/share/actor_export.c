/* SPDX-License-Identifier: MIT */
/* actor_export.c - what an actor does as an exporter. */
#include "config.h"

#include "include/weir_sleep.h"
#include "tests/share/actor.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_TIMEOUT_MS 20000
#define SHARED_BYTES 1048576

static weir_status export_open(void)
{
    weir_pool *pool;
    weir_status status = weir_pool_get(actor.w, actor.words[1], actor.device, &actor.error, &pool);
    if (status == WEIR_OK)
        status = weir_export_open(pool, &actor.error, &actor.e);
    return status;
}

/* The blocks are the export's from the publication on, so their names here are forgotten. */
static weir_status publish(void)
{
    const struct block *block = actor_get(KIND_BLOCK, actor.words[2]);
    size_t size = actor_number(actor.words[4]);
    const char *metadata = actor.words[4] ? actor.words[5] : NULL;
    if (!block)
        return actor_fail(WEIR_NOT_FOUND, "actor: no block '%s'", actor.words[2]);
    return weir_export_publish(actor.e, actor.words[1], block->ptr, size, metadata, metadata ? strlen(metadata) : 0, actor.stream,
                               &actor.error);
}

/* A new block, which is the export's at once, and so has no name here. */
static weir_status share(void)
{
    void *ptr;
    size_t size = actor.words[4] ? actor_number(actor.words[4]) : SHARED_BYTES;
    weir_status status = weir_malloc(actor.w, &ptr, size, actor.device, actor.stream);
    if (status != WEIR_OK) {
        weir_last_error(&actor.error);
        return status;
    }
    status = actor_fill(ptr, size, actor_number(actor.words[2]), actor.stream);
    if (status == WEIR_OK)
        status = weir_export_publish(actor.e, actor.words[1], ptr, 0, NULL, 0, actor.stream, &actor.error);
    if (status != WEIR_OK)
        weir_free(actor.w, ptr, actor.stream);
    return status;
}

static weir_status forget(void)
{
    actor_set(KIND_BLOCK, actor.words[1], NULL);
    free(actor.thing);
    return WEIR_OK;
}

static weir_status withdraw(void)
{
    return weir_export_withdraw(actor.e, actor.words[1], &actor.error);
}

static weir_status evict(void)
{
    return weir_export_evict(actor.e, (int)actor_number(actor.words[1]), &actor.error);
}

static weir_status info(void)
{
    weir_export_info got = { .size = sizeof got };
    weir_status status = weir_export_get_info(actor.e, &got);
    actor_say(" epoch=%llu importers=%u hung=%u evicted=%u blocks=%llu leases=%llu mappings=%llu", (unsigned long long)got.epoch,
              got.importers, got.hung, got.evicted, (unsigned long long)got.blocks, (unsigned long long)got.leases,
              (unsigned long long)got.mappings);
    return status;
}

#define SAY(info, name) actor_say(" " #name "=%llu", (unsigned long long)(info).name)
#define SAY_FIGURES(info)                                                                                                                  \
    (SAY(info, pushed), SAY(info, bytes), SAY(info, dropped), SAY(info, refused), SAY(info, hangs), SAY(info, leases_given),              \
     SAY(info, lag), SAY(info, lag_high))

static weir_status figures(void)
{
    weir_export_info got = { .size = sizeof got };
    weir_status status = weir_export_get_info(actor.e, &got);
    SAY_FIGURES(got);
    SAY(got, evictions);
    return status;
}

static weir_status ring_figures(void)
{
    weir_ring_info got = { .size = sizeof got };
    weir_status status = weir_ring_get_info(actor.thing, &got);
    SAY_FIGURES(got);
    actor_say(" depth=%u overflow=%d taken=%u queued=%u readers=%u hung=%u slot_size=%zu", got.depth, (int)got.overflow, got.taken,
              got.queued, got.readers, got.hung, got.slot_size);
    return status;
}

static weir_status export_close(void)
{
    weir_export_close(actor.e, (unsigned)actor_number(actor.words[1]));
    actor.e = NULL;
    while (actor_next(KIND_RING))
        actor_set(KIND_RING, actor_next(KIND_RING), NULL);
    return WEIR_OK;
}

static weir_status trim(void)
{
    weir_pool *pool;
    uint64_t released;
    weir_status status = weir_pool_get(actor.w, actor.words[1], actor.device, &actor.error, &pool);
    if (status == WEIR_OK)
        status = weir_pool_trim(pool, 0, &actor.error, &released);
    if (status == WEIR_OK)
        actor_say(" released=%llu", (unsigned long long)released);
    return status;
}

static weir_status put_to_sleep(void)
{
    weir_pool *pool;
    uint64_t given;
    weir_status status = weir_pool_get(actor.w, actor.words[1], actor.device, &actor.error, &pool);
    if (status == WEIR_OK)
        status = weir_pool_sleep(pool, 0, 10000, &actor.error, &given);
    if (status == WEIR_OK)
        actor_say(" given=%llu", (unsigned long long)given);
    return status;
}

static weir_status wake(void)
{
    weir_pool *pool;
    weir_status status = weir_pool_get(actor.w, actor.words[1], actor.device, &actor.error, &pool);
    return status == WEIR_OK ? weir_pool_wake(pool, actor.words[2] ? (unsigned)actor_number(actor.words[2]) : 0, &actor.error, NULL) : status;
}

static weir_status yield(void)
{
    weir_pool *pool;
    weir_status status = weir_pool_get(actor.w, actor.words[1], actor.device, &actor.error, &pool);
    return status == WEIR_OK ? weir_pool_yield(pool, 0, &actor.error) : status;
}

/* Rings -------------------------------------------------------------------------------------------------------------------------------- */

static weir_status ring_open(void)
{
    static const char *const policies[] = { "block", "drop_oldest", "fail" }, *const lates[] = { "", "/next", "/newest" };
    const char *late = strchrnul(actor.words[4], '/');
    weir_ring_options options = { .size = sizeof options, .slot_size = actor_number(actor.words[2]),
                                  .depth = (unsigned)actor_number(actor.words[3]) };
    weir_ring *ring;
    for (int i = 0; i < 3; i++) {
        if (strncmp(actor.words[4], policies[i], strlen(policies[i])) == 0)
            options.overflow = (weir_overflow)i;
        if (strcmp(late, lates[i]) == 0)
            options.late = (weir_late)i;
    }
    weir_status status = weir_ring_open(actor.e, actor.words[1], &options, actor.stream, &actor.error, &ring);
    if (status == WEIR_OK)
        actor_set(KIND_RING, actor.words[1], ring);
    return status;
}

static weir_status ring_close(void)
{
    actor_set(KIND_RING, actor.words[1], NULL);
    weir_ring_close(actor.thing);
    return WEIR_OK;
}

static weir_status readers(void)
{
    actor_say(" readers=%u", weir_ring_readers(actor.thing));
    return WEIR_OK;
}

static weir_status take(void)
{
    struct block slot = { .size = actor_number(actor.words[3]) }, *kept;
    weir_status status = weir_ring_take(actor.thing, (unsigned)actor_number(actor.words[4]), actor.stream, &actor.error, &slot.ptr);
    if (status != WEIR_OK)
        return status;
    if (!(kept = malloc(sizeof *kept)))
        abort();
    *kept = slot;
    actor_set(KIND_BLOCK, actor.words[2], kept);
    actor_say(" ptr=%p", slot.ptr);
    return WEIR_OK;
}

static weir_status give_slot(bool as_frame, bool is_empty)
{
    struct block *slot = actor_get(KIND_BLOCK, actor.words[2]);
    const char *metadata = actor.words[4];
    if (!slot)
        return actor_fail(WEIR_NOT_FOUND, "actor: no slot '%s'", actor.words[2]);
    size_t size = is_empty ? WEIR_EMPTY : slot->size, metadata_size = metadata ? strlen(metadata) : 0;
    weir_status status = as_frame ? weir_ring_push(actor.thing, slot->ptr, size, metadata, metadata_size, actor.stream, &actor.error)
                                  : weir_ring_drop(actor.thing, slot->ptr, actor.stream, &actor.error);
    if (status == WEIR_OK) {
        actor_set(KIND_BLOCK, actor.words[2], NULL);
        free(slot);
    }
    return status;
}

static weir_status push(void)
{
    return give_slot(true, false);
}

static weir_status push_empty(void)
{
    return give_slot(true, true);
}

static weir_status drop(void)
{
    return give_slot(false, false);
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
static weir_status write_frames(void)
{
    unsigned long long first = actor_number(actor.words[2]), count = actor_number(actor.words[3]);
    size_t size = actor_number(actor.words[4]);
    weir_status status = WEIR_OK;
    for (unsigned long long number = first; number < first + count && status == WEIR_OK; number++)
        status = actor_write_frame(actor.thing, number, size, (unsigned)actor_number(actor.words[6]), actor.stream);
    return status;
}

const struct command actor_export_commands[] = {
    { "export", "POOL", export_open },
    { "export_close", "TIMEOUT", export_close },
    { "publish", "NAME SOME-BLOCK STREAM [BYTES [METADATA]]", publish },
    { "share", "NAME NUMBER STREAM [BYTES]: publishes a new block, of 1 MiB or so many bytes, with contents of that number", share },
    { "forget", "BLOCK: it was published, and is the export's to free", forget },
    { "withdraw", "NAME", withdraw },
    { "evict", "PID", evict },
    { "info", ": who has what", info },
    { "figures", ": what went through all rings", figures },
    { "trim", "POOL", trim },
    { "sleep", "POOL", put_to_sleep },
    { "wake", "POOL [MS]: waits so long for room, instead of on_oom.deadline", wake },
    { "yield", "POOL", yield },
    { "ring", "NAME SLOT-BYTES DEPTH block|drop_oldest|fail[/next|/newest] STREAM", ring_open },
    { "ring_close", "RING", ring_close },
    { "readers", "RING", readers },
    { "ring_figures", "RING", ring_figures },
    { "take", "RING SLOT BYTES TIMEOUT STREAM: a slot, of which so many bytes will be used", take },
    { "push", "RING SLOT STREAM [METADATA]", push },
    { "push_empty", "RING SLOT STREAM [METADATA]: none of its bytes", push_empty },
    { "drop", "RING SLOT STREAM", drop },
    { "write", "RING FIRST COUNT BYTES STREAM [TIMEOUT]: frames of numbers from the first on", write_frames },
    { NULL, NULL, NULL },
};
