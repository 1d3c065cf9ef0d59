/* SPDX-License-Identifier: MIT */
/*
 * window.h - memory that other processes map: a *window* is the run of whole pages under a live block of an arena. Another process gets a
 * descriptor of each page, and maps the pages side by side.
 *
 * A window exists while at least one of the blocks that were shared through it is live. All blocks that lie in the same pages have the same
 * window, so that the other process maps them once. The pages of a live block are neither moved nor unmapped, and an arena with windows
 * does not sleep.
 *
 * The process has one list of windows, guarded by the lock of window.c. That lock is held while a page is exported, so that its block is not
 * freed meanwhile. Any thread may call these functions; the child of a fork must not.
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

/* Shares the live block at `ptr` of the backing, which may be shared already. Returns WEIR_NOT_FOUND (the memory is not the backing's, or the
   backing has no pages), WEIR_BUSY (the pool sleeps) or WEIR_NO_HOST_MEMORY, without an error text. */
weir_status weir__window_share(struct weir__backing *backing, const void *ptr, size_t size, struct weir__window *window);
/* Ends that, before the block is freed. Does nothing if no block is shared at `ptr`. */
void weir__window_unshare(const void *ptr);

/* Exports the page that begins `offset` bytes behind the window's address to the process `pid`: *fd gets a descriptor, which is the caller's,
   and *bytes the size of the page. Returns WEIR_GONE (the window does not exist any more), WEIR_INVALID (no page begins there) or
   WEIR_CUDA_ERROR. Call it in relaxed capture mode. */
weir_status weir__window_page(const struct weir__window *window, uint64_t offset, int pid, weir_error *error, int *fd, uint64_t *bytes);

/* Returns the number of shared blocks of the backing. *pid gets a process that has asked for one of them, or 0. */
size_t weir__window_blocks(const struct weir__backing *backing, int *pid);

#endif
