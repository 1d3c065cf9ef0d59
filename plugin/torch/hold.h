/* SPDX-License-Identifier: MIT */
/* hold.h - the struct of a hold: a counted reference to a shared thing (see weir_torch.h). hold.c has the holds, frame.c makes those of
   slots, blocks and leases. Members without a lock are fixed. */
#ifndef WEIR_TORCH_HOLD_H
#define WEIR_TORCH_HOLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "plugin/torch/weir_torch.h"

#define TORCH_HOLD_STREAMS_MAX 8

struct weir_torch_hold {
    struct weir_torch_hold *next; /* in the list of holds that could not end yet; guarded by the list's lock in hold.c */
    struct weir_torch_hold *parent;
    enum weir_torch_held kind;
    _Atomic(void *) thing; /* NULL: the thing has ended, or a thread is just ending it */
    weir *w;
    int device;
    unsigned timeout_ms;
    atomic_uint holders;
    weir_cuda_stream home;
    pthread_mutex_t lock; /* guards the members below. Only calls of CUDA are made under it, and no lock is taken */
    unsigned stream_count;
    weir_cuda_stream streams[TORCH_HOLD_STREAMS_MAX]; /* the streams that used the thing, the home stream among them if it did */
};

/* Tries again to end the holds that could not end because a stream captured. Called where a new request may need their memory. */
void torch_holds_retry(void);

/* Makes `stream` wait for all other streams that used the thing. */
WEIR_CHECK weir_status torch_hold_join(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error);

/* Gives back the slot or the block of the hold on the stream, behind the work of all streams that used it. */
WEIR_CHECK weir_status torch_frame_give_back(weir_torch_hold *hold, weir_cuda_stream stream, weir_error *error);

#endif
