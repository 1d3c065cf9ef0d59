/* SPDX-License-Identifier: MIT */
#include "lib/retired.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lib/weir_internal.h"

struct weir__retired {
    struct weir__retired *next;
    const struct gpu *gpu;
    gpu_pool handles[2]; /* NULL: gone, or there was none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__retired *_Atomic first; /* changed under lock */

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

static bool is_gone(const struct weir__retired *retired)
{
    return !retired->handles[0] && !retired->handles[1];
}

/* Destroys what of it can be destroyed. Returns the code of a destroy that failed. */
static int try_destroy(struct weir__retired *retired)
{
    const struct gpu *gpu = retired->gpu;
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < 2; i++) {
        if (!retired->handles[i] || !weir__retired_is_settled(gpu, retired->handles[i]))
            continue;
        int destroyed = gpu->pool_destroy(retired->handles[i]);
        if (destroyed != GPU_SUCCESS)
            gpu->forget_error(code = destroyed);
        retired->handles[i] = NULL;
    }
    return code;
}

static void push(struct weir__retired *retired)
{
    pthread_mutex_lock(&lock);
    retired->next = atomic_load(&first);
    atomic_store(&first, retired);
    pthread_mutex_unlock(&lock);
}

struct weir__retired *weir__retired_reserve(void)
{
    return calloc(1, sizeof(struct weir__retired));
}

int weir__retired_add(struct weir__retired *retired, const struct gpu *gpu, gpu_pool handle, gpu_pool small)
{
    *retired = (struct weir__retired){ .gpu = gpu, .handles = { handle, small } };
    int code = try_destroy(retired);
    for (size_t i = 0; i < 2; i++) {
        int set = retired->handles[i] ? gpu->pool_set(retired->handles[i], GPU_POOL_RELEASE_THRESHOLD, 0) : GPU_SUCCESS;
        if (set != GPU_SUCCESS)
            gpu->forget_error(set);
    }
    if (is_gone(retired))
        free(retired);
    else
        push(retired);
    return code;
}

void weir__retired_sweep(const struct gpu *gpu)
{
    if (!atomic_load(&first))
        return;
    pthread_mutex_lock(&lock);
    struct weir__retired *all = atomic_exchange(&first, NULL);
    pthread_mutex_unlock(&lock);
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    while (all) {
        struct weir__retired *retired = all;
        all = all->next;
        if (retired->gpu == gpu)
            try_destroy(retired);
        if (is_gone(retired))
            free(retired);
        else
            push(retired);
    }
    weir__relaxed_end(gpu, mode);
}
