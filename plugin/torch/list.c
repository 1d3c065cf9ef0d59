/* SPDX-License-Identifier: MIT */
/* list.c - live blocks as a list, for those who cannot run code of theirs while others cannot allocate. */
#include "config.h"

#include "plugin/torch/weir_torch.h"

struct list {
    weir_torch_block *blocks;
    size_t room, count;
};

static void add(const void *ptr, uint64_t size, void *data)
{
    struct list *list = data;
    if (list->count < list->room)
        list->blocks[list->count] = (weir_torch_block){ .ptr = ptr, .size = size };
    list->count++;
}

size_t weir_torch_list_blocks(int device, weir_torch_block *blocks, size_t room)
{
    struct list list = { .blocks = blocks, .room = room };
    weir_torch_blocks(device, add, &list);
    return list.count;
}
