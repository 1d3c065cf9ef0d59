/* SPDX-License-Identifier: MIT */
#include "tests/chaos/waist.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "lib/gpu/gpu_tables.h"
#include "lib/gpu/sim_internal.h"
#include "tests/chaos/random.h"
#include "tests/chaos/schedule.h"

static struct waist_settings settings;
static atomic_uint_fast64_t faults, threads;
static struct chaos_random scheduled; /* of all threads of a schedule, one of which runs at a time */
static _Thread_local struct chaos_random own;
static _Thread_local bool is_seeded, is_inside;

void waist_set(const struct waist_settings *chosen)
{
    settings = *chosen;
    scheduled.state = ~chosen->seed;
    atomic_store(&faults, 0);
}

void waist_enter_weir(bool inside)
{
    is_inside = inside;
}

uint64_t waist_faults(void)
{
    return atomic_load(&faults);
}

static struct chaos_random *dice(void)
{
    if (schedule_is_on())
        return &scheduled;
    if (!is_seeded)
        own.state = settings.seed + 7919 * atomic_fetch_add(&threads, 1);
    is_seeded = true;
    return &own;
}

/* A driver's call that is slow, and no place where a thread can be cancelled: Weir asks whether a stream captures where it has not seen to that. */
static void nap(uint64_t nanoseconds)
{
    int former;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &former);
    nanosleep(&(struct timespec){ .tv_nsec = (long)nanoseconds }, NULL);
    pthread_setcancelstate(former, NULL);
}

/* The codes that CUDA would give; what these calls do when they fail is written down in Weir's own promises. */
static int fault_of(enum sim_operation operation)
{
    switch (operation) {
    case SIM_OP_event_create:
    case SIM_OP_event_record:
    case SIM_OP_free_async:
    case SIM_OP_pool_trim:
    case SIM_OP_pool_get:
    case SIM_OP_pool_set:
    case SIM_OP_device_memory:
    case SIM_OP_stream_create:
        return GPU_UNKNOWN;
    default:
        return GPU_SUCCESS;
    }
}

/* Before a call: others get on. The code of the fault, if the call is to fail. */
static int before(enum sim_operation operation)
{
    if (schedule_is_on())
        schedule_yield();
    else if (settings.stumbles && random_once_in(dice(), 64))
        nap(random_below(dice(), 50000));
    int code = is_inside && settings.fault_once_in ? fault_of(operation) : GPU_SUCCESS;
    if (!code || !random_once_in(dice(), settings.fault_once_in))
        return GPU_SUCCESS;
    atomic_fetch_add(&faults, 1);
    return code;
}

static int leave(enum sim_operation operation, int code)
{
    if (operation == SIM_OP_malloc_async && code == GPU_OUT_OF_MEMORY && settings.slow_refusals) {
        uint64_t time = random_below(dice(), WAIST_SLOWEST_NS);
        nap(schedule_is_on() ? time : time / 16);
    }
    if (schedule_is_on()) {
        schedule_note((uint64_t)operation << 32 | (unsigned)code);
        schedule_note(schedule_now());
    }
    return code;
}

#define WAIST_DEFINE(name, check, parameters, arguments)                                                                                   \
    static int waist_##name parameters                                                                                                     \
    {                                                                                                                                      \
        int code = before(SIM_OP_##name);                                                                                                  \
        return leave(SIM_OP_##name, code ? code : gpu_sim.name arguments);                                                                 \
    }
GPU_OPERATIONS(WAIST_DEFINE)
#undef WAIST_DEFINE

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

gpu_stream waist_legacy(int device)
{
    return (gpu_stream)&sim.devices[device].legacy;
}

uint64_t waist_stream_due(gpu_stream handle)
{
    uint64_t due = 0;
    pthread_mutex_lock(&sim.lock);
    for (int i = 0; i < SIM_DEVICES_MAX; i++)
        if (handle == waist_legacy(i))
            due = sim.devices[i].legacy.busy_until;
    for (const struct sim_stream *stream = sim.streams; stream; stream = stream->next)
        if (stream == (void *)handle)
            due = stream->busy_until;
    pthread_mutex_unlock(&sim.lock);
    return due;
}

static uint64_t device_due(int device)
{
    uint64_t due = later(sim.devices[device].gone_until, sim.devices[device].legacy.busy_until);
    for (const struct sim_stream *stream = sim.streams; stream; stream = stream->next)
        if (stream->device == device)
            due = later(due, stream->busy_until);
    return due;
}

/* New work may come while the thread sleeps, and the simulator would wait for that as well. */
static int wait_for_stream(gpu_stream stream)
{
    while (schedule_is_on() && waist_stream_due(stream) > schedule_now())
        schedule_sleep_until(waist_stream_due(stream));
    return waist_stream_synchronize(stream);
}

static int wait_for_device(int device)
{
    while (schedule_is_on() && device_due(device) > schedule_now())
        schedule_sleep_until(device_due(device));
    return waist_device_synchronize(device);
}

static int wait_for_event(gpu_event event)
{
    if (schedule_is_on() && !sim_event_find(event))
        schedule_sleep_until(sim_event_due(event, true));
    return waist_event_synchronize(event);
}

static void let_pass(uint64_t nanoseconds)
{
    if (schedule_is_on())
        schedule_sleep_until(schedule_now() + nanoseconds);
    else
        gpu_sim.pause(nanoseconds);
}

/* The table ---------------------------------------------------------------------------------------------------------------------------- */

const struct gpu *waist_gpu(void)
{
    static struct gpu table;
    static atomic_bool is_made;
    if (!atomic_load(&is_made)) { /* first by the only thread */
        table = gpu_sim;
#define WAIST_ENTRY(name, check, parameters, arguments) table.name = waist_##name;
        GPU_OPERATIONS(WAIST_ENTRY)
#undef WAIST_ENTRY
        table.stream_synchronize = wait_for_stream;
        table.device_synchronize = wait_for_device;
        table.event_synchronize = wait_for_event;
        table.pause = let_pass;
        atomic_store(&is_made, true);
    }
    return &table;
}

const struct gpu *__real_gpu_find(const char *name, const char **why);
const struct gpu *__wrap_gpu_find(const char *name, const char **why);

const struct gpu *__wrap_gpu_find(const char *name, const char **why)
{
    const struct gpu *found = __real_gpu_find(name, why);
    return found == &gpu_sim ? waist_gpu() : found;
}
