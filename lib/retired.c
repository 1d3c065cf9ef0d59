/* SPDX-License-Identifier: MIT */
#include "lib/retired.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/weir_internal.h"

struct retired {
    struct retired *next;
    const struct gpu *gpu;
    gpu_pool handle;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct retired *_Atomic first; /* changed under lock */

bool weir__retired_is_settled(const struct gpu *gpu, gpu_pool handle)
{
    uint64_t reserved = 0;
    int code = gpu->pool_trim(handle, 0);
    if (code == GPU_SUCCESS)
        code = gpu->pool_get(handle, GPU_POOL_RESERVED, &reserved);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    /* A driver without figures cannot be asked; one that refuses the pool has lost it. Neither is worth keeping the pool for. */
    return code != GPU_SUCCESS || reserved == 0;
}

static int destroy(const struct gpu *gpu, gpu_pool handle)
{
    int code = gpu->pool_destroy(handle);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    return code;
}

static void push(struct retired *retired)
{
    pthread_mutex_lock(&lock);
    retired->next = atomic_load(&first);
    atomic_store(&first, retired);
    pthread_mutex_unlock(&lock);
}

int weir__retired_add(const struct gpu *gpu, gpu_pool handle)
{
    if (weir__retired_is_settled(gpu, handle))
        return destroy(gpu, handle);
    int code = gpu->pool_set(handle, GPU_POOL_RELEASE_THRESHOLD, 0);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    struct retired *retired = malloc(sizeof *retired);
    if (!retired)
        return GPU_SUCCESS; /* the empty handle is never destroyed: that loses nothing but the handle */
    *retired = (struct retired){ .gpu = gpu, .handle = handle };
    push(retired);
    return GPU_SUCCESS;
}

void weir__retired_sweep(const struct gpu *gpu)
{
    if (!atomic_load(&first))
        return;
    pthread_mutex_lock(&lock);
    struct retired *all = atomic_exchange(&first, NULL);
    pthread_mutex_unlock(&lock);
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    while (all) {
        struct retired *retired = all;
        all = all->next;
        if (retired->gpu == gpu && weir__retired_is_settled(gpu, retired->handle)) {
            destroy(gpu, retired->handle);
            free(retired);
        } else {
            push(retired);
        }
    }
    weir__relaxed_end(gpu, mode);
}
