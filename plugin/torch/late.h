/* SPDX-License-Identifier: MIT */
/*
 * late.h - frees that are not ordinary: of blocks that other streams use, on streams that may be gone, or during a capture.
 *
 * Such a block becomes an orphan (lib/alloc/orphans.h): with a point for its own stream and each of those recorded, and for no other. No
 * stream of torch's waits. An orphan whose own stream may be gone is that stream's again when an allocation names it, and shows by its id
 * that it is still the same one. A stream that captures gets its event when the capture has ended. Where nobody knows a stream, the orphan
 * waits for all work of the process. Parts of reserves wait in the same way, in the fences' group of their device.
 */
#ifndef WEIR_TORCH_LATE_H
#define WEIR_TORCH_LATE_H

#include "plugin/torch/note.h"

/* Frees the block. note: it is taken, or NULL; `stream` is what torch says, NULL where there is no record of it. is_alive: the stream is
   behind every use of the block, and not destroyed before this returns. */
void torch_late_free(struct torch_device *device, void *ptr, struct torch_stream *stream, struct torch_note *note, bool is_alive);

/* A part of a reserve that other streams use stays out of use until nothing captures, and they have done with it. Takes the note. */
void torch_late_add(struct torch_device *device, struct torch_note *note);

/* Waits until the streams that were recorded have done their present work. The note stays the caller's. false: one captures, or it is
   not known to be alive. */
bool torch_late_settle(struct torch_device *device, struct torch_note *note);

/* Frees what waits for nothing any more. */
void torch_late_retry(struct torch_device *device);

#endif
