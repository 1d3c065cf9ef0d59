/* SPDX-License-Identifier: MIT */
/*
 * orders.h - which numbers the events of a trace have, so that a merge knows the next one of each sort, however many were lost before it.
 *
 * It belongs to a trace (merge.h). First all numbers are added, in any order, then they are sealed, then each sort is walked through. Sort
 * 0 counts in the weir, every other one in a stream. Numbers are kept as bits, 64 in a chunk, as most come without a gap.
 */
#ifndef WEIR_TRACE_ORDERS_H
#define WEIR_TRACE_ORDERS_H

#include "trace/event.h"
#include "trace/map.h"

struct trace_chunk {
    uint32_t sort;
    uint64_t base; /* the first number, a multiple of 64 */
    uint64_t mask;
};

struct trace_orders {
    struct trace_map streams;   /* handle: sort */
    uint32_t sort_count;        /* 1 at least */
    struct trace_map by_base;   /* until sealed: (base, sort) has the chunk */
    struct trace_chunk *chunks; /* once sealed: by sort, then by base */
    size_t chunk_count, chunk_room;
    size_t last;    /* chunk that was added to */
    size_t *firsts; /* once sealed: the first chunk of each sort, and the count of chunks behind the last */
};

void trace_orders_init(struct trace_orders *orders);
/* The sort that an event counts in. */
uint32_t trace_orders_sort(struct trace_orders *orders, enum trace_kind kind, uint64_t stream);
void trace_orders_add(struct trace_orders *orders, uint32_t sort, uint64_t order);
void trace_orders_seal(struct trace_orders *orders);
void trace_orders_free(struct trace_orders *orders);

/* A walk through the numbers of one sort. */
struct trace_turn {
    size_t chunk, end;
    uint64_t next; /* the number whose turn it is */
    bool is_over;  /* there is no further one: `next` says nothing */
};

struct trace_turn trace_turn_begin(const struct trace_orders *orders, uint32_t sort);
/* The number came: all up to it have had their turn. */
void trace_turn_take(struct trace_turn *turn, const struct trace_orders *orders, uint64_t order);
/* Whether an event with that number may go: it is its turn, or that was before. */
static inline bool trace_turn_is(const struct trace_turn *turn, uint64_t order)
{
    return turn->is_over || order <= turn->next;
}

#endif
