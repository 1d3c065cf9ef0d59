/* SPDX-License-Identifier: MIT */
/* gpu_tables.h - the implementations that gpu_find() chooses from. Private to lib/gpu. */
#ifndef WEIR_GPU_TABLES_H
#define WEIR_GPU_TABLES_H

#include "lib/gpu/gpu.h"

extern const struct gpu gpu_sim;  /* sim.c, in every build */
extern const struct gpu gpu_cuda; /* cuda.c, with HAVE_CUDA only */

/* Why $WEIR_SIM is no good, in the calling thread's own storage, or NULL if it is good or no longer matters. */
const char *sim_environment_error(void);

#endif
