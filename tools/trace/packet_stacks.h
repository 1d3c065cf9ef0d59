/* SPDX-License-Identifier: MIT */
/*
 * packet_stacks.h - the stacks of one trace among the packets of Perfetto: each stack, frame and file is written once, and named later.
 *
 * It belongs to its maker; zeroed, it is empty. One thread.
 */
#ifndef WEIR_TRACE_PACKET_STACKS_H
#define WEIR_TRACE_PACKET_STACKS_H

#include "tools/trace/event.h"
#include "tools/trace/map.h"
#include "tools/trace/packets.h"
#include "tools/trace/symbols.h"

struct packet_stacks {
    struct trace_map stacks, frames, files; /* their ids, from 1 */
    uint32_t stack_count, frame_count, file_count;
};

/* Into a packet that was begun: what is new of the stack. Returns its id. symbols: NULL if there are none. */
uint64_t packet_stacks_write(struct packet_stacks *stacks, struct proto *proto, struct symbols *symbols, const struct trace_stack *stack);

void packet_stacks_free(struct packet_stacks *stacks);

#endif
