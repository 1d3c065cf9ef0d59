/* SPDX-License-Identifier: MIT */
/*
 * recorder.h - records the latest events of a weir: a ring of events for each thread, and the names of pools, streams and tags that the
 * events refer to.
 *
 * A recorder belongs to its weir. Writing an event takes no lock, except for the first event of a thread, which gets its ring. `lock` is a
 * leaf and guards the lists of rings, of pools, of open streams and of tags. Rings and names exist as long as the recorder does; the ring of a
 * thread that has ended is given to the next new thread.
 */
#ifndef WEIR_LIB_RECORDER_H
#define WEIR_LIB_RECORDER_H

#include <pthread.h>

#include "lib/gpu/gpu.h"
#include "lib/record/ring.h"
#include "lib/record/stack.h"
#include "lib/record/tag.h"

enum weir__level { WEIR__LEVEL_OFF, WEIR__LEVEL_POOL, WEIR__LEVEL_ALL };

#define WEIR__POOL_IS_ARENA 1
#define WEIR__POOL_IS_HOST 2
#define WEIR__POOL_IS_PRIVATE 4
#define WEIR__POOL_IS_UNAWARE 8

/* A pool in the recorder's list. Events refer to a pool by its position in the list, counted from 1. */
struct weir__recorded_pool {
    char *name;
    int device;
    unsigned flags;
};

/* The name of a mark or a stream takes several events: the mark or opening itself, and one event for each part of the name. */
#define WEIR__NAME_MAX 72  /* bytes of a name that are recorded; a longer name loses its end */
#define WEIR__NAME_PART 24 /* bytes of a name that one event holds */
#define WEIR__NAME_EVENTS (1 + WEIR__NAME_MAX / WEIR__NAME_PART)

/* An open stream: a member of the struct that describes the stream elsewhere. The recorder's lock guards it while the stream is open. */
struct weir__recorded_stream {
    struct weir__recorded_stream *next, *previous; /* in the recorder's list: the streams opened before and after this one */
    bool is_listed;
    char name[WEIR__NAME_MAX + 1]; /* "" if the stream has no name */
    const void *handle;
    unsigned pool;
    uint64_t order, time; /* of the event "stream open"; order 0: that event was not recorded */
};

struct weir__recorder {
    _Atomic unsigned level; /* enum weir__level */
    atomic_bool has_stacks;
    struct weir__tags tags;
    struct weir__stacks *_Atomic stacks; /* NULL until stacks are first switched on */
    _Atomic uint64_t order;   /* the number of the newest event that is numbered for the weir as a whole */
    _Atomic uint64_t dropped; /* events lost because host memory for a ring ran out */
    uint64_t id;              /* never 0; no two recorders of a process ever have the same id */
    const struct gpu *gpu;
    uint64_t ring_bytes;
    uint64_t started_monotonic, started_real; /* when recording started: gpu->now() and CLOCK_REALTIME, in nanoseconds, */
    uint64_t started_ticks;                   /* and gpu->ticks(), all read at the same moment */
    struct weir__recorder *next;              /* in the process's list of recorders */
    pthread_mutex_t lock;
    struct weir__ring *rings; /* guarded by lock; the newest first */
    struct weir__recorded_pool *pools;
    size_t pool_count, pool_room;
    struct weir__recorded_stream *streams; /* guarded by lock; the newest first */
};

void weir__recorder_init(struct weir__recorder *recorder);
/* Starts the recorder's clocks. Call it before the first event. */
void weir__recorder_start(struct weir__recorder *recorder, const struct gpu *gpu, uint64_t ring_bytes);
/* Frees everything. No other call on the recorder may run at the same time or follow. */
void weir__recorder_destroy(struct weir__recorder *recorder);
/* Returns whether the recorder with that id still exists. */
bool weir__recorder_is_there(uint64_t id);

/* Sets the level of recording, and whether events get stacks. If host memory for the table of stacks runs out, events get none. */
void weir__recorder_set(struct weir__recorder *recorder, enum weir__level level, bool stacks);

/* A call of CUDA that takes so many ticks (4 to 16 µs) may have made the pool grow, so the pool's size is worth a look: the smallest growth
   of a pool takes 25 µs. */
#define WEIR__SLOW_TICKS UINT64_C(16384)

/* Converts ticks of gpu->ticks() to nanoseconds. */
uint64_t weir__record_nanoseconds(const struct weir__recorder *recorder, uint64_t ticks);

/* Adds a pool. Returns the number by which events refer to the pool, or 0 if there are too many pools or host memory runs out. */
unsigned weir__recorder_add_pool(struct weir__recorder *recorder, const char *name, int device, unsigned flags);
/* Copies up to `max` pools, beginning behind the first `from` ones, and returns their number. The names are valid as long as the recorder
   exists. */
