/* SPDX-License-Identifier: MIT */
/*
 * arena.h - the memory of a pool with `backing: arena`: an arena (arena/arena.h) with what makes it safe on streams and threads. Its functions
 * are those of CUDA's pools: allocating and freeing in the order of a stream, trimming, figures.
 *
 * What a stream freed serves that stream at once, and others once an event of Weir's own behind the free was seen complete, or once their
 * stream was made to wait for it. A stream that is open is kept in mind, and its event is recorded when others could use what it freed.
 * Any other stream may be gone later, so its event is recorded at the free. A stream has two events at most: one that is looked at, and one
 * behind all later frees, which is recorded anew.
 *
 * Owned by its pool, from its creation until it is closed, and from then on by the list of closed arenas, while blocks of it are live or a
 * free was never seen complete: CUDA cannot free what Weir has mapped. Three locks, and the GPU is waited for under none of them but
 * in weir__mapped_wait(): `growing`, of who maps or unmaps; `events`, held over the calls that record and ask events; `lock`, a spin lock
 * that guards extents and the list of streams. Of the first two nobody takes one under the other, and `lock` is a leaf under both. The
 * driver's calls on pages are made without `lock`.
 */
#ifndef WEIR_LIB_BACKING_ARENA_H
#define WEIR_LIB_BACKING_ARENA_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/backing/arena/arena.h"
#include "lib/backing/backing.h"
#include "lib/base/spin.h"
#include "lib/base/table.h"
#include "lib/gpu/gpu.h"

#define WEIR__MAPPED_RANGE_SHARE 4 /* the range is so many times the device's memory, or a half of that and so on, down to one time */
#define WEIR__MAPPED_AT_CAP 0x10000 /* a code, none of CUDA's: max_size */
#define WEIR__MAPPED_PATIENCE (UINT64_C(1000) * 1000) /* nanoseconds that idle streams may take to come to their last frees */

/* A stream as a call names it, for which it is alive and does not capture. */
struct weir__mapped_user {
    gpu_stream handle;
    int device;   /* of the stream */
    uint64_t id;  /* that no other stream of the process ever has; 0: nobody knows, and it is like no other */
    bool is_open; /* it stays alive until weir__mapped_stream_closed() */
};

struct weir__recorder;

/* What the driver is doing to one page, call by call, so that the recorder has it as one event. */
struct weir__mapped_turn {
    uint64_t begun;   /* gpu->now() */
    uint64_t created; /* bytes of a page that was made and is not mapped yet; 0: there is none */
};

/* A page that the driver did not take back when it was released. */
struct weir__mapped_left {
    struct weir__mapped_left *next;
    gpu_page handle;
    uint64_t bytes;
    bool was_mapped; /* and is so for the recorder */
};

struct weir__mapped {
    struct weir__backing backing;
    void *range;
    uint64_t range_bytes;
    _Atomic uint64_t max_size; /* bytes that may be mapped; 0: no bound */
    atomic_bool waits;         /* a stream may be made to wait for another one's free */

    pthread_mutex_t growing;
    int devices[GPU_PAGE_DEVICES_MAX]; /* that have access: its own first. Guarded by growing, like the next four */
    size_t device_count;
    struct weir__recorder *recorder; /* of its weir, until that is closed */
    unsigned record;                 /* its pool's number there */
    struct weir__mapped_turn turn;
    struct weir__mapped_left *left; /* each is released again at the next trim, and before the arena ends */

    pthread_mutex_t events;

    weir__spin lock; /* guards the rest */
    struct weir__arena arena;
    uint64_t mapped_high;
    uint64_t left_bytes; /* of the pages in `left`; the figures have them as mapped and in use by nobody */
    struct weir__table streams; /* by id */
    struct weir__mapped *next_listed; /* of the list of open arenas, or of closed ones; guarded by the lock of arena_closed.c */
};

/* Reserves addresses, and maps nothing. Returns the waist's code, WEIR__PAGE_NO_ADDRESSES where the process may not have so many, or
   WEIR__PAGE_NO_HOST_MEMORY. memory: bytes of the device. */
int weir__mapped_create(const struct gpu *gpu, int device, uint64_t memory, struct weir__mapped **mapped);

/* Waits for all frees that have an event. Call it in relaxed capture mode. */
void weir__mapped_wait(struct weir__mapped *mapped);
/* Unmaps everything and ends it, if nothing is live, all frees were seen complete, and the driver takes all of it back. Whoever calls it
   alone knows it. Call it in relaxed capture mode. */
bool weir__mapped_destroy(struct weir__mapped *mapped);

