/* SPDX-License-Identifier: MIT */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/gpu_tables.h"

#include <string.h>

const struct gpu *gpu_find(const char *name, const char **why)
{
    if (!name || !*name || !strcmp(name, "cuda")) {
#ifdef HAVE_CUDA
        return &gpu_cuda;
#else
        *why = "this build has no CUDA: configure with --with-cuda=DIR, or set WEIR_GPU=sim to use the simulator";
        return NULL;
#endif
    }
    if (!strcmp(name, "sim"))
        return gpu_simulator(why);
    *why = "there is no such GPU implementation: write \"cuda\" for real devices or \"sim\" for the simulator";
    return NULL;
}

const char *gpu_feature_name(enum gpu_feature feature)
{
    static const char *const names[GPU_FEATURE_COUNT] = {
        [GPU_FEATURE_POOLS] = "memory pools",
        [GPU_FEATURE_POOL_USAGE] = "usage figures of pools",
        [GPU_FEATURE_POOL_HOST] = "pools on host memory",
        [GPU_FEATURE_POOL_HOST_NUMA] = "pools on a host NUMA node",
        [GPU_FEATURE_POOL_MAX_SIZE] = "a cap on pools that the driver enforces",
        [GPU_FEATURE_POOL_POSIX_FD] = "pools exportable as a file descriptor",
        [GPU_FEATURE_POOL_FABRIC] = "pools exportable as a fabric handle",
        [GPU_FEATURE_STREAM_ID] = "stream ids",
        [GPU_FEATURE_DEVICE_EVENT] = "events behind all work of a device",
        [GPU_FEATURE_MAPPING] = "pages mapped into ranges of addresses",
    };
    return (unsigned)feature < GPU_FEATURE_COUNT ? names[feature] : "unknown feature";
}
