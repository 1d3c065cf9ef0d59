/* SPDX-License-Identifier: MIT */
/*
 * local_rank.h - which device is this process's own, where each process of a job has one: what launchers put into the environment.
 *
 * Programs with changed user or group ids do not read it.
 */
#ifndef WEIR_LIB_LOCAL_RANK_H
#define WEIR_LIB_LOCAL_RANK_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR__LOCAL_RANK_WHY 320

/* The first variable of a local rank that is set and not empty, and its value; NULL if there is none. */
const char *weir__local_rank_variable(const char **value);

/* The device of this process among `count` (at least 1) visible ones. false: why says which variable is wrong, and what to do. */
bool weir__local_rank_device(size_t count, int *device, char why[WEIR__LOCAL_RANK_WHY]);

#endif
