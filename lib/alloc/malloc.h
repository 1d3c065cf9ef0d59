/* SPDX-License-Identifier: MIT */
/* malloc.h - the path of a request, behind the argument checks of the public functions. No Weir lock is held on it. */
#ifndef WEIR_LIB_MALLOC_H
#define WEIR_LIB_MALLOC_H

#include "lib/alloc/stream.h"

/* Asks CUDA for `size` bytes (0 gives NULL) from the pool on the stream. The pool is held by the caller. opened: the stream, if it is
   opened, so that its cache may keep the block later. */
weir_status weir__serve(weir_pool *pool, void **ptr, size_t size, const struct weir__raw *raw, weir_stream *opened);

#endif
