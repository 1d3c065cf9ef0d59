/* SPDX-License-Identifier: MIT */
#include "lib/record/ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct weir__ring *weir__ring_new(uint64_t bytes)
{
    struct weir__ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    ring->capacity = bytes / sizeof(struct weir__event);
    size_t len = (size_t)ring->capacity * sizeof(struct weir__event);
    /* Use mmap(), so that pages without events take no memory, and so that the child of a fork, which cannot use Weir, does not get a
       copy. */
    void *words = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) {
        free(ring);
        return NULL;
    }
    madvise(words, len, MADV_DONTFORK);
    ring->words = ring->slot = words;
    ring->end = ring->words + ring->capacity * WEIR__EVENT_WORDS;
    return ring;
}

void weir__ring_free(struct weir__ring *ring)
{
    munmap((void *)ring->words, (size_t)ring->capacity * sizeof(struct weir__event));
    free(ring);
}

/* Returns the number of the oldest event that is whole. The writer may be overwriting the event before it at this moment. */
static uint64_t first_whole(const struct weir__ring *ring, uint64_t head)
{
    return head >= ring->capacity ? head - ring->capacity + 1 : 0;
}

size_t weir__ring_read(const struct weir__ring *ring, uint64_t *position, struct weir__event *events, size_t max, uint64_t *lost)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t first = first_whole(ring, head);
    if (*position < first) {
        *lost += first - *position;
        *position = first;
    }
    size_t count = head - *position < max ? (size_t)(head - *position) : max;
    const _Atomic uint64_t *slot = ring->words + *position % ring->capacity * WEIR__EVENT_WORDS;
    for (size_t i = 0; i < count; i++) {
        events[i].time = atomic_load_explicit(&slot[0], memory_order_acquire);
        events[i].address = atomic_load_explicit(&slot[1], memory_order_acquire);
        events[i].size = atomic_load_explicit(&slot[2], memory_order_acquire);
        events[i].stream = atomic_load_explicit(&slot[3], memory_order_acquire);
        events[i].order = atomic_load_explicit(&slot[4], memory_order_acquire);
        events[i].after = atomic_load_explicit(&slot[5], memory_order_acquire);
        events[i].what = atomic_load_explicit(&slot[6], memory_order_acquire);
        slot += WEIR__EVENT_WORDS;
        if (slot == ring->end)
            slot = ring->words;
    }
    first = first_whole(ring, atomic_load_explicit(&ring->head, memory_order_acquire));
    size_t spoilt = first <= *position ? 0 : first - *position < count ? (size_t)(first - *position) : count;
    memmove(events, events + spoilt, (count - spoilt) * sizeof *events);
    *lost += spoilt;
    *position += count;
    return count - spoilt;
}
