/* SPDX-License-Identifier: MIT */
#include "lib/alloc/recent.h"

#include "lib/base/class.h"
#include "lib/base/valid.h"

static void set_count(struct weir__recent *recent, unsigned count)
{
    atomic_store_explicit(&recent->count, count, memory_order_relaxed);
}

struct weir__entry *weir__recent_find(const struct weir__recent *recent, uint64_t size)
{
    unsigned at = weir__recent_count(recent);
    while (at && recent->sizes[at - 1] != size)
        at--;
    return at ? recent->entries[at - 1] : NULL;
}

bool weir__recent_missed(struct weir__recent *recent, uint64_t size)
{
    unsigned at = atomic_load_explicit(&recent->misses, memory_order_relaxed);
    bool was_before = at < WEIR__RECENT_MISSES;
    for (unsigned i = 0; i < WEIR__RECENT_MISSES; i++)
        was_before = was_before || atomic_load_explicit(&recent->missed[i], memory_order_relaxed) == size;
    atomic_store_explicit(&recent->missed[at % WEIR__RECENT_MISSES], size, memory_order_relaxed);
    atomic_store_explicit(&recent->misses, at + 1, memory_order_relaxed);
    return was_before;
}

bool weir__recent_remove(struct weir__recent *recent, const struct weir__entry *entry)
{
    unsigned count = weir__recent_count(recent), at = 0;
    while (at < count && recent->entries[at] != entry)
        at++;
    if (at == count)
        return false;
    recent->bytes -= recent->sizes[at];
    for (; at < count - 1; at++) {
        recent->sizes[at] = recent->sizes[at + 1];
        recent->entries[at] = recent->entries[at + 1];
    }
    set_count(recent, count - 1);
    return true;
}

void weir__recent_add(struct weir__recent *recent, struct weir__entry *entry)
{
    unsigned count = weir__recent_count(recent);
    recent->sizes[count] = entry->size;
    recent->entries[count] = entry;
    recent->bytes += entry->size;
    recent->used = atomic_load_explicit(&recent->misses, memory_order_relaxed);
    set_count(recent, count + 1);
}

struct weir__entry *weir__recent_drain(struct weir__recent *recent, uint64_t before)
{
    struct weir__entry *drained = NULL;
    /* The oldest blocks come first, so stamps rise along the array. */
    while (weir__recent_count(recent) && recent->entries[0]->stamp < before) {
        struct weir__entry *entry = recent->entries[0];
        weir__recent_remove(recent, entry);
        entry->next = drained;
        drained = entry;
    }
    return drained;
}

#ifdef WEIR_DEBUG
bool weir__recent_is_valid(const struct weir__recent *recent)
{
    uint64_t bytes = 0;
    unsigned count = weir__recent_count(recent);
    if (count > WEIR__RECENT_MAX)
        return false;
    for (unsigned i = 0; i < count; i++) {
        const struct weir__entry *entry = recent->entries[i];
        if (entry->class != WEIR__CLASS_NONE || entry->size != recent->sizes[i] || atomic_load(&entry->live) ||
            (i && entry->stamp <= recent->entries[i - 1]->stamp))
            return false;
        bytes += entry->size;
    }
    return bytes == recent->bytes;
}
#endif
