/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/arena.h"

#include <stdlib.h>

#define MIB ((size_t)1 << 20)
/* As many bytes as torch's own allocator takes from CUDA: small parts share a chunk of 2 MiB, middling ones one of 20. */
#define SMALL MIB
#define SMALL_CHUNK (2 * MIB)
#define MIDDLE (10 * MIB)
#define MIDDLE_CHUNK (20 * MIB)

struct torch_arena_part {
    struct torch_arena_part *before, *behind; /* its neighbours in the chunk */
    struct torch_arena_part *next, **link;    /* in the list of free parts, or in a bucket of live ones */
    struct torch_arena_chunk *chunk;
    char *ptr;
    size_t size;  /* a multiple of the step */
    size_t asked; /* 0: free */
    bool waits;   /* of a live one: it was freed */
};

struct torch_arena_chunk {
    struct torch_arena_chunk *next;
    const void *key;
    uint64_t id;
    char *base;
    size_t size;
    struct torch_arena_part *first;
};

static void list_part(struct torch_arena_part **list, struct torch_arena_part *part)
{
    part->next = *list;
    part->link = list;
    if (part->next)
        part->next->link = &part->next;
    *list = part;
}

static void unlist_part(struct torch_arena_part *part)
{
    *part->link = part->next;
    if (part->next)
        part->next->link = part->link;
}

