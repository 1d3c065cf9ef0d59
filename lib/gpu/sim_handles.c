/* SPDX-License-Identifier: MIT */
#include "lib/gpu/sim_handles.h"

#include <stdint.h>
#include <stdlib.h>

#define ROOM_MIN 64

/* Returns the place of the handle in the table, or the empty place for it. */
static const void **place_of(const struct sim_handles *handles, const void *handle)
{
    size_t at = (size_t)(((uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
    while (handles->items[at & (handles->room - 1)] && handles->items[at & (handles->room - 1)] != handle)
        at++;
    return &handles->items[at & (handles->room - 1)];
}

static bool grow(struct sim_handles *handles)
{
    struct sim_handles more = { .count = handles->count, .room = handles->room ? handles->room * 2 : ROOM_MIN };
    more.items = calloc(more.room, sizeof(*more.items));
    if (!more.items)
        return false;
    for (size_t i = 0; i < handles->room; i++)
        if (handles->items[i])
            *place_of(&more, handles->items[i]) = handles->items[i];
    free(handles->items);
    *handles = more;
    return true;
}

/* At most half of the places are used, so each search ends soon. */
bool sim_handles_add(struct sim_handles *handles, const void *handle)
{
    if (handles->count * 2 >= handles->room && !grow(handles))
        return false;
    *place_of(handles, handle) = handle;
    handles->count++;
    return true;
}

bool sim_handles_have(const struct sim_handles *handles, const void *handle)
{
    return handles->room && handle && *place_of(handles, handle);
}

void sim_handles_clear(struct sim_handles *handles)
{
    free(handles->items);
    *handles = (struct sim_handles){ 0 };
}
