/* SPDX-License-Identifier: MIT */
/*
 * head.h - makes the content of a trace's first block (doc/trace.md, "Header"): pairs of a key and a value. weir__trace_head_begin() puts
 * the pairs that every trace has; the caller adds more.
 *
 * A struct weir__trace_head belongs to one thread, from weir__trace_head_begin() to weir__trace_head_end().
 */
#ifndef WEIR_LIB_TRACE_HEAD_H
#define WEIR_LIB_TRACE_HEAD_H

#include "lib/record/recorder.h"
#include "lib/trace/block.h"

#define WEIR__TRACE_HEAD_MAX ((UINT32_C(1) << 20) + 16) /* bytes of the block's content, at most */

struct weir__trace_head {
    struct weir__trace_bytes pairs;
    unsigned count;
};

/* Begins a head with the pairs that every trace has: the process, the times at which the recorder started, the level of recording. Returns
   false if host memory runs out; do not call weir__trace_head_end() then. */
bool weir__trace_head_begin(struct weir__trace_head *head, const struct weir__recorder *recorder, const char *reason);
void weir__trace_head_put(struct weir__trace_head *head, const char *key, const char *value);
__attribute__((format(printf, 3, 4))) void weir__trace_head_putf(struct weir__trace_head *head, const char *key, const char *format, ...);
/* Puts the device's name, UUID and bytes of memory. */
void weir__trace_head_device(struct weir__trace_head *head, unsigned device, const char *name, const char *uuid, uint64_t memory);
/* Puts the cost table of the device (costs.h), if this user has measured one with this driver. With the table the trace can be replayed on
   another machine. Call it last: a table that does not fit is left out, so that all other pairs have room. */
void weir__trace_head_costs(struct weir__trace_head *head, unsigned device, const char *name, int driver, const char *uuid);
/* Makes the content of the block. Returns false if host memory runs out or the pairs do not fit. The caller frees content->bytes in either
   case. */
bool weir__trace_head_end(struct weir__trace_head *head, struct weir__trace_bytes *content);

#endif
