/* SPDX-License-Identifier: MIT */
#include "lib/alloc/held.h"

#include "lib/alloc/orphans.h"
#include "lib/alloc/stream.h"
#include "lib/base/class.h"
#include "lib/base/number.h"
#include "lib/base/valid.h"

struct cached {
    uint64_t bytes, hits, keeps;
    int64_t live; /* below 0 for a moment if a free is counted before the request that allocated its block */
};

/* Adds up the bytes in the caches of the pool's open streams, the hits and keeps of all its streams, closed ones too, and the bytes that
   users have. */
static struct cached add_up(struct weir__device *device, const weir_pool *pool)
{
    pthread_rwlock_rdlock(&device->lock);
    /* Read the counts under the lock: a stream that leaves the list adds its cache's counts to those of the pool. */
    int64_t spare = atomic_load(&pool->figures.spare);
    struct cached sum = {
        .hits = atomic_load(&pool->figures.closed_hits),
        .keeps = atomic_load(&pool->figures.closed_keeps),
        .live = (int64_t)atomic_load(&pool->figures.taken) - spare,
    };
    /* An exact pool counts live bytes by themselves. While a request is in `taken` and not yet in `spare`, their difference is too high. */
    if (weir__pool_is_exact(pool))
        sum.live = (int64_t)atomic_load(&pool->figures.live_now);
    for (weir_stream *stream = device->streams; stream; stream = stream->next) {
        struct weir__cache *cache = &stream->cache;
        if (stream->pool != pool)
            continue;
        weir__spin_lock(&cache->lock);
        WEIR__MUST(weir__cache_is_valid(stream));
        sum.bytes += cache->bytes + cache->recent.bytes;
        sum.hits += cache->hits;
        sum.keeps += cache->keeps;
        sum.live += cache->live;
        weir__spin_unlock(&cache->lock);
    }
    pthread_rwlock_unlock(&device->lock);
    return sum;
}

struct weir__held weir__pool_held(weir_pool *pool)
{
    uint64_t before = atomic_load(&pool->figures.taken);
    struct cached cached = add_up(pool->device, pool);
    struct weir__held held = {
        .live = cached.live > 0 ? (uint64_t)cached.live : 0,
        .cached = cached.bytes + weir__orphans_bytes(pool->device, pool),
        .hits = cached.hits,
        .keeps = cached.keeps,
    };
    /* Bytes that become cached or live while the caches are read one by one may be counted twice. Live and cached bytes together cannot
       exceed what was taken at one moment, so cut them there. */
    uint64_t after = atomic_load(&pool->figures.taken), most = before > after ? before : after;
    held.cached = weir__smaller(held.cached, most);
    held.live = weir__smaller(held.live, most - held.cached);
    return held;
}

int weir__pool_reset_peaks(weir_pool *pool)
{
    atomic_store(&pool->figures.taken_before, 0);
    atomic_store(&pool->figures.taken_high, atomic_load(&pool->figures.taken));
    atomic_store(&pool->figures.live_high, weir__pool_is_exact(pool) ? atomic_load(&pool->figures.live_now) : weir__pool_held(pool).live);
    return pool->backing->ops->set(pool->backing, GPU_POOL_RESERVED_HIGH, 0);
}

uint64_t weir__pool_live_blocks(weir_pool *pool)
{
    struct weir__counts counts = weir__blocks_count(&pool->w->blocks, pool);
    struct weir__held held = weir__pool_held(pool);
    return counts.mallocs + held.hits - counts.frees - held.keeps;
}

uint64_t weir__pool_frees(weir_pool *pool)
{
    return weir__blocks_count(&pool->w->blocks, pool).frees + weir__pool_held(pool).keeps;
}

bool weir__pool_has_pending_frees(weir_pool *pool)
{
    if (weir__pool_live_blocks(pool) || weir__pool_is_default(pool))
        return false;
    return pool->native.is_exportable ? !weir__debts_are_settled(&pool->backing->debts) : pool->backing->ops->has_pending(pool->backing);
}

#ifdef WEIR_DEBUG
struct tally {
    const weir_pool *pool;
    uint64_t blocks, live, taken;
};

static void tally_block(const struct weir__block *block, void *data)
{
    struct tally *tally = data;
    if (block->pool != tally->pool || block->graph)
        return;
    tally->blocks++;
    tally->live += block->size;
    tally->taken += weir__class_given(block->class, block->size);
}

bool weir__held_is_valid(weir_pool *pool)
{
    struct tally tally = {.pool = pool};
    struct weir__held held = weir__pool_held(pool);
    uint64_t taken = atomic_load(&pool->figures.taken);
    weir__blocks_visit(&pool->w->blocks, tally_block, &tally);
    return held.live == tally.live && weir__pool_live_blocks(pool) == tally.blocks && taken == tally.taken + held.cached &&
           (int64_t)(taken - held.live) == atomic_load(&pool->figures.spare) && atomic_load(&pool->figures.taken_high) >= taken &&
           (!weir__pool_is_exact(pool) || atomic_load(&pool->figures.live_now) == tally.live) && atomic_load(&pool->figures.claimed) == 0 &&
           atomic_load(&pool->grants.granted) == 0;
}
#endif
