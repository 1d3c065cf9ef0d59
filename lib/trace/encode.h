/* SPDX-License-Identifier: MIT */
/*
 * encode.h - turns a recorder's events into the records of a trace file (doc/trace.md), and adds the definitions (of pools, tags, names,
 * stacks, modules, frames) that the records refer to.
 *
 * An encoder belongs to one file, and knows which definitions the file has. A source collects the events of one recorded thread into a
 * block. One thread at a time uses an encoder and its sources.
 */
#ifndef WEIR_LIB_TRACE_ENCODE_H
#define WEIR_LIB_TRACE_ENCODE_H

#include "lib/record/modules.h"
#include "lib/record/recorder.h"
#include "lib/trace/record.h"

#define WEIR__TRACE_DEFINITIONS_BEGIN 3 /* bytes before the first definition of a block: thread, time and lost events, all 0 */

struct weir__trace_encoder {
    struct weir__recorder *recorder;
    struct weir__trace_bytes definitions; /* a block of definitions that must be written before the next block of events */
    void (*write)(void *data, const struct weir__trace_bytes *content);
    void *data;
    unsigned pools, tags;  /* the number of pools and tags that are defined */
    uint64_t names;        /* the id of the last name that was defined */
    uint32_t frames;       /* the number of interpreters' frames that are defined */
    uint8_t *stacks;       /* one bit for each stack, set if the stack is defined */
    struct weir__modules modules;
    uint64_t module_id;    /* the id of the last module that was defined */
};

/* A block with the events of one thread that is being made. */
struct weir__trace_source {
    struct weir__trace_coder coder;
    unsigned thread;
    uint64_t events; /* the number of events in this block */
    /* An event whose name is still being collected from the events after it. */
    struct {
        struct weir__event event;
        char name[WEIR__NAME_MAX + 1];
        size_t len, want; /* bytes collected, and the length of the name; want is 0 if there is no such event */
    } named;
};

/* Prepares an encoder. It calls write() with `data` for each block of definitions. Returns false if host memory runs out. Destroy the
   encoder in either case. */
bool weir__trace_encoder_init(struct weir__trace_encoder *encoder, struct weir__recorder *recorder,
                              void (*write)(void *data, const struct weir__trace_bytes *content), void *data);
void weir__trace_encoder_destroy(struct weir__trace_encoder *encoder);

/* Returns false if host memory runs out. */
bool weir__trace_source_init(struct weir__trace_source *source);
void weir__trace_source_destroy(struct weir__trace_source *source);

/* Writes the definitions that are not written yet. Call it before you write a block of events. */
void weir__trace_definitions_flush(struct weir__trace_encoder *encoder);

/* Begins a block for the thread of the event `first`. lost: the number of the thread's events that were lost right before `first`. */
void weir__trace_source_begin(struct weir__trace_source *source, const struct weir__trace_encoder *encoder,
                              const struct weir__event *first, uint64_t lost);
/* Adds an event of that thread to the block. */
void weir__trace_source_add(struct weir__trace_source *source, struct weir__trace_encoder *encoder, const struct weir__event *event);
/* Ends the block: puts an event whose name is still being collected. */
void weir__trace_source_end(struct weir__trace_source *source, struct weir__trace_encoder *encoder);
/* Returns whether the block should be written before the next event is added. */
static inline bool trace_source_is_full(const struct weir__trace_source *source)
{
    return source->coder.content.len >= WEIR__TRACE_SOURCE_FULL;
}
/* Returns whether parts of a name are still missing, so that the next event must go into the same block. */
static inline bool trace_source_is_within(const struct weir__trace_source *source)
{
    return source->named.len < source->named.want;
}

#endif
