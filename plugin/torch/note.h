/* SPDX-License-Identifier: MIT */
/*
 * note.h - a note keeps two facts about a block that torch does not repeat when it frees the block: which other streams use the block, and,
 * if the block's own stream may be destroyed by then, which stream that is.
 *
 * Few blocks have a note. While the block is live, its note is in a hash table by address. The table has shards with one lock each; nothing
 * else is locked under it. The free of the block takes the note out of the table, and from then on owns it alone. The count of a shard can
 * be read without its lock, so a free of a block without a note takes no lock.
 */
#ifndef WEIR_TORCH_NOTE_H
#define WEIR_TORCH_NOTE_H

#include "plugin/torch/stream.h"

#define TORCH_NOTE_SHARDS 64
#define TORCH_NOTE_BUCKETS 64

struct torch_note {
    struct torch_note *next; /* the next note in the same bucket of the table */
    void *ptr;               /* the block */
    struct torch_device *device; /* set when the block is freed */
    struct torch_stream *stream; /* the block's own stream; while the block is live, set only if that stream may be destroyed */
    uint64_t id;                 /* CUDA's id of `stream`; 0: unknown */
    bool is_unknown;             /* host memory ran out for a stream that uses the block: all work of the process counts */
    size_t recorded_count;
    struct torch_stream **recorded; /* the other streams that use the block */
    struct weir__parked *room;      /* an object with room for a point of each recorded stream; NULL if there is none */
};

struct torch_note_shard {
    _Atomic size_t count;  /* number of notes; changed under the lock */
    atomic_bool is_lossy;  /* host memory ran out for a note: a block of this shard without a note may have lacked one */
    weir__spin lock;
    struct torch_note *buckets[TORCH_NOTE_BUCKETS];
} __attribute__((aligned(64)));
extern struct torch_note_shard torch_note_shards[TORCH_NOTE_SHARDS] __attribute__((visibility("hidden")));

static inline uint64_t torch_note_hash(const void *ptr)
{
    return ((uint64_t)(uintptr_t)ptr >> 9) * UINT64_C(0x9E3779B97F4A7C15);
}

/* Returns false if the block certainly has no note. */
static inline bool torch_note_may_be(const void *ptr)
{
    struct torch_note_shard *shard = &torch_note_shards[torch_note_hash(ptr) >> 58];
    return atomic_load_explicit(&shard->count, memory_order_relaxed) || atomic_load_explicit(&shard->is_lossy, memory_order_relaxed);
}

/* Returns an empty note, which the caller owns, or NULL if host memory runs out. */
struct torch_note *torch_note_new(void);
void torch_note_free(struct torch_note *note);

/* Puts the note of a live block into the table, and frees the note of an earlier block at the same address. */
void torch_note_add(struct torch_note *note);

/* Removes the note of the block from the table. Returns NULL if the block has no note; *is_lost: the block may have needed one, but host
   memory had run out. */
struct torch_note *torch_note_take(const void *ptr, bool *is_lost);

/* Notes that the stream, too, uses the block. stream NULL: host memory ran out for its record; the shard is then marked as lossy. */
void torch_note_record(void *ptr, struct torch_stream *stream);

#endif
