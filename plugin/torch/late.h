/* SPDX-License-Identifier: MIT */
/*
 * late.h - frees that have to wait: the block is also used by other streams, its stream may be destroyed, or its stream captures.
 *
 * Such a block becomes an orphan (lib/alloc/orphans.h). It waits for its own stream and for each stream that torch recorded for it
 * (record_stream()), but for no other stream, and no stream of torch waits. If the block's own stream may be destroyed, the orphan goes
 * back to that stream when an allocation names the stream and the same id shows that it still exists. A stream that captures gets its event
 * after the capture. If one of the streams is unknown, the orphan waits for all work of the process. Parts of reserves (reserve.h), which
 * are pieces of the memory of graphs, wait in the same way; they are parked in a group (fence.h) of their own.
 */
#ifndef WEIR_TORCH_LATE_H
#define WEIR_TORCH_LATE_H

#include "plugin/torch/note.h"

/* Frees the block. stream: the stream that torch names for the free, or NULL if it has no record. note: the block's note, which the
   function takes, or NULL. is_alive: the stream cannot be destroyed before the function returns, and all uses of the block come before the
   stream's next work. */
void torch_late_free(struct torch_device *device, void *ptr, struct torch_stream *stream, struct torch_note *note, bool is_alive);

/* Frees a part of a reserve that other streams use: the part is used again only after these streams have reached the end of their present
   work, and while no stream captures. Takes the note. */
void torch_late_add(struct torch_device *device, struct torch_note *note);

/* Waits until the streams that were recorded for the note have done their present work. Returns false if one of them captures, or may be
   destroyed. The caller still owns the note. */
bool torch_late_settle(struct torch_device *device, struct torch_note *note);

/* Frees the orphans and the parts of reserves whose streams have done their work; the parts only while nothing captures. */
void torch_late_retry(struct torch_device *device);

#endif
