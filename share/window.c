/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/window.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "share/base/forked.h"
#include "share/base/wait.h"
#include "share/control/control.h"
#include "share/wire/query.h"

#define PATIENCE_MS 30000 /* for one page: the service thread of the sender may be giving memory back */
#define BUSY_PAUSE (2 * GPU_MILLISECOND)
#define TRIES 2           /* as a call of the driver may fail once */

weir_status share_window_tell(weir *w, int device, weir_error *error, struct share_window *there)
{
    weir_status status = w->control_path ? WEIR_OK : share_control_open(w, true, error);
    if (status != WEIR_OK)
        return status;
    const char *path = w->control_path;
    if (!path)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the path of a socket");
    snprintf(there->magic, sizeof there->magic, SHARE_WINDOW_MAGIC);
    snprintf(there->uuid, sizeof there->uuid, "%s", w->devices[device].info.uuid);
    snprintf(there->path, sizeof there->path, "%s", path);
    return WEIR_OK;
}

void share_window_unmap(const struct gpu *gpu, void *range, uint64_t bytes, uint64_t mapped)
{
    int code = GPU_SUCCESS;
    for (int tries = 0; mapped && tries < TRIES && (code = gpu->page_unmap(range, mapped)) != GPU_SUCCESS; tries++)
        continue;
    for (int tries = 0; code == GPU_SUCCESS && tries < TRIES && gpu->range_free(range, bytes) != GPU_SUCCESS; tries++)
        continue;
}

/* Maps the page whose descriptor came. Returns GPU_INVALID_VALUE if the page does not fit. */
static int map_page(const struct gpu *gpu, int device, int fd, uint64_t bytes, char *address, uint64_t room)
{
    gpu_page page;
    if (fd < 0 || bytes > room || bytes % GPU_PAGE_UNIT)
        return GPU_INVALID_VALUE;
    int code = gpu->page_import(device, fd, bytes, &page);
    if (code != GPU_SUCCESS)
        return code;
    code = gpu->page_map(address, bytes, page);
    for (int tries = 0; tries < TRIES && gpu->page_release(page) != GPU_SUCCESS; tries++)
        continue; /* a mapped page stays until it is unmapped */
    return code;
}

static bool take_size(struct share_query *query, const struct wire_message *answer)
{
    *(uint64_t *)query->data = answer->u.paged.bytes;
    return true;
}

/* Lets the pool's device reach the pages, and the peers that reach the pool. Returns the GPU's code. */
static int give_access(weir_pool *pool, void *range, uint64_t bytes)
{
    int devices[GPU_PAGE_DEVICES_MAX] = {pool->device->index};
    size_t count = 1;
    pthread_mutex_lock(&pool->lock);
    for (size_t d = 0; d < pool->w->device_count && count < GPU_PAGE_DEVICES_MAX; d++)
        if (pool->settings.peers[d])
            devices[count++] = (int)d;
    pthread_mutex_unlock(&pool->lock);
    return pool->w->gpu->page_set_access(range, bytes, devices, count);
}

/* A page that is on its way. The child of a fork would keep its memory for as long as it lives, which the sender could never have again. */
struct transit {
    struct share_forked forked;
    struct share_query query;
};

static void close_in_child(struct share_forked *forked)
{
    const struct transit *transit = (struct transit *)((char *)forked - offsetof(struct transit, forked));
    if (transit->query.pool_fd >= 0)
        close(transit->query.pool_fd);
}

/* Asks for one page. A sender to whom as many receivers are connected as it takes is asked again until the time is up. */
static void ask(struct share_query *query)
{
    uint64_t deadline = share_deadline(PATIENCE_MS);
    do
        share_queries_run(query, 1, deadline);
    while (query->status == WEIR_BUSY && query->pool_fd < 0 && share_pause(deadline, BUSY_PAUSE));
}

/* Maps all pages, and sets *mapped to their bytes. */
static weir_status map_pages(weir_pool *pool, const struct share_window *there, weir_error *error, char *range, uint64_t *mapped)
{
    const struct gpu *gpu = pool->w->gpu;
    const struct weir__window *window = &there->window;
    uint64_t bytes = 0;
    int code = GPU_SUCCESS;
    for (*mapped = 0; code == GPU_SUCCESS && *mapped < window->bytes; *mapped += code == GPU_SUCCESS ? bytes : 0) {
        struct transit transit = {.query = {.path = there->path, .take = take_size, .data = &bytes, .pool_fd = -1}};
        struct share_query *query = &transit.query;
        query->question = (struct wire_message){.type = WIRE_PAGE, .u.page = {window->address, window->bytes, window->number, *mapped}};
        share_forked_hold();
        share_forked_add(&transit.forked, close_in_child);
        share_forked_release();
        ask(query);
        if (query->status == WEIR_OK)
            code = map_page(gpu, pool->device->index, query->pool_fd, bytes, range + *mapped, window->bytes - *mapped);
        share_forked_hold();
        share_forked_remove(&transit.forked);
        if (query->pool_fd >= 0)
            close(query->pool_fd);
        share_forked_release();
        if (query->status != WEIR_OK)
            return weir__fail(error, query->status, "a tensor of process %d was not received: %s%s", query->pid, query->text,
                              query->status == WEIR_PROTOCOL ? "; or no descriptor is left here: raise `ulimit -n`" : "");
    }
    if (code == GPU_SUCCESS)
        code = give_access(pool, range, window->bytes);
    return code == GPU_SUCCESS ? WEIR_OK
                               : weir__fail_gpu(error, gpu, code, "%s of a tensor of another process, behind its first %s, for device %d",
                                                WEIR__BYTES(bytes), WEIR__BYTES(*mapped), pool->device->index);
}

weir_status share_window_map(weir_pool *pool, const struct share_window *there, weir_error *error, void **range)
{
    const struct gpu *gpu = pool->w->gpu;
    const struct weir__window *window = &there->window;
    const char *uuid = pool->device->info.uuid;
    uint64_t mapped;
    if (memcmp(there->magic, SHARE_WINDOW_MAGIC, sizeof there->magic) != 0 || there->uuid[sizeof there->uuid - 1] ||
        there->path[sizeof there->path - 1] || !window->bytes || window->bytes % GPU_PAGE_UNIT || !window->number || !window->address)
        return weir__fail(error, WEIR_INVALID, "a tensor of another process comes from no release of Weir that this one knows: enable the same "
                                               "release in both processes, or in neither");
    if (strcmp(there->uuid, uuid) != 0)
        return weir__fail(error, WEIR_INVALID, "a tensor of another process is on %s, and device %d of this one is %s: let both see the same GPUs "
                                               "(CUDA_VISIBLE_DEVICES)",
                          there->uuid, pool->device->index, uuid);
    int code = gpu->range_reserve(pool->device->index, window->bytes, range);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "%s of addresses for a tensor of another process", WEIR__BYTES(window->bytes));
    weir_status status = map_pages(pool, there, error, *range, &mapped);
    if (status != WEIR_OK)
        share_window_unmap(gpu, *range, window->bytes, mapped);
    return status;
}
