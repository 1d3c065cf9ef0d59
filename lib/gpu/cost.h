/* SPDX-License-Identifier: MIT */
/* cost.h - the time that a call of the GPU costs the calling thread, and its text form: "300ns", "830us/GiB", "7us+250us/GiB". Pure. */
#ifndef WEIR_GPU_COST_H
#define WEIR_GPU_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_COST_MOST UINT64_C(60000000000) /* the most for each of the two parts: a minute */
#define GPU_COST_TEXT_SIZE 64

/* In nanoseconds: `call` for each call, plus `gib` for each GiB that the call handles. */
struct gpu_cost {
    uint64_t call, gib;
};

/* Reads a cost; each part is a whole number of ns, us or ms, at most GPU_COST_MOST. Returns false, and leaves *cost unchanged, if the text
   is no cost. */
bool gpu_cost_parse(const char *text, struct gpu_cost *cost);
/* Writes a cost in the largest units that lose nothing, so that gpu_cost_parse() reads the same cost. Returns `text`. */
const char *gpu_cost_format(struct gpu_cost cost, char text[static GPU_COST_TEXT_SIZE]);
/* Returns the nanoseconds that a call costs which handles `bytes` bytes. */
uint64_t gpu_cost_of(struct gpu_cost cost, uint64_t bytes);

#endif
