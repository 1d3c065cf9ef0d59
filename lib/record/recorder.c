/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/record/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/gpu/clock.h"

#define POOLS_MAX 65535
#define STACKS_MAX 0xFFFFF /* the largest number that fits into the 20 bits for the stack in an origin */

/* Guards the list of all recorders of the process. A thread looks there whether the recorder of one of its tags still exists. A leaf. */
static pthread_mutex_t recorders_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__recorder *recorders;

__thread struct weir__my_ring weir__my_rings[WEIR__RINGS_MINE];

/* The life of a recorder --------------------------------------------------------------------------------------------------------------- */

void weir__recorder_init(struct weir__recorder *recorder)
{
    static _Atomic uint64_t ids;
    pthread_mutex_init(&recorder->lock, NULL);
    weir__tags_init(&recorder->tags, &recorder->lock);
    recorder->id = atomic_fetch_add(&ids, 1) + 1;
    pthread_mutex_lock(&recorders_lock);
    recorder->next = recorders;
    recorders = recorder;
    pthread_mutex_unlock(&recorders_lock);
}

void weir__recorder_start(struct weir__recorder *recorder, const struct gpu *gpu, uint64_t ring_bytes)
{
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    recorder->gpu = gpu;
    recorder->ring_bytes = ring_bytes;
    recorder->started_monotonic = gpu->now();
    recorder->started_ticks = gpu->ticks();
    recorder->started_real = (uint64_t)real.tv_sec * GPU_SECOND + (uint64_t)real.tv_nsec;
}

void weir__recorder_destroy(struct weir__recorder *recorder)
{
    pthread_mutex_lock(&recorders_lock);
    struct weir__recorder **link = &recorders;
    while (*link != recorder)
        link = &(*link)->next;
    *link = recorder->next;
    pthread_mutex_unlock(&recorders_lock);
    while (recorder->rings) {
        struct weir__ring *ring = recorder->rings;
        recorder->rings = ring->next;
        weir__ring_free(ring);
    }
    for (size_t i = 0; i < recorder->pool_count; i++)
        free(recorder->pools[i].name);
    free(recorder->pools);
    if (atomic_load(&recorder->stacks))
        weir__stacks_destroy(atomic_load(&recorder->stacks));
    weir__tags_destroy(&recorder->tags);
    pthread_mutex_destroy(&recorder->lock);
}

bool weir__recorder_is_there(uint64_t id)
{
    pthread_mutex_lock(&recorders_lock);
    const struct weir__recorder *recorder = recorders;
    while (recorder && recorder->id != id)
        recorder = recorder->next;
    pthread_mutex_unlock(&recorders_lock);
    return recorder;
}

/* Makes the table of stacks, unless there is one. Takes the lock, so that two threads cannot both make a table. Returns false if host
   memory runs out. */
static bool make_stacks(struct weir__recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    struct weir__stacks *stacks = atomic_load(&recorder->stacks);
    if (!stacks && (stacks = weir__stacks_new(WEIR__STACKS_BYTES, STACKS_MAX)))
        atomic_store(&recorder->stacks, stacks);
    pthread_mutex_unlock(&recorder->lock);
    return stacks;
}

void weir__recorder_set(struct weir__recorder *recorder, enum weir__level level, bool stacks)
{
    bool has_stacks = stacks && level != WEIR__LEVEL_OFF && make_stacks(recorder);
    if (has_stacks)
        weir__unwind_prepare();
    atomic_store(&recorder->has_stacks, has_stacks);
    atomic_store(&recorder->level, level);
}

unsigned weir__recorder_add_pool(struct weir__recorder *recorder, const char *name, int device, unsigned flags)
{
    unsigned number = 0;
    char *copy = strdup(name);
    pthread_mutex_lock(&recorder->lock);
    if (recorder->pool_count == recorder->pool_room) {
        size_t room = recorder->pool_room ? 2 * recorder->pool_room : 16;
        struct weir__recorded_pool *more = realloc(recorder->pools, room * sizeof *more);
        if (more) {
            recorder->pools = more;
            recorder->pool_room = room;
        }
    }
    if (copy && recorder->pool_count < recorder->pool_room && recorder->pool_count < POOLS_MAX) {
        recorder->pools[recorder->pool_count++] = (struct weir__recorded_pool){copy, device, flags};
        number = (unsigned)recorder->pool_count;
    }
    pthread_mutex_unlock(&recorder->lock);
    if (!number)
        free(copy);
    return number;
}

