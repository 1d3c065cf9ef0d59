/* SPDX-License-Identifier: MIT */
/* actor_late.c - an actor whose service thread, or whose GPU, does not do what it should when it should. */
#include "config.h"

#include "tests/share/actor.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "lib/base/service.h"
#include "lib/pool/weir_internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_held, holds_events, is_broken, has_job; /* guarded by lock */
static unsigned long long busy, idle;                  /* nanoseconds */

static bool get(const bool *flag)
{
    pthread_mutex_lock(&lock);
    bool value = *flag;
    pthread_mutex_unlock(&lock);
    return value;
}

static void set(bool *flag, bool value)
{
    pthread_mutex_lock(&lock);
    *flag = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_while(const bool *flag)
{
    pthread_mutex_lock(&lock);
    while (*flag)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* The service thread --------------------------------------------------------------------------------------------------------------------- */

static bool is_in_job; /* guarded by lock */

static uint64_t run(struct weir__job *job)
{
    (void)job;
    set(&is_in_job, true);
    wait_while(&is_held);
    if (!busy)
        return WEIR__SERVICE_NEVER;
    for (uint64_t end = weir__service_now() + busy; weir__service_now() < end;)
        actor.gpu->pause(1000000);
    return weir__service_now() + idle;
}

static struct weir__job job = { .run = run };

static weir_status start_job(void)
{
    weir_status status = has_job ? WEIR_OK : weir__service_add(&job, &actor.error);
    has_job = has_job || status == WEIR_OK;
    weir__service_wake(&job, 0);
    return status;
}

static void end_job(void)
{
    if (has_job)
        weir__service_remove(&job);
    has_job = false;
}

static weir_status hold_service(void)
{
    if (!actor_number(actor.words[1])) {
        set(&is_held, false);
        end_job();
        return WEIR_OK;
    }
    set(&is_in_job, false);
    set(&is_held, true);
    weir_status status = start_job();
    while (status == WEIR_OK && !get(&is_in_job))
        actor.gpu->pause(100000);
    return status;
}

static weir_status busy_service(void)
{
    end_job();
    busy = actor_number(actor.words[1]) * 1000000;
    idle = actor_number(actor.words[2]) * 1000000;
    return busy ? start_job() : WEIR_OK;
}

/* A producer that is late to fall asleep ---------------------------------------------------------------------------------------------- */

#define TAKE_TIMEOUT_MS 3600000u

static struct {
    pthread_t thread;
    weir_ring *ring;
    weir_cuda_stream stream;
    weir_status status;
} taker;
static bool holds_sleep, is_at_sleep; /* guarded by lock */
static __thread bool is_taker;

int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask);

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    if (is_taker) {
        set(&is_at_sleep, true);
        wait_while(&holds_sleep);
    }
    return __real_ppoll(fds, count, limit, mask);
}

static void *take_slot(void *unused)
{
    void *ptr;
    is_taker = true;
    taker.status = weir_ring_take(taker.ring, TAKE_TIMEOUT_MS, taker.stream, NULL, &ptr);
    if (taker.status == WEIR_OK)
        taker.status = weir_ring_drop(taker.ring, ptr, taker.stream, NULL);
    return unused;
}

static weir_status take_late(void)
{
    taker.ring = actor.thing;
    taker.stream = actor.stream;
    set(&is_at_sleep, false);
    set(&holds_sleep, true);
    if (pthread_create(&taker.thread, NULL, take_slot, NULL) != 0)
        return actor_fail(WEIR_NO_HOST_MEMORY, "actor: no thread");
    while (!get(&is_at_sleep))
        actor.gpu->pause(100000);
    return WEIR_OK;
}

static weir_status taken(void)
{
    set(&holds_sleep, false);
    pthread_join(taker.thread, NULL);
    return taker.status;
}

/* The GPU -------------------------------------------------------------------------------------------------------------------------------- */

static struct gpu breakable;

static int record_event(gpu_event event, gpu_stream stream)
{
    return get(&is_broken) ? GPU_UNKNOWN : actor.gpu->event_record(event, stream);
}

static int synchronize_stream(gpu_stream stream)
{
    return get(&is_broken) ? GPU_UNKNOWN : actor.gpu->stream_synchronize(stream);
}

static int create_shared_event(int device, gpu_event *event, struct gpu_shared_event *handle)
{
    wait_while(&holds_events);
    return actor.gpu->event_create_shared(device, event, handle);
}

/* From now on what is opened uses a copy of the table. */
static weir_status make_breakable(void)
{
    breakable = *actor.gpu;
    breakable.event_record = record_event;
    breakable.stream_synchronize = synchronize_stream;
    breakable.event_create_shared = create_shared_event;
    actor.w->gpu = &breakable;
    return WEIR_OK;
}

static weir_status broken(void)
{
    set(&is_broken, actor_number(actor.words[1]));
    return WEIR_OK;
}

static weir_status hold_events(void)
{
    set(&holds_events, actor_number(actor.words[1]));
    return WEIR_OK;
}

const struct command actor_late_commands[] = {
    { "hold_service", "0|1: whether the service thread does nothing else", hold_service },
    { "busy_service", "BUSY IDLE: for so many milliseconds it does something else, then for so many it does not, and so on", busy_service },
    { "breakable", ": before an export or import is opened: the next two can be said of it", make_breakable },
    { "broken", "0|1: whether the library can neither record events nor wait for streams", broken },
    { "hold_events", "0|1: whether to make an event for other processes takes for ever", hold_events },
    { "take_late", "RING STREAM: a thread takes a slot, for which it has to wait; it is about to sleep, and does not yet", take_late },
    { "taken", ": it does sleep, gets its slot and drops that", taken },
    { NULL, NULL, NULL },
};
