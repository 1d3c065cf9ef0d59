/* SPDX-License-Identifier: MIT */
/*
 * define.h - what the ids of a trace mean: pools, tags, names, stacks, modules and frames.
 *
 * It belongs to a trace (merge.h). First all definitions are added in the order of the file, then they are sealed, then ids are looked up,
 * each with the place in the file where it stands, as a later definition of an id takes the place of an earlier one. Definitions with the
 * same content become one object; objects live until trace_definitions_free().
 */
#ifndef WEIR_TRACE_DEFINE_H
#define WEIR_TRACE_DEFINE_H

#include "trace/map.h"
#include "trace/record.h"

struct trace_meaning {
    uint64_t id, position;
    uint32_t object;
};

/* All definitions of one code. */
struct trace_sort {
    void **objects; /* by their numbers */
    size_t object_count, object_room;
    struct trace_meaning *meanings; /* once sealed: by id, then by position */
    size_t meaning_count, meaning_room;
    struct trace_map by_content; /* hash and how many had it before: the number of the object */
    struct trace_map by_id;      /* once sealed: (id, 0) has the first meaning, (id, 1) the object that stands for none */
};

struct trace_definitions {
    struct trace_sort sorts[TRACE_DEFINES_COUNT]; /* by code */
    size_t count, bytes;                          /* kept so far */
    struct trace_map streams;                     /* once sealed: number of a name and a handle that was opened by it */
    struct trace_key *key;                        /* of the one that is added: too large for a stack */
    struct trace_module **modules;                /* once sealed: by their first addresses */
    uint64_t *module_ends;                        /* once sealed: the greatest end of that module and all before */
};

/* Adds one that stands at that place. false: it would be more than is kept of a file. */
bool trace_definitions_add(struct trace_definitions *definitions, const struct trace_definition *definition, uint64_t position);

/* To be called once, before any look-up: what was defined is all. */
void trace_definitions_seal(struct trace_definitions *definitions);

/* What an id means at that place: its last definition before it, or the first behind it. NULL for 0; something that says so for one that is not
   defined in the file. */
const void *trace_definitions_find(struct trace_definitions *definitions, enum trace_definition_code code, uint64_t id, uint64_t position);

/* Once sealed: the module that has the address: of several, the last that was defined before the place, or the first behind it. NULL: none. */
const struct trace_module *trace_definitions_module(const struct trace_definitions *definitions, uint64_t address, uint64_t position);

/* The name of that number. */
const struct trace_text *trace_definitions_text(const struct trace_definitions *definitions, uint32_t number);

/* Once sealed: at that place a stream of that handle was opened by a name. */
void trace_definitions_open(struct trace_definitions *definitions, uint64_t name, uint64_t position, uint64_t handle);

/* How many objects there are, and the one of that number, below the count. Looking up an id that is not defined adds one. */
size_t trace_definitions_count(const struct trace_definitions *definitions, enum trace_definition_code code);
const void *trace_definitions_get(const struct trace_definitions *definitions, enum trace_definition_code code, size_t number);

void trace_definitions_free(struct trace_definitions *definitions);

#endif
