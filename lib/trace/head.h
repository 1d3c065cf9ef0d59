/* SPDX-License-Identifier: MIT */
/*
 * head.h - the first block of a trace (doc/trace.md, Header): pairs of which any trace has some, and its owner adds others.
 *
 * Owned by who makes it, from begin to end; one thread at a time.
 */
#ifndef WEIR_LIB_TRACE_HEAD_H
#define WEIR_LIB_TRACE_HEAD_H

#include "lib/record/recorder.h"
#include "lib/trace/block.h"

#define WEIR__TRACE_HEAD_MAX ((UINT32_C(1) << 20) + 16) /* bytes of its content */

struct weir__trace_head {
    struct weir__trace_bytes pairs;
    unsigned count;
};

/* Begins with what is known of any recorder: the process, when it began, what it records. false: no host memory, and nothing is to end. */
bool weir__trace_head_begin(struct weir__trace_head *head, const struct weir__recorder *recorder, const char *reason);
void weir__trace_head_put(struct weir__trace_head *head, const char *key, const char *value);
__attribute__((format(printf, 3, 4))) void weir__trace_head_putf(struct weir__trace_head *head, const char *key, const char *format, ...);
/* The device's name, UUID and memory. */
void weir__trace_head_device(struct weir__trace_head *head, unsigned device, const char *name, const char *uuid, uint64_t memory);
/* What calls cost on the device, where its user has measured that with this driver (costs.h), so that the trace can be replayed elsewhere.
   To be put last: where there is no room, the rest is worth more. */
void weir__trace_head_costs(struct weir__trace_head *head, unsigned device, const char *name, int driver, const char *uuid);
/* content->bytes is the caller's to free(), also after a failure. false: no host memory, or too much to say. */
bool weir__trace_head_end(struct weir__trace_head *head, struct weir__trace_bytes *content);

#endif
