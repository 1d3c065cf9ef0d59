/* SPDX-License-Identifier: MIT */
#include "trace/memory.h"

#include <stdlib.h>

void *must(void *ptr)
{
    if (!ptr)
        memory_lacks();
    return ptr;
}

void *must_grow(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    size_t more = *room ? 2 * *room : 16;
    items = must(realloc(items, more * size));
    *room = more;
    return items;
}
