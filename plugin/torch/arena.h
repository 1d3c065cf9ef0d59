/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that is there already, in chunks, handed out in parts: best fit, with splitting and coalescing.
 *
 * Each chunk serves one stream, named by a key, and by an id where several streams may have that key one after the other. The first
 * TORCH_ARENA_STEP bytes of a chunk are never handed out, so that no part has the address of a chunk. Pure: it never touches the memory.
 * Owned by a reserve; who has its device's lock may use it.
 */
#ifndef WEIR_TORCH_ARENA_H
#define WEIR_TORCH_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TORCH_ARENA_STEP 512 /* parts begin at multiples of so many bytes, as CUDA's blocks do */
#define TORCH_ARENA_BUCKETS 256

struct torch_arena_part;
struct torch_arena_chunk;

/* parts live + parts free + one step = the bytes of each chunk. All zero: an empty arena. */
struct torch_arena {
    struct torch_arena_chunk *chunks;
    struct torch_arena_part *free_parts; /* of all chunks, in no order */
    struct torch_arena_part *live_parts[TORCH_ARENA_BUCKETS]; /* by address */
    size_t live_count;    /* of live parts; */
    size_t waiting_count; /* and of those among them that were freed, and wait */
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

/* A chunk for that key; the caller's memory. false: no host memory. */
bool torch_arena_add(struct torch_arena *arena, const void *key, uint64_t id, void *base, size_t size);

/* How large a chunk has to be for a part of this size. 0: none can be. */
size_t torch_arena_chunk_size(size_t size);

/* The smallest free part of that stream's chunks in which `size` bytes fit; NULL: there is none. size > 0. is_whole: what is left of it
   stays with it. */
void *torch_arena_take(struct torch_arena *arena, const void *key, uint64_t id, size_t size, bool is_whole);

bool torch_arena_has(const struct torch_arena *arena, const void *ptr);

/* Whether it is a live part that was not freed. */
bool torch_arena_is_used(const struct torch_arena *arena, const void *ptr);

/* A live part was freed, but is not to be used again before torch_arena_give(). */
void torch_arena_wait(struct torch_arena *arena, const void *ptr);

/* Returns the bytes that were asked for; 0: it is no live part of this arena. */
size_t torch_arena_give(struct torch_arena *arena, const void *ptr);

/* Gives the memory of chunks without live parts back to the caller. A chunk for which `give` returns false stays. */
void torch_arena_shrink(struct torch_arena *arena, bool (*give)(void *base, uint64_t size, void *data), void *data);

/* The live parts; NULL: no host memory. */
struct torch_arena_state *torch_arena_save(const struct torch_arena *arena);

/* Whether all parts of the state lie in chunks that are there, of the same keys. */
bool torch_arena_fits(const struct torch_arena *arena, const struct torch_arena_state *state);

/* From now on exactly the parts of a state that fits are live. false: no host memory, and nothing was done. */
bool torch_arena_restore(struct torch_arena *arena, const struct torch_arena_state *state);

/* The key of the chunk that begins there; NULL: there is none. */
const void *torch_arena_key(const struct torch_arena *arena, const void *base);

/* Calls `use` for each chunk, and for each live part with the bytes asked for. */
void torch_arena_each_chunk(const struct torch_arena *arena, void (*use)(const void *base, uint64_t size, void *data), void *data);
void torch_arena_each_live(const struct torch_arena *arena, void (*use)(const void *ptr, uint64_t size, void *data), void *data);

#endif
