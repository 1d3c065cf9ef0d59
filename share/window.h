/* SPDX-License-Identifier: MIT */
/*
 * window.h - windows (lib/backing/window.h) of other processes: the sender tells where receivers find its pages, and a receiver asks for them
 * one by one and maps them side by side. Each page comes as a descriptor, over a socket, so that neither process need be allowed to trace
 * the other.
 *
 * No state. A receiver has at most one connection and one descriptor of a page at a time.
 */
#ifndef WEIR_SHARE_WINDOW_H
#define WEIR_SHARE_WINDOW_H

#include "lib/backing/window.h"
#include "lib/pool/weir_internal.h"
#include "share/wire/place.h"
#include "share/wire/wire.h"

/* A window as other processes have to know it: the handle of a tensor, for processes of one machine. Has no padding; strings are followed by
   zeros, so that the same window has the same bytes. */
struct share_window {
    char magic[8]; /* SHARE_WINDOW_MAGIC */
    struct weir__window window;
    char uuid[WIRE_UUID_SIZE];                  /* the UUID of the device */
    char path[(SHARE_PATH_SIZE + 7) / 8 * 8]; /* the socket of the process that has the window */
};
#define SHARE_WINDOW_MAGIC "WEIRPG1"

/* Fills in all but `window`. Opens the socket if the weir has none yet. One thread at a time may call this. The statuses are those of
   share_control_open(). */
weir_status share_window_tell(weir *w, int device, weir_error *error, struct share_window *there);

/* Maps the window for the device of the pool and the peers that reach the pool, and sets *range to its address; or leaves nothing. Waits at most 30 s for each page. Call it, and
   share_window_unmap(), in relaxed capture mode. Returns WEIR_INVALID (nothing of Weir's, or on another GPU), and as a query does
   (wire/query.h), or the status of the GPU's code. */
weir_status share_window_map(weir_pool *pool, const struct share_window *there, weir_error *error, void **range);
/* Unmaps the first `mapped` bytes of a range of `bytes`, and gives the range back. No work may use it any more. */
void share_window_unmap(const struct gpu *gpu, void *range, uint64_t bytes, uint64_t mapped);

#endif
