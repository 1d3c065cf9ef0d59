/* SPDX-License-Identifier: MIT */
/*
 * known.h - what the program has of the driver: blocks, mappings, physical memory, streams and pools, each found by its kind and its address
 * or handle.
 *
 * One table for the process, in shards, each of which a spin lock guards; callers get copies. Entries are never given back, but used again.
 */
#ifndef WEIR_AUDIT_KNOWN_H
#define WEIR_AUDIT_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

enum known_kind { KNOWN_BLOCK, KNOWN_MAPPING, KNOWN_PHYSICAL, KNOWN_STREAM, KNOWN_POOL };

struct known {
    uint64_t size;    /* bytes; of a pool, its cap: 0 is none */
    uint64_t of;      /* a block's context (0: it lies in a pool), a mapping's physical memory; of a pool, its release threshold */
    uint32_t origin;  /* who asked for it (record/recorder.h) */
    uint16_t pool;    /* the recorder's number of it */
    uint8_t device;
    uint8_t held_as;  /* a block: which call its free is, if that waits (calls.c) */
    bool is_graphs;   /* a block: memory of a graph, allocated during a capture */
    bool is_host;     /* page-locked or managed memory of the host, and not the device's */
    int32_t handles, mappings; /* of physical memory: while there are any, it is there */
};

void known_init(void);
/* What was known there before is not any more: it went without a word. Without host memory nothing is known of it. */
void known_put(enum known_kind kind, uint64_t key, const struct known *known);
/* false: nothing is known there. */
bool known_get(enum known_kind kind, uint64_t key, struct known *known);
bool known_take(enum known_kind kind, uint64_t key, struct known *known);
/* Changes the numbers of handles and mappings; *known is it afterwards, and it is not known any more once both are 0. */
bool known_count(enum known_kind kind, uint64_t key, int handles, int mappings, struct known *known);
/* Takes all for which `is_meant` is true, and calls `use` with each. Both are called with a spin lock held, so they ask nothing of the
   table; the thread has a ring already, so that `use` may write events without another lock. */
void known_take_all(enum known_kind kind, bool (*is_meant)(const struct known *known, const void *data), const void *data,
                    void (*use)(uint64_t key, const struct known *known));

#endif
