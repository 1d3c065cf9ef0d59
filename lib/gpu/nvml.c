/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/gpu/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/gpu/clock.h"

#ifndef NVML_LIBRARY /* a test has one of its own */
#define NVML_LIBRARY "libnvidia-ml.so.1"
#endif
#define TOO_FEW_PLACES 7       /* NVML_ERROR_INSUFFICIENT_SIZE: the count says how many there are */
#define PROCESSES_MAX 4096     /* the most processes that NVML is asked for */
#define TRIES 3                /* processes may come between two questions */
#define PATIENCE (GPU_SECOND / 4)

/* nvmlProcessInfo_v2_t. */
struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all ones: not available */
    unsigned gpu_instance, compute_instance;
};

typedef int list_fn(void *device, unsigned *count, struct nvml_process *processes);

static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * The library may take seconds: to begin, behind a busy driver, or for ever behind one that hangs. So a thread of its own asks each question,
 * and the caller waits for PATIENCE at most. An answer that comes later is dropped, and nobody else asks until then.
 */
struct question {
    char uuid[sizeof((struct gpu_device_info *)0)->uuid];
    bool is_told;
    size_t count;
    struct gpu_process processes[PROCESSES_MAX];
    bool is_answered;  /* guarded by turn.lock: the thread that asked is done with all this */
    bool is_abandoned; /* guarded by turn.lock: that thread frees it */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t answered; /* of the monotonic clock; made under `once` */
    bool is_under_way;       /* guarded by lock: a thread asks */
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Written by load(), by the one thread that asks. list: of programs that compute, and of those that draw; both may have one process. */
static struct {
    bool is_loaded; /* or cannot be */
    int (*find)(const char *uuid, void **device);
    list_fn *list[2];
} nvml;

static void *either(void *library, const char *name, const char *older)
{
    void *found = dlsym(library, name);
    return found ? found : dlsym(library, older);
}

static void load(void)
{
    if (nvml.is_loaded)
        return;
    nvml.is_loaded = true;
    void *library = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    int (*init)(void);
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&nvml.list[0] = either(library, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2");
    *(void **)&nvml.list[1] = either(library, "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2");
    if (init && nvml.list[0] && init() == 0)
        *(void **)&nvml.find = dlsym(library, "nvmlDeviceGetHandleByUUID");
}

/* Adds those that are not there yet. */
static void merge(struct gpu_process *processes, size_t room, size_t *count, const struct nvml_process *found, unsigned found_count)
{
    for (unsigned i = 0; i < found_count; i++) {
        uint64_t bytes = found[i].bytes == ~0ULL ? GPU_BYTES_UNKNOWN : found[i].bytes;
        size_t place = 0;
        while (place < *count && place < room && processes[place].pid != (int)found[i].pid)
            place++;
        if (place < *count && place < room)
            continue;
        if (*count < room)
            processes[*count] = (struct gpu_process){.pid = (int)found[i].pid, .bytes = bytes};
        (*count)++;
    }
}

/* false: it was not told. */
static bool list(list_fn *ask, void *device, struct gpu_process *processes, size_t room, size_t *count)
{
    unsigned places = 64;
    int code = TOO_FEW_PLACES;
    for (unsigned i = 0; i < TRIES && code == TOO_FEW_PLACES && places <= PROCESSES_MAX; i++) {
        struct nvml_process *found = calloc(places, sizeof *found);
        unsigned found_count = places;
        if (!found)
            return false;
        code = ask(device, &found_count, found);
        if (code == 0)
            merge(processes, room, count, found, found_count < places ? found_count : places);
        free(found);
        places = found_count + 64;
    }
    return code == 0;
}

/* A process that does not find itself reads the ids of another namespace, which are those of other processes here. */
static bool has_self(const struct gpu_process *processes, size_t count)
{
    size_t place = 0;
    while (place < count && processes[place].pid != (int)getpid())
        place++;
    return place < count;
}

static void answer(struct question *question)
{
    struct gpu_process *all = question->processes;
    void *device;
    load();
    question->is_told = nvml.find && nvml.find(question->uuid, &device) == 0 &&
                        list(nvml.list[0], device, all, PROCESSES_MAX, &question->count);
    if (question->is_told && nvml.list[1])
        list(nvml.list[1], device, all, PROCESSES_MAX, &question->count);
    question->is_told = question->is_told && question->count <= PROCESSES_MAX && has_self(all, question->count);
}

static void *ask(void *data)
{
    struct question *question = data;
    pthread_setname_np(pthread_self(), "weir-nvml");
    answer(question);
    pthread_mutex_lock(&turn.lock);
    turn.is_under_way = false;
    question->is_answered = true;
    bool is_abandoned = question->is_abandoned;
    pthread_cond_signal(&turn.answered);
    pthread_mutex_unlock(&turn.lock);
    if (is_abandoned)
        free(question);
    return NULL;
}

/* With the lock. The application's signals are not for the thread. */
static bool start(struct question *question)
{
    sigset_t all, former;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    bool is_started = !turn.is_under_way && pthread_create(&thread, NULL, ask, question) == 0;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (is_started) {
        pthread_detach(thread);
        turn.is_under_way = true;
    }
    return is_started;
}

static void prepare(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&turn.answered, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Asks in a thread. false: the question is that thread's. */
static bool ask_in_time(struct question *question)
{
    struct timespec until = gpu_clock_timespec(gpu_clock_now() + PATIENCE);
    pthread_once(&once, prepare);
    pthread_mutex_lock(&turn.lock);
    bool is_late = false, is_started = start(question);
    while (is_started && !question->is_answered && !is_late)
        is_late = pthread_cond_timedwait(&turn.answered, &turn.lock, &until) != 0;
    question->is_abandoned = is_started && !question->is_answered;
    bool is_ours = !question->is_abandoned;
    pthread_mutex_unlock(&turn.lock);
    return is_ours;
}

int nvml_processes(const char *uuid, struct gpu_process *processes, size_t room, size_t *count)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return GPU_NOT_SUPPORTED;
    snprintf(question->uuid, sizeof question->uuid, "%s", uuid);
    if (!ask_in_time(question))
        return GPU_NOT_SUPPORTED;
    bool is_told = question->is_told;
    if (is_told) {
        size_t told = question->count < room ? question->count : room;
        memcpy(processes, question->processes, told * sizeof *processes);
        *count = question->count;
    }
    free(question);
    return is_told ? GPU_SUCCESS : GPU_NOT_SUPPORTED;
}
