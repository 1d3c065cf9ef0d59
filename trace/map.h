/* SPDX-License-Identifier: MIT */
/*
 * map.h - a hash map from two numbers to one, for all that is looked up in a trace.
 *
 * Its owner is whoever has the struct; zeroed, it is empty. No locks: `weir trace` has one thread. The hash has a seed of its own in each
 * process, so that no file can be made whose keys all collide; nothing may depend on the order of the slots.
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

/* Where the value of the key is; NULL without one. Valid until the map is changed. */
uint32_t *trace_map_find(const struct trace_map *map, uint64_t a, uint64_t b);

/* The same, of a key that is added with 0 where it is missing; *is_new says so. */
uint32_t *trace_map_add(struct trace_map *map, uint64_t a, uint64_t b, bool *is_new);

void trace_map_remove(struct trace_map *map, uint64_t a, uint64_t b);
void trace_map_free(struct trace_map *map);

/* 64 bits that depend on all of both numbers and on the seed. */
uint64_t trace_map_hash(uint64_t a, uint64_t b);

#endif
