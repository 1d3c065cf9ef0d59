/* SPDX-License-Identifier: MIT */
#include "lib/backing/window.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/table.h"

struct shared {
    struct weir__link link; /* in `blocks`, by the address of the window and that of the block */
    struct weir__backing *backing;
    struct weir__window window;
    int pid; /* the process that asked for a page last; 0: none has */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static struct weir__table blocks;
static uint64_t last_number; /* random at first; 0: the table is not initialized yet */

/* The descriptors of pages that were exported last, since an export takes 180 us (measured). They go before their pages do. */
#define KEPT 32
static struct {
    const struct weir__backing *backing; /* NULL: there is none */
    gpu_page page;
    int fd;
} kept[KEPT];
static unsigned next_kept;

static void close_kept(unsigned i)
{
    if (kept[i].backing)
        close(kept[i].fd);
    kept[i].backing = NULL;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* In the child of a fork they would keep the memory of pages that the parent releases. */
static void in_child(void)
{
    for (unsigned i = 0; i < KEPT; i++)
        close_kept(i);
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static void take_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    if (last_number)
        return;
    weir__table_init(&blocks);
    if (getrandom(&last_number, sizeof last_number, GRND_NONBLOCK) != (ssize_t)sizeof last_number || !last_number)
        last_number = (uint64_t)(uintptr_t)&last_number;
}

/* Finds the whole pages under the block. Returns WEIR_NOT_FOUND or WEIR_BUSY as weir__window_share() does. */
static weir_status cover(struct weir__backing *backing, uint64_t ptr, size_t size, struct weir__window *window)
{
    struct weir__page_at page;
    if (!backing->ops->page_at || !backing->ops->page_at(backing, ptr, &page))
        return WEIR_NOT_FOUND;
    window->address = page.address;
    while (size > page.address + page.bytes - ptr)
        if (!backing->ops->page_at(backing, page.address + page.bytes, &page))
            return WEIR_NOT_FOUND;
    window->bytes = page.address + page.bytes - window->address;
    return page.is_shut ? WEIR_BUSY : WEIR_OK;
}

/* Returns a block that is shared through the window: the one at `ptr` if that is one, else any; or NULL. */
static struct shared *find(const struct weir__window *window, const void *ptr)
{
    struct shared *found = NULL;
    for (struct weir__link *link = weir__table_first(&blocks, window->address); link; link = weir__table_next(link)) {
        struct shared *shared = WEIR__ITEM(link, struct shared, link);
        if (shared->window.bytes == window->bytes && (!found || link->key == (uintptr_t)ptr))
            found = shared;
    }
    return found;
}

static bool is_at(const struct shared *shared, const void *ptr)
{
    return shared && shared->link.key == (uintptr_t)ptr;
}

weir_status weir__window_share(struct weir__backing *backing, const void *ptr, size_t size, struct weir__window *window)
{
    take_lock();
    weir_status status = cover(backing, (uintptr_t)ptr, size, window);
    const struct shared *other = status == WEIR_OK ? find(window, ptr) : NULL;
    struct shared *shared = status == WEIR_OK && !is_at(other, ptr) ? malloc(sizeof *shared) : NULL;
    window->number = other ? other->window.number : last_number + 1;
    if (shared) {
        *shared = (struct shared){.backing = backing, .window = *window};
        weir__table_add(&blocks, &shared->link, window->address, (uintptr_t)ptr);
        last_number = other ? last_number : window->number;
    } else if (status == WEIR_OK && !is_at(other, ptr)) {
        status = WEIR_NO_HOST_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void weir__window_unshare(struct weir__backing *backing, const void *ptr, size_t size)
{
    struct weir__window window;
    take_lock();
    struct shared *shared = cover(backing, (uintptr_t)ptr, size, &window) != WEIR_NOT_FOUND ? find(&window, ptr) : NULL;
    if (is_at(shared, ptr)) {
        weir__table_remove(&blocks, &shared->link);
        free(shared);
    }
    pthread_mutex_unlock(&lock);
}

void weir__window_forget(const struct weir__backing *backing, gpu_page page)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < KEPT; i++)
        if (kept[i].backing == backing && kept[i].page == page)
            close_kept(i);
    pthread_mutex_unlock(&lock);
}

/* Sets *fd to a descriptor of the page, and keeps another one. Returns the GPU's code. */
static int export_page(const struct weir__backing *backing, gpu_page page, int *fd)
{
    unsigned i = 0;
    while (i < KEPT && (kept[i].backing != backing || kept[i].page != page))
        i++;
    *fd = i < KEPT ? fcntl(kept[i].fd, F_DUPFD_CLOEXEC, 0) : -1;
    int code = *fd < 0 ? backing->gpu->page_export(backing->device, page, fd) : GPU_SUCCESS;
    int copy = i == KEPT && code == GPU_SUCCESS ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy >= 0) {
        close_kept(i = next_kept++ % KEPT);
        kept[i].backing = backing;
        kept[i].page = page;
        kept[i].fd = copy;
    }
    return code;
}

static weir_status find_and_export(const struct weir__window *window, uint64_t offset, int pid, weir_error *error, int *fd, uint64_t *bytes)
{
    struct shared *shared = find(window, NULL);
    struct weir__page_at page;
    if (!shared || shared->window.number != window->number)
        return weir__fail(error, WEIR_GONE, "the tensor was freed before it was received: keep it until the receiver has it");
    struct weir__backing *backing = shared->backing;
    if (offset >= window->bytes || !backing->ops->page_at(backing, window->address + offset, &page) || page.address != window->address + offset)
        return weir__fail(error, WEIR_INVALID, "no page begins %s behind the first of the tensor", WEIR__BYTES(offset));
    shared->pid = pid;
    *bytes = page.bytes;
    int code = export_page(backing, page.handle, fd);
    return code == GPU_SUCCESS ? WEIR_OK
                               : weir__fail_gpu(error, backing->gpu, code, "a descriptor for a page of %s: raise `ulimit -n` if files are lacking",
                                                WEIR__BYTES(page.bytes));
}

weir_status weir__window_page(const struct weir__window *window, uint64_t offset, int pid, weir_error *error, int *fd, uint64_t *bytes)
{
    take_lock();
    weir_status status = find_and_export(window, offset, pid, error, fd, bytes);
    if (status != WEIR_OK)
        pthread_mutex_unlock(&lock);
    return status;
}

void weir__window_page_end(int fd)
{
    close(fd);
    pthread_mutex_unlock(&lock);
}

size_t weir__window_blocks(const struct weir__backing *backing, int *pid)
{
    size_t count = 0;
    *pid = 0;
    take_lock();
    for (struct weir__link *link = weir__table_any(&blocks); link; link = weir__table_behind(&blocks, link)) {
        const struct shared *shared = WEIR__ITEM(link, struct shared, link);
        if (shared->backing != backing)
            continue;
        count++;
        *pid = shared->pid ? shared->pid : *pid;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
