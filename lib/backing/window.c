/* SPDX-License-Identifier: MIT */
#include "lib/backing/window.h"

#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/table.h"

struct window {
    struct weir__link link; /* in `windows`, by address and bytes */
    struct weir__backing *backing;
    uint64_t number;
    size_t blocks; /* live blocks that were shared */
    int pid;       /* the process that asked for a page last; 0: none has */
};

struct shared {
    struct weir__link link; /* in `blocks`, by address */
    struct window *window;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static struct weir__table windows, blocks;
static uint64_t last_number; /* random at first; 0: the tables are not initialized yet */

static uint64_t next_number(void)
{
    if (!last_number) {
        weir__table_init(&windows);
        weir__table_init(&blocks);
        if (getrandom(&last_number, sizeof last_number, GRND_NONBLOCK) != (ssize_t)sizeof last_number)
            last_number = (uint64_t)(uintptr_t)&last_number;
    }
    return ++last_number ? last_number : ++last_number;
}

/* Finds the whole pages under the block. Returns WEIR_NOT_FOUND or WEIR_BUSY as weir__window_share() does. */
static weir_status cover(struct weir__backing *backing, uint64_t ptr, size_t size, struct weir__window *window)
{
    struct weir__page_at page;
    if (!backing->ops->page_at || !backing->ops->page_at(backing, ptr, &page))
        return WEIR_NOT_FOUND;
    window->address = page.address;
    while (!page.is_shut && size > page.address + page.bytes - ptr)
        if (!backing->ops->page_at(backing, page.address + page.bytes, &page))
            return WEIR_NOT_FOUND;
    window->bytes = page.address + page.bytes - window->address;
    return page.is_shut ? WEIR_BUSY : WEIR_OK;
}

static struct window *find(const struct weir__window *named)
{
    struct weir__link *link = weir__table_first(&windows, named->address);
    while (link && link->key != named->bytes)
        link = weir__table_next(link);
    return link ? WEIR__ITEM(link, struct window, link) : NULL;
}

static weir_status share(struct weir__backing *backing, const void *ptr, size_t size, struct weir__window *named)
{
    weir_status status = cover(backing, (uintptr_t)ptr, size, named);
    if (status != WEIR_OK)
        return status;
    uint64_t number = next_number();
    struct window *window = find(named);
    bool is_shared = weir__table_first(&blocks, (uintptr_t)ptr);
    struct shared *block = is_shared ? NULL : calloc(1, sizeof *block);
    if (!window && block && (window = calloc(1, sizeof *window))) {
        window->backing = backing;
        window->number = number;
        weir__table_add(&windows, &window->link, named->address, named->bytes);
    }
    if (!window || (!is_shared && !block)) {
        free(block);
        return WEIR_NO_HOST_MEMORY;
    }
    if (block) {
        block->window = window;
        window->blocks++;
        weir__table_add(&blocks, &block->link, (uintptr_t)ptr, 0);
    }
    named->number = window->number;
    return WEIR_OK;
}

weir_status weir__window_share(struct weir__backing *backing, const void *ptr, size_t size, struct weir__window *window)
{
    pthread_mutex_lock(&lock);
    weir_status status = share(backing, ptr, size, window);
    pthread_mutex_unlock(&lock);
    return status;
}

void weir__window_unshare(const void *ptr)
{
    pthread_mutex_lock(&lock);
    struct weir__link *link = last_number ? weir__table_first(&blocks, (uintptr_t)ptr) : NULL;
    struct window *window = link ? WEIR__ITEM(link, struct shared, link)->window : NULL;
    if (link) {
        weir__table_remove(&blocks, link);
        free(WEIR__ITEM(link, struct shared, link));
    }
    if (window && --window->blocks == 0) {
        weir__table_remove(&windows, &window->link);
        free(window);
    }
    pthread_mutex_unlock(&lock);
}

static weir_status export_page(const struct weir__window *named, uint64_t offset, int pid, weir_error *error, int *fd, uint64_t *bytes)
{
    struct window *window = last_number ? find(named) : NULL;
    struct weir__page_at page;
    if (!window || window->number != named->number)
        return weir__fail(error, WEIR_GONE, "the tensor was freed before it was received: keep it until the receiver has it");
    struct weir__backing *backing = window->backing;
    if (offset >= named->bytes || !backing->ops->page_at(backing, named->address + offset, &page) || page.address != named->address + offset)
        return weir__fail(error, WEIR_INVALID, "no page begins %s behind the first of the tensor", WEIR__BYTES(offset));
    int code = backing->gpu->page_export(page.handle, fd);
    if (code != GPU_SUCCESS)
        return weir__fail_gpu(error, backing->gpu, code, "a descriptor for a page of %s on device %d: raise `ulimit -n` if files are lacking",
                              WEIR__BYTES(page.bytes), backing->device);
    window->pid = pid;
    *bytes = page.bytes;
    return WEIR_OK;
}

weir_status weir__window_page(const struct weir__window *window, uint64_t offset, int pid, weir_error *error, int *fd, uint64_t *bytes)
{
    pthread_mutex_lock(&lock);
    weir_status status = export_page(window, offset, pid, error, fd, bytes);
    pthread_mutex_unlock(&lock);
    return status;
}

size_t weir__window_blocks(const struct weir__backing *backing, int *pid)
{
    size_t count = 0;
    *pid = 0;
    pthread_mutex_lock(&lock);
    for (struct weir__link *link = last_number ? weir__table_any(&windows) : NULL; link; link = weir__table_behind(&windows, link)) {
        const struct window *window = WEIR__ITEM(link, struct window, link);
        if (window->backing != backing)
            continue;
        count += window->blocks;
        *pid = window->pid ? window->pid : *pid;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
