/* SPDX-License-Identifier: MIT */
/*
 * arena_internal.h - the struct of an arena, with the functions that arena.c and arena_serve.c share.
 *
 * An arena has two locks. No thread waits for the GPU while it holds one of them. `growing` is held by the thread that maps or unmaps
 * pages. `lock`, a spin lock, guards the extents; it is taken below `growing` and below the lock of a debt, and no lock is taken below it.
 * `lock` is released during the driver's calls on pages.
 */
#ifndef WEIR_LIB_BACKING_ARENA_INTERNAL_H
#define WEIR_LIB_BACKING_ARENA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/backing/arena.h"
#include "lib/backing/arena/arena.h"
#include "lib/base/spin.h"

#define WEIR__MAPPED_PATIENCE (UINT64_C(1000) * 1000) /* nanoseconds that a patient trim waits for the last frees of idle streams */

/* The calls of the driver on one page that are under way. The recorder gets them as one event. */
struct weir__mapped_turn {
    uint64_t begun;   /* the time of gpu->now() before the first of these calls */
    uint64_t created; /* bytes of a page that was created and is not mapped yet; 0: there is no such page */
};

/* A page that the driver did not take back when it was released. */
struct weir__mapped_left {
    struct weir__mapped_left *next;
    gpu_page handle;
    uint64_t bytes;
    bool was_mapped; /* the page was mapped before, and the recorder still counts it as mapped */
};

/* The pages of an arena that sleeps, and what was in them (arena_sleep.c). */
struct weir__nap {
    struct weir__nap_page {
        uint64_t address, bytes;
        gpu_page fresh; /* the page that is to be mapped there; 0: none was created yet */
        bool is_filled; /* the page has its contents: it could not be unmapped */
    } *pages;
    size_t count;
    void *host;         /* the contents of all pages, in their order. NULL: they were given up, or no host memory is retained */
    uint64_t host_bytes;
    unsigned how; /* of the WEIR__NAP bits */
};

struct weir__mapped {
    struct weir__backing backing;
    struct weir__backing *captures; /* CUDA's pool for captures, until the arena is closed */
    void *range;                    /* the reserved addresses. This member and the next never change */
    uint64_t range_bytes;
    /* the cap: bytes that may be mapped; 0: no cap. This member and the next are written under the pool's lock */
    _Atomic uint64_t max_size;
    atomic_bool waits;         /* the arena may make a stream wait for the frees of another one */

    pthread_mutex_t growing;
    struct weir__nap nap; /* guarded by `growing` */
    /* the devices that have access, the arena's own first. `growing` guards this member and the next five */
    int devices[GPU_PAGE_DEVICES_MAX];
    size_t device_count;
    struct weir__recorder *recorder; /* the recorder of the arena's weir, or NULL. NULL also once the weir is closed */
    unsigned record;                 /* the number of the arena's pool in the recorder */
    struct weir__mapped_turn turn;
    struct weir__mapped_left *left; /* pages to release again at the next trim, and before the arena is destroyed */

    weir__spin lock; /* guards the members below */
    struct weir__arena arena;
    bool is_shut;          /* the arena sleeps, or is on the way: it serves no request */
    uint64_t asleep_bytes; /* bytes of absent pages */
    uint64_t mapped_high;
    uint64_t left_bytes; /* bytes of the pages in `left`. The figures count these bytes as mapped and not live */
    struct weir__mapped *next_listed; /* the next arena in the list of open or of closed arenas. Guarded by the lock of arena.c instead */
};

static inline struct weir__mapped *weir__mapped_of(struct weir__backing *backing)
{
    return (struct weir__mapped *)backing;
}

/* The whole (arena.c) ------------------------------------------------------------------------------------------------------------------ */

/* Returns the scope of all memory that is pending in the arena. */
static inline struct weir__scope weir__mapped_scope(const struct weir__mapped *mapped)
{
    return (struct weir__scope){.fences = mapped->backing.debts.fences, .debts = &mapped->backing.debts};
}

/* Returns the extents that the debt counts, or NULL if there is no debt. */
static inline struct weir__arena_stream *weir__mapped_freed(struct weir__debt *debt)
{
    return debt ? (struct weir__arena_stream *)debt->room : NULL;
}

/* Returns the arena's debt on the line of the user's stream, or NULL if host memory runs out. */
static inline struct weir__debt *weir__mapped_debt(struct weir__mapped *mapped, const struct weir__user *user)
{
    return user->debt || !user->line ? user->debt : weir__debt_of(&mapped->backing.debts, user->line);
}

/* Records the missing marks of OPEN streams, and waits up to `patience` nanoseconds for all pending frees. */
void weir__mapped_settle(struct weir__mapped *mapped, uint64_t patience);

/* Unmaps complete memory that no block uses, until `keep` bytes are mapped. patience: nanoseconds to wait first for the last frees of idle
   streams. Returns the bytes unmapped: 0 where a sleep or a wake is at work. Call it in relaxed capture mode. */
uint64_t weir__mapped_trim(struct weir__mapped *mapped, uint64_t keep, uint64_t patience);

/* Returns whether the arena sleeps, or is on the way. */
static inline bool weir__mapped_is_shut(struct weir__mapped *mapped)
{
    weir__spin_lock(&mapped->lock);
    bool is_shut = mapped->is_shut;
    weir__spin_unlock(&mapped->lock);
    return is_shut;
}

/* Returns the arena's bytes. `mapped` includes the pages that the driver did not take back. */
struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped);

/* Returns the bytes of all mapped pages and of the pages that the driver did not take back. The caller holds mapped->lock. */
static inline uint64_t weir__mapped_bytes(const struct weir__mapped *mapped)
{
    return mapped->arena.small.mapped_bytes + mapped->arena.large.mapped_bytes + mapped->left_bytes - mapped->asleep_bytes;
}

/* Sleeping (arena_sleep.c) ------------------------------------------------------------------------------------------------------------- */

extern const struct weir__sleep_ops weir__mapped_sleeps __attribute__((visibility("hidden")));
/* The operation page_at() of struct weir__backing_ops. */
bool weir__mapped_page_at(struct weir__backing *backing, uint64_t address, struct weir__page_at *page);

/* Returns whether the page that begins at this address is absent. The caller holds mapped->lock or mapped->growing. */
bool weir__mapped_is_absent(struct weir__mapped *mapped, uint64_t address);
/* Gives up what the arena has kept of absent pages, before the arena is closed: nobody can wake it any more. */
void weir__mapped_forget_nap(struct weir__mapped *mapped);

/* Requests and pages (arena_serve.c) --------------------------------------------------------------------------------------------------- */

/* The operations of the same names (without "mapped") in struct weir__backing_ops. */
int weir__mapped_serve(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block);
int weir__mapped_extend(struct weir__backing *backing, uint64_t bytes);
int weir__mapped_give(struct weir__backing *backing, void *block, void *from, struct weir__user *user);

/* The tracker of the arena's debts (fence.h). */
extern const struct weir__tracker weir__mapped_tracker __attribute__((visibility("hidden")));

/* The calls of the driver on pages. The caller holds mapped->growing and mapped->lock. The functions release mapped->lock during the call
   of the driver. */
extern const struct weir__page_driver weir__mapped_pages __attribute__((visibility("hidden")));

/* Releases the pages in `left` again, and unmaps complete memory that no block uses, until `keep` bytes are mapped; with a `keep` of 0,
   absent pages are forgotten too. Returns the bytes that went back. The caller holds mapped->growing. */
uint64_t weir__mapped_drop(struct weir__mapped *mapped, uint64_t keep);

#endif
