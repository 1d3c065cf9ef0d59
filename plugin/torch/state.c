/* SPDX-License-Identifier: MIT */
/* state.c - saves which blocks of a pool are live, and restores that later: the graph trees of torch.compile do so between graphs. */
#include "config.h"

#include <stdlib.h>

#include "plugin/torch/late.h"
#include "plugin/torch/reserve.h"

struct weir_torch_state {
    int device;
    weir_torch_pool_id id;
    struct torch_arena_state *arena;
};

/* Finds the reserve and takes the reserve_lock. Returns NULL, with the error filled and without the lock, if there is no such reserve or
   freed parts of it wait. */
static struct torch_reserve *enter(struct torch_device *device, weir_torch_pool_id id, weir_error *error)
{
    pthread_mutex_lock(&device->reserve_lock);
    struct torch_reserve *reserve = torch_reserve_find(device, id);
    size_t waiting = reserve ? reserve->arena.waiting_count : 0;
    if (reserve && !waiting)
        return reserve;
    pthread_mutex_unlock(&device->reserve_lock);
    if (reserve)
        weir__fail(error, WEIR_BUSY, "%zu freed blocks of the pool (%llu, %llu) wait for the work of other streams: synchronize these first",
                   waiting, (unsigned long long)id.first, (unsigned long long)id.second);
    else
        weir__fail(error, WEIR_NOT_FOUND, "there is no pool (%llu, %llu) on device %d: it was released, and all of its blocks are freed",
                   (unsigned long long)id.first, (unsigned long long)id.second, device->index);
    return NULL;
}

weir_status weir_torch_state_save(int index, weir_torch_pool_id id, weir_error *error, weir_torch_state **state)
{
    weir_error cleared = WEIR_ERROR_INIT;
    struct torch_device *device = torch_device_open(index, &cleared);
    struct torch_reserve *reserve = NULL;
    if (device) {
        torch_late_retry(device);
        reserve = enter(device, id, &cleared);
    }
    if (reserve) {
        weir_torch_state *made = malloc(sizeof *made);
        struct torch_arena_state *arena = made ? torch_arena_save(&reserve->arena) : NULL;
        pthread_mutex_unlock(&device->reserve_lock);
        if (arena) {
            *made = (weir_torch_state){ .device = index, .id = id, .arena = arena };
            *state = made;
            return WEIR_OK;
        }
        free(made);
        weir__fail(&cleared, WEIR_NO_HOST_MEMORY, "no host memory for the state of a pool");
    }
    if (error)
        *error = cleared;
    return cleared.status;
}

void weir_torch_state_free(weir_torch_state *state)
{
    if (!state)
        return;
    free(state->arena);
    free(state);
}

/* Going back --------------------------------------------------------------------------------------------------------------------------- */

static void list_freed(const void *ptr, uint64_t size, void *data)
{
    weir_torch_delta *delta = data;
    delta->freed[delta->freed_count++] = (weir_torch_change){ .ptr = (void *)(uintptr_t)ptr, .size = size };
}

/* Returns a delta that lists the live blocks as freed and the blocks of the state as made. NULL: host memory has run out. */
static weir_torch_delta *new_delta(const struct torch_arena *arena, const struct torch_arena_state *state)
{
    weir_torch_delta *delta = calloc(1, sizeof *delta);
    if (!delta)
        return NULL;
    delta->freed = malloc((arena->live_count + 1) * sizeof *delta->freed);
    delta->made = malloc((state->count + 1) * sizeof *delta->made);
    if (!delta->freed || !delta->made) {
        weir_torch_delta_free(delta);
        return NULL;
    }
    torch_arena_each_live(arena, list_freed, delta);
    for (size_t i = 0; i < state->count; i++) {
        const struct torch_arena_kept *kept = &state->parts[i];
        delta->made[delta->made_count++] =
            (weir_torch_change){ .ptr = kept->ptr, .size = kept->asked, .stream = (gpu_stream)(uintptr_t)kept->key };
    }
    return delta;
}

