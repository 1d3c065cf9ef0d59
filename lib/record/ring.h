/* SPDX-License-Identifier: MIT */
/*
 * ring.h - the last events of one thread, in memory.
 *
 * Owned by its recorder, written by one thread at a time, read by any thread at any time. Writing takes no lock and never waits: the newest
 * event takes the place of the oldest. Each reader has a position of its own, and is told how many events were overwritten before it came.
 * A reader looks at `head` again after it has copied events, and drops those that the writer may have overwritten meanwhile.
 */
#ifndef WEIR_LIB_RING_H
#define WEIR_LIB_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/record/kind.h"

/* Seven words: 56 bytes. */
struct weir__event {
    uint64_t time; /* nanoseconds of the recorder's clock */
    uint64_t address, size; /* an event that concerns no block has a and b here */
    uint64_t stream;        /* the handle */
    uint64_t order;         /* 22 bits of the thread above, 42 of the order below */
    uint64_t after;         /* a cached call, whose order counts in its stream: the weir's last order before it; `held`: b; others: 0 */
    uint64_t what;          /* 8 bits of the kind, 8 of the size class (of `held`, a), 16 of the pool, 32 of the origin */
};

#define WEIR__EVENT_WORDS (sizeof(struct weir__event) / sizeof(uint64_t))
#define WEIR__ORDER_BITS 42

static inline uint64_t weir__event_what(enum weir__kind kind, unsigned class, unsigned pool, uint32_t origin)
{
    return (uint64_t)kind | (uint64_t)(uint8_t)class << 8 | (uint64_t)(uint16_t)pool << 16 | (uint64_t)origin << 32;
}

static inline enum weir__kind weir__event_kind(const struct weir__event *event)
{
    return (enum weir__kind)(event->what & 0xFF);
}

static inline unsigned weir__event_class(const struct weir__event *event)
{
    return event->what >> 8 & 0xFF;
}

static inline unsigned weir__event_pool(const struct weir__event *event)
{
    return event->what >> 16 & 0xFFFF;
}

static inline uint32_t weir__event_origin(const struct weir__event *event)
{
    return (uint32_t)(event->what >> 32);
}

static inline uint64_t weir__event_order(const struct weir__event *event)
{
    return event->order & ((UINT64_C(1) << WEIR__ORDER_BITS) - 1);
}

static inline unsigned weir__event_thread(const struct weir__event *event)
{
    return (unsigned)(event->order >> WEIR__ORDER_BITS);
}

struct weir__ring {
    struct weir__ring *next;     /* in the recorder's list, which the recorder's lock guards */
    _Atomic uint64_t *words;     /* the events, in pages that a forked child does not have */
    uint64_t capacity;           /* events */
    _Atomic uint64_t *end;       /* behind the last word */
    _Atomic uint64_t *slot;      /* where the next event goes; only the writer uses this and `thread` */
    uint64_t thread;
    _Atomic uint64_t head;       /* how many events were ever written */
};

/* Makes a ring with room for so many bytes of events. NULL: no host memory. */
struct weir__ring *weir__ring_new(uint64_t bytes);
void weir__ring_free(struct weir__ring *ring);

/* Writes an event, with the ring's thread as its own. Each store releases, so that a reader that sees a word of this event also sees the
   value that `head` had before it. */
static inline void weir__ring_write(struct weir__ring *ring, const struct weir__event *event)
{
    _Atomic uint64_t *slot = ring->slot;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&slot[0], event->time, memory_order_release);
    atomic_store_explicit(&slot[1], event->address, memory_order_release);
    atomic_store_explicit(&slot[2], event->size, memory_order_release);
    atomic_store_explicit(&slot[3], event->stream, memory_order_release);
    atomic_store_explicit(&slot[4], event->order | ring->thread << WEIR__ORDER_BITS, memory_order_release);
    atomic_store_explicit(&slot[5], event->after, memory_order_release);
    atomic_store_explicit(&slot[6], event->what, memory_order_release);
    slot += WEIR__EVENT_WORDS;
    ring->slot = slot == ring->end ? ring->words : slot;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/*
 * Copies events from *position on, `max` at most, and moves *position behind them. *lost grows by the events that were overwritten before
 * they could be copied. Returns how many were copied; 0: there are no more, or the writer overwrote all that were copied.
 */
size_t weir__ring_read(const struct weir__ring *ring, uint64_t *position, struct weir__event *events, size_t max, uint64_t *lost);

#endif
