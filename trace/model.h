/* SPDX-License-Identifier: MIT */
/*
 * model.h - the memory of a recorded process at one moment of its trace: its blocks, and sums of the blocks by pool, tag, stack and stream.
 * Applying the next event moves the model to the next moment.
 *
 * The caller owns a model; one thread uses it. The model points into the trace, so free the model before the trace is closed. Apply events
 * in the order of trace_play(). For blocks, size and given bytes: total = sum over pools = sum over tags = sum over stacks = sum over
 * streams.
 */
#ifndef WEIR_TRACE_MODEL_H
#define WEIR_TRACE_MODEL_H

#include "trace/event.h"
#include "trace/map.h"

enum model_state {
    MODEL_GONE,   /* no block: this item of the array is free */
    MODEL_LIVE,   /* the program has the block */
    MODEL_CACHED, /* the cache of a stream has the block; its size is 0 */
};

struct model_block {
    enum model_state state;
    uint64_t address, size, given, stream;
    uint64_t time, order, thread; /* of the event that gave the block its present state */
    enum trace_kind kind;         /* the kind of that event */
    const struct trace_pool *pool;
    const struct trace_text *tag;
    const struct trace_stack *stack;
    const struct trace_text *stream_name; /* NULL if unknown */
    uint32_t next_free; /* for a free item: 1 + the index of the next free one, or 0 */
};

/* Figures of a set of live blocks. */
struct model_sum {
    uint64_t blocks, size, given;
    uint64_t peak_size, peak_given;  /* the highest values so far of `size` and of `given`, which may be of different moments */
    uint64_t allocations, allocated; /* the number of events MALLOC and SERVE, and the bytes that they asked for */
};

/* Figures of a set of events that took time: their number, bytes and duration, and the duration and time of the longest one. */
struct model_span {
    uint64_t count, bytes, ns, longest_ns, longest_at;
};

enum { MODEL_RUNGS = 16 };

struct model_pool {
    const struct trace_pool *pool; /* NULL for the events without a pool */
    struct model_sum live;
    uint64_t cached_blocks, cached; /* the number of cached blocks, and their given bytes */
    uint64_t reserved, reserved_peak;
    bool has_reserved; /* the trace contains figures of reserved bytes */
    uint64_t held_peak;
    struct model_span growth; /* the events MAP */
    struct model_span unmaps, trims, waits, synchronises;
    struct model_span rungs[MODEL_RUNGS]; /* by the number of the rung; numbers that are too high count as the last one */
    uint64_t threshold, cap;              /* the values of the last event SETTINGS */
    bool has_settings, has_changed; /* there was one; and another one behind requests, as of a reload */
    bool is_asleep; /* no WAKE came behind the last event SLEEP */
    uint64_t ooms_at_cap, ooms_at_device, graph_mallocs, graph_frees;
};

/* The events HELD with the same call, pool and stack: calls of an unaware program that held up their thread. */
struct model_stall {
    uint64_t call; /* a number for trace_call_text(); UINT32_MAX stands for all numbers from that one on */
    const struct trace_pool *pool;   /* NULL: none */
    const struct trace_stack *stack; /* NULL: none */
    struct model_span span;          /* the bytes are those of the blocks */
};

struct model_stream {
    uint64_t stream;
    const struct trace_text *name; /* NULL: none */
    struct model_sum live;
};

/* A moment of the trace: its time, and the number of events that were applied before it. */
struct model_moment {
    uint64_t time, event;
    const struct trace_text *name; /* the mark's name; NULL: none */
};

struct model {
    uint64_t now;     /* the latest time so far */
    uint64_t applied; /* the number of events applied */
    struct model_sum total;
    uint64_t held; /* the sum of model_held() over all pools */
    uint64_t peak_held;
    struct model_moment peak; /* when total.size first had its peak; its `event` includes the event that caused the peak */
    struct model_pool *pools; /* the pool with number N is pools[N + 1]; pools[0] is for events without a pool */
    size_t pool_count;
    struct model_sum *tags, *stacks; /* in the same way by the numbers of tags and stacks */
    const struct trace_text **tag_names;
    const struct trace_stack **stack_frames;
    size_t tag_count, stack_count;
    struct model_stream *streams;
    size_t stream_count;
    struct model_moment *marks, *ooms;
    size_t mark_count, oom_count;
    struct model_stall *stalls; /* in the order of their first calls */
    size_t stall_count;
    struct model_span asked; /* requests of other processes for memory: `bytes` were asked, and `ns` holds the bytes that were given */
    /* Contradictions in the trace, which lost events cause: */
    uint64_t unknown_ends; /* frees of unknown blocks */
    uint64_t late_ends;    /* frees that came after the next allocation at the same address */
    uint64_t reused;       /* allocations of a block that was not free */
    /* The blocks: */
    struct model_block *blocks;
    size_t block_count, block_room; /* items of `blocks`, including free ones */
    uint32_t free_block;            /* 1 + the index of the first free item; 0: none is free */
    struct trace_map by_address;    /* maps (address, number of the pool + 1) to the index in `blocks` */
    struct trace_map by_stream, by_stall;
    size_t pool_room, tag_room, stack_room, stream_room, stall_room, mark_room, oom_room;
};

/* Applies the next event. A zeroed model is an empty one. */
void model_apply(struct model *model, const struct trace_event *event);
/* Forgets all live blocks: they leave the sums, and later events about them are treated as events about unknown blocks. */
void model_forget_live(struct model *model);
void model_free(struct model *model);

/* Returns the live or cached block at that address in that pool, or NULL if there is none. */
const struct model_block *model_find(const struct model *model, uint64_t address, const struct trace_pool *pool);

/* Returns the bytes of the device that the pool holds: its reserved bytes or, if they are not recorded, or are fewer while the pool is
   awake, the bytes of its live and cached blocks. */
uint64_t model_held(const struct model_pool *pool);

/* Adds the figures of `span` to `sum`. */
void model_span_join(struct model_span *sum, const struct model_span *span);

/* model_apply() in the form that trace_play() needs, with the model as the context. Always returns true. */
bool model_look(void *model, const struct trace_event *event);

#endif
