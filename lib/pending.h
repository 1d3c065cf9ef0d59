/* SPDX-License-Identifier: MIT */
/*
 * pending.h - large frees on streams that were not opened, so that recovery can wait for them.
 *
 * Weir may not touch such a stream later (it may be gone), so an event is recorded at once, behind the free. One entry for each stream
 * handle; a later free on the same handle records the entry's event anew. A lost entry costs a rescue, never safety: hence a fixed table.
 * Owned by its device; `lock` is a leaf and is not held over CUDA calls: an entry is claimed by its `busy` flag meanwhile.
 */
#ifndef WEIR_LIB_PENDING_H
#define WEIR_LIB_PENDING_H

#include <pthread.h>
#include <stdbool.h>

#include "lib/gpu/gpu.h"

#define WEIR__PENDING_MAX 64
#define WEIR__PENDING_LARGE (UINT64_C(32) << 20) /* bytes from which a free is worth an event (150 ns): one growth step */

struct weir__pending_entry {
    gpu_stream stream;
    const void *thread; /* tells apart the per-thread streams, which share one handle; NULL for others */
    gpu_event event;    /* NULL until first used */
    uint64_t bytes;     /* freed and not yet seen complete; 0: the entry is free to be reused */
    bool busy;
};

struct weir__pending {
    pthread_mutex_t lock;
    unsigned next; /* where the search for a victim begins */
    struct weir__pending_entry entries[WEIR__PENDING_MAX];
};

void weir__pending_init(struct weir__pending *pending);
void weir__pending_destroy(struct weir__pending *pending, const struct gpu *gpu);

/* Notes a free of `bytes` just made on `stream`, which is not capturing. Failure is silent: only a rescue is lost. */
void weir__pending_note(struct weir__pending *pending, const struct gpu *gpu, int device, gpu_stream stream, uint64_t bytes);

/* Claims the entry with the most bytes that is not in `seen` (a bit for each entry); NULL when there is none left. */
struct weir__pending_entry *weir__pending_claim(struct weir__pending *pending, uint64_t *seen);
/* Gives it back. done: its event was seen complete. */
void weir__pending_unclaim(struct weir__pending *pending, struct weir__pending_entry *entry, bool done);

#endif
