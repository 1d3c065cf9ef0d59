/* SPDX-License-Identifier: MIT */
/*
 * nvml.h - which processes use a GPU, by the driver's management library. It is opened by name when it is first asked, and stays open: a
 * machine may be without it. Any thread may call, with no lock held; a call takes a quarter of a second at most, however long the library does.
 */
#ifndef WEIR_NVML_H
#define WEIR_NVML_H

#include "lib/gpu/gpu.h"

/* device_processes() of gpu.h, of the GPU, or instance of one, with that UUID. */
int nvml_processes(const char *uuid, struct gpu_process *processes, size_t room, size_t *count);

#endif
