/* SPDX-License-Identifier: MIT */
/*
 * note.h - what is to be known of a block when it is freed, beyond what torch says then: which other streams use it, and, where its own
 * stream may be gone by then, which one that was.
 *
 * Few blocks have one. While the block is live its note is in a table by address, in shards with a lock each, a leaf; a free takes it out,
 * and then has it alone. A shard says without its lock that it has none, so that frees pay nothing.
 */
#ifndef WEIR_TORCH_NOTE_H
#define WEIR_TORCH_NOTE_H

#include "plugin/torch/stream.h"

#define TORCH_NOTE_SHARDS 64
#define TORCH_NOTE_BUCKETS 64

struct torch_note {
    struct torch_note *next; /* its owner's: in a bucket, among what waits */
    void *ptr;
    struct torch_device *device;
    struct torch_stream *stream; /* that it was allocated on; NULL while the block is live, unless that stream may be destroyed: then */
    uint64_t id;                 /* CUDA's id of it, and */
    bool has_id;                 /* whether that is known */
    bool is_reserve;             /* a part of a reserve, not a block of Weir's */
    size_t size;                 /* bytes that torch freed */
    gpu_event event;             /* of a part of a reserve that waits: behind the streams that use it; NULL: not recorded yet */
    size_t recorded_count;
    struct torch_stream **recorded; /* streams that use it */
};

struct torch_note_shard {
    _Atomic size_t count;  /* of notes; changed under the lock */
    atomic_bool is_lossy;  /* a note could not be made: of no block of this shard is known that it has none */
    weir__spin lock;
    struct torch_note *buckets[TORCH_NOTE_BUCKETS];
} __attribute__((aligned(64)));
extern struct torch_note_shard torch_note_shards[TORCH_NOTE_SHARDS] __attribute__((visibility("hidden")));

static inline uint64_t torch_note_hash(const void *ptr)
{
    return ((uint64_t)(uintptr_t)ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Whether the block may have a note. */
static inline bool torch_note_may_be(const void *ptr)
{
    struct torch_note_shard *shard = &torch_note_shards[torch_note_hash(ptr) >> 58];
    return atomic_load_explicit(&shard->count, memory_order_relaxed) || atomic_load_explicit(&shard->is_lossy, memory_order_relaxed);
}

/* An empty note, the caller's. NULL: no host memory. */
struct torch_note *torch_note_new(void);
void torch_note_free(struct torch_note *note);

/* Puts the note of a live block into the table. One that is there of a former block goes. */
void torch_note_add(struct torch_note *note);

/* Takes the note of that block out of the table. NULL: it has none; *is_lost: or it could not be made. */
struct torch_note *torch_note_take(const void *ptr, bool *is_lost);

/* The block is used by that stream too. stream: NULL means one of which nothing can be kept, so that nobody can wait for it. */
void torch_note_record(void *ptr, struct torch_stream *stream);

#endif
