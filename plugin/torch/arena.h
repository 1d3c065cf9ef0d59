/* SPDX-License-Identifier: MIT */
/*
 * arena.h - the free list of a reserve (reserve.h): divides the reserve's chunks of memory into parts, and hands out the best fit. It
 * splits free parts and merges free neighbours.
 *
 * A part is *live* from torch_arena_take() to torch_arena_give(), and *free* otherwise. Each chunk serves one stream, which the chunk's key
 * names; where several streams may have the same key one after the other, the chunk's id tells them apart. The first part of a chunk has
 * the address of the chunk. A request or a free costs at most the logarithm of the number of parts. The code is pure: it never touches the
 * memory. The reserve owns its arena; a thread that holds the reserve_lock of the device may use the arena.
 */
#ifndef WEIR_TORCH_ARENA_H
#define WEIR_TORCH_ARENA_H

#include "lib/base/table.h"
#include "lib/base/treap.h"

#define TORCH_ARENA_STEP 512 /* parts begin at multiples of this many bytes, as CUDA's blocks do */

struct torch_arena_part;

/* In each chunk, live parts + free parts = the bytes of the chunk. An arena of zeros, with `live` set, is a valid empty arena. */
struct torch_arena {
    struct weir__table *live;         /* live parts by address; arenas that share the table are told apart by an address */
    struct torch_arena_chunk *chunks; /* the latest first */
    struct weir__branch *free_parts;  /* the free parts of all chunks */
    size_t live_count;                /* number of live parts, */
    size_t waiting_count;             /* and of the live parts that torch_arena_wait() has marked */
    uint64_t looked_count;            /* how many free parts all requests together have looked at */
    size_t step; /* parts begin at multiples of this many bytes, above TORCH_ARENA_STEP, from the begin of their chunk; 0: of TORCH_ARENA_STEP */
};

/* The caller of torch_arena_add() sets the first five members. */
struct torch_arena_chunk {
    char *base; /* the address of the memory */
    size_t size;
    const void *key;
    uint64_t id;
    void *data; /* for the caller's use */
    struct torch_arena *arena;
    struct torch_arena_chunk *next, **link;
    struct torch_arena_part *first;
    size_t live_count; /* number of live parts */
};

/* A saved list of the live parts of an arena, chunk by chunk, in the order of addresses. torch_arena_save() makes it; free() frees it. */
struct torch_arena_state {
    size_t count;
    struct torch_arena_kept {
        const void *key;
        char *ptr;
        size_t size, asked;
    } parts[];
};

/* Adds a chunk, of which the arena keeps a copy. The chunk's memory stays the caller's. Returns false if host memory runs out. */
bool torch_arena_add(struct torch_arena *arena, const struct torch_arena_chunk *given);

/* Removes a chunk that has no live part. */
void torch_arena_remove(struct torch_arena_chunk *chunk);

/* torch_arena_chunk_size() returns the size of the chunk that torch's own allocator takes for a part of `size` bytes;
   torch_arena_least_size() the smallest size that torch asks of any allocator for such a part. Both return 0 if `size` is too large for any
   chunk. */
size_t torch_arena_chunk_size(size_t size);
size_t torch_arena_least_size(size_t size);

/* Makes the smallest free part that has `size` bytes and belongs to the stream (key, id) live, and returns its address; of several such
   parts, it takes the one with the lowest address. Returns NULL if there is no such part. size > 0. is_whole: the part is not split. */
void *torch_arena_take(struct torch_arena *arena, const void *key, uint64_t id, size_t size, bool is_whole);

/* torch_arena_find() returns the live part that begins at `ptr`, of any arena that shares the table, or NULL if there is none.
   torch_arena_of() returns the arena of a part. */
struct torch_arena_part *torch_arena_find(const struct weir__table *live, const void *ptr);
struct torch_arena *torch_arena_of(const struct torch_arena_part *part);

/* Returns whether a live part of this arena begins at `ptr`, and torch_arena_wait() has not marked that part. */
bool torch_arena_is_used(const struct torch_arena *arena, const void *ptr);

/* Marks a live part that the program has freed, but whose memory must not be used again before torch_arena_give(). */
void torch_arena_wait(struct torch_arena_part *part);

/* Makes a live part free, and returns the bytes that were requested for it. *empty: the part's chunk if the chunk has no live part any
   more, else NULL. */
size_t torch_arena_give(struct torch_arena_part *part, struct torch_arena_chunk **empty);

/* Returns a list of the live parts, or NULL if host memory runs out. */
struct torch_arena_state *torch_arena_save(const struct torch_arena *arena);

/* Returns whether each part of the state lies within a chunk that the arena still has and that has the same key. */
bool torch_arena_fits(const struct torch_arena *arena, const struct torch_arena_state *state);

/* Makes exactly the parts of the state live; torch_arena_fits() must hold for the state. Returns false, and changes nothing, if host memory
   runs out. */
bool torch_arena_restore(struct torch_arena *arena, const struct torch_arena_state *state);

/* Calls `use` for each live part, with the bytes that were requested for it. */
void torch_arena_each_live(const struct torch_arena *arena, void (*use)(const void *ptr, uint64_t size, void *data), void *data);

#endif