static size_t bucket_of(const void *ptr)
{
    return (size_t)(((uint64_t)(uintptr_t)ptr / TORCH_ARENA_STEP * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % TORCH_ARENA_BUCKETS;
}

static struct torch_arena_part *find_live(const struct torch_arena *arena, const void *ptr)
{
    struct torch_arena_part *part = arena->live_parts[bucket_of(ptr)];
    while (part && part->ptr != ptr)
        part = part->next;
    return part;
}

size_t torch_arena_chunk_size(size_t size)
{
    if (size <= SMALL)
        return SMALL_CHUNK + TORCH_ARENA_STEP;
    if (size <= MIDDLE)
        return MIDDLE_CHUNK + TORCH_ARENA_STEP;
    if (size > SIZE_MAX - TORCH_ARENA_STEP - SMALL_CHUNK)
        return 0;
    return (size + SMALL_CHUNK - 1) / SMALL_CHUNK * SMALL_CHUNK + TORCH_ARENA_STEP;
}

bool torch_arena_add(struct torch_arena *arena, const void *key, uint64_t id, void *base, size_t size)
{
    struct torch_arena_chunk *chunk = malloc(sizeof *chunk);
    struct torch_arena_part *part = malloc(sizeof *part);
    if (!chunk || !part) {
        free(chunk);
        free(part);
        return false;
    }
    *chunk = (struct torch_arena_chunk){ .next = arena->chunks, .key = key, .id = id, .base = base, .size = size, .first = part };
    *part = (struct torch_arena_part){ .chunk = chunk, .ptr = chunk->base + TORCH_ARENA_STEP };
    part->size = (size - TORCH_ARENA_STEP) / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    arena->chunks = chunk;
    list_part(&arena->free_parts, part);
    return true;
}

static struct torch_arena_part *find_free(const struct torch_arena *arena, const void *key, uint64_t id, size_t size)
{
    struct torch_arena_part *best = NULL;
    for (struct torch_arena_part *part = arena->free_parts; part; part = part->next)
        if (part->chunk->key == key && part->chunk->id == id && part->size >= size && (!best || part->size < best->size))
            best = part;
    return best;
}

/* What is behind the first `size` bytes becomes a part of its own. Where there is no host memory for that, it stays with them. */
static void split(struct torch_arena *arena, struct torch_arena_part *part, size_t size)
{
    struct torch_arena_part *rest = part->size > size ? malloc(sizeof *rest) : NULL;
    if (!rest)
        return;
    *rest = (struct torch_arena_part){ .before = part, .behind = part->behind, .chunk = part->chunk };
    rest->ptr = part->ptr + size;
    rest->size = part->size - size;
    if (rest->behind)
        rest->behind->before = rest;
    part->behind = rest;
    part->size = size;
    list_part(&arena->free_parts, rest);
}

/* A part that is in no list becomes live. */
static void list_live(struct torch_arena *arena, struct torch_arena_part *part, size_t asked)
{
    part->asked = asked;
    list_part(&arena->live_parts[bucket_of(part->ptr)], part);
    arena->live_count++;
}

void *torch_arena_take(struct torch_arena *arena, const void *key, uint64_t id, size_t size, bool is_whole)
{
    if (size > SIZE_MAX - TORCH_ARENA_STEP)
        return NULL;
    size_t rounded = (size + TORCH_ARENA_STEP - 1) / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    struct torch_arena_part *part = find_free(arena, key, id, rounded);
    if (!part)
        return NULL;
    unlist_part(part);
    if (!is_whole)
        split(arena, part, rounded);
    list_live(arena, part, size);
    return part->ptr;
}

bool torch_arena_has(const struct torch_arena *arena, const void *ptr)
{
    return find_live(arena, ptr);
}

bool torch_arena_is_used(const struct torch_arena *arena, const void *ptr)
{
    const struct torch_arena_part *part = find_live(arena, ptr);
    return part && !part->waits;
}

void torch_arena_wait(struct torch_arena *arena, const void *ptr)
{
    struct torch_arena_part *part = find_live(arena, ptr);
    if (!part || part->waits)
        return;
    part->waits = true;
    arena->waiting_count++;
}

/* Appends a free part to the one before it, which is listed or about to be. */
static void append(struct torch_arena_part *part, struct torch_arena_part *behind)
{
    part->size += behind->size;
    part->behind = behind->behind;
    if (part->behind)
        part->behind->before = part;
    free(behind);
}

size_t torch_arena_give(struct torch_arena *arena, const void *ptr)
{
    struct torch_arena_part *part = find_live(arena, ptr);
    if (!part)
        return 0;
    size_t asked = part->asked;
    unlist_part(part);
    arena->live_count--;
    arena->waiting_count -= part->waits;
    part->asked = 0;
    part->waits = false;
    if (part->behind && !part->behind->asked) {
        unlist_part(part->behind);
        append(part, part->behind);
    }
    if (part->before && !part->before->asked)
        append(part->before, part);
    else
        list_part(&arena->free_parts, part);
    return asked;
}

void torch_arena_shrink(struct torch_arena *arena, bool (*give)(void *base, uint64_t size, void *data), void *data)
{
    for (struct torch_arena_chunk **link = &arena->chunks; *link;) {
        struct torch_arena_chunk *chunk = *link;
        if (chunk->first->asked || chunk->first->behind || !give(chunk->base, chunk->size, data)) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        unlist_part(chunk->first);
        free(chunk->first);
        free(chunk);
    }
}

/* States ------------------------------------------------------------------------------------------------------------------------------- */

struct torch_arena_state *torch_arena_save(const struct torch_arena *arena)
{
    struct torch_arena_state *state = malloc(sizeof *state + arena->live_count * sizeof *state->parts);
    if (!state)
        return NULL;
    state->count = 0;
    for (const struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        for (const struct torch_arena_part *part = chunk->first; part; part = part->behind)
            if (part->asked)
                state->parts[state->count++] =
                    (struct torch_arena_kept){ .key = chunk->key, .ptr = part->ptr, .size = part->size, .asked = part->asked };
    return state;
}

static bool is_within(const struct torch_arena_chunk *chunk, const struct torch_arena_kept *kept)
{
    return kept->key == chunk->key && kept->ptr > chunk->base && kept->ptr < chunk->base + chunk->size &&
           kept->size <= (size_t)(chunk->base + chunk->size - kept->ptr);
}

bool torch_arena_fits(const struct torch_arena *arena, const struct torch_arena_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct torch_arena_chunk *chunk = arena->chunks;
        while (chunk && !is_within(chunk, &state->parts[i]))
            chunk = chunk->next;
        if (!chunk)
            return false;
    }
    return true;
}

static void free_list(struct torch_arena_part *part)
{
    while (part) {
        struct torch_arena_part *next = part->next;
        free(part);
        part = next;
    }
}

/* As many new parts as that, linked by `next`; NULL: no host memory. */
static struct torch_arena_part *new_parts(size_t count)
{
    struct torch_arena_part *parts = NULL;
    for (size_t i = 0; i < count; i++) {
        struct torch_arena_part *part = calloc(1, sizeof *part);
        if (!part) {
            free_list(parts);
            return NULL;
        }
        part->next = parts;
        parts = part;
    }
    return parts;
}

/* Takes a new part, and puts it behind `before` (NULL: it is the first) in the chunk. It is in no list yet. */
static struct torch_arena_part *put_part(struct torch_arena_chunk *chunk, struct torch_arena_part *before, char *ptr, size_t size,
                                         struct torch_arena_part **spare)
{
    struct torch_arena_part *part = *spare;
    if (!part)
        return before; /* never: there are enough */
    *spare = part->next;
    *part = (struct torch_arena_part){ .before = before, .chunk = chunk, .ptr = ptr, .size = size };
    if (before)
        before->behind = part;
    else
        chunk->first = part;
    return part;
}

/* Parts of the chunk that are live in the state are live, and all between them is free. Needs two spare parts for each, and one more. */
static void restore_chunk(struct torch_arena *arena, struct torch_arena_chunk *chunk, const struct torch_arena_state *state,
                          struct torch_arena_part **spare)
{
    struct torch_arena_part *last = NULL;
    char *at = chunk->base + TORCH_ARENA_STEP;
    char *end = at + (chunk->size - TORCH_ARENA_STEP) / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    for (size_t i = 0; i < state->count; i++) {
        const struct torch_arena_kept *kept = &state->parts[i];
        if (!is_within(chunk, kept))
            continue;
        if (kept->ptr > at) {
            last = put_part(chunk, last, at, (size_t)(kept->ptr - at), spare);
            list_part(&arena->free_parts, last);
        }
        last = put_part(chunk, last, kept->ptr, kept->size, spare);
        list_live(arena, last, kept->asked);
        at = kept->ptr + kept->size;
    }
    if (at < end)
        list_part(&arena->free_parts, put_part(chunk, last, at, (size_t)(end - at), spare));
}

bool torch_arena_restore(struct torch_arena *arena, const struct torch_arena_state *state)
{
    size_t count = 2 * state->count + 1;
    for (const struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        count++;
    struct torch_arena_part *spare = new_parts(count);
    if (!spare)
        return false;
    arena->live_count = arena->waiting_count = 0;
    for (struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next) {
        while (chunk->first) {
            struct torch_arena_part *part = chunk->first;
            chunk->first = part->behind;
            unlist_part(part);
            free(part);
        }
        restore_chunk(arena, chunk, state, &spare);
    }
    free_list(spare);
    return true;
}

/* All of it ---------------------------------------------------------------------------------------------------------------------------- */

const void *torch_arena_key(const struct torch_arena *arena, const void *base)
{
    const struct torch_arena_chunk *chunk = arena->chunks;
    while (chunk && chunk->base != base)
        chunk = chunk->next;
    return chunk ? chunk->key : NULL;
}

void torch_arena_each_chunk(const struct torch_arena *arena, void (*use)(const void *base, uint64_t size, void *data), void *data)
{
    for (const struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        use(chunk->base, chunk->size, data);
}

void torch_arena_each_live(const struct torch_arena *arena, void (*use)(const void *ptr, uint64_t size, void *data), void *data)
{
    for (size_t i = 0; i < TORCH_ARENA_BUCKETS; i++)
        for (const struct torch_arena_part *part = arena->live_parts[i]; part; part = part->next)
            use(part->ptr, part->asked, data);
}
