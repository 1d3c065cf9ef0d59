/* SPDX-License-Identifier: MIT */
#include "trace/map.h"
#include "trace/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t seed[2];

/* Runs when the program or library is loaded, before any thread can have a map. */
__attribute__((constructor)) static void make_seed(void)
{
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed[1] = 0x9E3779B97F4A7C15;
}

uint64_t trace_map_hash(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ seed[0]) * (b ^ seed[1] ^ 0xA0761D6478BD642F);
    uint64_t mixed = (uint64_t)product ^ (uint64_t)(product >> 64) ^ a;
    product = (__uint128_t)(mixed ^ seed[1]) * 0xE7037ED1A0B428DB;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static size_t home_of(const struct trace_map *map, uint64_t a, uint64_t b)
{
    return trace_map_hash(a, b) & (map->room - 1);
}

/* Returns the slot of the key, or the empty slot in which the key belongs. */
static struct trace_map_slot *slot_of(const struct trace_map *map, uint64_t a, uint64_t b)
{
    size_t at = home_of(map, a, b);
    while (map->slots[at].is_used && (map->slots[at].a != a || map->slots[at].b != b))
        at = (at + 1) & (map->room - 1);
    return &map->slots[at];
}

uint32_t *trace_map_find(const struct trace_map *map, uint64_t a, uint64_t b)
{
    if (map->count == 0)
        return NULL;
    struct trace_map_slot *slot = slot_of(map, a, b);
    return slot->is_used ? &slot->value : NULL;
}

static void grow(struct trace_map *map)
{
    struct trace_map larger = {.count = map->count, .room = map->room ? 2 * map->room : 64};
    larger.slots = must(calloc(larger.room, sizeof larger.slots[0]));
    for (size_t i = 0; i < map->room; i++)
        if (map->slots[i].is_used)
            *slot_of(&larger, map->slots[i].a, map->slots[i].b) = map->slots[i];
    free(map->slots);
    *map = larger;
}

uint32_t *trace_map_add(struct trace_map *map, uint64_t a, uint64_t b, bool *is_new)
{
    if (map->count >= map->room / 2)
        grow(map);
    struct trace_map_slot *slot = slot_of(map, a, b);
    *is_new = !slot->is_used;
    if (*is_new) {
        *slot = (struct trace_map_slot){.a = a, .b = b, .is_used = true};
        map->count++;
    }
    return &slot->value;
}

/* Removes a key by moving later slots forward: a search ends at the first empty slot, so there must be no hole between a key and the slot
   that its hash chooses (its home). */
void trace_map_remove(struct trace_map *map, uint64_t a, uint64_t b)
{
    struct trace_map_slot *slot = map->count ? slot_of(map, a, b) : NULL;
    if (!slot || !slot->is_used)
        return;
    size_t mask = map->room - 1, hole = (size_t)(slot - map->slots);
    for (size_t at = (hole + 1) & mask; map->slots[at].is_used; at = (at + 1) & mask) {
        size_t home = home_of(map, map->slots[at].a, map->slots[at].b);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        map->slots[hole] = map->slots[at];
        hole = at;
    }
    map->slots[hole].is_used = false;
    map->count--;
}

void trace_map_free(struct trace_map *map)
{
    free(map->slots);
    *map = (struct trace_map){0};
}