size_t weir__recorder_pools(struct weir__recorder *recorder, size_t from, struct weir__recorded_pool *pools, size_t max)
{
    size_t count = 0;
    pthread_mutex_lock(&recorder->lock);
    while (count < max && from + count < recorder->pool_count) {
        pools[count] = recorder->pools[from + count];
        count++;
    }
    pthread_mutex_unlock(&recorder->lock);
    return count;
}

/* Rings -------------------------------------------------------------------------------------------------------------------------------- */

struct weir__ring *weir__recorder_next(struct weir__recorder *recorder, const struct weir__ring *ring)
{
    pthread_mutex_lock(&recorder->lock);
    struct weir__ring *next = ring ? ring->next : recorder->rings;
    pthread_mutex_unlock(&recorder->lock);
    return next;
}

/*
 * Asks the kernel whether the thread with that number has ended. The destructor of a thread-specific value would report the end at once,
 * but cannot be used: a library in a linker namespace of its own (LD_AUDIT, dlmopen) has a C library of its own, whose thread-specific
 * values would overwrite those of the program's C library.
 */
static bool has_ended(uint64_t thread)
{
    int before = errno;
    bool is_gone = syscall(SYS_tgkill, getpid(), (pid_t)thread, 0) != 0 && errno == ESRCH;
    errno = before;
    return is_gone;
}

/* Returns a ring for the calling thread: the ring with this thread's number (the kernel may have given the number of an ended thread to
   this one), or else a ring whose thread has ended, or else a new one. NULL if host memory runs out. */
struct weir__ring *weir__recorder_find_ring(struct weir__recorder *recorder)
{
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    pthread_mutex_lock(&recorder->lock);
    struct weir__ring *ended = NULL, *ring = recorder->rings;
    while (ring && ring->thread != thread) {
        if (!ended && has_ended(ring->thread))
            ended = ring;
        ring = ring->next;
    }
    ring = ring ? ring : ended;
    if (ring) {
        /* This load synchronises with the ring's former thread, so that its writes come before those of this thread. */
        atomic_load_explicit(&ring->head, memory_order_acquire);
        ring->thread = thread;
    }
    if (!ring && (ring = weir__ring_new(recorder->ring_bytes))) {
        ring->thread = thread;
        ring->next = recorder->rings;
        recorder->rings = ring;
    }
    pthread_mutex_unlock(&recorder->lock);
    if (ring)
        weir__my_rings[recorder->id % WEIR__RINGS_MINE] = (struct weir__my_ring){recorder->id, ring};
    return ring;
}