size_t weir__recorder_pools(struct weir__recorder *recorder, size_t from, struct weir__recorded_pool *pools, size_t max);

static inline bool weir__records(const struct weir__recorder *recorder, enum weir__level level)
{
    return atomic_load_explicit(&recorder->level, memory_order_relaxed) >= level;
}

/* Returns whether requests and frees that a cache serves must be noted, as events or for the figures of tags. */
static inline bool weir__records_cached(const struct weir__recorder *recorder)
{
    return weir__records(recorder, WEIR__LEVEL_ALL) || atomic_load_explicit(&recorder->tags.are_used, memory_order_relaxed);
}

/* Returns the next order number of the weir, for an event; 0 if nothing is recorded. To get the right order, a free takes its number before
   it gives memory back, and a request after it has got memory. */
static inline uint64_t weir__record_order(struct weir__recorder *recorder)
{
    return weir__records(recorder, WEIR__LEVEL_POOL) ? atomic_fetch_add_explicit(&recorder->order, 1, memory_order_relaxed) + 1 : 0;
}

/* A cache of the rings that this thread used last. The slot of a ring is its recorder's id modulo WEIR__RINGS_MINE. */
#define WEIR__RINGS_MINE 4
struct weir__my_ring {
    uint64_t recorder;
    struct weir__ring *ring;
};
extern __thread struct weir__my_ring weir__my_rings[WEIR__RINGS_MINE] __attribute__((visibility("hidden")));

/* Returns this thread's ring, or NULL if host memory runs out. The first call of a thread makes the ring, under the lock. */
struct weir__ring *weir__recorder_find_ring(struct weir__recorder *recorder);
static inline struct weir__ring *weir__recorder_ring(struct weir__recorder *recorder)
{
    const struct weir__my_ring *mine = &weir__my_rings[recorder->id % WEIR__RINGS_MINE];
    return mine->recorder == recorder->id ? mine->ring : weir__recorder_find_ring(recorder);
}

/* Returns the origin of a request: the number of the thread's tag in the upper 12 bits, the number of its stack in the lower 20. It is 0 if
   neither is recorded. The caller holds no lock of Weir, since unwinding the stack takes the loader's lock. */
uint32_t weir__record_find_origin(struct weir__recorder *recorder);
static inline uint32_t weir__record_origin(struct weir__recorder *recorder)
{
    bool is_wanted = atomic_load_explicit(&recorder->has_stacks, memory_order_relaxed) ||
                     atomic_load_explicit(&recorder->tags.are_used, memory_order_relaxed);
    return is_wanted ? weir__record_find_origin(recorder) : 0;
}

static inline unsigned weir__origin_tag(uint32_t origin)
{
    return origin >> 20;
}

static inline uint32_t weir__origin_stack(uint32_t origin)
{
    return origin & 0xFFFFF;
}

/* Writes an event about a block, with the time of the fast, coarse clock. */
void weir__record(struct weir__recorder *recorder, struct weir__event *event);
/* Writes an event with the figures a and b, the time of the exact clock and the weir's next order number. Does nothing if the level is
   lower than WEIR__LEVEL_POOL. */
void weir__record_figures(struct weir__recorder *recorder, enum weir__kind kind, unsigned pool, const void *stream, uint64_t a, uint64_t b);

/* Splits an event with a name into events for a ring: a copy of the event, then one event for each part of the name. Returns their
   number. */
size_t weir__event_name(struct weir__event events[static WEIR__NAME_EVENTS], const struct weir__event *event, const char *name);
void weir__record_mark(struct weir__recorder *recorder, const char *name);

/* Add a stream that was opened to the list (name: "" for none), or remove a stream that is about to be closed, and record the event. */
void weir__record_stream_open(struct weir__recorder *recorder, struct weir__recorded_stream *stream, unsigned pool, const void *handle,
                              const char *name);
void weir__record_stream_close(struct weir__recorder *recorder, struct weir__recorded_stream *stream);
/* Copies the open streams, the oldest first, `max` at most. Returns the number of open streams, which may be larger. */
size_t weir__recorder_streams(struct weir__recorder *recorder, struct weir__recorded_stream *streams, size_t max);
/* Copies the name of an open stream. Returns false if the stream has no name or is not open. *is_shared: another open stream has the same
   name. */
bool weir__recorder_stream_name(struct weir__recorder *recorder, const struct weir__recorded_stream *stream,
                                char name[static WEIR__NAME_MAX + 1], bool *is_shared);

/* Returns the ring that follows `ring` in the recorder's list (for NULL: the first ring), or NULL at the end. */
struct weir__ring *weir__recorder_next(struct weir__recorder *recorder, const struct weir__ring *ring);

#endif