static void count_changes(struct torch_device *device, const weir_torch_delta *delta)
{
    struct torch_graph_figures *figures = &device->graphs;
    for (size_t i = 0; i < delta->freed_count; i++)
        figures->live_bytes -= delta->freed[i].size;
    for (size_t i = 0; i < delta->made_count; i++)
        figures->live_bytes += delta->made[i].size;
    if (figures->live_bytes > figures->live_bytes_high)
        figures->live_bytes_high = figures->live_bytes;
    figures->mallocs += delta->made_count;
    atomic_fetch_add(&device->graph_live, delta->made_count);
    atomic_fetch_sub(&device->graph_live, delta->freed_count);
}

/* Restores the state, and sets *delta; if it fails, nothing has changed. The caller holds the reserve_lock. */
static weir_status restore(struct torch_device *device, struct torch_reserve *reserve, const weir_torch_state *state, weir_error *error,
                           weir_torch_delta **delta)
{
    if (!torch_arena_fits(&reserve->arena, state->arena))
        return weir__fail(error, WEIR_NOT_FOUND, "memory of the pool (%llu, %llu) was given back since its state was saved",
                          (unsigned long long)state->id.first, (unsigned long long)state->id.second);
    weir_torch_delta *made = new_delta(&reserve->arena, state->arena);
    if (!made || !torch_arena_restore(&reserve->arena, state->arena)) {
        weir_torch_delta_free(made);
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the state of a pool");
    }
    count_changes(device, made);
    *delta = made;
    return WEIR_OK;
}

/* Waits, without the lock, until other streams have done their work on the blocks that are live now, since their memory may be used again
   at once. Puts the notes of these blocks into the list *notes, also if it fails. */
static weir_status settle(struct torch_device *device, const weir_torch_state *state, weir_error *error, struct torch_note **notes)
{
    struct torch_reserve *reserve = enter(device, state->id, error);
    if (!reserve)
        return error->status;
    weir_torch_delta *live = new_delta(&reserve->arena, state->arena);
    pthread_mutex_unlock(&device->reserve_lock);
    if (!live)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the state of a pool");
    bool is_settled = true, is_lost;
    for (size_t i = 0; i < live->freed_count; i++) {
        void *ptr = live->freed[i].ptr;
        struct torch_note *note = torch_note_may_be(ptr) ? torch_note_take(ptr, &is_lost) : NULL;
        if (!note)
            continue;
        if (!torch_late_settle(device, note))
            is_settled = false;
        note->next = *notes;
        *notes = note;
    }
    weir_torch_delta_free(live);
    if (is_settled)
        return WEIR_OK;
    return weir__fail(error, WEIR_BUSY, "other streams use blocks of the pool (%llu, %llu), and cannot be waited for now",
                      (unsigned long long)state->id.first, (unsigned long long)state->id.second);
}

/* Ends a restore for the notes that settle() took. are_gone: the blocks are freed, so the notes are too; else the restore failed, and the
   notes go back into the table. */
static void drop_notes(struct torch_note *notes, bool are_gone)
{
    for (struct torch_note *next; notes; notes = next) {
        next = notes->next;
        if (are_gone)
            torch_note_free(notes);
        else
            torch_note_add(notes);
    }
}

weir_status weir_torch_state_restore(const weir_torch_state *state, weir_error *error, weir_torch_delta **delta)
{
    weir_error cleared = WEIR_ERROR_INIT;
    struct torch_device *device = torch_device_open(state->device, &cleared);
    struct torch_reserve *reserve = NULL;
    struct torch_note *notes = NULL;
    weir_status status = WEIR_OK;
    if (device) {
        torch_late_retry(device);
        if (settle(device, state, &cleared, &notes) == WEIR_OK)
            reserve = enter(device, state->id, &cleared);
    }
    if (reserve) {
        status = restore(device, reserve, state, &cleared, delta);
        pthread_mutex_unlock(&device->reserve_lock);
    } else {
        status = cleared.status;
    }
    drop_notes(notes, status == WEIR_OK);
    if (status != WEIR_OK && error)
        *error = cleared;
    return status;
}

void weir_torch_delta_free(weir_torch_delta *delta)
{
    if (!delta)
        return;
    free(delta->freed);
    free(delta->made);
    free(delta);
}
