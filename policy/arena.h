/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory that is freed all at once.
 *
 * Parsing makes many small objects with one common end: the tree of a text dies with the parse, the parts of a policy with the policy.
 * Each allocation is a block of its own, so that address sanitizers see its bounds. Single-threaded: the owner of the arena uses it.
 */
#ifndef WEIR_POLICY_ARENA_H
#define WEIR_POLICY_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct policy_arena {
    struct policy_arena_block *blocks;
    bool exhausted; /* an allocation failed once, here or in what works for the arena's owner; stays */
};

/* Zeroed memory for count objects of size bytes each; NULL if there is none, or if count * size overflows. */
void *policy_arena_alloc(struct policy_arena *arena, size_t count, size_t size);
/* A terminated copy of len bytes; NULL if there is no memory. */
char *policy_arena_text(struct policy_arena *arena, const char *text, size_t len);
void policy_arena_free(struct policy_arena *arena);

#endif
