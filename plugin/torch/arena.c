/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/arena.h"

#include <stdlib.h>

#define MIB ((size_t)1 << 20)
/* The chunk sizes of torch's own allocator: parts up to 1 MiB share a chunk of 2 MiB, parts below 10 MiB share one of 20 MiB. */
#define SMALL MIB
#define SMALL_CHUNK (2 * MIB)
#define MIDDLE (10 * MIB)
#define MIDDLE_CHUNK (20 * MIB)

struct torch_arena_part {
    union {
        struct weir__branch branch; /* a free part: in its arena's tree */
        struct weir__link link;     /* a live part: in the table */
    };
    const void *key; /* the chunk's key and id, copied here because the tree compares them */
    uint64_t id;
    size_t size; /* a multiple of TORCH_ARENA_STEP */
    char *ptr;
    struct torch_arena_part *before, *behind; /* the neighbours in the chunk */
    struct torch_arena_chunk *chunk;
    size_t asked; /* bytes that were requested; 0: the part is free */
    bool waits;   /* see torch_arena_wait() */
};

/* The tree of free parts --------------------------------------------------------------------------------------------------------------- */

static struct torch_arena_part *free_of(const struct weir__branch *branch)
{
    return WEIR__ITEM(branch, struct torch_arena_part, branch);
}

/* Orders free parts by stream, size and address, so that the best part for a request is the first one that does not come before the
   request. */
static bool is_before(const struct weir__branch *one, const struct weir__branch *other)
{
    const struct torch_arena_part *first = free_of(one), *second = free_of(other);
    if (first->key != second->key)
        return (uintptr_t)first->key < (uintptr_t)second->key;
    if (first->id != second->id)
        return first->id < second->id;
    return first->size != second->size ? first->size < second->size : first->ptr < second->ptr;
}

static const struct weir__treap_kind kind = { .is_before = is_before };

static void add_free(struct torch_arena *arena, struct torch_arena_part *part)
{
    part->branch.rank = weir__treap_rank((uintptr_t)part->ptr);
    arena->free_parts = weir__treap_add(arena->free_parts, &part->branch, &kind);
}

static void remove_free(struct torch_arena *arena, const struct torch_arena_part *part)
{
    arena->free_parts = weir__treap_without(arena->free_parts, &part->branch, &kind);
}

static struct torch_arena_part *find_free(struct torch_arena *arena, const void *key, uint64_t id, size_t size)
{
    const struct torch_arena_part wanted = { .key = key, .id = id, .size = size };
    struct torch_arena_part *best = NULL;
    for (const struct weir__branch *branch = arena->free_parts; branch; arena->looked_count++) {
        bool is_less = is_before(branch, &wanted.branch);
        if (!is_less)
            best = free_of(branch);
        branch = is_less ? branch->right : branch->left;
    }
    return best && best->key == key && best->id == id ? best : NULL;
}

/* Live parts --------------------------------------------------------------------------------------------------------------------------- */

/* Makes a part live. The part is not in the tree. */
static void add_live(struct torch_arena *arena, struct torch_arena_part *part, size_t asked)
{
    part->asked = asked;
    weir__table_add(arena->live, &part->link, (uintptr_t)part->ptr, 0);
    arena->live_count++;
    part->chunk->live_count++;
}

/* Removes a part from the table of live parts. After that the part is neither in the table nor in the tree. */
static void remove_live(struct torch_arena *arena, struct torch_arena_part *part)
{
    weir__table_remove(arena->live, &part->link);
    arena->live_count--;
    arena->waiting_count -= part->waits;
    part->chunk->live_count--;
    part->asked = 0;
    part->waits = false;
}

struct torch_arena_part *torch_arena_find(const struct weir__table *live, const void *ptr)
{
    struct weir__link *link = weir__table_first(live, (uintptr_t)ptr);
    return link ? WEIR__ITEM(link, struct torch_arena_part, link) : NULL;
}

struct torch_arena *torch_arena_of(const struct torch_arena_part *part)
{
    return part->chunk->arena;
}

