/* SPDX-License-Identifier: MIT */
#include "lib/alloc/quiet.h"

#include <pthread.h>

#include "lib/alloc/stream.h"
#include "lib/base/event.h"

#define BATCH 64                       /* streams that are pinned at a time */
#define MOMENT (UINT64_C(1000) * 1000) /* nanoseconds for which a visit waits for the lock */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The open weirs, and how many captures hosts have told of. Guarded by lock. */
static weir *weirs;
static int captures;

static __thread int own_captures; /* how many of `captures` this thread has begun */

void weir__quiet_join(weir *w)
{
    pthread_mutex_lock(&lock);
    w->next_joined = weirs;
    weirs = w;
    pthread_mutex_unlock(&lock);
}

void weir__quiet_close(weir *w)
{
    pthread_mutex_lock(&lock);
    w->is_closing = true;
    pthread_mutex_unlock(&lock);
}

void weir__quiet_leave(weir *w)
{
    pthread_mutex_lock(&lock);
    weir **link = &weirs;
    while (*link && *link != w)
        link = &(*link)->next_joined;
    if (*link)
        *link = w->next_joined;
    pthread_mutex_unlock(&lock);
}

static void count_captures(int change)
{
    pthread_mutex_lock(&lock);
    captures += change;
    pthread_mutex_unlock(&lock);
    own_captures += change;
}

void weir__captures_begin(void)
{
    count_captures(1);
}

void weir__captures_end(void)
{
    count_captures(-1);
}

bool weir__captures_are_others(void)
{
    pthread_mutex_lock(&lock);
    bool are_others = captures > 0 && captures > own_captures;
    pthread_mutex_unlock(&lock);
    return are_others;
}

/* Returns whether a stream of the device that Weir can ask captures. */
static bool device_captures(struct weir__device *device)
{
    weir_stream *streams[BATCH] = { NULL };
    uint64_t below = UINT64_MAX;
    size_t count;
    /* Skip the legacy stream of a device that the process does not use yet, as the question alone would begin to use the device. */
    bool any = weir__device_is_used(device) && weir__handle_captures(device, GPU_STREAM_LEGACY);
    while (!any && (count = weir__streams_pin_next(device, &below, streams, BATCH)))
        for (size_t i = 0; i < count; i++) {
            any = any || weir__stream_captures(streams[i]);
            weir__stream_unpin(streams[i]);
        }
    return any;
}

bool weir__quiet_is(const struct gpu *gpu)
{
    bool any = captures > 0;
    for (const weir *w = weirs; w && !any; w = w->next_joined)
        for (size_t d = 0; d < w->device_count && w->gpu == gpu && !any; d++)
            any = device_captures(&w->devices[d]);
    return !any;
}

bool weir__quiet_begin(const struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    bool is_quiet = weir__quiet_is(gpu);
    if (!is_quiet)
        pthread_mutex_unlock(&lock);
    return is_quiet;
}

void weir__quiet_end(void)
{
    pthread_mutex_unlock(&lock);
}

void weir__quiet_visit(const struct gpu *gpu, int device, void (*use)(struct weir__device *device, void *data), void *data)
{
    uint64_t deadline = gpu->now() + MOMENT, pause = 0;
    bool has_lock = pthread_mutex_trylock(&lock) == 0;
    while (!has_lock && weir__event_pause(gpu, &pause, deadline))
        has_lock = pthread_mutex_trylock(&lock) == 0;
    if (!has_lock)
        return;
    for (weir *w = weirs; w; w = w->next_joined)
        if (w->gpu == gpu && !w->is_closing && (size_t)device < w->device_count)
            use(&w->devices[device], data);
    pthread_mutex_unlock(&lock);
}