/* Computes the length of a tick from the ticks and the nanoseconds that have passed since the recorder was started. */
uint64_t weir__record_nanoseconds(const struct weir__recorder *recorder, uint64_t ticks)
{
    uint64_t all = recorder->gpu->ticks() - recorder->started_ticks, now = recorder->gpu->now() - recorder->started_monotonic;
    return all && ticks <= all ? (uint64_t)((double)ticks / (double)all * (double)now) : 0;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

uint32_t weir__record_find_origin(struct weir__recorder *recorder)
{
    uint32_t stack = 0;
    if (atomic_load_explicit(&recorder->has_stacks, memory_order_relaxed))
        stack = weir__stacks_here(atomic_load_explicit(&recorder->stacks, memory_order_acquire));
    return (uint32_t)weir__tag_current(recorder->id) << 20 | (stack & 0xFFFFF);
}

static inline void write_event(struct weir__recorder *recorder, const struct weir__event *event)
{
    struct weir__ring *ring = weir__recorder_ring(recorder);
    if (ring)
        weir__ring_write(ring, event);
    else
        atomic_fetch_add_explicit(&recorder->dropped, 1, memory_order_relaxed);
}

static uint64_t next_order(struct weir__recorder *recorder)
{
    return atomic_fetch_add_explicit(&recorder->order, 1, memory_order_relaxed) + 1;
}

void weir__record(struct weir__recorder *recorder, struct weir__event *event)
{
    event->time = recorder->gpu->now_coarse();
    write_event(recorder, event);
}

void weir__record_figures(struct weir__recorder *recorder, enum weir__kind kind, unsigned pool, const void *stream, uint64_t a, uint64_t b)
{
    if (!weir__records(recorder, WEIR__LEVEL_POOL))
        return;
    const struct weir__event event = {
        .time = recorder->gpu->now(),
        .address = a,
        .size = b,
        .stream = (uintptr_t)stream,
        .order = next_order(recorder),
        .what = weir__event_what(kind, 0, pool, 0),
    };
    write_event(recorder, &event);
}

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

/* The first event has the length of the name in the place of the size class; the events after it have the bytes of the name. */
size_t weir__event_name(struct weir__event events[static WEIR__NAME_EVENTS], const struct weir__event *event, const char *name)
{
    size_t len = strnlen(name, WEIR__NAME_MAX), count = 1;
    events[0] = *event;
    events[0].what |= weir__event_what(0, (unsigned)len, 0, 0);
    for (size_t done = 0; done < len; done += WEIR__NAME_PART) {
        uint64_t words[WEIR__NAME_PART / sizeof(uint64_t)] = {0};
        memcpy(words, name + done, len - done < sizeof words ? len - done : sizeof words);
        events[count++] = (struct weir__event){
            .time = event->time,
            .address = words[0],
            .size = words[1],
            .stream = words[2],
            .order = event->order,
            .what = weir__event_what(WEIR__KIND_MORE, 0, 0, 0),
        };
    }
    return count;
}

static void write_named(struct weir__recorder *recorder, const struct weir__event *event, const char *name)
{
    struct weir__event events[WEIR__NAME_EVENTS];
    size_t count = weir__event_name(events, event, name);
    for (size_t i = 0; i < count; i++)
        write_event(recorder, &events[i]);
}

void weir__record_mark(struct weir__recorder *recorder, const char *name)
{
    if (!weir__records(recorder, WEIR__LEVEL_POOL))
        return;
    const struct weir__event event = {
        .time = recorder->gpu->now(),
        .order = next_order(recorder),
        .what = weir__event_what(WEIR__KIND_MARK, 0, 0, 0),
    };
    write_named(recorder, &event, name);
}

/* Streams ------------------------------------------------------------------------------------------------------------------------------ */

/* Adds the stream to the list before it records the event: a trace that begins between these two steps has the stream twice, which is
   harmless. In the opposite order such a trace would lack the stream. */
void weir__record_stream_open(struct weir__recorder *recorder, struct weir__recorded_stream *stream, unsigned pool, const void *handle,
                              const char *name)
{
    uint64_t now = recorder->gpu->now();
    pthread_mutex_lock(&recorder->lock);
    *stream = (struct weir__recorded_stream){.next = recorder->streams, .is_listed = true, .handle = handle, .pool = pool, .time = now};
    memcpy(stream->name, name, strnlen(name, WEIR__NAME_MAX));
    if (stream->next)
        stream->next->previous = stream;
    recorder->streams = stream;
    pthread_mutex_unlock(&recorder->lock);
    if (!weir__records(recorder, WEIR__LEVEL_POOL))
        return;
    const struct weir__event event = {
        .time = now,
        .stream = (uintptr_t)handle,
        .order = next_order(recorder),
        .what = weir__event_what(WEIR__KIND_STREAM_OPEN, 0, pool, 0),
    };
    write_named(recorder, &event, name);
    pthread_mutex_lock(&recorder->lock);
    stream->order = event.order;
    pthread_mutex_unlock(&recorder->lock);
}

/* Removes the stream from the list before it records the event, so that a trace which begins between these two steps does not show the
   stream as open. */
void weir__record_stream_close(struct weir__recorder *recorder, struct weir__recorded_stream *stream)
{
    pthread_mutex_lock(&recorder->lock);
    bool was_listed = stream->is_listed;
    if (was_listed && stream->next)
        stream->next->previous = stream->previous;
    if (was_listed)
        *(stream->previous ? &stream->previous->next : &recorder->streams) = stream->next;
    stream->is_listed = false;
    pthread_mutex_unlock(&recorder->lock);
    weir__record_figures(recorder, WEIR__KIND_STREAM_CLOSE, stream->pool, stream->handle, 0, 0);
}

size_t weir__recorder_streams(struct weir__recorder *recorder, struct weir__recorded_stream *streams, size_t max)
{
    size_t count = 0;
    pthread_mutex_lock(&recorder->lock);
    struct weir__recorded_stream *oldest = recorder->streams;
    while (oldest && oldest->next)
        oldest = oldest->next;
    for (const struct weir__recorded_stream *stream = oldest; stream; stream = stream->previous, count++)
        if (count < max)
            streams[count] = *stream;
    pthread_mutex_unlock(&recorder->lock);
    return count;
}

bool weir__recorder_stream_name(struct weir__recorder *recorder, const struct weir__recorded_stream *stream,
                                char name[static WEIR__NAME_MAX + 1], bool *is_shared)
{
    pthread_mutex_lock(&recorder->lock);
    memcpy(name, stream->name, WEIR__NAME_MAX + 1);
    bool is_named = stream->is_listed && *name;
    const struct weir__recorded_stream *other = recorder->streams;
    while (other && (other == stream || strcmp(other->name, name) != 0))
        other = other->next;
    *is_shared = other;
    pthread_mutex_unlock(&recorder->lock);
    return is_named;
}
