/* SPDX-License-Identifier: MIT */
/*
 * window.h - memory that other processes map: a *window* is the run of whole pages under a live block of an arena. Another process gets a
 * descriptor of each page, and maps the pages side by side.
 *
 * A block is shared until its owner says otherwise, before it frees the block. Blocks that lie in the same pages and are shared at the same
 * time have the same window, so that the other process maps the pages once. The pages of a live block are neither moved nor unmapped, and an
 * arena with shared blocks does not sleep.
 *
 * The process has one table of shared blocks, guarded by the lock of window.c. That lock is held while a page is exported, so that no block
 * in it is freed meanwhile, and over fork(), so that the child finds all descriptors of pages and closes them. Any thread may call these
 * functions; the child of a fork must not.
 */
#ifndef WEIR_LIB_WINDOW_H
#define WEIR_LIB_WINDOW_H

#include "include/weir.h"
#include "lib/backing/backing.h"

/* How other processes name a window. */
struct weir__window {
    uint64_t address, bytes; /* the pages, where this process has them */
    uint64_t number;         /* above 0. No other window of any process has it, whatever lay at the address before */
};

/* Shares the live block, which may be shared already. Returns WEIR_NOT_FOUND (the memory is not the backing's, or the backing has no pages),
   WEIR_BUSY (the pool sleeps) or WEIR_NO_HOST_MEMORY, without an error text. */
weir_status weir__window_share(struct weir__backing *backing, const void *ptr, size_t size, struct weir__window *window);
/* Ends that, before the block is freed. Does nothing if the block is not shared, or not the backing's. */
void weir__window_unshare(struct weir__backing *backing, const void *ptr, size_t size);

/* Exports the page that begins `offset` bytes behind the window's address to the process `pid`: *fd gets a descriptor, and *bytes the size
   of the page. After WEIR_OK weir__window_page_end() must follow soon, with that descriptor: until then the lock is held. Returns WEIR_GONE (the window does not exist any more), WEIR_INVALID (no page begins there) or the status
   of the GPU's code. Call it in relaxed capture mode. */
weir_status weir__window_page(const struct weir__window *window, uint64_t offset, int pid, weir_error *error, int *fd, uint64_t *bytes);

void weir__window_page_end(int fd);

/* Forgets what is kept of a page, which is about to be released. */
void weir__window_forget(const struct weir__backing *backing, gpu_page page);

/* Returns the number of shared blocks of the backing. *pid gets a process that has asked for one of them, or 0. */
size_t weir__window_blocks(const struct weir__backing *backing, int *pid);

#endif