bool torch_arena_is_used(const struct torch_arena *arena, const void *ptr)
{
    const struct torch_arena_part *part = torch_arena_find(arena->live, ptr);
    return part && part->chunk->arena == arena && !part->waits;
}

void torch_arena_wait(struct torch_arena_part *part)
{
    part->chunk->arena->waiting_count += !part->waits;
    part->waits = true;
}

/* Chunks ------------------------------------------------------------------------------------------------------------------------------- */

size_t torch_arena_chunk_size(size_t size)
{
    if (size <= SMALL)
        return SMALL_CHUNK;
    return size < MIDDLE ? MIDDLE_CHUNK : torch_arena_least_size(size);
}

size_t torch_arena_least_size(size_t size)
{
    return size > SIZE_MAX - SMALL_CHUNK ? 0 : (size + SMALL_CHUNK - 1) / SMALL_CHUNK * SMALL_CHUNK;
}

static struct torch_arena_part part_of(struct torch_arena_chunk *chunk, char *ptr, size_t size)
{
    return (struct torch_arena_part){ .key = chunk->key, .id = chunk->id, .size = size, .ptr = ptr, .chunk = chunk };
}

bool torch_arena_add(struct torch_arena *arena, const struct torch_arena_chunk *given)
{
    struct torch_arena_chunk *chunk = malloc(sizeof *chunk);
    struct torch_arena_part *part = malloc(sizeof *part);
    if (!chunk || !part) {
        free(chunk);
        free(part);
        return false;
    }
    *chunk = *given;
    chunk->arena = arena;
    chunk->next = arena->chunks;
    chunk->link = &arena->chunks;
    chunk->first = part;
    chunk->live_count = 0;
    if (chunk->next)
        chunk->next->link = &chunk->next;
    arena->chunks = chunk;
    *part = part_of(chunk, chunk->base, chunk->size / TORCH_ARENA_STEP * TORCH_ARENA_STEP);
    add_free(arena, part);
    return true;
}

void torch_arena_remove(struct torch_arena_chunk *chunk)
{
    *chunk->link = chunk->next;
    if (chunk->next)
        chunk->next->link = chunk->link;
    remove_free(chunk->arena, chunk->first);
    free(chunk->first);
    free(chunk);
}

/* Taking and giving -------------------------------------------------------------------------------------------------------------------- */

/* Cuts the part after its first `size` bytes, and makes the rest a free part. If host memory runs out, the part stays as large as it is. */
static void split(struct torch_arena *arena, struct torch_arena_part *part, size_t size)
{
    struct torch_arena_part *rest = part->size > size ? malloc(sizeof *rest) : NULL;
    if (!rest)
        return;
    *rest = part_of(part->chunk, part->ptr + size, part->size - size);
    rest->before = part;
    rest->behind = part->behind;
    if (rest->behind)
        rest->behind->before = rest;
    part->behind = rest;
    part->size = size;
    add_free(arena, rest);
}

void *torch_arena_take(struct torch_arena *arena, const void *key, uint64_t id, size_t size, bool is_whole)
{
    size_t step = arena->step ? arena->step : TORCH_ARENA_STEP;
    if (size > SIZE_MAX - step)
        return NULL;
    size_t rounded = (size + step - 1) / step * step;
    struct torch_arena_part *part = find_free(arena, key, id, rounded);
    if (!part)
        return NULL;
    remove_free(arena, part);
    if (!is_whole)
        split(arena, part, rounded);
    add_live(arena, part, size);
    return part->ptr;
}

/* Merges the free part `behind` into `part`, its neighbour before it. Neither is in the tree. */
static void append(struct torch_arena_part *part, struct torch_arena_part *behind)
{
    part->size += behind->size;
    part->behind = behind->behind;
    if (part->behind)
        part->behind->before = part;
    free(behind);
}

