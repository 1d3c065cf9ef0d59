/* SPDX-License-Identifier: MIT */
/* cuda_threshold.c - the release thresholds of CUDA's pools: how pool and twin divide the threshold, and how an attempt of recovery lowers
   it. */
#include "lib/backing/cuda.h"

#include "lib/base/context.h"
#include "policy/policy.h"

#define TRIES 3 /* attempts to restore a lowered threshold */

const enum gpu_pool_attribute weir__cuda_attributes[WEIR__CUDA_ATTRIBUTES] = {
    GPU_POOL_RELEASE_THRESHOLD,
    GPU_POOL_REUSE_EVENT_DEPENDENCIES,
    GPU_POOL_REUSE_OPPORTUNISTIC,
    GPU_POOL_REUSE_INTERNAL_DEPENDENCIES,
};

/* Threshold ---------------------------------------------------------------------------------------------------------------------------- */

int weir__cuda_write(struct weir__cuda *cuda, gpu_pool handle, enum gpu_pool_attribute attribute, uint64_t value)
{
    int code = cuda->backing.gpu->pool_set(handle, attribute, value);
    for (size_t i = 0; i < WEIR__CUDA_ATTRIBUTES && code == GPU_SUCCESS && handle == cuda->handle; i++)
        if (weir__cuda_attributes[i] == attribute)
            cuda->written[i] = value;
    return code;
}

uint64_t weir__cuda_written(const struct weir__cuda *cuda, enum gpu_pool_attribute attribute)
{
    size_t i = 0;
    while (weir__cuda_attributes[i] != attribute)
        i++;
    return cuda->written[i];
}

/* Returns whether pool and twin divide the threshold: 0 and UINT64_MAX apply to each of them in full. */
static bool shares_threshold(uint64_t threshold)
{
    return threshold != 0 && threshold != UINT64_MAX;
}

/* Writes `rest` to the pool and `share` to the twin. If one write fails, both thresholds stay as they were. The threshold that falls is
   written first, so that their sum never exceeds both the old and the new sum. */
static int write_both(struct weir__cuda *cuda, uint64_t rest, uint64_t share)
{
    const struct gpu *gpu = cuda->backing.gpu;
    if (!cuda->small)
        return weir__cuda_write(cuda, cuda->handle, GPU_POOL_RELEASE_THRESHOLD, rest);
    bool small_first = share < atomic_load(&cuda->small_share);
    gpu_pool first = small_first ? cuda->small : cuda->handle, second = small_first ? cuda->handle : cuda->small;
    uint64_t before = 0;
    int code = gpu->pool_get(first, GPU_POOL_RELEASE_THRESHOLD, &before);
    if (code == GPU_SUCCESS)
        code = weir__cuda_write(cuda, first, GPU_POOL_RELEASE_THRESHOLD, small_first ? share : rest);
    if (code != GPU_SUCCESS)
        return code;
    code = weir__cuda_write(cuda, second, GPU_POOL_RELEASE_THRESHOLD, small_first ? rest : share);
    if (code != GPU_SUCCESS)
        weir__cuda_write(cuda, first, GPU_POOL_RELEASE_THRESHOLD, before);
    return code;
}

/* The twin's part is what the twin has reserved now, and the pool gets the rest, so that both together keep at most `threshold`. */
int weir__cuda_set_threshold(struct weir__cuda *cuda, uint64_t threshold)
{
    if (cuda->was_lent)
        threshold = UINT64_MAX;
    uint64_t share = threshold, rest = threshold;
    if (cuda->small && shares_threshold(threshold)) {
        uint64_t reserved = 0;
        if (cuda->backing.gpu->pool_get(cuda->small, GPU_POOL_RESERVED, &reserved) != GPU_SUCCESS)
            reserved = threshold / 8; /* the driver has no figures: the twin gets a fixed part */
        share = reserved < threshold ? reserved : threshold;
        rest = threshold - share;
    }
    int code = write_both(cuda, rest, share);
    if (code == GPU_SUCCESS) {
        atomic_store(&cuda->small_share, cuda->small && share < threshold ? share : UINT64_MAX);
        atomic_store(&cuda->backing.threshold, threshold);
    }
    return code;
}

int weir__cuda_reshare(struct weir__cuda *cuda)
{
    uint64_t now = 0;
    /* The program may have written the threshold through the handle of a default or current pool. */
    int code = cuda->backing.gpu->pool_get(cuda->handle, GPU_POOL_RELEASE_THRESHOLD, &now);
    if (code != GPU_SUCCESS || now != weir__cuda_written(cuda, GPU_POOL_RELEASE_THRESHOLD))
        return code;
    return weir__cuda_set_threshold(cuda, atomic_load(&cuda->backing.threshold));
}

