/* SPDX-License-Identifier: MIT */
/*
 * recent.h - the last blocks that one opened stream freed and that are too large for its classes. Each serves the next request of exactly
 * its size: without a search in an arena, without a call of CUDA's in a pool of CUDA's, and without a lock that others share.
 *
 * Part of the stream's cache, and guarded by its lock. The bounds of `cache` do not hold for them: the pool gets them back before it grows
 * for a large request, and the bounds here keep what does not fit together meanwhile small. Two are enough for buffers that take turns.
 * With 4, programs recorded on a GPU had up to 2 % more mapped by arenas: training on pictures of many sizes 3,262 MiB, not 3,228; LoRA
 * 3,200, not 3,110.
 */
#ifndef WEIR_LIB_RECENT_H
#define WEIR_LIB_RECENT_H

#include "lib/pool/blocks.h"

#define WEIR__RECENT_MAX 2
#define WEIR__RECENT_SHARE 32 /* unless it is one alone, they have such a part of what the pool has taken, at most */

/* The oldest first. Zero-initialise. */
struct weir__recent {
    uint64_t sizes[WEIR__RECENT_MAX]; /* bytes of each, as it was asked for */
    struct weir__entry *entries[WEIR__RECENT_MAX];
    _Atomic unsigned count; /* whoever has no lock may look whether there are any */
    uint64_t bytes;
};

static inline unsigned weir__recent_count(const struct weir__recent *recent)
{
    return atomic_load_explicit(&recent->count, memory_order_relaxed);
}

/* The last of exactly so many bytes; NULL: there is none. */
struct weir__entry *weir__recent_find(const struct weir__recent *recent, uint64_t size);
/* false: it is not in it. */
bool weir__recent_remove(struct weir__recent *recent, const struct weir__entry *entry);
/* Whether the oldest has to make room for one of so many bytes. taken: bytes of all blocks of the pool. */
static inline bool weir__recent_is_full(const struct weir__recent *recent, uint64_t size, uint64_t taken)
{
    unsigned count = weir__recent_count(recent);
    return count == WEIR__RECENT_MAX || (count && recent->bytes + size > taken / WEIR__RECENT_SHARE);
}

/* There is room for another one. */
void weir__recent_add(struct weir__recent *recent, struct weir__entry *entry);

/* Takes out those whose stamp is below `before`, and returns them, a list by `next`. */
struct weir__entry *weir__recent_drain(struct weir__recent *recent, uint64_t before);

/* Whether its figures add up. */
bool weir__recent_is_valid(const struct weir__recent *recent);

#endif
