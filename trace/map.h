/* SPDX-License-Identifier: MIT */
/*
 * map.h - a hash map from a pair of numbers, the key, to one number, the value. It serves all look-ups in a trace.
 *
 * A zeroed struct is an empty map. There are no locks: one thread uses a map. Each process has a random seed for the hash, so that nobody
 * can make a file whose keys all collide; nothing may depend on the order of the slots.
 */
#ifndef WEIR_TRACE_MAP_H
#define WEIR_TRACE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_map_slot {
    uint64_t a, b;
    uint32_t value;
    bool is_used;
};

struct trace_map {
    struct trace_map_slot *slots;
    size_t count, room; /* room: 0 or a power of two */
};

/* Returns a pointer to the value of the key (a, b), or NULL if the map does not have the key. The pointer is valid until the map
   changes. */
uint32_t *trace_map_find(const struct trace_map *map, uint64_t a, uint64_t b);

/* Returns a pointer to the value of the key. If the map does not have the key, adds it with the value 0. *is_new: whether it was added. */
uint32_t *trace_map_add(struct trace_map *map, uint64_t a, uint64_t b, bool *is_new);

void trace_map_remove(struct trace_map *map, uint64_t a, uint64_t b);
void trace_map_free(struct trace_map *map);

/* Returns a 64-bit hash of both numbers and the seed. */
uint64_t trace_map_hash(uint64_t a, uint64_t b);

#endif
