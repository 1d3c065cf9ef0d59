/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "audit/known.h"

#include <stdlib.h>

#include "lib/base/spin.h"
#include "lib/base/table.h"

#define SHARDS 16

struct entry {
    struct weir__link link;
    uint64_t key;
    enum known_kind kind;
    struct known known;
    struct entry *next; /* the next unused entry */
};

static struct shard {
    weir__spin lock;
    struct weir__table table;
    struct entry *unused;
} __attribute__((aligned(64))) shards[SHARDS];

/* Addresses of blocks are multiples of 512, and handles as a rule multiples of 8. So the kind goes into the low bits, and few entries have
   the same value. */
static uint64_t at_of(enum known_kind kind, uint64_t key)
{
    return key ^ (uint64_t)kind;
}

static struct shard *lock_shard(uint64_t at)
{
    struct shard *shard = &shards[(at ^ at >> 9 ^ at >> 21) % SHARDS];
    weir__spin_lock(&shard->lock);
    return shard;
}

static struct entry *find(const struct shard *shard, enum known_kind kind, uint64_t key)
{
    struct weir__link *link = weir__table_first(&shard->table, at_of(kind, key));
    for (; link; link = weir__table_next(link)) {
        struct entry *entry = WEIR__ITEM(link, struct entry, link);
        if (entry->key == key && entry->kind == kind)
            return entry;
    }
    return NULL;
}

static void drop(struct shard *shard, struct entry *entry)
{
    weir__table_remove(&shard->table, &entry->link);
    entry->next = shard->unused;
    shard->unused = entry;
}

/* Returns an unused or a new entry, or NULL if host memory runs out. Called with the shard's lock. */
static struct entry *take_unused(struct shard *shard)
{
    struct entry *entry = shard->unused;
    if (!entry)
        return calloc(1, sizeof *entry);
    shard->unused = entry->next;
    return entry;
}

void known_init(void)
{
    for (size_t i = 0; i < SHARDS; i++)
        weir__table_init(&shards[i].table);
}

void known_put(enum known_kind kind, uint64_t key, const struct known *known)
{
    struct shard *shard = lock_shard(at_of(kind, key));
    struct entry *entry = find(shard, kind, key);
    bool is_new = !entry && (entry = take_unused(shard));
    if (entry) {
        entry->kind = kind;
        entry->key = key;
        entry->known = *known;
    }
    if (is_new)
        weir__table_add(&shard->table, &entry->link, at_of(kind, key), key);
    weir__spin_unlock(&shard->lock);
}

bool known_get(enum known_kind kind, uint64_t key, struct known *known)
{
    return known_count(kind, key, 0, 0, known);
}

bool known_take(enum known_kind kind, uint64_t key, struct known *known)
{
    struct shard *shard = lock_shard(at_of(kind, key));
    struct entry *entry = find(shard, kind, key);
    if (entry) {
        *known = entry->known;
        drop(shard, entry);
    }
    weir__spin_unlock(&shard->lock);
    return entry;
}

bool known_count(enum known_kind kind, uint64_t key, int handles, int mappings, struct known *known)
{
    struct shard *shard = lock_shard(at_of(kind, key));
    struct entry *entry = find(shard, kind, key);
    if (entry) {
        entry->known.handles += handles;
        entry->known.mappings += mappings;
        *known = entry->known;
        if ((handles || mappings) && known->handles <= 0 && known->mappings <= 0)
            drop(shard, entry);
    }
    weir__spin_unlock(&shard->lock);
    return entry;
}

void known_take_all(enum known_kind kind, bool (*is_meant)(const struct known *known, const void *data), const void *data,
                    void (*use)(uint64_t key, const struct known *known))
{
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &shards[i];
        weir__spin_lock(&shard->lock);
        for (struct weir__link *link = weir__table_any(&shard->table), *behind; link; link = behind) {
            struct entry *entry = WEIR__ITEM(link, struct entry, link);
            behind = weir__table_behind(&shard->table, link);
            if (entry->kind != kind || !is_meant(&entry->known, data))
                continue;
            use(entry->key, &entry->known);
            drop(shard, entry);
        }
        weir__spin_unlock(&shard->lock);
    }
}
