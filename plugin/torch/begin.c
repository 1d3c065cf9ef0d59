/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/begin.h"

#include <stdlib.h>

#include "plugin/torch/late.h"

#define LOOKED_AT 16 /* torch_begin_end_spoilt() checks at most so many captures */

struct torch_begin {
    struct torch_begin *next;
    struct torch_reserve *reserve;
    pthread_t thread;
    weir_torch_filter filter; /* for a route; a begin of a capture has NULL in `wants` */
    uint64_t id;              /* CUDA's number of the capture; 0 until the first allocation in the capture */
    gpu_stream handle;        /* a stream that was part of the capture at its first allocation */
};

/* Which begin. The caller holds the device's reserve_lock ------------------------------------------------------------------------------ */

/*
 * Returns the begin of the capture with the number `id`: the begin that has this number already; else, of the begins that have no number
 * yet, the latest of this thread, or the only one, which gets the number then. Code outside of torch may capture at the same time, and
 * threads other than the one that began may allocate in torch's captures; so the only begin of another thread is taken only if torch owns
 * the stream (is_torchs), since torch captures its own streams. NULL: there is no such begin.
 */
static struct torch_begin *find_capture(struct torch_device *device, uint64_t id, gpu_stream handle, bool is_torchs)
{
    struct torch_begin *own = NULL, *only = NULL;
    size_t unknown = 0;
    for (struct torch_begin *begin = device->begins; begin; begin = begin->next) {
        if (begin->filter.wants)
            continue;
        if (begin->id == id)
            return begin;
        if (begin->id)
            continue;
        unknown++;
        only = begin;
        if (!own && pthread_equal(begin->thread, pthread_self()))
            own = begin;
    }
    struct torch_begin *found = own ? own : unknown == 1 && is_torchs ? only : NULL;
    if (found) {
        found->id = id;
        found->handle = handle;
    }
    return found;
}

static struct torch_begin *find_route(const struct torch_device *device, gpu_stream handle)
{
    struct torch_begin *begin = device->begins;
    while (begin && !(begin->filter.wants && begin->filter.wants(begin->filter.data, handle)))
        begin = begin->next;
    return begin;
}

struct torch_reserve *torch_begin_find(struct torch_device *device, uint64_t id, gpu_stream handle, bool is_torchs)
{
    const struct torch_begin *capture = id ? find_capture(device, id, handle, is_torchs) : NULL;
    const struct torch_begin *route = find_route(device, handle), *begin = device->begins;
    while (begin && begin != capture && begin != route)
        begin = begin->next;
    return begin ? begin->reserve : NULL;
}

/* Adds a begin to the head of the list. Returns false if host memory runs out. */
static bool add_begin(struct torch_device *device, weir_torch_pool_id id, const weir_torch_filter *filter)
{
    struct torch_begin *begin = calloc(1, sizeof *begin);
    struct torch_reserve *reserve = begin ? torch_reserve_get(device, id) : NULL;
    if (!reserve) {
        free(begin);
        return false;
    }
    reserve->uses++;
    reserve->holders++;
    *begin = (struct torch_begin){ .next = device->begins, .reserve = reserve, .thread = pthread_self() };
    if (filter)
        begin->filter = *filter;
    device->begins = begin;
    return true;
}

static struct torch_begin *unlist_begin(struct torch_device *device, struct torch_begin **link)
{
    struct torch_begin *begin = *link;
    *link = begin->next;
    begin->reserve->holders--;
    torch_reserve_shrink(device, begin->reserve);
    return begin;
}

/* Removes the latest begin of that id from the list, and prefers a begin of this thread. Returns NULL if there is none. */
static struct torch_begin *remove_begin(struct torch_device *device, weir_torch_pool_id id)
{
    struct torch_begin **found = NULL;
    const struct torch_reserve *reserve = torch_reserve_find(device, id);
    for (struct torch_begin **link = &device->begins; *link; link = &(*link)->next) {
        bool is_own = pthread_equal((*link)->thread, pthread_self());
        if ((*link)->reserve == reserve && (!found || (is_own && !pthread_equal((*found)->thread, pthread_self()))))
            found = link;
    }
    return found ? unlist_begin(device, found) : NULL;
}

