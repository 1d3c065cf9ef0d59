/* SPDX-License-Identifier: MIT */
/*
 * history.h - the recording of torch's memory history (weir_torch.h): one ledger for the process, and who tells it of what.
 *
 * The shim tells of torch's blocks, tables of blocks of what Weir takes and gives back (weir__blocks_watch()), late.h of frees that
 * wait, and reserve.h of chunks. `lock` guards the ledger. It is a leaf: the locks of tables' shards, `late_lock`, `reserve_lock` and
 * those of streams may be held where it is taken, and nothing but the host's allocator is called under it.
 */
#ifndef WEIR_TORCH_HISTORY_H
#define WEIR_TORCH_HISTORY_H

#include "plugin/torch/device.h"

extern atomic_bool torch_history_on __attribute__((visibility("hidden")));
static inline bool torch_history_is_on(void)
{
    return atomic_load_explicit(&torch_history_on, memory_order_acquire);
}

/* The device has just been opened, and is there for others to find. */
void torch_history_attach(struct torch_device *device);

/* What torch has freed waits, or no more; it is freed, if it does not wait again. Each does nothing while nothing is recorded. */
void torch_history_wait(const void *ptr, bool waits);
void torch_history_done(const void *ptr);

/* Memory of graphs with that id. */
void torch_history_chunk(const void *base, weir_torch_pool_id id);

/* Memory of another allocator came, and is about to go. */
void torch_history_foreign(int device, const void *base, uint64_t size);
void torch_history_foreign_gone(const void *base);

#endif
