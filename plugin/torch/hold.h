/* SPDX-License-Identifier: MIT */
/*
 * hold.h - a hold (see weir_torch.h), for the files that make what is held: frame.c.
 */
#ifndef WEIR_TORCH_HOLD_H
#define WEIR_TORCH_HOLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "plugin/torch/weir_torch.h"

#define TORCH_HOLD_STREAMS_MAX 8

struct weir_torch_hold {
    struct weir_torch_hold *next; /* of those that could not end yet */
    struct weir_torch_hold *parent;
    enum weir_torch_held kind;
    _Atomic(void *) thing; /* NULL: nothing is left to end, or somebody is just ending it */
    weir *w;
    int device;
    unsigned timeout_ms;
    atomic_uint holders;
    weir_cuda_stream home;
    pthread_mutex_t lock; /* of what follows; a leaf but for CUDA's calls */
    unsigned stream_count;
    weir_cuda_stream streams[TORCH_HOLD_STREAMS_MAX]; /* where it was used, the home stream too if it was */
};

/* Each of those once more that could not end, as a stream captured. Others may wait for what they have. */
void torch_holds_retry(void);

/* `stream` waits for all streams that used it. */
WEIR_CHECK weir_status torch_hold_join(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error);

/* Gives back the slot, or the block, on the stream, behind all that used it. */
WEIR_CHECK weir_status torch_frame_give_back(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error);

#endif
