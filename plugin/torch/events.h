/* SPDX-License-Identifier: MIT */
/*
 * events.h - the latest events of one device, as many as are asked for, and the contexts that go with them.
 *
 * Owned by a ledger, and guarded by whatever guards that. Pure: it touches no memory of the device, and calls nobody.
 */
#ifndef WEIR_TORCH_EVENTS_H
#define WEIR_TORCH_EVENTS_H

#include <stdbool.h>

#include "plugin/torch/weir_torch.h"

/* A ring. All zero: an empty one. */
struct torch_events {
    weir_torch_event *places;
    size_t room, first, count; /* count <= room */
};

/* Adds an event, of which `limit` are kept at most; it keeps its context. It takes the place of the oldest where there is no room for more,
   or no host memory. */
void torch_events_add(struct torch_events *events, const weir_torch_event *event, uint64_t limit);

/* The latest event was of this address, and did not happen after all. false: another one is. */
bool torch_events_undo(struct torch_events *events, int action, uint64_t address);

/* Keeps none, or the latest `limit`, and gives the memory back that is too much. */
void torch_events_clear(struct torch_events *events);
void torch_events_shrink(struct torch_events *events, uint64_t limit);

/* The one with that number, from 0 for the oldest; number < count. */
const weir_torch_event *torch_events_at(const struct torch_events *events, size_t number);

/* One who keeps the context more, or less; NULL is none. With the last it goes where torch_context_sweep() finds it. */
void torch_context_keep(weir_torch_context *context);
void torch_context_drop(weir_torch_context *context);

/* Nobody ever kept it. */
void torch_context_spare(weir_torch_context *context);

/* Those that nobody keeps. These two need no lock. */
bool torch_context_are_swept(void);
weir_torch_context *torch_context_sweep(void);

#endif
