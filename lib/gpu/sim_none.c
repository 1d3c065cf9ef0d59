/* SPDX-License-Identifier: MIT */
/* sim_none.c - replaces the simulator in installed libraries of a build --without-simulator. */
#include "lib/gpu/gpu_tables.h"

const struct gpu *gpu_simulator(const char **why)
{
    *why = "this library has no simulator, as it was configured --without-simulator: write \"cuda\", or nothing, for real devices, or "
           "build one without that option";
    return NULL;
}
