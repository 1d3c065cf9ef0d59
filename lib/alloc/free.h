/* SPDX-License-Identifier: MIT */
/*
 * free.h - the path of a free, behind the argument checks of the public functions: from its user to a cache, or to CUDA. No Weir lock is
 * held on it.
 */
#ifndef WEIR_LIB_FREE_H
#define WEIR_LIB_FREE_H

#include "lib/alloc/stream.h"

/* Takes a block from its user, and gives it to the cache of the stream, or to CUDA; opened: the weir_stream, if the caller has it. */
weir_status weir__free(weir *w, void *ptr, gpu_stream stream, weir_stream *opened);

/*
 * Takes a live block from its user, who can name no single stream that could take its free. It becomes an orphan (orphans.h), which the next
 * request without a cached block, a trim or the ladder frees once all present work on these lines is done. lines: NULL: of the process, on
 * whichever device, where a stream may be gone, or its work is in a graph that is launched on any.
 * WEIR_NOT_A_BLOCK, WEIR_BUSY (published), WEIR_INVALID (a graph's own), WEIR_NO_HOST_MEMORY. The block stays its user's then.
 */
weir_status weir__block_orphan(weir *w, void *ptr, struct weir__line *const *lines, size_t count, weir_error *error);

/* Gives a block to CUDA or its arena, on a stream of that device (opened: if the caller has it, pinned or within a call; line: that of a
   stream which is not open, if the caller uses it). The free of a block of an exportable pool is counted with a mark behind it; any other is
   the caller's to note. Returns CUDA's code. */
int weir__return_block(const struct weir__block *block, int device, gpu_stream stream, const weir_stream *opened, struct weir__line *line);
/* The same of a block that nobody knows of. If that is refused twice, it is lost. */
void weir__return_unknown(const struct weir__block *block, gpu_stream stream);

/* Leaves word of a free that recovery may have to wait for, unless it was counted. opened: the stream, if the caller has it. */
void weir__note_free(weir_pool *pool, uint64_t bytes, gpu_stream stream, weir_stream *opened);
/* The same on a line that the caller uses. */
void weir__note_free_on(struct weir__line *line, weir_pool *pool, uint64_t bytes);

#endif
