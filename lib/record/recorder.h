/* SPDX-License-Identifier: MIT */
/*
 * recorder.h - what a weir did lately: events in a ring for each thread, and the names that they use.
 *
 * Owned by its weir. Writing an event takes no lock, but for the first one of a thread. `lock` is a leaf: it guards the lists of rings, of
 * pools and of open streams. Rings and names live as long as the recorder does; a ring whose thread has ended goes to the next new thread.
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

/* A pool as events name it: by its place in the list, from 1. */
struct weir__recorded_pool {
    char *name;
    int device;
    unsigned flags;
};

/* A name, of a mark or of a stream. */
#define WEIR__NAME_MAX 72  /* bytes of it that are kept */
#define WEIR__NAME_PART 24 /* and that one event has room for */
#define WEIR__NAME_EVENTS (1 + WEIR__NAME_MAX / WEIR__NAME_PART)

/* An opened stream, as part of the struct of whoever opened it. The recorder's lock guards it, from opening to closing. */
struct weir__recorded_stream {
    struct weir__recorded_stream *next, *previous; /* in the recorder's list: the streams opened before and after this one */
    bool is_listed;
    char name[WEIR__NAME_MAX + 1]; /* "": none */
    const void *handle;
    unsigned pool;
    uint64_t order, time; /* of the event of its opening; order 0: no event was recorded */
};

struct weir__recorder {
    _Atomic unsigned level; /* enum weir__level */
    atomic_bool has_stacks;
    struct weir__tags tags;
    struct weir__stacks *_Atomic stacks; /* made when stacks are first wanted, NULL before */
    _Atomic uint64_t order;   /* the last number that an event of the weir got */
    _Atomic uint64_t dropped; /* events lost for want of host memory for a ring */
    uint64_t id;              /* never 0, and given once in the life of a process */
    const struct gpu *gpu;
    uint64_t ring_bytes;
    uint64_t started_monotonic, started_real; /* nanoseconds by two clocks, read at one moment */
    uint64_t started_ticks;                   /* ticks, read at the same moment */
    struct weir__recorder *next;              /* in the process's list of recorders */
    pthread_mutex_t lock;
    struct weir__ring *rings; /* guarded by lock; the newest first */
    struct weir__recorded_pool *pools;
    size_t pool_count, pool_room;
    struct weir__recorded_stream *streams; /* guarded by lock; the newest first */
};

void weir__recorder_init(struct weir__recorder *recorder);
/* Before the first event. */
void weir__recorder_start(struct weir__recorder *recorder, const struct gpu *gpu, uint64_t ring_bytes);
/* No other call on it runs or follows. */
void weir__recorder_destroy(struct weir__recorder *recorder);
/* Whether the recorder with that id is not destroyed yet. */
bool weir__recorder_is_there(uint64_t id);

/* Sets what is recorded from now on. Without host memory for a table of stacks, events have none. */
void weir__recorder_set(struct weir__recorder *recorder, enum weir__level level, bool stacks);

/* A call that takes so many ticks is worth a look at what it did: 4 to 16 us. The first growth steps of a pool take 25 us and more. */
#define WEIR__SLOW_TICKS UINT64_C(16384)

/* Converts ticks of gpu->ticks() to nanoseconds. */
uint64_t weir__record_nanoseconds(const struct weir__recorder *recorder, uint64_t ticks);

/* Adds a pool. Returns the number by which events name it, or 0 if there are too many pools or no host memory. */
unsigned weir__recorder_add_pool(struct weir__recorder *recorder, const char *name, int device, unsigned flags);
/* Copies up to `max` pools, without the first `from`, and returns how many. The names live as long as the recorder. */
size_t weir__recorder_pools(struct weir__recorder *recorder, size_t from, struct weir__recorded_pool *pools, size_t max);

static inline bool weir__records(const struct weir__recorder *recorder, enum weir__level level)
{
    return atomic_load_explicit(&recorder->level, memory_order_relaxed) >= level;
}

/* Whether cached calls are to be noted, for events or for the figures of tags. */
static inline bool weir__records_cached(const struct weir__recorder *recorder)
{
    return weir__records(recorder, WEIR__LEVEL_ALL) || atomic_load_explicit(&recorder->tags.are_used, memory_order_relaxed);
}

/* The number of an event that counts in the weir. It is taken where the order is made: before memory goes back, and after it has come. */
static inline uint64_t weir__record_order(struct weir__recorder *recorder)
{
    return weir__records(recorder, WEIR__LEVEL_POOL) ? atomic_fetch_add_explicit(&recorder->order, 1, memory_order_relaxed) + 1 : 0;
}

/* The rings that this thread used last, each in the slot of its recorder's id. */
#define WEIR__RINGS_MINE 4
struct weir__my_ring {
    uint64_t recorder;
    struct weir__ring *ring;
};
extern __thread struct weir__my_ring weir__my_rings[WEIR__RINGS_MINE] __attribute__((visibility("hidden")));

/* The ring of this thread; NULL: no host memory. The first call of a thread takes the lock. */
struct weir__ring *weir__recorder_find_ring(struct weir__recorder *recorder);
static inline struct weir__ring *weir__recorder_ring(struct weir__recorder *recorder)
{
    const struct weir__my_ring *mine = &weir__my_rings[recorder->id % WEIR__RINGS_MINE];
    return mine->recorder == recorder->id ? mine->ring : weir__recorder_find_ring(recorder);
}

/* Who asks for a block: the thread's tag in the upper 12 bits, the stack in the lower 20. 0 if neither is recorded. The caller holds no
   lock of Weir's, as the stack may have to be unwound. */
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

/* Writes an event of a block, with a coarse time. */
void weir__record(struct weir__recorder *recorder, struct weir__event *event);
/* Writes an event with the figures a and b, an exact time and the next order of the weir. Does nothing below level `pool`. */
void weir__record_figures(struct weir__recorder *recorder, enum weir__kind kind, unsigned pool, const void *stream, uint64_t a, uint64_t b);

/* Makes the events that stand for an event with a name: a copy of it, and behind it one for each part of the name. Returns how many. */
size_t weir__event_name(struct weir__event events[static WEIR__NAME_EVENTS], const struct weir__event *event, const char *name);
void weir__record_mark(struct weir__recorder *recorder, const char *name);

/* Records that a stream was opened (name: "" for none), or is about to be closed, and adds it to the list, or removes it. */
void weir__record_stream_open(struct weir__recorder *recorder, struct weir__recorded_stream *stream, unsigned pool, const void *handle,
                              const char *name);
void weir__record_stream_close(struct weir__recorder *recorder, struct weir__recorded_stream *stream);
/* Copies the open streams, the oldest first, at most `max`. Returns how many there are. */
size_t weir__recorder_streams(struct weir__recorder *recorder, struct weir__recorded_stream *streams, size_t max);
/* Copies the name of an open stream. Returns false if the stream has none or is not open. *is_shared: another open stream has the same. */
bool weir__recorder_stream_name(struct weir__recorder *recorder, const struct weir__recorded_stream *stream,
                                char name[static WEIR__NAME_MAX + 1], bool *is_shared);

/* The ring behind `ring` in the recorder's list (NULL: the first ring), or NULL at the end. */
struct weir__ring *weir__recorder_next(struct weir__recorder *recorder, const struct weir__ring *ring);

#endif
