/* SPDX-License-Identifier: MIT */
/*
 * define.h - the definitions of a trace, by which ids stand for pools, tags, names, stacks, modules and frames of interpreters.
 *
 * The definitions belong to a trace (merge.h). First all of them are added in the order of the file, then they are sealed, then ids are
 * looked up. A look-up needs the place in the file at which the id is used ("position"; see trace_place()), since a later definition of an
 * id replaces an earlier one. Definitions with the same content become one object; objects exist until trace_definitions_free().
 */
#ifndef WEIR_TRACE_DEFINE_H
#define WEIR_TRACE_DEFINE_H

#include "trace/map.h"
#include "trace/record.h"

/* One definition: from this position on, the id stands for the object with that number. */
struct trace_meaning {
    uint64_t id, position;
    uint32_t object;
};

/* All definitions of one code, that is of pools, of tags, and so on. */
struct trace_sort {
    void **objects; /* by their numbers */
    size_t object_count, object_room;
    struct trace_meaning *meanings; /* in the order of the file; once sealed, sorted by id, then by position */
    size_t meaning_count, meaning_room;
    struct trace_map by_content; /* until sealed: maps (hash, N) to the number of the Nth object whose content has that hash */
    struct trace_map by_id;      /* once sealed: maps (id, 0) to the index of the id's first meaning, (id, 1) to an undefined id's object */
};

struct trace_definitions {
    struct trace_sort sorts[TRACE_DEFINES_COUNT]; /* by code */
    size_t count, bytes;                          /* the number of definitions, and their host memory, so far */
    struct trace_map streams;                     /* once sealed: the set of (number of a name, handle of a stream opened under it) */
    struct trace_key *key;                        /* a buffer for the key of a definition; allocated, as it is too large for the stack */
    struct trace_module **modules;                /* once sealed: sorted by their first addresses */
    uint64_t *module_ends;                        /* once sealed: module_ends[i] is the greatest end address of modules[0] to modules[i] */
};

/* Adds the definition that stands at that position. Returns false if the file has more definitions, or larger ones, than are accepted. */
bool trace_definitions_add(struct trace_definitions *definitions, const struct trace_definition *definition, uint64_t position);

/* Ends the adding. Call it once, before any look-up. */
void trace_definitions_seal(struct trace_definitions *definitions);

/* Returns the object (struct trace_pool, trace_text, …) that an id stands for at that position: by the id's last definition before the
   position or, if there is none, by the first one after it. Returns NULL for id 0. For an id that the file does not define, returns an
   object that is named "pool ID?" or the like. */
const void *trace_definitions_find(struct trace_definitions *definitions, enum trace_definition_code code, uint64_t id, uint64_t position);

/* Returns the module that contains the address, or NULL. Of several modules, returns the one that was defined last before the position or,
   if there is none, first after it. Call it only after sealing. */
const struct trace_module *trace_definitions_module(const struct trace_definitions *definitions, uint64_t address, uint64_t position);

/* Returns the name with that number. */
const struct trace_text *trace_definitions_text(const struct trace_definitions *definitions, uint32_t number);

/* Notes that a stream with that handle was opened under a name at that position, and counts the handle in the name's `streams`. Call it
   only after sealing. */
void trace_definitions_open(struct trace_definitions *definitions, uint64_t name, uint64_t position, uint64_t handle);

/* Return the number of objects, and the object with a number below that. Looking up an id that is not defined adds an object. */
size_t trace_definitions_count(const struct trace_definitions *definitions, enum trace_definition_code code);
const void *trace_definitions_get(const struct trace_definitions *definitions, enum trace_definition_code code, size_t number);

void trace_definitions_free(struct trace_definitions *definitions);

#endif
