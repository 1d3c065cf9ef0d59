/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/note.h"

#include <stdlib.h>

struct torch_note_shard torch_note_shards[TORCH_NOTE_SHARDS];

_Static_assert(TORCH_NOTE_SHARDS == 64, "six bits of the hash choose the shard");

static struct torch_note_shard *shard_of(const void *ptr)
{
    return &torch_note_shards[torch_note_hash(ptr) >> 58];
}

/* Returns the link that points at the note of ptr, or the link at the end of the bucket. The caller holds the shard's lock. */
static struct torch_note **find(struct torch_note_shard *shard, const void *ptr)
{
    struct torch_note **link = &shard->buckets[(torch_note_hash(ptr) >> 32) % TORCH_NOTE_BUCKETS];
    while (*link && (*link)->ptr != ptr)
        link = &(*link)->next;
    return link;
}

struct torch_note *torch_note_new(void)
{
    return calloc(1, sizeof(struct torch_note));
}

void torch_note_free(struct torch_note *note)
{
    if (note) {
        free(note->recorded);
        free(note->room);
    }
    free(note);
}

/* Appends a note. The caller holds the shard's lock. */
static void list_note(struct torch_note_shard *shard, struct torch_note **link, struct torch_note *note)
{
    note->next = NULL;
    *link = note;
    atomic_fetch_add_explicit(&shard->count, 1, memory_order_relaxed);
}

void torch_note_add(struct torch_note *note)
{
    struct torch_note_shard *shard = shard_of(note->ptr);
    weir__spin_lock(&shard->lock);
    struct torch_note **link = find(shard, note->ptr), *former = *link;
    if (former) {
        *link = former->next;
        atomic_fetch_sub_explicit(&shard->count, 1, memory_order_relaxed);
        while (*link)
            link = &(*link)->next;
    }
    list_note(shard, link, note);
    weir__spin_unlock(&shard->lock);
    torch_note_free(former);
}

struct torch_note *torch_note_take(const void *ptr, bool *is_lost)
{
    struct torch_note_shard *shard = shard_of(ptr);
    weir__spin_lock(&shard->lock);
    struct torch_note **link = find(shard, ptr), *note = *link;
    if (note) {
        *link = note->next;
        note->next = NULL;
        atomic_fetch_sub_explicit(&shard->count, 1, memory_order_relaxed);
    }
    *is_lost = atomic_load_explicit(&shard->is_lossy, memory_order_relaxed);
    weir__spin_unlock(&shard->lock);
    return note;
}

/* Adds the stream to the note unless it is there. Returns false if host memory runs out. */
static bool add_stream(struct torch_note *note, struct torch_stream *stream)
{
    for (size_t i = 0; i < note->recorded_count; i++)
        if (note->recorded[i] == stream)
            return true;
    struct torch_stream **more = realloc(note->recorded, (note->recorded_count + 1) * sizeof(struct torch_stream *));
    note->recorded = more ? more : note->recorded;
    size_t points = note->recorded_count + 1, devices = (size_t)torch_device_count(); /* the block may have to wait for all devices */
    struct weir__parked *room = more ? weir__parked_new(points > devices ? points : devices) : NULL;
    if (!room)
        return false;
    free(note->room);
    note->room = room;
    more[note->recorded_count++] = stream;
    return true;
}

void torch_note_record(void *ptr, struct torch_stream *stream)
{
    struct torch_note_shard *shard = shard_of(ptr);
    weir__spin_lock(&shard->lock);
    struct torch_note **link = find(shard, ptr);
    struct torch_note *note = *link ? *link : torch_note_new();
    bool is_kept = note && stream && add_stream(note, stream);
    if (note && !*link && is_kept) {
        note->ptr = ptr;
        list_note(shard, link, note);
    } else if (note && !*link) {
        torch_note_free(note);
    }
    if (!is_kept && *link)
        (*link)->is_unknown = true;
    else if (!is_kept)
        atomic_store_explicit(&shard->is_lossy, true, memory_order_relaxed);
    weir__spin_unlock(&shard->lock);
}
