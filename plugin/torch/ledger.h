/* SPDX-License-Identifier: MIT */
/*
 * ledger.h - segments, the blocks in them, and what became of both: what torch's memory snapshots show (weir_torch.h says what that is).
 *
 * A segment begins unused, and is nobody's business: it may be memory of another library in the process. It is *shown* from its first block
 * of torch's on, or if it is known to be torch's.
 *
 * Pure: it touches no memory of the device. Owned by history.c, whose lock guards all of it. Whatever cannot be kept for want of host
 * memory is as if it had not been told, and so is all that refers to it: blocks lie in segments all the same.
 */
#ifndef WEIR_TORCH_LEDGER_H
#define WEIR_TORCH_LEDGER_H

#include "plugin/torch/device.h"
#include "plugin/torch/events.h"

struct torch_ledger {
    void *segments, *blocks; /* trees (search.h) by address; what overlaps is equal */
    size_t segment_count, block_count;
    uint64_t active[TORCH_DEVICES_MAX]; /* bytes of blocks */
    struct torch_events events[TORCH_DEVICES_MAX];
    uint64_t limit; /* events of each device */
    unsigned skipped;
    bool keeps_contexts; /* with events and segments */
};

/* Forgets the segments and blocks, or also the events. */
void torch_ledger_empty(struct torch_ledger *ledger);
void torch_ledger_clear(struct torch_ledger *ledger);

/* Memory that Weir took: what was there is gone. is_known: from before anybody looked, unless it was told of meanwhile. */
void torch_ledger_segment(struct torch_ledger *ledger, int device, const void *base, uint64_t size, bool is_known);

/* It is torch's, and was before anybody looked: no event tells of it. Nothing is done if it came since. */
void torch_ledger_show(struct torch_ledger *ledger, const void *base, gpu_stream stream);

/* It is memory of graphs with that id. */
void torch_ledger_chunk(struct torch_ledger *ledger, const void *base, weir_torch_pool_id id);

/* Weir gave it back, with what was in it. *stream, *id: the segment's; false: there was none that is shown. */
bool torch_ledger_gone(struct torch_ledger *ledger, const void *base, gpu_stream *stream, weir_torch_pool_id *id);

/* It was not given back after all. */
void torch_ledger_back(struct torch_ledger *ledger, int device, const void *base, uint64_t size, gpu_stream stream, weir_torch_pool_id id);

/* A block of torch's. is_known: from before anybody looked, without an event. */
void torch_ledger_alloc(struct torch_ledger *ledger, const void *ptr, uint64_t size, gpu_stream stream, weir_torch_context *context,
                        bool is_known);

/* torch freed it; the free waits for something, or no more; it is complete, unless it waits. */
void torch_ledger_request(struct torch_ledger *ledger, const void *ptr, weir_torch_context *context);
void torch_ledger_wait(struct torch_ledger *ledger, const void *ptr, bool waits);
void torch_ledger_complete(struct torch_ledger *ledger, const void *ptr);

/* Something is said of a live block. */
void torch_ledger_annotate(struct torch_ledger *ledger, const void *ptr, weir_torch_context *context);

/* A block that was freed before anybody looked, and waits. */
void torch_ledger_waiting(struct torch_ledger *ledger, const void *ptr, uint64_t size, gpu_stream stream);

/* An event that is none of a block or segment. */
void torch_ledger_tell(struct torch_ledger *ledger, int action, int device, uint64_t address, uint64_t size, gpu_stream stream,
                       weir_torch_context *context);

/* The context of the block in which ptr lies; NULL: none. */
weir_torch_context *torch_ledger_context(struct torch_ledger *ledger, const void *ptr);

/* NULL: no host memory. */
weir_torch_snapshot *torch_ledger_copy(struct torch_ledger *ledger, bool with_events);

/* Of what torch_ledger_copy() returned; drops its contexts. */
void torch_ledger_free(weir_torch_snapshot *snapshot);

#endif
