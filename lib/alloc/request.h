/* SPDX-License-Identifier: MIT */
/*
 * request.h - one request on its way to CUDA: what was asked, and what the last attempt said.
 *
 * Lives on the stack of the requesting thread. Where an attempt finds no memory it is handed up to `weir.out_of_memory`.
 */
#ifndef WEIR_LIB_REQUEST_H
#define WEIR_LIB_REQUEST_H

#include "lib/alloc/stream.h"

/* One request on its way: what was asked, and what the last attempt said. */
struct weir__request {
    weir_pool *pool;
    size_t asked;      /* bytes */
    size_t rounded;    /* those of the size class, if a cache may keep the block later; else the same */
    gpu_stream stream; /* not capturing */
    uint64_t id;       /* of the stream; 0: it was not asked for */
    weir_stream *opened;       /* the caller has it, within a call; else NULL */
    struct weir__ask ask; /* what the backing is asked, and what it answered last */
    uint64_t deadline; /* by gpu->now(): an attempt asks CUDA for nothing more after it. 0: none yet */
    uint64_t took;     /* ticks that CUDA took for the block, if the recorder is to look at that; else 0 */
    uint64_t reserved; /* bytes of the pool behind that call; 0: it was not asked */
    size_t got;        /* bytes that CUDA gave: one of the two sizes */
    int code;          /* CUDA's, of the last attempt */
    bool small;        /* for the small twin, if there is room */
    bool insist;       /* CUDA is to be asked even where that seems vain */
    bool untried;      /* at the last attempt it was not asked for that reason */
    bool was_asked;    /* it was */
    bool at_cap;       /* the last attempt failed at the pool's max_size, not at the device */
    bool is_crowded;   /* it failed beside other requests, and perhaps because of them: it says nothing */
};

/* The path of a request, behind the argument checks of the public functions: asks CUDA for `size` bytes (0 gives NULL) from the pool, which
   the caller holds. opened: the stream, if it is opened, so that its cache may keep the block later. Call it with no lock held. */
weir_status weir__serve(weir_pool *pool, void **ptr, size_t size, const struct weir__raw *raw, weir_stream *opened);

/* Asks CUDA within the cap, unless that is vain, for each size and of each pool that can serve the request. The caller is one who asks,
   beside others or alone (asking.h). On success the pool's counters have the block; else the members of the request say why not. */
bool weir__attempt(struct weir__request *request, void **ptr);

/* Of a refused request, or before other processes are asked: the first attempt may have taken what the device had left, which goes back.
   Call it with no lock held. */
void weir__request_give_back(struct weir__request *request);

/* Of a request for a large block, on a stream whose cache may keep such a block later: where a pool that does not ask for them would have to
   grow, the stream gives up the large blocks that it keeps, and then other streams theirs, but no more than the request needs. Streams that
   take turns so reserve no more than one of them. opened: that stream, whether or not the caller has it. */
void weir__request_make_way(struct weir__request *request, const weir_stream *opened);

/* Where the pool would have to grow for so many bytes, and others have enough of it pending, the request's stream waits for that, as far as
   the policy wants it (order.c). Returns whether something has become the stream's own. */
bool weir__request_rather_waits(struct weir__request *request, uint64_t size);
static inline bool weir__request_may_wait(const struct weir__request *request)
{
    return atomic_load_explicit(&request->pool->backing->pending_max, memory_order_relaxed) != UINT64_MAX;
}

/* What it has waited, if at all, becomes an event. Call it with no lock held. */
void weir__request_note_wait(struct weir__request *request);

/* Bytes that the device could have for one pool if every other one of this weir gave all that it has idle. UINT64_MAX: nobody knows. */
uint64_t weir__device_obtainable(struct weir__device *device);

/* The request for which this thread is within an out-of-memory callback, whose own requests must not climb the ladder that waits for it.
   NULL: it is in none. */
extern __thread const struct weir__request *weir__in_callback __attribute__((visibility("hidden")));

#endif
