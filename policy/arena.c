/* SPDX-License-Identifier: MIT */
#include "policy/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct policy_arena_block {
    struct policy_arena_block *next;
    max_align_t data[];
};

void *policy_arena_alloc(struct policy_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    struct policy_arena_block *block = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes) && !__builtin_add_overflow(bytes, sizeof(*block), &bytes))
        block = calloc(1, bytes);
    if (!block) {
        arena->exhausted = true;
        return NULL;
    }
    block->next = arena->blocks;
    arena->blocks = block;
    return block->data;
}

char *policy_arena_text(struct policy_arena *arena, const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? policy_arena_alloc(arena, len + 1, 1) : NULL;
    if (copy && len > 0)
        memcpy(copy, text, len);
    return copy;
}

void policy_arena_free(struct policy_arena *arena)
{
    while (arena->blocks) {
        struct policy_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
}
