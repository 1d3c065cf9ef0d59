/* SPDX-License-Identifier: MIT */
/*
 * free.h - frees of blocks, after the public functions have checked their arguments: a block goes from its user to a stream's cache, to its
 * arena or to CUDA. Call these functions with no lock of Weir held.
 */
#ifndef WEIR_LIB_FREE_H
#define WEIR_LIB_FREE_H

#include "lib/alloc/stream.h"

/* Frees a live block on a stream: gives it to the stream's cache, or else to its arena or CUDA. opened: the weir_stream, if the program
   named it, else NULL. If the function fails, it returns the status and sets the thread's last error, and the block stays live. */
weir_status weir__free(weir *w, void *ptr, gpu_stream stream, weir_stream *opened);

/*
 * Frees a live block that no single stream can free, by making it an orphan (orphans.h). A later request that finds no cached block, a trim
 * or the recovery from lack of memory frees the orphan once the present work on these lines is done. lines NULL: all present work of the
 * process, on all devices; for a block whose stream may be destroyed, or that is used by a graph, which can be launched on any stream.
 * Returns WEIR_NOT_A_BLOCK, WEIR_BUSY if the block is published, WEIR_INVALID if it belongs to a graph, or WEIR_NO_HOST_MEMORY; the block
 * then stays live.
 */
weir_status weir__block_orphan(weir *w, void *ptr, struct weir__line *const *lines, size_t count, weir_error *error);

/* Notes the live blocks that a pool with `align` has from CUDA, those of graphs included, so that weir_free(NULL, ...) finds them once the
   weir is closed. */
void weir__blocks_outlive(weir_pool *pool);

/* Gives a block back to CUDA or to its arena, on a stream of that device which does not capture if the block is of an arena. opened: the
   weir_stream, which the caller has pinned or entered (stream.h), or NULL. line: the line of a stream that is not opened, if the caller uses
   it, or NULL. Frees in arenas and exportable pools are counted here; the caller notes any other by weir__note_free() or
   weir__note_free_on(). Returns the code of CUDA or of the arena. */
int weir__return_block(const struct weir__block *block, int device, gpu_stream stream, const weir_stream *opened, struct weir__line *line);
/* Gives back a block that is not in the table of blocks and whose owner is gone. Tries twice; if both fail, its memory is lost. */
void weir__return_unknown(const struct weir__block *block, gpu_stream stream);

/* Counts a free on the line of its stream, so that a request that fails for lack of memory can wait for it; does nothing if
   weir__return_block() has counted the free. opened: the weir_stream, pinned or entered, or NULL. */
void weir__note_free(const struct weir__block *block, gpu_stream stream, weir_stream *opened);
/* The same for a stream whose line the caller uses. */
void weir__note_free_on(struct weir__line *line, weir_pool *pool, uint64_t bytes);

#endif
