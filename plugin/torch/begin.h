/* SPDX-License-Identifier: MIT */
/*
 * begin.h - begins without their end: which requests are for which reserve now.
 *
 * A begin is that of a capture, which has the requests of streams that are part of it, or a *route*, whose filter says what it has, capture
 * or not. The latest that wants a request has it. Lists are guarded by reserve_lock.
 */
#ifndef WEIR_TORCH_BEGIN_H
#define WEIR_TORCH_BEGIN_H

#include "plugin/torch/reserve.h"

/* The reserve for a request of this thread on that stream. id: CUDA's number of the capture that the stream is part of; 0: of none.
   is_torchs: it is one of torch's streams. NULL: no begin wants it. With the device's reserve_lock. */
struct torch_reserve *torch_begin_find(struct torch_device *device, uint64_t id, gpu_stream handle, bool is_torchs);

/* torch tells no end of a capture that was spoilt: those that are over end here. */
void torch_begin_end_spoilt(struct torch_device *device);

/* CUDA's code, and the number of the capture that the stream is part of, 0 for none. */
int torch_capture_id(const struct torch_device *device, gpu_stream handle, uint64_t *id);

#endif
