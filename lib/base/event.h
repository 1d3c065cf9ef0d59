/* SPDX-License-Identifier: MIT */
/*
 * event.h - events of Weir's own, recorded behind the work of a stream. Weir waits for a stream that the program may capture only by such
 * an event, never by synchronising the stream.
 *
 * Call these functions in relaxed capture mode. They log nothing, and those that return a bool do not return CUDA's code: the callers have
 * nobody to report an error to.
 */
#ifndef WEIR_LIB_EVENT_H
#define WEIR_LIB_EVENT_H

#include <stdbool.h>

#include "lib/gpu/gpu.h"

/*
 * Creates an event and records it behind all work of the stream, which must be alive and of that device. Returns true, and the caller must
 * destroy *event. Returns false, and *event is NULL, if CUDA refused or the stream captures. The function asks for the capture status after
 * recording, not before: a capture that began in between has caught the event, and such an event must never be queried.
 */
bool weir__event_behind(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event);

/* Destroys an event. Tries twice, as a call of the driver may fail once. */
void weir__event_destroy(const struct gpu *gpu, gpu_event event);

/* Records an event behind all work of the stream. Returns CUDA's code, or GPU_CAPTURE_UNSUPPORTED if the stream captures: the event must
   not be queried in that case. */
int weir__event_record(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event);

/* Returns the device of a stream on which the program frees a block of `device`; the stream may be of another device. A fixed handle means
   the stream of `device` itself. */
int weir__event_device(const struct gpu *gpu, int device, gpu_stream stream);

enum weir__event_state {
    /* The event is complete and was synchronised: until an event is synchronised the driver does not give memory that was freed before the
       event to other pools. Or the event's context was destroyed, which completes the work and releases the memory too. */
    WEIR__EVENT_COMPLETE,
    WEIR__EVENT_PENDING,
    WEIR__EVENT_BROKEN, /* the event will never complete, since the process's work has failed */
};
/* Asks once whether the event is complete, and synchronises the event if so. */
enum weir__event_state weir__event_look(const struct gpu *gpu, gpu_event event);
/* weir__event_look() in two steps, for callers that need the GPU code: the first asks and returns the code, the second turns the code into
   a state. */
int weir__event_ask(const struct gpu *gpu, gpu_event event);
enum weir__event_state weir__event_state_of(int code);

/*
 * Polls the event, at least once, until it is no longer pending or `deadline` (by gpu->now()) has passed. Returns whether it is complete.
 */
bool weir__event_wait(const struct gpu *gpu, gpu_event event, uint64_t deadline);

/* Pauses between two polls: 20 µs the first time, then twice as long each time up to 1 ms, but never beyond the deadline. *pause keeps the
   length of the last pause; the caller sets it to 0 before the first one. Returns false, without a pause, if the deadline has passed. */
bool weir__event_pause(const struct gpu *gpu, uint64_t *pause, uint64_t deadline);

#endif
