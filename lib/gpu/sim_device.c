/* SPDX-License-Identifier: MIT */
/* sim_device.c - the simulated devices: their properties, and the features that they have. */
#include "lib/gpu/sim_machine.h"

#include <stdio.h>

int sim_device_find(int device)
{
    return device >= 0 && (uint64_t)device < sim.settings.devices ? 0 : GPU_INVALID_DEVICE;
}

bool sim_device_charge(int device, struct sim_pool *account, uint64_t bytes)
{
    account->device = device;
    account->location = GPU_LOCATION_DEVICE;
    account->shared = -1;
    if (!sim_ledger_charge(account, account->held + bytes))
        return false;
    account->held += bytes;
    return true;
}

bool sim_driver(uint64_t version)
{
    return sim.settings.driver >= version;
}

bool sim_supports(int device, enum gpu_feature feature, char *why, size_t len)
{
    static const char no_pools[] = "the simulated device has no memory pools (pools=no)";
    const struct sim_settings *is = &sim.settings;
    /* The first driver with each feature, whether the settings allow the feature, and the message if they do not. */
    const struct {
        uint64_t driver;
        bool allowed;
        const char *why; /* the message if it is not allowed */
    } needs[GPU_FEATURE_COUNT] = {
        [GPU_FEATURE_POOLS] = { 11020, is->pools, no_pools },
        [GPU_FEATURE_POOL_USAGE] = { 11030, is->pools, no_pools },
        [GPU_FEATURE_POOL_HOST] = { 13000, is->pools, no_pools },
        [GPU_FEATURE_POOL_HOST_NUMA] = { 12020, is->pools && is->numa,
                                         "the simulated host has no NUMA nodes (numa=0), or no pools (pools=no)" },
        [GPU_FEATURE_POOL_MAX_SIZE] = { 12020, is->pools, no_pools },
        [GPU_FEATURE_POOL_POSIX_FD] = { 11030, is->pools && is->posix_fd && !is->mig,
                                        "the simulated device cannot export pools (posix_fd=no, mig=yes or pools=no)" },
        [GPU_FEATURE_POOL_FABRIC] = { 12040, false, "the simulator has no fabric handles" },
        [GPU_FEATURE_STREAM_ID] = { 12000, true, NULL },
        [GPU_FEATURE_DEVICE_EVENT] = { 12050, true, NULL },
        [GPU_FEATURE_MAPPING] = { 11020, is->mapping, "the simulated device maps no pages (mapping=no)" },
    };
    char text[160];
    if (sim_device_find(device)) {
        snprintf(text, sizeof(text), "there is no simulated device %d (devices=%d)", device, (int)is->devices);
    } else if ((unsigned)feature >= GPU_FEATURE_COUNT) {
        snprintf(text, sizeof(text), "the simulator knows no feature %d", (int)feature);
    } else if (!sim_driver(needs[feature].driver)) {
        snprintf(text, sizeof(text), "the simulated driver is for CUDA %d.%d; this needs %d.%d or later",
                 (int)(is->driver / 1000), (int)(is->driver % 1000 / 10), (int)(needs[feature].driver / 1000),
                 (int)(needs[feature].driver % 1000 / 10));
    } else if (!needs[feature].allowed) {
        snprintf(text, sizeof(text), "%s", needs[feature].why);
    } else {
        return true;
    }
    if (why && len)
        snprintf(why, len, "%s", text);
    return false;
}

int sim_device_count(int *count)
{
    if (!sim.settings.devices)
        return GPU_NO_DEVICE;
    *count = (int)sim.settings.devices;
    return 0;
}

int sim_versions(int *driver, int *runtime)
{
    *driver = (int)sim.settings.driver;
    *runtime = (int)sim.settings.driver;
    return 0;
}

/* A number for the UUIDs of the devices: equal in all processes on a named machine, and different for each name, so that no program
   mistakes one machine's GPU for another's. */
static uint64_t machine_number(void)
{
    uint64_t number = 0;
    if (sim.settings.name[0])
        number = UINT64_C(14695981039346656037); /* FNV-1a */
    for (const char *at = sim.settings.name; *at; at++)
        number = (number ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return number;
}

int sim_device_info(int device, struct gpu_device_info *info)
{
    *info = (struct gpu_device_info){ .memory = sim.settings.memory, .mig = sim.settings.mig, .os_managed = sim.settings.os_managed };
    snprintf(info->name, sizeof(info->name), "simulated GPU %d", device);
    uint64_t number = machine_number();
    snprintf(info->uuid, sizeof(info->uuid), "%s-%08x-%04x-%04x-0000-%012d", info->mig ? "MIG" : "GPU", (unsigned)(number >> 32),
             (unsigned)(number >> 16 & 0xffff), (unsigned)(number & 0xffff), device);
    return 0;
}

int sim_can_access_peer(int device, int peer, bool *can)
{
    *can = device != peer && sim.settings.reaches[device][peer];
    return 0;
}

int sim_device_memory(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    *free_bytes = sim_ledger_free(device);
    *total_bytes = sim.settings.memory;
    return 0;
}

int sim_device_processes(int device, struct gpu_process *processes, size_t room, size_t *count)
{
    *count = sim_ledger_processes(device, processes, room);
    return 0;
}

int sim_get_current_device(int *device)
{
    *device = sim_self->device;
    return 0;
}

int sim_device_is_used(int device, bool *used)
{
    *used = sim.devices[device].used;
    return 0;
}

int sim_set_current_device(int device)
{
    if (sim_self->device != device)
        sim_self->context = NULL;
    sim_self->device = device;
    return 0;
}
