/* SPDX-License-Identifier: MIT */
/*
 * places.h - blocks of one device by their addresses, none over another: a treap.
 *
 * It belongs to its maker, zeroed it is empty; blocks in it are copies. One thread.
 */
#ifndef WEIR_TRACE_PLACES_H
#define WEIR_TRACE_PLACES_H

#include "tools/trace/model.h"

struct place {
    struct model_block block;
    uint64_t priority; /* not below those of both branches */
    uint32_t left, right;
};

struct places {
    struct place *items; /* by number; 0 is none */
    size_t count, room;
    uint32_t root, free; /* free: the first unused one, chained by `left` */
};

/* The lowest block that has any of these bytes; NULL if there is none. Valid until the places are changed. */
struct model_block *places_find(const struct places *places, uint64_t address, uint64_t bytes);

/* Whether it can be added: it has bytes, which end below 2^64. */
bool places_can_have(const struct model_block *block);

/* The block that begins where this one does, of the same pool; NULL if there is none, or this one is gone. */
struct model_block *places_same(const struct places *places, const struct model_block *block);

/* Adds a block that can be had and lies over no other. */
void places_add(struct places *places, const struct model_block *block);

/* Removes the block that begins there, if there is one. */
void places_remove(struct places *places, uint64_t address);

/* All blocks by their addresses, in an array of the caller's; NULL if there are none. */
struct model_block *places_all(const struct places *places, size_t *count);

void places_free(struct places *places);

#endif
