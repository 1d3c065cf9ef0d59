/* SPDX-License-Identifier: MIT */
#include "tests/unit/nvml_module.h"

#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

struct nvml_stage nvml_stage;

EXPORTED int nvmlInit_v2(void);
EXPORTED int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
EXPORTED int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct nvml_listed *processes);
EXPORTED int nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *count, struct nvml_listed *processes);

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = &nvml_stage;
    return strcmp(uuid, nvml_stage.uuid) == 0 ? 0 : 6; /* NVML_ERROR_NOT_FOUND */
}

static int answer(const void *device, const struct nvml_stage_list *list, unsigned *count, struct nvml_listed *processes)
{
    unsigned room = *count;
    nvml_stage.asked++;
    if (nvml_stage.held)
        sem_wait(nvml_stage.held);
    if (device != &nvml_stage || nvml_stage.fails)
        return 999; /* NVML_ERROR_UNKNOWN */
    *count = list->count;
    if (room < list->count)
        return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    memcpy(processes, list->processes, list->count * sizeof *processes);
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct nvml_listed *processes)
{
    return answer(device, &nvml_stage.computing, count, processes);
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, unsigned *count, struct nvml_listed *processes)
{
    return answer(device, &nvml_stage.drawing, count, processes);
}
