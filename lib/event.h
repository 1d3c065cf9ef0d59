/* SPDX-License-Identifier: MIT */
/*
 * event.h - events of Weir's own, behind the work of a stream: the only way in which Weir waits for a stream that others may capture.
 *
 * Call these in relaxed capture mode. Failures are silent and their codes forgotten: whoever waits has nobody to tell.
 */
#ifndef WEIR_LIB_EVENT_H
#define WEIR_LIB_EVENT_H

#include <stdbool.h>

#include "lib/gpu/gpu.h"

/*
 * Creates an event behind all work of the stream, which is alive; *event is the caller's to destroy. false: there is none, since CUDA refused
 * or the stream captures: a capture is asked for after recording, as one that began in between has caught the event, which must then never
 * be queried.
 */
bool weir__event_behind(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event);

/*
 * Polls until the event is complete or `deadline` (by gpu->now()) has passed, then synchronises it, since only that makes the driver see the
 * frees before it for other pools. At least one look is taken. true: it is complete.
 */
bool weir__event_wait(const struct gpu *gpu, gpu_event event, uint64_t deadline);

void weir__event_destroy(const struct gpu *gpu, gpu_event event);

#endif
