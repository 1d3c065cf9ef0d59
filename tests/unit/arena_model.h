/* SPDX-License-Identifier: MIT */
/*
 * arena_model.h - an arena beside a plain model of it, driven by any bytes: each 512 bytes of its range know who has them or freed them
 * last, and a device of a few pages knows what is mapped. After each step everything is compared; what differs ends the program.
 *
 * A step is four bytes: what is done, and three more that say to what. Steps may let calls of the device fail, take its memory away, and
 * happen in the middle of a call of the device, as other threads would. One model at a time.
 */
#ifndef WEIR_ARENA_MODEL_H
#define WEIR_ARENA_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/backing/arena/arena.h"

#define MODEL_BASE (UINT64_C(1) << 33)
#define MODEL_UNITS 32 /* of the range: 24 for large requests, 8 for small ones */
#define MODEL_STREAMS 4
#define MODEL_BLOCKS 512

struct model_block {
    struct weir__extent *extent; /* NULL: none */
    uint64_t address, bytes;
};

struct model {
    struct weir__arena arena;
    struct weir__arena_stream streams[MODEL_STREAMS];
    uint64_t sequences[MODEL_STREAMS]; /* of the last free of each */
    struct model_block blocks[MODEL_BLOCKS];
    size_t live_count;
    uint64_t capacity;  /* bytes of the device; what is created may be more, if it was taken away */
    uint64_t largest;   /* bytes of the largest page that it creates */
    uint64_t created;   /* bytes that exist there */
    unsigned fail_in;   /* the device's call that fails, 1: the next; 0: none */
    unsigned fail_more; /* so many calls after that one fail as well */
    bool is_broken;     /* what fails while a page is created does so for another reason than memory */
    bool failed;        /* one did in this step, or host memory did */
    bool interrupted;   /* other steps happened within this one */
    uint64_t served_count, refused_count, moved_count;
    bool host_may_fail;    /* requests may be refused for lack of host memory */
    const uint8_t *within; /* steps that are done in the middle of the next calls of the device */
    size_t within_count;
};

/* A device of so many units. The arena is one of its own. */
struct model *model_new(unsigned units);
/* Frees everything that is live, sees everything complete, and looks whether all memory can be given back. */
void model_end(struct model *model);

/* Steps, for tests that say what they do. NULL, or -1: on no stream. */
struct model_block *model_allocate(struct model *model, int stream, uint64_t bytes);
void model_free(struct model *model, struct model_block *block, int stream, uint64_t back); /* as a sequence that much before the next */
void model_complete(struct model *model, int stream, uint64_t sequence);
/* The other stream waits for all that this one has freed so far. */
void model_wait(struct model *model, int stream, int to);
uint64_t model_trim(struct model *model, uint64_t bytes);
/* Compares everything. */
void model_check(struct model *model);

/* All of the bytes, on a new model. */
void model_run(const uint8_t *data, size_t size, bool host_may_fail);

#endif
