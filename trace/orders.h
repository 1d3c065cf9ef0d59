/* SPDX-License-Identifier: MIT */
/*
 * orders.h - the set of all order numbers (doc/trace.md) in a trace. Numbers of lost events are missing from a file; by this set
 * trace_play() knows which number comes next.
 *
 * There are several *sorts* of numbers, each with a sequence of its own: sort 0 are the numbers of the weir, and each stream has one sort
 * more. The set belongs to a trace (merge.h). First all numbers are added, in any order, then they are sealed, then each sort is walked
 * through. The numbers are stored as bits, 64 in a chunk, since most sequences have few gaps.
 */
#ifndef WEIR_TRACE_ORDERS_H
#define WEIR_TRACE_ORDERS_H

#include "trace/event.h"
#include "trace/map.h"

struct trace_chunk {
    uint32_t sort;
    uint64_t base; /* the lowest number of the chunk, a multiple of 64 */
    uint64_t mask; /* bit N is set if the set has the number base + N */
};

struct trace_orders {
    struct trace_map streams;   /* maps (stream's handle, 0) to the sort */
    uint32_t sort_count;        /* at least 1 */
    struct trace_map by_base;   /* until sealed: maps (base, sort) to the index in `chunks` */
    struct trace_chunk *chunks; /* once sealed: sorted by `sort`, then by `base` */
    size_t chunk_count, chunk_room;
    size_t last;    /* the index of the chunk to which the last number was added */
    size_t *firsts; /* once sealed: firsts[S] is the index of the first chunk of sort S, and firsts[sort_count] is chunk_count */
};

void trace_orders_init(struct trace_orders *orders);
/* Returns the sort of an event's order number. Makes a new sort for a new stream. */
uint32_t trace_orders_sort(struct trace_orders *orders, enum trace_kind kind, uint64_t stream);
void trace_orders_add(struct trace_orders *orders, uint32_t sort, uint64_t order);
void trace_orders_seal(struct trace_orders *orders);
void trace_orders_free(struct trace_orders *orders);

/* A walk through the numbers of one sort. */
struct trace_turn {
    size_t chunk, end;
    uint64_t next; /* the next number */
    bool is_over;  /* there are no more numbers, and `next` is not valid */
};

struct trace_turn trace_turn_begin(const struct trace_orders *orders, uint32_t sort);
/* The event with this number was played: goes on to the first number above it. */
void trace_turn_take(struct trace_turn *turn, const struct trace_orders *orders, uint64_t order);
/* Returns whether the event with this number may be played now: the number is the next one, or lower. */
static inline bool trace_turn_is(const struct trace_turn *turn, uint64_t order)
{
    return turn->is_over || order <= turn->next;
}

#endif
