/* SPDX-License-Identifier: MIT */
/*
 * begin.h - finds the reserve (reserve.h) that has to serve a request.
 *
 * A *begin* is torch's announcement, until its end, that requests go to the reserve of some id. There are two kinds. The begin of a capture
 * takes the requests on streams that are part of the capture. A *route* (weir_torch_begin_route()) takes the requests that its filter
 * accepts, during a capture or not. If several begins take a request, the latest one gets it. The device's reserve_lock guards the list of
 * begins.
 */
#ifndef WEIR_TORCH_BEGIN_H
#define WEIR_TORCH_BEGIN_H

#include "plugin/torch/reserve.h"

/* Returns the reserve for a request of this thread on the stream, or NULL if no begin takes the request. id: CUDA's number of the capture
   that the stream is part of; 0: the stream does not capture. is_torchs: the stream is one of torch's. The caller holds the device's
   reserve_lock. */
struct torch_reserve *torch_begin_find(struct torch_device *device, uint64_t id, gpu_stream handle, bool is_torchs);

/* Ends the begins of captures that are over. torch announces no end of a capture that failed. Takes the device's reserve_lock. */
void torch_begin_end_spoilt(struct torch_device *device);

/* Sets *id to the number of the capture that the stream is part of, or to 0 if the stream does not capture. Returns CUDA's error code. */
int torch_capture_id(const struct torch_device *device, gpu_stream handle, uint64_t *id);

#endif
