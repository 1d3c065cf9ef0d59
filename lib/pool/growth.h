/* SPDX-License-Identifier: MIT */
/*
 * growth.h - how far a pool may grow under its cap.
 *
 * At a cap a request claims its bytes before it is served, so that no two pass where one fits. The rest is the driver's where it enforces
 * the cap; where it does not, for a pool and its twin together, Weir watches what the pool grows by.
 *
 * CUDA says only afterwards by how much a pool grew for a request. As long as there is room for the worst that a request can do, nothing is
 * asked. Beyond that, requests that may take the pool above its cap go one at a time; the block of one that did goes back at once, and the
 * memory with it. On a busy stream that takes until the stream gets there, and the next request sees to it. Meanwhile the pool may be above
 * its cap by that block, so that nobody else is refused for it, but by no more: no other request that may take it there is tried on a
 * stream of the program's.
 *
 * Owned by its pool. `lock` is held over CUDA calls by who may take the pool above its cap; `room_lock` is a leaf.
 */
#ifndef WEIR_LIB_GROWTH_H
#define WEIR_LIB_GROWTH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/spin.h"
#include "lib/gpu/gpu.h"
#include "include/weir.h"

struct weir__growth {
    pthread_mutex_t lock;
    gpu_event undone;  /* behind the block that went back last, if that is not complete; else NULL. Guarded by lock, like the next three */
    uintptr_t block;   /* its address, */
    uint64_t size;     /* its bytes, written under both locks, */
    uint64_t withheld; /* and those of its own steps: nobody can have them until then, so the pool may be above its cap by so many */

    weir__spin room_lock; /* guards the others */
    uint64_t claimed;     /* bytes that CUDA is being asked for */
    atomic_bool is_ragged; /* there were requests for other sizes than whole steps, so that blocks may share steps */
    bool is_due;          /* something is on its way back: the next request is to see whether it is there */
    uint64_t max_size;    /* for which `room` was found */
    uint64_t room;        /* bytes that the pool may grow by, whatever becomes of the requests that CUDA is being asked for */
    uint64_t growing;     /* bytes that it may grow by for those, */
    uint64_t begun;       /* and for all requests since it was made */
};

void weir__growth_init(struct weir__growth *growth);
void weir__growth_destroy(struct weir__growth *growth, const struct gpu *gpu);
/* The cap that the driver is to enforce for a pool that is being made; 0: none. With a twin the cap is that of both together, which only
   Weir can watch. */
uint64_t weir__growth_native_cap(const weir_pool *pool);
/* Before another cap holds, as requests that need not be watched take room too. */
void weir__growth_forget_room(struct weir__growth *growth);

/* One request that CUDA is asked for. On the stack of who asks. */
struct weir__growing {
    weir_pool *pool;
    uint64_t max_size; /* the cap when it began; 0: none */
    uint64_t size;     /* bytes asked for */
    uint64_t most;     /* bytes that the pool may grow by; 0: Weir does not watch that */
    uint64_t own;      /* bytes of steps that the block shares with no other one, wherever it lies */
    bool is_ragged;    /* it is for no whole number of steps */
    bool is_risky;     /* the pool may be above its cap afterwards. growth.lock is held */
    bool is_unwatched; /* what was undone is behind work, and growth.undone is an earlier one's */
};

enum weir__growth_answer {
    WEIR__GROWTH_GO,      /* CUDA may be asked; weir__growth_end() follows */
    WEIR__GROWTH_FULL,    /* it does not fit below the cap */
    WEIR__GROWTH_CROWDED, /* it would, but for what others claim and may not get */
    WEIR__GROWTH_LATER,   /* what another request took above the cap is still on its way back */
};

/* Before CUDA is asked for so many bytes of the pool. alone: nobody else asks, and what goes back is complete at once. *waited grows by the
   nanoseconds that others took. */
enum weir__growth_answer weir__growth_begin(struct weir__growing *growing, weir_pool *pool, uint64_t bytes, bool alone, uint64_t *waited);
/* What CUDA gave is in the pool's figures. */
void weir__growth_end(struct weir__growing *growing);

/* Nobody asks: nothing is claimed. */
bool weir__growth_is_valid(struct weir__growth *growth);

/* Bytes that requests have taken above the cap and that are not back yet. */
uint64_t weir__growth_undone(struct weir__growth *growth);

/* After CUDA was asked, and gave the block (NULL: it gave none): gives back idle memory down to the cap, as the driver does at a cap of its
   own. false: the pool is still above it, and the block must go back. */
bool weir__growth_is_within(struct weir__growing *growing, const void *block);
/* It was freed on that stream. growing->is_unwatched: the caller is to count it on the line of that stream. Returns the bytes that are on
   their way back there; 0: all are back. */
uint64_t weir__growth_undo(struct weir__growing *growing, const void *block, gpu_stream stream);

#endif
