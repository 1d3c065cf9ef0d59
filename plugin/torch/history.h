/* SPDX-License-Identifier: MIT */
/*
 * history.h - who wants to know what Weir holds of the device for torch (weir_torch_watch()), and who tells of it: tables of blocks of what
 * Weir takes and gives back (weir__blocks_watch()), reserve.h of chunks, late.h of frees that wait.
 *
 * Nothing is kept here. The listener is called under the locks of tables' shards, `late_lock`, `reserve_lock` and those of streams.
 */
#ifndef WEIR_TORCH_HISTORY_H
#define WEIR_TORCH_HISTORY_H

#include "plugin/torch/device.h"

extern weir_torch_news_fn _Atomic torch_listener __attribute__((visibility("hidden"))); /* NULL: nobody */

static inline void torch_tell(weir_torch_news news)
{
    weir_torch_news_fn use = atomic_load_explicit(&torch_listener, memory_order_acquire);
    if (use)
        use(&news);
}

/* The device has just been opened, and is there for others to find. */
void torch_history_attach(struct torch_device *device);

#endif
