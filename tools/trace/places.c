/* SPDX-License-Identifier: MIT */
#include "tools/trace/places.h"
#include "tools/common/complain.h"

#include <stdlib.h>

struct model_block *places_find(const struct places *places, uint64_t address, uint64_t bytes)
{
    struct model_block *found = NULL;
    for (uint32_t at = places->root; at;) {
        struct place *place = &places->items[at];
        bool ends_behind = place->block.address + place->block.given > address;
        if (ends_behind)
            found = &place->block;
        at = ends_behind ? place->left : place->right;
    }
    return found && (found->address <= address || found->address - address < bytes) ? found : NULL;
}

bool places_can_have(const struct model_block *block)
{
    return block->given > 0 && block->given < UINT64_MAX - block->address;
}

struct model_block *places_same(const struct places *places, const struct model_block *block)
{
    struct model_block *found = block->state == MODEL_GONE ? NULL : places_find(places, block->address, 1);
    return found && found->address == block->address && found->pool == block->pool ? found : NULL;
}

/* Splits the tree in those below the address and the others. */
static void split(struct places *places, uint32_t tree, uint64_t address, uint32_t *below, uint32_t *others)
{
    while (tree) {
        struct place *place = &places->items[tree];
        if (place->block.address < address) {
            *below = tree;
            below = &place->right;
            tree = place->right;
        } else {
            *others = tree;
            others = &place->left;
            tree = place->left;
        }
    }
    *below = *others = 0;
}

/* One tree of two, of which all of `low` is below `high`. */
static uint32_t join(struct places *places, uint32_t low, uint32_t high)
{
    uint32_t root = 0, *to = &root;
    while (low && high) {
        if (places->items[low].priority >= places->items[high].priority) {
            *to = low;
            to = &places->items[low].right;
            low = *to;
        } else {
            *to = high;
            to = &places->items[high].left;
            high = *to;
        }
    }
    *to = low ? low : high;
    return root;
}

static uint32_t make_place(struct places *places)
{
    uint32_t number = places->free;
    if (number) {
        places->free = places->items[number].left;
        return number;
    }
    places->count += places->count == 0;
    places->items = must_grow(places->items, places->count, &places->room, sizeof places->items[0]);
    return (uint32_t)places->count++;
}

void places_add(struct places *places, const struct model_block *block)
{
    uint32_t number = make_place(places), *to = &places->root;
    struct place *place = &places->items[number];
    *place = (struct place){.block = *block, .priority = trace_map_hash(block->address, 0)};
    while (*to && places->items[*to].priority > place->priority)
        to = block->address < places->items[*to].block.address ? &places->items[*to].left : &places->items[*to].right;
    split(places, *to, block->address, &place->left, &place->right);
    *to = number;
}

void places_remove(struct places *places, uint64_t address)
{
    uint32_t *to = &places->root;
    while (*to && places->items[*to].block.address != address)
        to = address < places->items[*to].block.address ? &places->items[*to].left : &places->items[*to].right;
    uint32_t number = *to;
    if (!number)
        return;
    *to = join(places, places->items[number].left, places->items[number].right);
    places->items[number].left = places->free;
    places->free = number;
}

struct model_block *places_all(const struct places *places, size_t *count)
{
    struct model_block *all = NULL;
    size_t room = 0;
    *count = 0;
    for (uint64_t address = 0;;) {
        const struct model_block *block = places_find(places, address, UINT64_MAX);
        if (!block)
            return all;
        all = must_grow(all, *count, &room, sizeof all[0]);
        all[(*count)++] = *block;
        address = block->address + block->given;
    }
}

void places_free(struct places *places)
{
    free(places->items);
    *places = (struct places){0};
}
