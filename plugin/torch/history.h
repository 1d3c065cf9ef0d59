/* SPDX-License-Identifier: MIT */
/*
 * history.h - tells the listener of weir_torch_watch() about the memory that Weir holds for torch. The tables of blocks report the blocks
 * that Weir takes and gives back (weir__blocks_watch()), reserve.c reports chunks, and late.c reports frees that begin to wait.
 *
 * Nothing is stored. The listener is called under the locks of the tables' shards, `reserve_lock` and the locks of streams.
 */
#ifndef WEIR_TORCH_HISTORY_H
#define WEIR_TORCH_HISTORY_H

#include "plugin/torch/device.h"

extern weir_torch_news_fn _Atomic torch_listener __attribute__((visibility("hidden"))); /* NULL: no listener */

static inline void torch_tell(weir_torch_news news)
{
    weir_torch_news_fn use = atomic_load_explicit(&torch_listener, memory_order_acquire);
    if (use)
        use(&news);
}

/* Starts the news of a device that has just been opened and that other threads can already find. */
void torch_history_attach(struct torch_device *device);

#endif
