/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/events.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

/* Contexts ----------------------------------------------------------------------------------------------------------------------------- */

static weir_torch_context *_Atomic swept; /* added to under the lock of the ledger, and taken as a whole without it */

void torch_context_keep(weir_torch_context *context)
{
    if (context)
        context->uses++;
}

static void sweep(weir_torch_context *context)
{
    context->next = atomic_load_explicit(&swept, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&swept, &context->next, context))
        continue;
}

void torch_context_drop(weir_torch_context *context)
{
    if (context && --context->uses == 0)
        sweep(context);
}

void torch_context_spare(weir_torch_context *context)
{
    if (context && context->uses == 0)
        sweep(context);
}

bool torch_context_are_swept(void)
{
    return atomic_load_explicit(&swept, memory_order_relaxed);
}

weir_torch_context *torch_context_sweep(void)
{
    return atomic_exchange(&swept, NULL);
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static weir_torch_event *place_of(const struct torch_events *events, size_t number)
{
    return &events->places[(events->first + number) % events->room];
}

const weir_torch_event *torch_events_at(const struct torch_events *events, size_t number)
{
    return place_of(events, number);
}

/* The latest as one run from the start. false: no host memory, nothing changed. room >= count. */
static bool move(struct torch_events *events, size_t room)
{
    weir_torch_event *places = room <= SIZE_MAX / sizeof *places ? malloc(room * sizeof *places) : NULL;
    if (!places)
        return false;
    for (size_t i = 0; i < events->count; i++)
        places[i] = *place_of(events, i);
    free(events->places);
    events->places = places;
    events->room = room;
    events->first = 0;
    return true;
}

static void drop_first(struct torch_events *events)
{
    torch_context_drop(place_of(events, 0)->context);
    events->first = (events->first + 1) % events->room;
    events->count--;
}

static void make_room(struct torch_events *events, uint64_t limit)
{
    size_t wanted = events->room ? 2 * events->room : FIRST_ROOM;
    if (events->count < events->room || (events->room < limit && move(events, wanted < limit ? wanted : (size_t)limit)))
        return;
    if (events->count)
        drop_first(events);
}

void torch_events_add(struct torch_events *events, const weir_torch_event *event, uint64_t limit)
{
    if (!limit)
        return;
    make_room(events, limit);
    if (!events->room)
        return;
    *place_of(events, events->count) = *event;
    events->count++;
    torch_context_keep(event->context);
}

bool torch_events_undo(struct torch_events *events, int action, uint64_t address)
{
    const weir_torch_event *latest = events->count ? place_of(events, events->count - 1) : NULL;
    if (!latest || latest->action != action || latest->address != address)
        return false;
    torch_context_drop(latest->context);
    events->count--;
    return true;
}

void torch_events_shrink(struct torch_events *events, uint64_t limit)
{
    while (events->count > limit)
        drop_first(events);
    /* Where there is no host memory for less, it stays: make_room() then drops by the room that there is. */
    if (events->room > limit && limit)
        move(events, (size_t)limit);
    if (!limit)
        torch_events_clear(events);
}

void torch_events_clear(struct torch_events *events)
{
    while (events->count)
        drop_first(events);
    free(events->places);
    memset(events, 0, sizeof *events);
}
