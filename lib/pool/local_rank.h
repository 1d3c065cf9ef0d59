/* SPDX-License-Identifier: MIT */
/*
 * local_rank.h - chooses this process's device in a job whose processes have one device each, from the variables that launchers such as
 * torchrun set.
 *
 * Programs with changed user or group ids ignore these variables. The functions have no state.
 */
#ifndef WEIR_LIB_LOCAL_RANK_H
#define WEIR_LIB_LOCAL_RANK_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__LOCAL_RANK_WHY 320

/* Returns the name of the first variable with a local rank that is set and not empty, and its value. Returns NULL if there is none. */
const char *weir__local_rank_variable(const char **value);

/* Sets *device to this process's device among the `count` visible ones (at least 1). Returns false, with the text `why` that names the
   wrong variable and the remedy, if there is no such device. */
bool weir__local_rank_device(size_t count, int *device, char why[WEIR__LOCAL_RANK_WHY]);

#endif
