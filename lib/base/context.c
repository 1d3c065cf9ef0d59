/* SPDX-License-Identifier: MIT */
#include "lib/base/context.h"

enum gpu_capture_mode weir__relaxed_begin(const struct gpu *gpu)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    return gpu->exchange_capture_mode(&mode) == GPU_SUCCESS ? mode : GPU_CAPTURE_MODE_RELAXED;
}

void weir__relaxed_end(const struct gpu *gpu, enum gpu_capture_mode former)
{
    if (former != GPU_CAPTURE_MODE_RELAXED)
        gpu->exchange_capture_mode(&former);
}
