/* SPDX-License-Identifier: MIT */
#include "lib/pending.h"

#include <stddef.h>

/* Its address is this thread's name. */
static __thread char thread_name;

void weir__pending_init(struct weir__pending *pending)
{
    *pending = (struct weir__pending){ .next = 0 };
    pthread_mutex_init(&pending->lock, NULL);
}

void weir__pending_destroy(struct weir__pending *pending, const struct gpu *gpu)
{
    for (size_t i = 0; i < WEIR__PENDING_MAX; i++)
        if (pending->entries[i].event)
            gpu->event_destroy(pending->entries[i].event);
    pthread_mutex_destroy(&pending->lock);
}

/* The stream's own entry, else one that waits for nothing, else the next in turn. NULL if all are busy. Called with the lock. */
static struct weir__pending_entry *choose(struct weir__pending *pending, gpu_stream stream, const void *thread)
{
    struct weir__pending_entry *chosen = NULL;
    for (size_t i = 0; i < WEIR__PENDING_MAX; i++) {
        struct weir__pending_entry *entry = &pending->entries[i];
        if (entry->busy)
            continue;
        if (entry->bytes && entry->stream == stream && entry->thread == thread)
            return entry;
        if (!entry->bytes && !chosen)
            chosen = entry;
    }
    for (size_t i = 0; !chosen && i < WEIR__PENDING_MAX; i++) {
        struct weir__pending_entry *entry = &pending->entries[pending->next++ % WEIR__PENDING_MAX];
        if (!entry->busy)
            chosen = entry;
    }
    if (chosen)
        chosen->bytes = 0;
    return chosen;
}

void weir__pending_note(struct weir__pending *pending, const struct gpu *gpu, int device, gpu_stream stream, uint64_t bytes)
{
    const void *thread = stream == GPU_STREAM_PER_THREAD ? &thread_name : NULL;
    pthread_mutex_lock(&pending->lock);
    struct weir__pending_entry *entry = choose(pending, stream, thread);
    if (entry)
        entry->busy = true;
    pthread_mutex_unlock(&pending->lock);
    if (!entry)
        return;

    int code = entry->event ? GPU_SUCCESS : gpu->event_create(device, &entry->event);
    if (code == GPU_SUCCESS)
        code = gpu->event_record(entry->event, stream);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);

    pthread_mutex_lock(&pending->lock);
    entry->stream = stream;
    entry->thread = thread;
    entry->bytes = code == GPU_SUCCESS ? entry->bytes + bytes : 0;
    entry->busy = false;
    pthread_mutex_unlock(&pending->lock);
}

struct weir__pending_entry *weir__pending_claim(struct weir__pending *pending, uint64_t *seen)
{
    struct weir__pending_entry *largest = NULL;
    pthread_mutex_lock(&pending->lock);
    for (size_t i = 0; i < WEIR__PENDING_MAX; i++) {
        struct weir__pending_entry *entry = &pending->entries[i];
        bool open = !entry->busy && entry->bytes && !(*seen >> i & 1);
        if (open && (!largest || entry->bytes > largest->bytes))
            largest = entry;
    }
    if (largest) {
        largest->busy = true;
        *seen |= UINT64_C(1) << (largest - pending->entries);
    }
    pthread_mutex_unlock(&pending->lock);
    return largest;
}

void weir__pending_unclaim(struct weir__pending *pending, struct weir__pending_entry *entry, bool done)
{
    pthread_mutex_lock(&pending->lock);
    if (done)
        entry->bytes = 0;
    entry->busy = false;
    pthread_mutex_unlock(&pending->lock);
}
