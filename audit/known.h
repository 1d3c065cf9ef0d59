/* SPDX-License-Identifier: MIT */
/*
 * known.h - a table of what the program has from the driver: blocks, mappings, physical memory, streams and pools, each found by its kind
 * and its address or handle.
 *
 * The process has one table. It is divided into shards, each of which has a spin lock; callers get copies of entries. The memory of a
 * removed entry is used for the next one and never freed.
 */
#ifndef WEIR_AUDIT_KNOWN_H
#define WEIR_AUDIT_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

enum known_kind { KNOWN_BLOCK, KNOWN_MAPPING, KNOWN_PHYSICAL, KNOWN_STREAM, KNOWN_POOL };

struct known {
    uint64_t size;    /* the bytes; for a pool, its cap (0: none) */
    uint64_t of;      /* A block: its context, or 0 if the block lies in a pool. A mapping: the handle of its physical memory. */
    uint32_t origin;  /* who asked for the memory (record/recorder.h) */
    uint16_t pool;    /* the recorder's number of the pool */
    uint8_t device;
    uint8_t held_as;  /* A block: the number of the call that frees it, used if that call is held up (calls.c). */
    bool is_graphs;   /* a block of a graph, allocated during a capture */
    bool is_host;     /* page-locked or managed host memory */
    int32_t handles, mappings; /* Physical memory: how many handles and mappings of it exist. The memory exists until both are 0. */
};

void known_init(void);
/* Adds an entry. An older entry with the same key is replaced: what it described was freed in a way that the recorder did not see. If host
   memory runs out, nothing is added. */
void known_put(enum known_kind kind, uint64_t key, const struct known *known);
/* Copies the entry to *known; known_take() also removes the entry. Returns false if there is none. */
bool known_get(enum known_kind kind, uint64_t key, struct known *known);
bool known_take(enum known_kind kind, uint64_t key, struct known *known);
/* Adds to the numbers of handles and mappings, and copies the entry, as changed, to *known. An entry is removed once both numbers are 0.
   Returns false if there is none. */
bool known_count(enum known_kind kind, uint64_t key, int handles, int mappings, struct known *known);
/* Removes all entries of the kind for which `is_meant` returns true, and calls `use` for each. Both are called with a spin lock held, so
   they must not use the table. `use` may write events, since the calling thread has its ring already, and writing takes no lock then. */
void known_take_all(enum known_kind kind, bool (*is_meant)(const struct known *known, const void *data), const void *data,
                    void (*use)(uint64_t key, const struct known *known));

#endif
