/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "plugin/torch/region.h"

#include <stdio.h>
#include <string.h>

#include "lib/record/tag.h"
#include "plugin/torch/entry.h"

__thread const char *torch_region;

/* The regions around the innermost one. The pools own the names, and are never closed. */
static __thread const char *outer[TORCH_REGIONS_MAX];
static __thread unsigned depth;

weir_status torch_region_malloc(struct torch_device *device, void **ptr, size_t size, gpu_stream handle)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    if (!torch_region)
        return (weir_malloc)(device->w, ptr, size, device->index, handle);
    if (weir_pool_get(device->w, torch_region, device->index, &error, &pool) == WEIR_OK)
        return (weir_pool_malloc)(pool, ptr, size, handle);
    return weir__fail(torch_entry_report(), error.status, "%s", error.text);
}

/* Writes the names of the policy's pools on the device, as "'a', 'b'". */
static void list_pools(struct torch_device *device, char *text, size_t size)
{
    size_t len = 0;
    *text = '\0';
    for (weir_pool *pool = weir__device_next_pool(device->device, NULL); pool && len < size;
         pool = weir__device_next_pool(device->device, pool))
        len += (size_t)snprintf(text + len, size - len, "%s'%s'", len ? ", " : "", weir_pool_name(pool));
}

weir_status weir_torch_region_begin(const char *name, int index, weir_error *error)
{
    weir_error cleared = WEIR_ERROR_INIT;
    struct torch_device *device = torch_device_open(index, &cleared);
    weir_pool *pool = NULL;
    char names[1024];
    if (device && (!name || weir_pool_get(device->w, name, index, NULL, &pool) != WEIR_OK)) {
        list_pools(device, names, sizeof names);
        weir__fail(&cleared, WEIR_NOT_FOUND, "the policy has no pool '%s' on device %d: it has %s", name ? name : "", index, names);
    } else if (device && depth == TORCH_REGIONS_MAX) {
        weir__fail(&cleared, WEIR_INVALID, "%d regions are nested already, as many as there can be: leave one first", TORCH_REGIONS_MAX);
    }
    if (cleared.status == WEIR_OK) {
        outer[depth++] = torch_region;
        torch_region = weir_pool_name(pool);
        torch_entry_forget_streams();
    } else if (error) {
        *error = cleared;
    }
    return cleared.status;
}

void weir_torch_region_end(void)
{
    if (depth)
        torch_region = outer[--depth];
}

/* The content of weir_torch_regions. The pool owns the name `region`. */
struct regions {
    struct weir__tag_stack tags;
    const char *region;
};
_Static_assert(sizeof(struct regions) <= sizeof(weir_torch_regions), "weir_torch_regions has room for what is copied");

void weir_torch_regions_take(weir_torch_regions *regions)
{
    struct regions taken = {.region = torch_region};
    weir__tags_take(&taken.tags);
    memcpy(regions, &taken, sizeof taken);
}

void weir_torch_regions_use(const weir_torch_regions *regions)
{
    struct regions used = {.region = NULL};
    if (regions)
        memcpy(&used, regions, sizeof used);
    weir__tags_use(&used.tags);
    torch_region = used.region;
    torch_entry_forget_streams();
}