/* Serves so many bytes from what is mapped and known to be free for the stream of that id; NULL: nothing fits. */
struct weir__extent *weir__mapped_serve(struct weir__mapped *mapped, uint64_t bytes, uint64_t id);
/* The same after a look at the events, by which more may be known to be free. In any capture mode. */
struct weir__extent *weir__mapped_look_and_serve(struct weir__mapped *mapped, uint64_t bytes, uint64_t id);
/* Serves so many bytes for which both failed. GPU_OUT_OF_MEMORY: nothing that may serve the stream fits, and no more can be mapped. *lack:
   for which want, as WEIR__MAPPED_AT_CAP, WEIR__PAGE_NO_ADDRESSES, WEIR__PAGE_NO_HOST_MEMORY; 0: of the device's memory. *waited grows by
   the nanoseconds that others took who map or unmap. */
int weir__mapped_malloc(struct weir__mapped *mapped, uint64_t bytes, const struct weir__mapped_user *user, struct weir__extent **extent,
                        int *lack, uint64_t *waited);
/* Returns the waist's code, or WEIR__PAGE_NO_HOST_MEMORY, where no event could be put behind the free; nothing was done then. */
int weir__mapped_free(struct weir__mapped *mapped, struct weir__extent *extent, const struct weir__mapped_user *user);
/* Makes so many bytes idle. */
int weir__mapped_fill(struct weir__mapped *mapped, uint64_t bytes);

/* No call on the stream is under way, and none follows. It is alive, and its last frees get an event. */
void weir__mapped_stream_closed(struct weir__mapped *mapped, uint64_t id);
/* The stream was destroyed while it was open: nobody may touch its handle any more. */
void weir__mapped_stream_gone(struct weir__mapped *mapped, uint64_t id);
/* Whether streams that are gone or closed have freed something without an event behind it, but for those that captured when they were
   closed, */
bool weir__mapped_has_lost(struct weir__mapped *mapped);
/* and for those: an event behind all work of the stream's device, or if it has no such events, waiting for that. Called in relaxed capture
   mode while nothing captures. */
void weir__mapped_cover_lost(struct weir__mapped *mapped, bool has_device_events);
/* Those that captured when they were closed are as the others: nothing captures any more. */
void weir__mapped_captures_over(struct weir__mapped *mapped);
/* Puts an event behind what an open stream freed. Call it in relaxed capture mode. */
void weir__mapped_cover(struct weir__mapped *mapped, uint64_t id);
/* The same of all open streams. */
void weir__mapped_cover_all(struct weir__mapped *mapped);

/* Asks each event once. Call it in relaxed capture mode, as the next two. Returns whether one of them is not complete. */
bool weir__mapped_look(struct weir__mapped *mapped);
/* Unmaps what is complete and idle until `keep` bytes are mapped. patience: nanoseconds that idle streams may take to come to their last
   frees. Returns the bytes. */
uint64_t weir__mapped_trim(struct weir__mapped *mapped, uint64_t keep, uint64_t patience);
/* These devices, beside its own, have access to what is mapped from now on, and to what is mapped already. A device that is left out keeps
   its access to the latter. After a failure the former ones have it. */
int weir__mapped_set_peers(struct weir__mapped *mapped, const int *devices, size_t count);

/* mapped: with what the driver did not take back. */
struct weir__arena_figures weir__mapped_figures(struct weir__mapped *mapped);
/* Bytes that the driver did not take back so far. */
uint64_t weir__mapped_left(struct weir__mapped *mapped);
/* As weir__arena_pinned(). A bound for `most`, at which the lock is held for some 100 us. */
#define WEIR__PINNED_PARTS 16384
bool weir__mapped_pinned(struct weir__mapped *mapped, size_t most, uint64_t *bytes);
uint64_t weir__mapped_high(struct weir__mapped *mapped);
void weir__mapped_reset_high(struct weir__mapped *mapped);

/* All arenas of the process: those of open pools, as what is idle in them is nobody's but for Weir, and those that outlive their pool. The
   lock of the two lists is held over the calls that look at events and unmap, and comes before those of the arenas. */

/* From now on others may take what is idle in it, until weir__mapped_close(). */
void weir__mapped_list(struct weir__mapped *mapped);

/* Has the open arenas of the device, whosever they are, `but` this one (NULL: all), give so many bytes of what is idle, in whole growth
   steps. Returns the bytes that they gave. */
uint64_t weir__mapped_take(const struct gpu *gpu, int device, uint64_t bytes, const struct weir__mapped *but);

/*
 * After weir__mapped_stream_closed() of each stream that was open. Waits for all frees, and unmaps everything. With blocks still live, or a
 * free that can never be seen complete, the arena lives on until the last block is freed, or for good; with memory that the driver did not
 * take back, until it does. Returns whether it does, and why in *figures. Takes `mapped`. Call it in relaxed capture mode.
 */
bool weir__mapped_close(struct weir__mapped *mapped, struct weir__arena_figures *figures);

/* Frees such a block, on a stream that is alive. false: there is none at that address. *code is that waist's. */
bool weir__mapped_closed_free(void *ptr, gpu_stream stream, const struct gpu **gpu, int *code);

/* Unmaps what has come free. Returns the bytes. */
uint64_t weir__mapped_sweep(void);

#endif
