/* SPDX-License-Identifier: MIT */
/* malloc.h - the path of a request and of a free, behind the argument checks of the public functions. No Weir lock is held on it. */
#ifndef WEIR_LIB_MALLOC_H
#define WEIR_LIB_MALLOC_H

#include "lib/stream.h"

/* Asks CUDA for `size` bytes (0 gives NULL) from the pool on the stream. The pool is held by the caller. opened: the stream, if it is
   opened, so that its cache may keep the block later. */
weir_status weir__serve(weir_pool *pool, void **ptr, size_t size, gpu_stream stream, weir_stream *opened);

/* Takes a block from its user, and gives it to the cache of the stream, or to CUDA; opened: the weir_stream, if the caller has it. */
weir_status weir__give_back(weir *w, void *ptr, gpu_stream stream, weir_stream *opened);

#endif
