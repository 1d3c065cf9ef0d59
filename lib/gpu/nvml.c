/* SPDX-License-Identifier: MIT */
#include "lib/gpu/nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef NVML_LIBRARY /* a test has one of its own */
#define NVML_LIBRARY "libnvidia-ml.so.1"
#endif
#define TOO_FEW_PLACES 7       /* NVML_ERROR_INSUFFICIENT_SIZE: the count says how many there are */
#define PROCESSES_MAX 4096     /* that are asked for */
#define TRIES 3                /* processes may come between two questions */

/* nvmlProcessInfo_v2_t. */
struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all ones: not available */
    unsigned gpu_instance, compute_instance;
};

typedef int list_fn(void *device, unsigned *count, struct nvml_process *processes);

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Written by load(), under `once`. list: of programs that compute, and of those that draw; both may have one process. */
static struct {
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

int nvml_processes(const char *uuid, struct gpu_process *processes, size_t room, size_t *count)
{
    struct gpu_process *all = calloc(PROCESSES_MAX, sizeof *all);
    size_t all_count = 0;
    void *device;
    pthread_once(&once, load);
    bool is_told = all && nvml.find && nvml.find(uuid, &device) == 0 && list(nvml.list[0], device, all, PROCESSES_MAX, &all_count);
    if (is_told && nvml.list[1])
        list(nvml.list[1], device, all, PROCESSES_MAX, &all_count);
    is_told = is_told && all_count <= PROCESSES_MAX && has_self(all, all_count);
    for (size_t i = 0; is_told && i < all_count && i < room; i++)
        processes[i] = all[i];
    if (is_told)
        *count = all_count;
    free(all);
    return is_told ? GPU_SUCCESS : GPU_NOT_SUPPORTED;
}
