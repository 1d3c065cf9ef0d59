/* SPDX-License-Identifier: MIT */
#include "lib/pool/recorded.h"

static void record_figures(weir_pool *pool)
{
    uint64_t used = 0, reserved = 0;
    if (weir__pool_read(pool, GPU_POOL_USED, &used) == GPU_SUCCESS && weir__pool_read(pool, GPU_POOL_RESERVED, &reserved) == GPU_SUCCESS)
        weir__record_pool(WEIR__KIND_FIGURES, pool, used, reserved);
}

void weir__record_pools(weir *w)
{
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool))
            record_figures(pool);
    weir__relaxed_end(w->gpu, mode);
}
