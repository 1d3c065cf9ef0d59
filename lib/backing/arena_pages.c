/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena_internal.h"

#include <stdlib.h>

#include "lib/record/recorder.h"

/* Called with mapped->growing. */
static void note(const struct weir__mapped *mapped, enum weir__kind kind, uint64_t bytes, uint64_t begun)
{
    if (mapped->recorder)
        weir__record_figures(mapped->recorder, kind, mapped->record, NULL, bytes, mapped->backing.gpu->now() - begun);
}

static int create_page(void *data, uint64_t bytes, uint64_t *handle)
{
    struct weir__mapped *mapped = data;
    uint64_t max_size = atomic_load(&mapped->max_size), now = weir__mapped_bytes(mapped);
    if (max_size && (now > max_size || bytes > max_size - now))
        return WEIR__LACK_CAP;
    weir__spin_unlock(&mapped->lock);
    gpu_page page = 0;
    uint64_t begun = mapped->backing.gpu->now();
    int code = mapped->backing.gpu->page_create(mapped->backing.device, bytes, &page);
    mapped->turn = (struct weir__mapped_turn){.begun = begun, .created = code == GPU_SUCCESS ? bytes : 0};
    weir__spin_lock(&mapped->lock);
    *handle = page;
    return code;
}

static int map_page(void *data, uint64_t address, uint64_t bytes, uint64_t handle)
{
    struct weir__mapped *mapped = data;
    const struct gpu *gpu = mapped->backing.gpu;
    weir__spin_unlock(&mapped->lock);
    /* The page is new, or was unmapped elsewhere just now. */
    const struct weir__mapped_turn turn = mapped->turn;
    int code = gpu->page_map((void *)(uintptr_t)address, bytes, handle);
    if (code == GPU_SUCCESS) {
        code = gpu->page_set_access((void *)(uintptr_t)address, bytes, mapped->devices, mapped->device_count);
        if (code != GPU_SUCCESS)
            gpu->page_unmap((void *)(uintptr_t)address, bytes);
    }
    if (code == GPU_SUCCESS) {
        note(mapped, WEIR__KIND_MAP, turn.created, turn.begun);
        mapped->turn.created = 0;
    }
    weir__spin_lock(&mapped->lock);
    /* The arena counts a new page behind this call, and unmaps it if the request lacks others: the most has it all the same. */
    uint64_t now = weir__mapped_bytes(mapped) + turn.created;
    if (code == GPU_SUCCESS && now > mapped->mapped_high)
        mapped->mapped_high = now;
    return code;
}

static int unmap_page(void *data, uint64_t address, uint64_t bytes)
{
    struct weir__mapped *mapped = data;
    weir__spin_unlock(&mapped->lock);
    mapped->turn = (struct weir__mapped_turn){.begun = mapped->backing.gpu->now()};
    int code = mapped->backing.gpu->page_unmap((void *)(uintptr_t)address, bytes);
    weir__spin_lock(&mapped->lock);
    return code;
}

/* Keeps a page in mind that the driver did not take back. Without host memory for that it is lost to the process. */
static bool keep_left(struct weir__mapped *mapped, uint64_t bytes, gpu_page handle, bool was_mapped)
{
    struct weir__mapped_left *left = malloc(sizeof *left);
    if (left) {
        *left = (struct weir__mapped_left){.next = mapped->left, .handle = handle, .bytes = bytes, .was_mapped = was_mapped};
        mapped->left = left;
    }
    return left;
}

static void release_page(void *data, uint64_t bytes, uint64_t handle)
{
    struct weir__mapped *mapped = data;
    weir__spin_unlock(&mapped->lock);
    /* One that could not be mapped never was the arena's. */
    bool was_mapped = !mapped->turn.created, is_gone = mapped->backing.gpu->page_release(handle) == GPU_SUCCESS;
    bool is_left = !is_gone && keep_left(mapped, bytes, handle, was_mapped);
    if (is_gone && was_mapped)
        note(mapped, WEIR__KIND_UNMAP, bytes, mapped->turn.begun);
    mapped->turn.created = 0;
    weir__spin_lock(&mapped->lock);
    mapped->left_bytes += is_left ? bytes : 0;
}

void weir__mapped_release_left(struct weir__mapped *mapped)
{
    for (struct weir__mapped_left **link = &mapped->left, *left; (left = *link);) {
        uint64_t begun = mapped->backing.gpu->now();
        if (mapped->backing.gpu->page_release(left->handle) != GPU_SUCCESS) {
            link = &left->next;
            continue;
        }
        if (left->was_mapped)
            note(mapped, WEIR__KIND_UNMAP, left->bytes, begun);
        weir__spin_lock(&mapped->lock);
        mapped->left_bytes -= left->bytes;
        weir__spin_unlock(&mapped->lock);
        *link = left->next;
        free(left);
    }
}

static bool is_shortage(int code)
{
    return code == GPU_OUT_OF_MEMORY || code == WEIR__LACK_CAP;
}

const struct weir__page_driver weir__mapped_pages = {create_page, map_page, unmap_page, release_page, is_shortage};
