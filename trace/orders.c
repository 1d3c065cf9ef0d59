/* SPDX-License-Identifier: MIT */
#include "trace/orders.h"
#include "trace/memory.h"

#include <stdlib.h>

void trace_orders_init(struct trace_orders *orders)
{
    *orders = (struct trace_orders){.sort_count = 1};
}

uint32_t trace_orders_sort(struct trace_orders *orders, enum trace_kind kind, uint64_t stream)
{
    if (!trace_event_is_of_stream(kind))
        return 0;
    bool is_new;
    uint32_t *sort = trace_map_add(&orders->streams, stream, 0, &is_new);
    if (is_new)
        *sort = orders->sort_count++;
    return *sort;
}

void trace_orders_add(struct trace_orders *orders, uint32_t sort, uint64_t order)
{
    uint64_t base = order & ~UINT64_C(63);
    const struct trace_chunk *last = orders->chunks ? &orders->chunks[orders->last] : NULL;
    if (!last || last->sort != sort || last->base != base) {
        bool is_new;
        uint32_t *place = trace_map_add(&orders->by_base, base, sort, &is_new);
        if (is_new) {
            orders->chunks = must_grow(orders->chunks, orders->chunk_count, &orders->chunk_room, sizeof orders->chunks[0]);
            *place = (uint32_t)orders->chunk_count;
            orders->chunks[orders->chunk_count++] = (struct trace_chunk){.sort = sort, .base = base};
        }
        orders->last = *place;
    }
    orders->chunks[orders->last].mask |= UINT64_C(1) << (order & 63);
}

static int by_sort_and_base(const void *left, const void *right)
{
    const struct trace_chunk *a = left, *b = right;
    if (a->sort != b->sort)
        return a->sort < b->sort ? -1 : 1;
    return a->base < b->base ? -1 : a->base > b->base;
}

void trace_orders_seal(struct trace_orders *orders)
{
    trace_map_free(&orders->by_base);
    if (orders->chunk_count)
        qsort(orders->chunks, orders->chunk_count, sizeof orders->chunks[0], by_sort_and_base);
    orders->firsts = must(calloc((size_t)orders->sort_count + 1, sizeof orders->firsts[0]));
    size_t chunk = 0;
    for (uint32_t sort = 0; sort <= orders->sort_count; sort++) {
        while (chunk < orders->chunk_count && orders->chunks[chunk].sort < sort)
            chunk++;
        orders->firsts[sort] = chunk;
    }
}

void trace_orders_free(struct trace_orders *orders)
{
    trace_map_free(&orders->streams);
    trace_map_free(&orders->by_base);
    free(orders->chunks);
    free(orders->firsts);
    *orders = (struct trace_orders){0};
}

/* Moves the turn to the first number of the sort that is not below `from`, or sets is_over. */
static void advance(struct trace_turn *turn, const struct trace_orders *orders, uint64_t from)
{
    for (; turn->chunk < turn->end; turn->chunk++) {
        const struct trace_chunk *chunk = &orders->chunks[turn->chunk];
        if (chunk->base + 63 < from)
            continue;
        uint64_t mask = chunk->base < from ? chunk->mask & ~UINT64_C(0) << (from - chunk->base) : chunk->mask;
        if (!mask)
            continue;
        turn->next = chunk->base + (uint64_t)__builtin_ctzll(mask);
        return;
    }
    turn->is_over = true;
}

struct trace_turn trace_turn_begin(const struct trace_orders *orders, uint32_t sort)
{
    struct trace_turn turn = {.chunk = orders->firsts[sort], .end = orders->firsts[sort + 1]};
    advance(&turn, orders, 0);
    return turn;
}

void trace_turn_take(struct trace_turn *turn, const struct trace_orders *orders, uint64_t order)
{
    if (turn->is_over || order < turn->next)
        return;
    if (order == UINT64_MAX)
        turn->is_over = true;
    else
        advance(turn, orders, order + 1);
}
