/* SPDX-License-Identifier: MIT */
/*
 * ring.h - a ring buffer with the newest events of one thread.
 *
 * A ring belongs to its recorder. One thread at a time writes to it; any thread may read it at any time. Writing takes no lock and never
 * waits: the newest event overwrites the oldest. Each reader has a position of its own, and learns how many events were overwritten before
 * it could read them. After copying events a reader looks at `head` again, and drops the copies that the writer may have overwritten during
 * the copying.
 */
#ifndef WEIR_LIB_RING_H
#define WEIR_LIB_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/record/kind.h"

/* One event: seven words, 56 bytes. doc/trace.md says what the fields of each kind mean. */
struct weir__event {
    uint64_t time; /* nanoseconds of the recorder's clock */
    uint64_t address, size; /* of the block; an event without a block has the figures a and b here */
    uint64_t stream;        /* the stream's handle */
    uint64_t order;         /* the thread's number in the upper 22 bits, the order number in the lower 42 */
    uint64_t after;         /* kinds `serve` and `keep`: the last order number of the weir before this event; kind `held`: b; others: 0 */
    uint64_t what;          /* from the lowest bit: kind (8 bits), size class (8; kind `held`: a), pool (16), origin (32) */
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
    _Atomic uint64_t *words;     /* the events, in pages that the child of a fork does not inherit */
    uint64_t capacity;           /* the number of events that fit */
    _Atomic uint64_t *end;       /* the address behind the last word */
    _Atomic uint64_t *slot;      /* the place of the next event; used by the writing thread only, as is `thread` */
    uint64_t thread;             /* the number of the writing thread */
    _Atomic uint64_t head;       /* how many events were ever written */
};

/* Makes a ring with room for `bytes` bytes of events. Returns NULL if host memory runs out. */
struct weir__ring *weir__ring_new(uint64_t bytes);
void weir__ring_free(struct weir__ring *ring);

/* Writes an event, and adds the number of the ring's thread to it. Each store has release order, so a reader that sees a word of this event
   also sees the value of `head` before this event, and knows by it that the slot's former event is overwritten. */
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
 * Copies the events from number *position on, `max` at most, and advances *position behind them. Adds to *lost the number of events that
 * were overwritten before they could be copied. Returns the number of events copied, 0 if there are no more or if the writer has
 * overwritten all of them.
 */
size_t weir__ring_read(const struct weir__ring *ring, uint64_t *position, struct weir__event *events, size_t max, uint64_t *lost);

#endif
