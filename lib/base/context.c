/* SPDX-License-Identifier: MIT */
#include "lib/base/context.h"

enum gpu_capture_mode weir__relaxed_begin(const struct gpu *gpu)
{
    enum gpu_capture_mode mode = GPU_CAPTURE_MODE_RELAXED;
    int code = gpu->exchange_capture_mode(&mode);
    if (code != GPU_SUCCESS) {
        gpu->forget_error(code);
        return GPU_CAPTURE_MODE_RELAXED;
    }
    return mode;
}

void weir__relaxed_end(const struct gpu *gpu, enum gpu_capture_mode former)
{
    int code = former == GPU_CAPTURE_MODE_RELAXED ? GPU_SUCCESS : gpu->exchange_capture_mode(&former);
    gpu->forget_error(code);
}