size_t torch_arena_give(struct torch_arena_part *part, struct torch_arena_chunk **empty)
{
    struct torch_arena_chunk *chunk = part->chunk;
    struct torch_arena_part *before = part->before;
    size_t asked = part->asked;
    remove_live(chunk->arena, part);
    if (part->behind && !part->behind->asked) {
        remove_free(chunk->arena, part->behind);
        append(part, part->behind);
    }
    if (before && !before->asked) {
        remove_free(chunk->arena, before);
        append(before, part);
        part = before;
    }
    add_free(chunk->arena, part);
    *empty = chunk->live_count ? NULL : chunk;
    return asked;
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
    return kept->key == chunk->key && kept->ptr >= chunk->base && kept->ptr < chunk->base + chunk->size &&
           kept->size <= (size_t)(chunk->base + chunk->size - kept->ptr);
}

/* New chunks are added at the head of the list, so chunks that the state names and that still exist are in the same order in both. */
bool torch_arena_fits(const struct torch_arena *arena, const struct torch_arena_state *state)
{
    const struct torch_arena_chunk *chunk = arena->chunks;
    for (size_t i = 0; i < state->count; i++) {
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
        struct torch_arena_part *behind = part->behind;
        free(part);
        part = behind;
    }
}

/* Allocates `count` parts, linked by `behind`. Returns NULL if host memory runs out. */
static struct torch_arena_part *new_parts(size_t count)
{
    struct torch_arena_part *parts = NULL;
    for (size_t i = 0; i < count; i++) {
        struct torch_arena_part *part = calloc(1, sizeof *part);
        if (!part) {
            free_list(parts);
            return NULL;
        }
        part->behind = parts;
        parts = part;
    }
    return parts;
}

/* Takes a part from the list `spare`, and inserts it after `before` (NULL: as the first part) in the chunk. The part is neither in the
   table nor in the tree yet. */
static struct torch_arena_part *put_part(struct torch_arena_chunk *chunk, struct torch_arena_part *before, char *ptr, size_t size,
                                         struct torch_arena_part **spare)
{
    struct torch_arena_part *part = *spare;
    if (!part)
        return before; /* cannot happen: the caller has allocated enough parts */
    *spare = part->behind;
    *part = part_of(chunk, ptr, size);
    part->before = before;
    if (before)
        before->behind = part;
    else
        chunk->first = part;
    return part;
}

/* Rebuilds the parts of one chunk: the parts that the state has in the chunk, from number `i` on, become live, and the space between them
   becomes free. Uses at most two spare parts for each part of the state, and one more. Returns the number of the state's next part. */
static size_t restore_chunk(struct torch_arena *arena, struct torch_arena_chunk *chunk, const struct torch_arena_state *state, size_t i,
                            struct torch_arena_part **spare)
{
    struct torch_arena_part *last = NULL;
    char *at = chunk->base, *end = at + chunk->size / TORCH_ARENA_STEP * TORCH_ARENA_STEP;
    for (; i < state->count && is_within(chunk, &state->parts[i]); i++) {
        const struct torch_arena_kept *kept = &state->parts[i];
        if (kept->ptr > at) {
            last = put_part(chunk, last, at, (size_t)(kept->ptr - at), spare);
            add_free(arena, last);
        }
        last = put_part(chunk, last, kept->ptr, kept->size, spare);
        add_live(arena, last, kept->asked);
        at = kept->ptr + kept->size;
    }
    if (at < end)
        add_free(arena, put_part(chunk, last, at, (size_t)(end - at), spare));
    return i;
}

bool torch_arena_restore(struct torch_arena *arena, const struct torch_arena_state *state)
{
    size_t count = 2 * state->count + 1;
    for (const struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        count++;
    struct torch_arena_part *spare = new_parts(count);
    if (!spare)
        return false;
    arena->free_parts = NULL;
    size_t next = 0;
    for (struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next) {
        for (struct torch_arena_part *part = chunk->first; part; part = part->behind)
            if (part->asked)
                remove_live(arena, part);
        free_list(chunk->first);
        next = restore_chunk(arena, chunk, state, next, &spare);
    }
    free_list(spare);
    return true;
}

void torch_arena_each_live(const struct torch_arena *arena, void (*use)(const void *ptr, uint64_t size, void *data), void *data)
{
    for (const struct torch_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        for (const struct torch_arena_part *part = chunk->first; part; part = part->behind)
            if (part->asked)
                use(part->ptr, part->asked, data);
}
