/* SPDX-License-Identifier: MIT */
/*
 * figures.h - the measurements of weir-figures: Weir beside the raw calls of CUDA, in the same run, interleaved.
 *
 * One thread, device 0. Each section makes its streams, pools and weir, and gives everything back before it returns.
 */
#ifndef WEIR_FIGURES_H
#define WEIR_FIGURES_H

#include "bench/bench.h"
#include "lib/gpu/gpu.h"
#include "lib/weir.h"

#include <cuda_runtime_api.h>

struct figures {
    const struct gpu *gpu; /* for its delay kernel */
    size_t repetitions;
    uint64_t memory; /* bytes of the device that were free at the start */
    struct bench_report report;
};

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* figures_speed.c */
void figures_pairs(struct figures *figures);
void figures_open(struct figures *figures);
void figures_loop(struct figures *figures);
/* figures_memory.c */
void figures_pending(struct figures *figures);
void figures_small(struct figures *figures);

/* figures.c: what the sections share. Each ends the program if it fails. */
weir *figures_weir(const char *policy);
cudaMemPool_t figures_raw_pool(uint64_t release_threshold);
cudaStream_t figures_stream(void);
weir_stream *figures_open_stream(weir *w, cudaStream_t stream);
/* Ends the program with weir_last_error()'s report if status is not WEIR_OK. */
void figures_check(weir_status status, const char *what);

#endif
