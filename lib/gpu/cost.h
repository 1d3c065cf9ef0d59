/* SPDX-License-Identifier: MIT */
/*
 * cost.h - what a call of the GPU costs the calling thread, and how it is written: "300ns", "830us/GiB", "7us+250us/GiB". Pure.
 */
#ifndef WEIR_GPU_COST_H
#define WEIR_GPU_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_COST_MOST UINT64_C(60000000000) /* of either part: a minute */
#define GPU_COST_TEXT_SIZE 64

/* In nanoseconds: for the call, and on top for each GiB that it handles. */
struct gpu_cost {
    uint64_t call, gib;
};

/* Reads whole numbers of ns, us and ms, up to GPU_COST_MOST. false: it is no cost; *cost is then as before. */
bool gpu_cost_parse(const char *text, struct gpu_cost *cost);
/* Writes it in the largest units that lose nothing, so that the parser reads the same. Returns text. */
const char *gpu_cost_format(struct gpu_cost cost, char text[static GPU_COST_TEXT_SIZE]);
/* Nanoseconds for a call that handles so many bytes. */
uint64_t gpu_cost_of(struct gpu_cost cost, uint64_t bytes);

#endif
