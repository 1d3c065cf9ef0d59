/* SPDX-License-Identifier: MIT */
/* nvml.h - lists the processes that use a GPU, with NVML, the driver's management library. The first call loads the library by name, since
   a machine may lack it; it stays loaded. Any thread may call, with no lock held; a call returns after a quarter of a second at most, even
   if the library takes longer. */
#ifndef WEIR_NVML_H
#define WEIR_NVML_H

#include "lib/gpu/gpu.h"

/* device_processes() of gpu.h, for the GPU or MIG instance with that UUID. */
int nvml_processes(const char *uuid, struct gpu_process *processes, size_t room, size_t *count);

#endif