void weir__cuda_rebalance(struct weir__cuda *cuda)
{
    const struct gpu *gpu = cuda->backing.gpu;
    uint64_t reserved = 0, used = 0;
    if (gpu->pool_get(cuda->small, GPU_POOL_RESERVED, &reserved) != GPU_SUCCESS ||
        gpu->pool_get(cuda->small, GPU_POOL_USED, &used) != GPU_SUCCESS)
        return;
    /* The twin may also grow before it has served its idle bytes, if its gaps are too small or its frees are pending. Then its part is too
       small by one growth step at most. */
    uint64_t idle = reserved > used ? reserved - used : 0;
    atomic_store(&cuda->small_idle, (int64_t)(idle < POLICY_GROWTH_STEP ? idle : POLICY_GROWTH_STEP));
    if (reserved <= atomic_load(&cuda->small_share))
        return;
    enum gpu_capture_mode mode = weir__relaxed_begin(gpu);
    pthread_mutex_lock(cuda->backing.lock);
    weir__cuda_reshare(cuda);
    pthread_mutex_unlock(cuda->backing.lock);
    weir__relaxed_end(gpu, mode);
}

/* Attempts of recovery ----------------------------------------------------------------------------------------------------------------- */

/* A threshold that an attempt of recovery has lowered to the bytes `to`, from `former`. */
struct lowered {
    gpu_pool handle;
    uint64_t to, former;
    bool is_ours; /* Weir wrote the former threshold. Otherwise the program did, through the pool's handle */
};

/* Returns the threshold that the policy asks for: the part of the twin if `small`, otherwise the part of the pool. */
static uint64_t wanted(const struct weir__cuda *cuda, bool small)
{
    uint64_t all = atomic_load(&cuda->backing.threshold), share = atomic_load(&cuda->small_share);
    if (!cuda->small || share >= all)
        return all;
    return small ? share : all - share;
}

static int write_threshold(struct weir__cuda *cuda, const struct lowered *lowered, uint64_t bytes)
{
    if (lowered->is_ours)
        return weir__cuda_write(cuda, lowered->handle, GPU_POOL_RELEASE_THRESHOLD, bytes);
    return cuda->backing.gpu->pool_set(lowered->handle, GPU_POOL_RELEASE_THRESHOLD, bytes);
}

/* Lowers the handle's threshold to the bytes that the handle has reserved. Returns whether it did. The caller holds the pool's lock. */
static bool lower(struct weir__cuda *cuda, gpu_pool handle, struct lowered *lowered)
{
    const struct gpu *gpu = cuda->backing.gpu;
    bool small = handle == cuda->small;
    uint64_t now = 0;
    if (gpu->pool_get(handle, GPU_POOL_RELEASE_THRESHOLD, &now) != GPU_SUCCESS ||
        gpu->pool_get(handle, GPU_POOL_RESERVED, &lowered->to) != GPU_SUCCESS)
        return false;
    lowered->handle = handle;
    lowered->is_ours = small || now == weir__cuda_written(cuda, GPU_POOL_RELEASE_THRESHOLD);
    lowered->former = lowered->is_ours ? wanted(cuda, small) : now;
    return now > lowered->to && write_threshold(cuda, lowered, lowered->to) == GPU_SUCCESS;
}

/* Restores the former threshold, unless the program has changed the threshold since, through the handle of a default or current pool. */
static void put_back(struct weir__cuda *cuda, const struct lowered *lowered)
{
    uint64_t now = lowered->to;
    cuda->backing.gpu->pool_get(lowered->handle, GPU_POOL_RELEASE_THRESHOLD, &now);
    for (int tries = 0; tries < TRIES && now == lowered->to; tries++)
        if (write_threshold(cuda, lowered, lowered->former) == GPU_SUCCESS)
            return;
}

int weir__cuda_malloc_alone(struct weir__cuda *cuda, void **block, size_t size, gpu_pool handle, gpu_stream stream)
{
    const struct gpu *gpu = cuda->backing.gpu;
    struct lowered lowered;
    /* An exportable pool keeps all memory that it has reserved, whatever its threshold, although CUDA's figures say otherwise (measured).
     */
    if (cuda->is_exportable)
        return gpu->malloc_async(block, size, handle, stream);
    pthread_mutex_lock(cuda->backing.lock);
    bool is_lowered = lower(cuda, handle, &lowered);
    int code = gpu->malloc_async(block, size, handle, stream);
    if (is_lowered)
        put_back(cuda, &lowered);
    pthread_mutex_unlock(cuda->backing.lock);
    return code;
}

void weir__cuda_mend(struct weir__cuda *cuda)
{
    uint64_t now, written = weir__cuda_written(cuda, GPU_POOL_RELEASE_THRESHOLD);
    if (written == wanted(cuda, false) || cuda->is_exportable)
        return;
    if (cuda->backing.gpu->pool_get(cuda->handle, GPU_POOL_RELEASE_THRESHOLD, &now) == GPU_SUCCESS && now == written)
        weir__cuda_write(cuda, cuda->handle, GPU_POOL_RELEASE_THRESHOLD, wanted(cuda, false));
}
