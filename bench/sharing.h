/* SPDX-License-Identifier: MIT */
/* sharing.h - what the parts of the section `share` have in common: an export with its consumers, and the same by hand. One thread. */
#ifndef WEIR_BENCH_SHARING_H
#define WEIR_BENCH_SHARING_H

#include "bench/worker.h"

#define SHARING_CONSUMERS 4

/* A slot of a ring made by hand. */
struct sharing_slot {
    void *ptr;
    gpu_event ready, release[SHARING_CONSUMERS];
};

struct sharing {
    struct bench *bench;
    const struct gpu *gpu;
    gpu_stream stream;
    char directory[64], socket[96];
    weir *w;
    weir_pool *pool;
    weir_export *export;
    gpu_pool raw_pool;
    int raw_pool_fd;
    size_t block; /* bytes of every block: 64 MiB, and less on the simulator, whose memory is the host's */
    struct sharing_slot slots[WORKER_SLOTS_MAX];
    struct worker consumers[SHARING_CONSUMERS];
};

/* share_ring.c: frames that nobody touches, and frames written and read. */
void sharing_rings(struct sharing *sharing);

#endif
