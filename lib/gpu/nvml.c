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

#ifndef NVML_LIBRARY /* a test sets its own */
#define NVML_LIBRARY "libnvidia-ml.so.1"
#endif
#define TOO_FEW_PLACES 7       /* NVML_ERROR_INSUFFICIENT_SIZE: the returned count is the number of processes */
#define PROCESSES_MAX 4096     /* the most processes for which NVML is asked */
#define TRIES 3                /* new processes may start between two calls */
#define PATIENCE (GPU_SECOND / 4)

/* The layout of nvmlProcessInfo_v2_t. */
struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all ones: not available */
    unsigned gpu_instance, compute_instance;
};

typedef int list_fn(void *device, unsigned *count, struct nvml_process *processes);

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* One call of nvml_processes(). The library may take seconds to begin, wait behind a busy driver, or hang for ever with the driver. So a
   thread of its own asks the library, and the caller waits for PATIENCE at most. An answer that comes later is dropped, and until it comes
   no other caller may ask. */
struct question {
    char uuid[sizeof((struct gpu_device_info *)0)->uuid];
    bool is_told;
    size_t count;
    struct gpu_process processes[PROCESSES_MAX];
    bool is_answered;  /* guarded by turn.lock: the asking thread does not use the question any more */
    bool is_abandoned; /* guarded by turn.lock: the caller is gone, and the asking thread frees the question */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t answered; /* uses the monotonic clock; made by prepare(), which runs once */
    bool is_under_way;       /* guarded by lock: a thread is asking */
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Written by load(), in the one thread that asks at a time. list: the functions that list compute and graphics processes; a process may be
   in both lists. */
static struct {
    bool is_loaded; /* true also if loading failed */
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

/* Adds the processes that are not in the list yet; *count is also raised for those that find no room. */
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

/* Asks NVML for one list. Returns false if NVML fails or host memory runs out. */
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

/* Returns whether this process is in the list. If not, the process ids are those of another PID namespace, and may be ids of other
   processes here. */
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

/* Starts the thread that asks, with all signals blocked, since signals are the application's. Returns false if a thread is asking already
   or none can be started. The caller holds the lock. */
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

/* Starts a thread that asks, and waits for its answer. Returns false if the answer is late: the thread then owns and frees the question. */
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
