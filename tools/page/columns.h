/* SPDX-License-Identifier: MIT */
/*
 * columns.h - what a trace's page is drawn from: its events as columns of numbers, each packed as varints.
 *
 * The model (trace/model.h) decides what an event does to which block; a column only writes down what it did. So the page adds up
 * births and deaths, needs none of the model's rules for frees that come late or allocations of a block that is there, and must come to the
 * same sums. Their maker owns them; one thread.
 */
#ifndef WEIR_PAGE_COLUMNS_H
#define WEIR_PAGE_COLUMNS_H

#include "trace/merge.h"
#include "trace/model.h"

/*
 * Columns in their order in the page. One row for each event that changes a block: how many events stand before it (delta), its time
 * (signed delta), thread, and `ref`: 0 where a block begins at a place where none was, else 2 * (births so far - the number of the birth
 * that ends) + 1 if another begins in its place at once. Each birth has a class (0: the next that no birth had yet, else 1 + its number),
 * one of a new place an address too (signed delta, less the lowest address and shifted by the zero bits that all have). A class is all that
 * many blocks have in common; what it was given is written less its size, rounded up to PAGE_ROUNDING. Events of other kinds have a table
 * of their own.
 */
#define PAGE_COLUMNS(X)                                                                                                                    \
    X(EVENT, "event")                                                                                                                      \
    X(TIME, "time")                                                                                                                        \
    X(THREAD, "thread")                                                                                                                    \
    X(REF, "ref")                                                                                                                          \
    X(CLASS, "class")                                                                                                                      \
    X(ADDRESS, "address")                                                                                                                  \
    X(CLASS_SIZE, "class_size")                                                                                                            \
    X(CLASS_GIVEN, "class_given")                                                                                                          \
    X(CLASS_TAG, "class_tag")                                                                                                              \
    X(CLASS_STACK, "class_stack")                                                                                                          \
    X(CLASS_POOL, "class_pool")                                                                                                            \
    X(CLASS_STREAM, "class_stream")                                                                                                        \
    X(CLASS_STATE, "class_state")                                                                                                          \
    X(OTHER_EVENT, "other_event")                                                                                                          \
    X(OTHER_TIME, "other_time")                                                                                                            \
    X(OTHER_THREAD, "other_thread")                                                                                                        \
    X(OTHER_KIND, "other_kind")                                                                                                            \
    X(OTHER_POOL, "other_pool")                                                                                                            \
    X(OTHER_STREAM, "other_stream")                                                                                                        \
    X(OTHER_A, "other_a")                                                                                                                  \
    X(OTHER_B, "other_b")                                                                                                                  \
    X(OTHER_SIZE, "other_size")                                                                                                            \
    X(OTHER_STACK, "other_stack")

enum page_column_name {
#define X(name, text) COLUMN_##name,
    PAGE_COLUMNS(X)
#undef X
        COLUMN_COUNT
};

enum { PAGE_ROUNDING = 512 };
enum { PAGE_CACHED, PAGE_ALLOCATED, PAGE_FOUND }; /* states of classes; found: it was live already when the trace began */

extern const char *const page_column_names[COLUMN_COUNT];

struct page_column {
    uint8_t *bytes;
    size_t len, room;
    size_t count;  /* of numbers */
    uint64_t last; /* that a delta is taken from */
};

struct page_columns {
    struct model model; /* that the events are applied to */
    struct page_column columns[COLUMN_COUNT];
    uint64_t lowest; /* address; 0 without one */
    unsigned shift;
    size_t births;
    /* Things that columns name by their place. */
    uint64_t *threads, *streams;
    size_t thread_count, thread_room, stream_count, stream_room;
    const struct trace_text **names; /* of marks; by number + 1 */
    size_t name_count, name_room;
    /* While they are made: */
    uint32_t *birth_of; /* of each place of the model: the birth of the block there */
    size_t birth_room;
    uint64_t *addresses;
    size_t address_count, address_room;
    struct trace_map by_stream, by_size, by_maker, by_home, by_class;
};

/* Plays the trace. false: it could not be read, trace->error says why. Freed in either case. */
bool page_columns_make(struct page_columns *columns, struct trace *trace);
void page_columns_free(struct page_columns *columns);

#endif
