/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "share/base/wait.h"
#include "share/control/control.h"
#include "share/wire/query.h"

#define PATIENCE_MS 30000 /* for one page: the service thread of the sender may be giving memory back */
#define TRIES 2           /* as a call of the driver may fail once */

bool share_window_is_whole(const struct share_window *there)
{
    const struct weir__window *window = &there->window;
    return !there->uuid[sizeof there->uuid - 1] && !there->path[sizeof there->path - 1] && there->path[0] && window->bytes &&
           window->bytes % GPU_PAGE_UNIT == 0 && window->number && window->address;
}

weir_status share_window_tell(weir *w, int device, weir_error *error, struct share_window *there)
{
    weir_status status = w->pages_path ? WEIR_OK : share_control_open(w, true, error);
    const char *path = w->pages_path;
    if (status != WEIR_OK)
        return status;
    if (!path)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the path of a socket");
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

/* A window that is being mapped, up to `mapped` bytes. `bytes` is the size of the page that was asked for last. */
struct mapping {
    const struct gpu *gpu;
    int device;
    char *range;
    uint64_t mapped, bytes;
    struct share_query query;
};

/* Maps the page whose descriptor came. Returns GPU_INVALID_VALUE if the page does not fit. */
static int map_page(const struct mapping *mapping)
{
    const struct gpu *gpu = mapping->gpu;
    uint64_t room = mapping->query.question.u.page.bytes - mapping->mapped;
    gpu_page page;
    if (mapping->query.pool_fd < 0 || mapping->bytes > room || mapping->bytes % GPU_PAGE_UNIT)
        return GPU_INVALID_VALUE;
    int code = gpu->page_import(mapping->device, mapping->query.pool_fd, mapping->bytes, &page);
    if (code != GPU_SUCCESS)
        return code;
    code = gpu->page_map(mapping->range + mapping->mapped, mapping->bytes, page);
    for (int tries = 0; tries < TRIES && gpu->page_release(page) != GPU_SUCCESS; tries++)
        continue; /* a mapped page stays until it is unmapped */
    return code;
}

static bool take_size(struct share_query *query, const struct wire_message *answer)
{
    *(uint64_t *)query->data = answer->u.paged.bytes;
    return true;
}

/* Whether there are descriptors for the connection and for one page: the kernel drops a page's descriptor silently if there is none. */
static bool have_descriptors(void)
{
    int spare[2] = {fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), -1};
    bool are_lacking = spare[0] < 0 && errno == EMFILE;
    if (spare[0] >= 0) {
        spare[1] = fcntl(spare[0], F_DUPFD_CLOEXEC, 0);
        are_lacking = spare[1] < 0;
        close(spare[0]);
    }
    if (spare[1] >= 0)
        close(spare[1]);
    return !are_lacking;
}

/* Asks for the next page, and maps it. */
static weir_status add_page(struct mapping *mapping, weir_error *error)
{
    struct share_query *query = &mapping->query;
    query->question.u.page.offset = mapping->mapped;
    if (!have_descriptors())
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no descriptor is left to receive a tensor: raise `ulimit -n`");
    share_queries_run(query, 1, share_deadline(PATIENCE_MS));
    int code = query->status == WEIR_OK ? map_page(mapping) : GPU_SUCCESS;
    if (query->pool_fd >= 0)
        close(query->pool_fd);
    if (query->status != WEIR_OK)
        return weir__fail(error, query->status, "a tensor of process %d was not received: %s", query->pid, query->text);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, mapping->gpu, code, "a page of %s of a tensor of process %d could not be mapped",
                              WEIR__BYTES(mapping->bytes), query->pid);
    mapping->mapped += mapping->bytes;
    return WEIR_OK;
}

weir_status share_window_map(const struct gpu *gpu, int device, const struct share_window *there, weir_error *error, void **range)
{
    const struct weir__window *window = &there->window;
    int code = gpu->range_reserve(device, window->bytes, range);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, gpu, code, "%s of addresses for a tensor of another process", WEIR__BYTES(window->bytes));
    struct mapping mapping = {.gpu = gpu, .device = device, .range = *range};
    mapping.query = (struct share_query){.path = there->path, .stays = true, .fd = -1, .take = take_size, .data = &mapping.bytes};
    mapping.query.question = (struct wire_message){.type = WIRE_PAGE, .u.page = {window->address, window->bytes, window->number, 0}};
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && mapping.mapped < window->bytes)
        status = add_page(&mapping, error);
    if (mapping.query.fd >= 0)
        close(mapping.query.fd);
    code = status == WEIR_OK ? gpu->page_set_access(*range, window->bytes, &device, 1) : GPU_SUCCESS;
    if (code != GPU_SUCCESS)
        status = weir__fail_gpu(error, gpu, code, "access of device %d to a tensor of another process", device);
    if (status != WEIR_OK)
        share_window_unmap(gpu, *range, window->bytes, mapping.mapped);
    return status;
}
