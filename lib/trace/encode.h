/* SPDX-License-Identifier: MIT */
/*
 * encode.h - events of a recorder as the records of a trace, with the definitions that they need.
 *
 * An encoder belongs to one file, and knows what is defined there; a source is the block of one recorded thread, under way. One thread at a
 * time uses both.
 */
#ifndef WEIR_LIB_TRACE_ENCODE_H
#define WEIR_LIB_TRACE_ENCODE_H

#include "lib/record/modules.h"
#include "lib/record/recorder.h"
#include "lib/trace/record.h"

#define WEIR__TRACE_DEFINITIONS_BEGIN 3 /* bytes before the first one */

struct weir__trace_encoder {
    struct weir__recorder *recorder;
    struct weir__trace_bytes definitions; /* that are not written yet: a block that goes before all blocks of events under way */
    void (*write)(void *data, const struct weir__trace_bytes *content);
    void *data;
    unsigned pools, tags;  /* how many of each are defined */
    uint64_t names;        /* the last id of a name */
    uint32_t frames;       /* of an interpreter: how many are defined */
    uint8_t *stacks;       /* a bit for each that is defined */
    struct weir__modules modules;
    uint64_t module_id;    /* the last one */
};

/* A block of one thread on its way. */
struct weir__trace_source {
    struct weir__trace_coder coder;
    unsigned thread;
    uint64_t events; /* in this block */
    /* An event whose name stands in the next ones. want: bytes of it; 0: there is no such event. */
    struct {
        struct weir__event event;
        char name[WEIR__NAME_MAX + 1];
        size_t len, want;
    } named;
};

/* write: is called, with data, for each block of definitions. false: no host memory. Destroy it also then. */
bool weir__trace_encoder_init(struct weir__trace_encoder *encoder, struct weir__recorder *recorder,
                              void (*write)(void *data, const struct weir__trace_bytes *content), void *data);
void weir__trace_encoder_destroy(struct weir__trace_encoder *encoder);

/* false: no host memory. */
bool weir__trace_source_init(struct weir__trace_source *source);
void weir__trace_source_destroy(struct weir__trace_source *source);

/* Writes the definitions that are not written yet. To be called before each block of events is written. */
void weir__trace_definitions_flush(struct weir__trace_encoder *encoder);

/* Begins a block of the thread whose next event is this one, of which so many were lost before it. */
void weir__trace_source_begin(struct weir__trace_source *source, const struct weir__trace_encoder *encoder,
                              const struct weir__event *first, uint64_t lost);
/* Appends an event of that thread. */
void weir__trace_source_add(struct weir__trace_source *source, struct weir__trace_encoder *encoder, const struct weir__event *event);
/* No more comes. */
void weir__trace_source_end(struct weir__trace_source *source, struct weir__trace_encoder *encoder);
/* Whether the block is to be written before the next event. */
static inline bool trace_source_is_full(const struct weir__trace_source *source)
{
    return source->coder.content.len >= WEIR__TRACE_SOURCE_FULL;
}
/* Whether it ends within a name, so that the next event goes into the same block. */
static inline bool trace_source_is_within(const struct weir__trace_source *source)
{
    return source->named.len < source->named.want;
}

#endif
