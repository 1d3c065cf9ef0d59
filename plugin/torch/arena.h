/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that is there already, in chunks, handed out in parts: best fit, with splitting and coalescing.
 *
 * Each chunk serves one stream, named by a key, and by an id where several streams may have that key one after the other. A chunk's first
 * part has its address. What a request or a free costs grows with the logarithm of the number of parts, at most. Pure: it never touches
 * the memory. Owned by a reserve; who has its device's lock may use it.
 */
#ifndef WEIR_TORCH_ARENA_H
#define WEIR_TORCH_ARENA_H

#include "lib/base/table.h"
#include "lib/base/treap.h"

#define TORCH_ARENA_STEP 512 /* parts begin at multiples of so many bytes, as CUDA's blocks do */

struct torch_arena_part;

/* parts live + parts free = the bytes of each chunk. All zero but for `live`: an empty arena. */
struct torch_arena {
    struct weir__table *live;         /* live parts by address, of all arenas that are to be told apart by an address */
    struct torch_arena_chunk *chunks; /* the latest first */
    struct weir__branch *free_parts;  /* of all chunks, in a treap */
    size_t live_count;                /* of live parts; */
    size_t waiting_count;             /* and of those among them that were freed, and wait */
    uint64_t looked_count;            /* free parts that were looked at for requests, ever */
};

/* The caller says what the first five are. */
struct torch_arena_chunk {
    char *base;
    size_t size;
    const void *key;
    uint64_t id;
    void *data; /* the caller's own */
    struct torch_arena *arena;
    struct torch_arena_chunk *next, **link;
    struct torch_arena_part *first;
    size_t live_count; /* of parts */
};

/* Which parts were live at a time, chunk by chunk and by address. Made by torch_arena_save(), freed with free(). */
struct torch_arena_state {
    size_t count;
    struct torch_arena_kept {
        const void *key;
        char *ptr;
        size_t size, asked;
    } parts[];
};

/* A chunk, of which a copy is kept; the memory is the caller's. false: no host memory. */
bool torch_arena_add(struct torch_arena *arena, const struct torch_arena_chunk *given);

/* Forgets a chunk that has no live part. */
void torch_arena_remove(struct torch_arena_chunk *chunk);

/* How large a chunk for a part of this size is as torch takes them, and the least that torch asks of any allocator for it. 0: none can
   be so large. */
size_t torch_arena_chunk_size(size_t size);
size_t torch_arena_least_size(size_t size);

/* The smallest free part of that stream's chunks in which `size` bytes fit, of several the one of the lowest address; NULL: there is none.
   size > 0. is_whole: what is left of it stays with it. */
void *torch_arena_take(struct torch_arena *arena, const void *key, uint64_t id, size_t size, bool is_whole);

/* The live part that begins there, of any arena of the table, and its arena. NULL: there is none. */
struct torch_arena_part *torch_arena_find(const struct weir__table *live, const void *ptr);
struct torch_arena *torch_arena_of(const struct torch_arena_part *part);

/* Whether it is a live part of this arena that was not freed. */
bool torch_arena_is_used(const struct torch_arena *arena, const void *ptr);

/* A live part was freed, but is not to be used again before torch_arena_give(). */
void torch_arena_wait(struct torch_arena_part *part);

/* Ends a live part. Returns the bytes that were asked for. *empty: its chunk, if that has no live part any more, else NULL. */
size_t torch_arena_give(struct torch_arena_part *part, struct torch_arena_chunk **empty);

/* The live parts; NULL: no host memory. */
struct torch_arena_state *torch_arena_save(const struct torch_arena *arena);

/* Whether all parts of the state lie in chunks that are there, of the same keys. */
bool torch_arena_fits(const struct torch_arena *arena, const struct torch_arena_state *state);

/* From now on exactly the parts of a state that fits are live. false: no host memory, and nothing was done. */
bool torch_arena_restore(struct torch_arena *arena, const struct torch_arena_state *state);

/* Calls `use` for each live part with the bytes asked for. */
void torch_arena_each_live(const struct torch_arena *arena, void (*use)(const void *ptr, uint64_t size, void *data), void *data);

#endif
