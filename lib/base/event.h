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
 * Creates an event behind all work of the stream, which is alive and of that device; *event is the caller's to destroy. Returns false, with
 * no event, if CUDA refused or the stream captures. Captures are asked for after recording: one that began in between has caught the event,
 * which must then never be queried.
 */
bool weir__event_behind(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event);
/* The same with an existing event that nobody waits for, which spares a new one. Returns false, with that event destroyed, as above or if
   the event is of another device. */
bool weir__event_move(const struct gpu *gpu, int device, gpu_stream stream, gpu_event *event);

/* Records an event behind all work of the stream. Returns CUDA's code, GPU_CAPTURE_UNSUPPORTED where the stream captures: then the event
   must not be queried. */
int weir__event_record(const struct gpu *gpu, int device, gpu_stream stream, gpu_event event);

/* The device of a stream that the program named beside a block of `device`: it may be of another one. A fixed handle is of that device. */
int weir__event_device(const struct gpu *gpu, int device, gpu_stream stream);

enum weir__event_state {
    WEIR__EVENT_COMPLETE, /* and synchronised, since only then the driver gives memory that was freed before it to other pools; or the
                             event's context was destroyed, which does both */
    WEIR__EVENT_PENDING,
    WEIR__EVENT_BROKEN, /* the event will never complete, since the process's work has failed */
};
/* Asks once whether the event is complete. */
enum weir__event_state weir__event_look(const struct gpu *gpu, gpu_event event);
/* The same in two steps: the waist's code, and what it says. */
int weir__event_ask(const struct gpu *gpu, gpu_event event);
enum weir__event_state weir__event_state_of(int code);

/*
 * Looks until the event is complete or `deadline` (by gpu->now()) has passed, once at least. true: it is complete.
 */
bool weir__event_wait(const struct gpu *gpu, gpu_event event, uint64_t deadline);

/* Lets time pass between two looks: 20 µs, twice as long each time up to 1 ms, never beyond the deadline. *pause is the caller's, 0 at
   first. false: the deadline has passed. */
bool weir__event_pause(const struct gpu *gpu, uint64_t *pause, uint64_t deadline);

#endif
