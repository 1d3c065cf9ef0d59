/* SPDX-License-Identifier: MIT */
#include "lib/pool/holders.h"

#include <stdlib.h>

/* Copies of live blocks, made under the locks of the table and sorted into groups afterwards. `count` goes on beyond `room`. */
struct copied {
    struct weir__holder *items;
    size_t count, room;
    int device;
};

static void copy(const struct weir__block *block, void *data)
{
    struct copied *copied = data;
    if (block->graph || (copied->device >= 0 && block->pool->device->index != copied->device))
        return;
    if (copied->count < copied->room)
        copied->items[copied->count] = (struct weir__holder){block->pool, block->origin, block->size, 1, block->ptr};
    copied->count++;
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_identity(const void *first, const void *second)
{
    const struct weir__holder *a = first, *b = second;
    int order = COMPARE((uintptr_t)a->pool, (uintptr_t)b->pool);
    if (!order)
        order = COMPARE(a->origin, b->origin);
    if (!order)
        order = COMPARE(a->size, b->size);
    return order ? order : COMPARE((uintptr_t)a->ptr, (uintptr_t)b->ptr);
}

static int by_bytes(const void *first, const void *second)
{
    const struct weir__holder *a = first, *b = second;
    int order = COMPARE(b->size * b->blocks, a->size * a->blocks);
    return order ? order : by_identity(first, second);
}

static size_t put_together(struct weir__holder *items, size_t count)
{
    size_t groups = 0;
    qsort(items, count, sizeof *items, by_identity);
    for (size_t i = 0; i < count; i++) {
        struct weir__holder *last = groups ? &items[groups - 1] : NULL;
        if (last && last->pool == items[i].pool && last->origin == items[i].origin && last->size == items[i].size)
            last->blocks++;
        else
            items[groups++] = items[i];
    }
    qsort(items, groups, sizeof *items, by_bytes);
    return groups;
}

bool weir__holders_find(weir *w, int device, size_t most, struct weir__holder **holders, size_t *count)
{
    struct copied copied = {.device = device};
    weir__blocks_visit(&w->blocks, copy, &copied);
    /* Other threads may allocate between the two visits: the spare room is for their blocks. If even that is too small, the last blocks of
       the second visit are left out. */
    size_t room = copied.count < most ? copied.count + copied.count / 8 + 64 : 0;
    copied = (struct copied){.items = room ? malloc(room * sizeof *copied.items) : NULL, .room = room, .device = device};
    if (room && !copied.items)
        return false;
    if (room)
        weir__blocks_visit(&w->blocks, copy, &copied);
    *holders = copied.items;
    *count = copied.items ? put_together(copied.items, copied.count < room ? copied.count : room) : 0;
    return true;
}
