/* SPDX-License-Identifier: MIT */
/*
 * late.h - frees that are not ordinary: of blocks that other streams use, on streams that may be gone, or during a capture.
 *
 *  - A block that living streams use too becomes an orphan (lib/alloc/orphans.h) that waits for each of them, and for no other. No stream of
 *    torch's waits.
 *  - A block of a stream that may be gone waits until an allocation names that stream, and shows by its id that it is still the same one.
 *  - A block that cannot be freed since a stream captures is *late*: it is tried again when the capture has ended.
 *  - What no stream can take becomes an orphan that waits for all work of the process.
 * Until it is freed, or an orphan, such a block is live to Weir, and has a note, which is the free's own.
 */
#ifndef WEIR_TORCH_LATE_H
#define WEIR_TORCH_LATE_H

#include "plugin/torch/note.h"

/* Frees the block. note: it is taken, or NULL; `stream` is what torch says, NULL where there is no record of it. is_alive: the stream is
   behind every use of the block, and not destroyed before this returns. */
void torch_late_free(struct torch_device *device, void *ptr, size_t size, struct torch_stream *stream, struct torch_note *note,
                     bool is_alive);

/* A part of a reserve that other streams use stays out of use until nothing captures, and they have done with it. Takes the note. */
void torch_late_add(struct torch_device *device, void *ptr, size_t size, struct torch_note *note);

/* Waits until the streams that were recorded have done their present work. The note stays the caller's. false: one captures, or it is
   not known to be alive. */
bool torch_late_settle(struct torch_device *device, struct torch_note *note);

/* Tries late frees again. */
void torch_late_retry(struct torch_device *device);

/* The stream is alive, and has this id: frees what waits for it. What waits for others of the same handle on this device is orphaned. */
void torch_late_named(struct torch_stream *stream, struct torch_device *device, uint64_t id);

/* Makes orphans of all blocks of the device that wait for a stream. Returns their bytes. */
uint64_t torch_late_orphan(struct torch_device *device);

/* A weir_oom_fn; data: the device. */
uint64_t torch_late_spare(void *data, int index, uint64_t needed);

/* Calls `use` for each block of the device, or part of a reserve, that is live to Weir and freed by torch, under reserve_lock. */
void torch_late_each(struct torch_device *device, void (*use)(const struct torch_note *note, void *data), void *data);

#endif
