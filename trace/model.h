/* SPDX-License-Identifier: MIT */
/*
 * model.h - what a recorded process had at each moment: its blocks, and sums of them by pool, tag, stack and stream.
 *
 * It belongs to its maker, and points into the trace, which has to outlive it; one thread. Events are applied in the order of trace_play().
 * All sums follow from the blocks: total = sum of pools = sum of tags = sum of stacks = sum of streams, in each of their figures.
 */
#ifndef WEIR_TRACE_MODEL_H
#define WEIR_TRACE_MODEL_H

#include "trace/event.h"
#include "trace/map.h"

enum model_state {
    MODEL_GONE,   /* not a block: its place is free */
    MODEL_LIVE,   /* the program has it */
    MODEL_CACHED, /* the cache of a stream has it: size is 0 */
};

struct model_block {
    enum model_state state;
    uint64_t address, size, given, stream;
    uint64_t time, order, thread; /* of the event that made it what it is */
    enum trace_kind kind;         /* of that event */
    const struct trace_pool *pool;
    const struct trace_text *tag;
    const struct trace_stack *stack;
    const struct trace_text *stream_name; /* NULL: none is known */
    uint32_t next_free; /* of a place that is free */
};

/* Of the blocks that the program has. */
struct model_sum {
    uint64_t blocks, size, given;
    uint64_t peak_size, peak_given;  /* the most at a time, each for itself */
    uint64_t allocations, allocated; /* malloc and serve: how many, and bytes asked */
};

struct model_span {
    uint64_t count, bytes, ns, longest_ns, longest_at; /* longest_at: time of the longest one */
};

enum { MODEL_RUNGS = 16 };

struct model_pool {
    const struct trace_pool *pool; /* NULL: of events without one */
    struct model_sum live;
    uint64_t cached_blocks, cached; /* bytes given */
    uint64_t reserved, reserved_peak;
    bool has_reserved; /* the trace says what is reserved */
    uint64_t held_peak;
    struct model_span growth; /* maps */
    struct model_span unmaps, trims, waits, synchronises;
    struct model_span rungs[MODEL_RUNGS]; /* by their number; higher ones count as the last */
    uint64_t threshold, cap;              /* the last settings */
    bool has_settings;
    uint64_t ooms_at_cap, ooms_at_device, graph_mallocs, graph_frees;
};

/* Calls by which an unaware program held itself up, alike in call, pool and stack. */
struct model_stall {
    uint64_t call; /* as trace_call_text() has it; UINT32_MAX: that or a higher number */
    const struct trace_pool *pool;   /* NULL: none */
    const struct trace_stack *stack; /* NULL: none */
    struct model_span span;          /* bytes: of the blocks */
};

struct model_stream {
    uint64_t stream;
    const struct trace_text *name; /* NULL: none */
    struct model_sum live;
};

struct model_moment {
    uint64_t time, event;          /* event: how many were applied before it */
    const struct trace_text *name; /* of a mark; NULL: none */
};

struct model {
    uint64_t now;     /* the latest time so far */
    uint64_t applied; /* events */
    struct model_sum total;
    uint64_t held; /* by all pools: model_held() of each */
    uint64_t peak_held;
    struct model_moment peak; /* the first at which total.size was the greatest; event: one behind it */
    struct model_pool *pools; /* by number + 1; 0: no pool */
    size_t pool_count;
    struct model_sum *tags, *stacks; /* by number + 1; 0: none */
    const struct trace_text **tag_names;
    const struct trace_stack **stack_frames;
    size_t tag_count, stack_count;
    struct model_stream *streams;
    size_t stream_count;
    struct model_moment *marks, *ooms;
    size_t mark_count, oom_count;
    struct model_stall *stalls; /* in the order of their first calls */
    size_t stall_count;
    struct model_span asked; /* by neighbours: bytes asked; ns has the bytes that they got */
    /* What cannot be: */
    uint64_t unknown_ends; /* frees of blocks that were never seen */
    uint64_t late_ends;    /* frees that came behind the next allocation of their address */
    uint64_t reused;       /* allocations of a block that was not free */
    /* The blocks: */
    struct model_block *blocks;
    size_t block_count, block_room; /* places, free or not */
    uint32_t free_block;            /* 1 + the first free place; 0: none */
    struct trace_map by_address;    /* address and pool: place */
    struct trace_map by_stream, by_stall;
    size_t pool_room, tag_room, stack_room, stream_room, stall_room, mark_room, oom_room;
};

/* A zeroed model is an empty one. */
void model_apply(struct model *model, const struct trace_event *event);
/* Blocks that are live count no more, and what becomes of them is left aside. */
void model_forget_live(struct model *model);
void model_free(struct model *model);

/* The block at that address, live or cached; NULL if none is known. */
const struct model_block *model_find(const struct model *model, uint64_t address, const struct trace_pool *pool);

/* What the pool holds of its device: reserved bytes; where the trace does not say, those of its blocks. */
uint64_t model_held(const struct model_pool *pool);

/* Adds one span to another. */
void model_span_join(struct model_span *sum, const struct model_span *span);

/* To be called by trace_play(): model_apply() for each event, with the model as context. */
bool model_look(void *model, const struct trace_event *event);

#endif