/* Removes the begin of the capture with that number. Returns NULL if the begin has ended already. */
static struct torch_begin *remove_number(struct torch_device *device, uint64_t id)
{
    struct torch_begin **link = &device->begins;
    while (*link && (*link)->id != id)
        link = &(*link)->next;
    return *link ? unlist_begin(device, link) : NULL;
}

/* What torch calls --------------------------------------------------------------------------------------------------------------------- */

int torch_capture_id(const struct torch_device *device, gpu_stream handle, uint64_t *id)
{
    int former = weir__current_begin(device->gpu, device->index, handle);
    int code = device->gpu->stream_capture_id(handle, id);
    weir__current_end(device->gpu, former);
    return code;
}

/* Ends and frees a begin that is not in the list any more. NULL does nothing. The caller does not hold the reserve_lock. */
static void end(struct torch_device *device, struct torch_begin *begin)
{
    if (!begin)
        return;
    if (begin->filter.wants) {
        atomic_fetch_sub(&device->routes, 1);
        if (begin->filter.drop)
            begin->filter.drop(begin->filter.data);
    } else {
        weir__captures_end();
        atomic_fetch_sub(&device->begun, 1);
    }
    atomic_fetch_sub(&torch_busy, 1);
    free(begin);
}

/* A capture is over if its stream is no longer part of it. Weir can ask that of streams that live for ever only. The reserve stays, since
   torch may still release it. */
void torch_begin_end_spoilt(struct torch_device *device)
{
    struct {
        gpu_stream handle;
        uint64_t id;
    } known[LOOKED_AT];
    size_t count = 0;
    pthread_mutex_lock(&device->reserve_lock);
    for (const struct torch_begin *begin = device->begins; begin && count < LOOKED_AT; begin = begin->next)
        if (begin->id) {
            known[count].handle = begin->handle;
            known[count++].id = begin->id;
        }
    pthread_mutex_unlock(&device->reserve_lock);
    for (size_t i = 0; i < count; i++) {
        const struct torch_stream *stream = torch_stream_get(device->index, known[i].handle);
        uint64_t id = known[i].id;
        if (!stream || !atomic_load(&stream->lives) || torch_capture_id(device, known[i].handle, &id) != GPU_SUCCESS || id == known[i].id)
            continue;
        pthread_mutex_lock(&device->reserve_lock);
        struct torch_begin *begin = remove_number(device, known[i].id);
        torch_reserve_unlock(device);
        end(device, begin);
    }
}

void weir_torch_begin_allocate_to_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_device_open(index, NULL);
    if (!device)
        return;
    torch_begin_end_spoilt(device);
    pthread_mutex_lock(&device->reserve_lock);
    bool is_added = add_begin(device, id, NULL);
    pthread_mutex_unlock(&device->reserve_lock);
    if (!is_added)
        return;
    weir__captures_begin();
    atomic_fetch_add(&device->begun, 1);
    atomic_fetch_add(&torch_busy, 1);
}

weir_status weir_torch_begin_route(int index, weir_torch_pool_id id, const weir_torch_filter *filter, weir_error *error)
{
    weir_error cleared = WEIR_ERROR_INIT;
    struct torch_device *device = torch_device_open(index, &cleared);
    if (device) {
        pthread_mutex_lock(&device->reserve_lock);
        bool is_added = add_begin(device, id, filter);
        pthread_mutex_unlock(&device->reserve_lock);
        if (is_added) {
            atomic_fetch_add(&device->routes, 1);
            atomic_fetch_add(&torch_busy, 1);
            return WEIR_OK;
        }
        weir__fail(&cleared, WEIR_NO_HOST_MEMORY, "no host memory for a pool of torch's on device %d", index);
    }
    if (error)
        *error = cleared;
    return cleared.status;
}

void weir_torch_end_allocate_to_pool(int index, weir_torch_pool_id id)
{
    struct torch_device *device = torch_is_over() ? NULL : torch_device_find(index);
    if (!device)
        return;
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_begin *begin = remove_begin(device, id);
    torch_reserve_unlock(device);
    if (!begin)
        return;
    end(device, begin);
    torch_late_retry(device);
    pthread_mutex_lock(&device->reserve_lock);
    torch_reserve_unlock(device); /* gives back the chunks that waited for the end */
}
