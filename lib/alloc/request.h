/* SPDX-License-Identifier: MIT */
/*
 * request.h - a request that no cache could serve, and its attempts to get memory from a pool. A pool's *backing* is the arena or the CUDA
 * pool that has its memory; its *twin* is a second CUDA pool for small blocks. *Recovery* is the search for memory after an attempt failed.
 *
 * A request lives on the stack of the requesting thread. If an attempt finds no memory, `weir.out_of_memory` begins recovery.
 */
#ifndef WEIR_LIB_REQUEST_H
#define WEIR_LIB_REQUEST_H

#include "lib/alloc/stream.h"

/* A request: what the program asked for, and how the last attempt ended. Only the requesting thread uses it. */
struct weir__request {
    weir_pool *pool;
    size_t asked;      /* bytes that the program asked for */
    size_t rounded;    /* bytes of the size class, if a cache may keep the block later; else the same as `asked` */
    gpu_stream stream; /* does not capture */
    uint64_t id;       /* the stream's id; 0: CUDA was not asked for the id */
    weir_stream *opened;  /* the stream, which the caller has entered (stream.h); NULL: not opened, or named by its handle */
    struct weir__ask ask; /* the question to the backing, and its last answer */
    uint64_t deadline; /* by gpu->now(): an attempt asks CUDA for nothing more after it. 0: recovery has not begun */
    uint64_t took;     /* ticks that a slow call of CUDA took, until the recorder has written them down; else 0 */
    uint64_t reserved; /* bytes that the pool had reserved after that slow call; 0: unknown */
    size_t got;        /* bytes that CUDA was asked for last: `rounded` or `asked` */
    int code;          /* CUDA's code for the last attempt */
    bool small;        /* the twin is to serve the request if it can */
    bool insist;       /* ask CUDA even if Weir's figures say that the device lacks the memory */
    bool untried;      /* the last attempt did not ask CUDA for `asked`, because the device lacks the memory by Weir's figures */
    bool was_asked;    /* the last attempt asked CUDA at least once */
    bool at_cap;       /* the last attempt failed at the pool's max_size, not at the device */
    bool wakes;        /* it is the pool that asks, for its memory before it wakes; there is no block */
    uint64_t patience; /* nanoseconds that recovery may take, instead of on_oom.deadline; 0: that */
    bool is_crowded;   /* other requests ran at the same time and may have caused the failure, so another attempt may succeed */
};

/* Serves a request after the public functions have checked their arguments: sets *ptr to a block of `size` bytes (NULL for 0) of the pool,
   which the caller holds (weir__pool_hold()). opened: the weir_stream, if the stream is opened, so that its cache may keep the block later.
   Call it with no lock held. */
weir_status weir__serve(weir_pool *pool, void **ptr, size_t size, const struct weir__raw *raw, weir_stream *opened);

/* Tries once to get a block: from the twin, if the request is small, and then from the pool; for `rounded` bytes and then for `asked`.
   Stays below the pool's cap, and does not ask CUDA if the device lacks the memory by Weir's figures, unless `insist` is set. The caller
   has begun to ask (asking.h). Returns true if *ptr is set; the pool's counters then include the block. Returns false if not; the members
   of the request then say why. */
bool weir__attempt(struct weir__request *request, void **ptr);

/* Gives back to the device what a failed attempt may have added to the pool. Called for a refused request, and before recovery asks other
   processes for memory. Call it with no lock held. */
void weir__request_give_back(struct weir__request *request);

/* Called before a request for a large block, on a stream whose cache may keep that block later. If the pool would have to grow, and its
   backing does not ask caches for memory itself, the stream gives back the large blocks in its cache; if that is not enough, other streams
   give back theirs, up to the bytes of the request. So streams that work in turns together reserve only as much as one of them needs.
   opened: that stream, which the caller need not have entered. */
void weir__request_make_way(struct weir__request *request, const weir_stream *opened);

/* Makes the request's stream wait, on the GPU, for pending memory of other streams if the pool would otherwise grow for `size` bytes beyond
   what `reuse.pending_max` allows (order.c). Returns true if the stream may now use some of that memory. The next function returns false if
   the policy allows no such wait. */
bool weir__request_rather_waits(struct weir__request *request, uint64_t size);
static inline bool weir__request_may_wait(const struct weir__request *request)
{
    return atomic_load_explicit(&request->pool->backing->pending_max, memory_order_relaxed) != UINT64_MAX;
}

/* Fills the thread's last error for a request that failed with another code than GPU_OUT_OF_MEMORY, and returns the status. when: a part of
   the sentence. */
weir_status weir__request_fail(const struct weir__request *request, const char *when);

/* Records the time that the request has waited, if any, as an event of the trace, and sets that time to 0. Call it with no lock held. */
void weir__request_note_wait(struct weir__request *request);

/* Returns the bytes that one pool could get from the device if all pools of this weir gave back their idle memory; UINT64_MAX if that
   number is unknown. */
uint64_t weir__device_obtainable(struct weir__device *device);

/* The request for which this thread runs an out-of-memory callback; NULL if it runs none. Requests that the callback makes must not begin
   recovery, since the present recovery waits for the callback. */
extern __thread const struct weir__request *weir__in_callback __attribute__((visibility("hidden")));

#endif
