/* SPDX-License-Identifier: MIT */
/*
 * costs.h - a cost table: what calls of one kind of GPU cost the calling thread, as `weir calibrate` measures them and a replay needs them.
 *
 * As text it is YAML of one level, a line for each cost: "malloc_async: 300ns". Pure; costs_find.h has the files.
 */
#ifndef WEIR_COSTS_H
#define WEIR_COSTS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/gpu/cost.h"
#include "lib/trace/costs.h"

#define COSTS_TEXT_MAX WEIR__COSTS_MAX /* bytes of a table as text */

/* Key, form and meaning. Keys are settings of the simulator (doc/simulator.md), but for pair_arena. */
#define COSTS(X)                                                                                                                           \
    X(grow, RATE, "a pool on the device grows")                                                                                            \
    X(grow_host, RATE, "a pool on the host grows")                                                                                         \
    X(grow_each, TIME, "each growth of a pool on the device, on top")                                                                      \
    X(first, TIME, "the first growth of a pool, on top")                                                                                   \
    X(first_of_all, TIME, "the first growth of the first pool of a process, on top")                                                       \
    X(trim, RATE, "a pool gives memory back")                                                                                              \
    X(pool_trim, TIME, "a trim that gives nothing back")                                                                                   \
    X(pool_create, TIME, "a pool is made")                                                                                                 \
    X(pool_get, TIME, "a figure of a pool is asked for")                                                                                   \
    X(pool_set, TIME, "a pool's release threshold is set")                                                                                 \
    X(malloc_async, TIME, "a block from memory that the pool has")                                                                         \
    X(free_async, TIME, "a block goes back into the pool")                                                                                 \
    X(pair_arena, TIME, "a block of an arena taken and given back, without a page that moves")                                             \
    X(stream_synchronize, TIME, "a synchronise of a stream with nothing to do")                                                            \
    X(device_synchronize, TIME, "a synchronise of a device with nothing to do")                                                            \
    X(stream_wait_event, TIME, "a stream is made to wait")                                                                                 \
    X(stream_capture_status, TIME, "whether a stream captures")                                                                            \
    X(stream_id, TIME, "the id of a stream")                                                                                               \
    X(exchange_capture_mode, TIME, "another capture mode for the thread")                                                                  \
    X(event_record, TIME, "an event is recorded")                                                                                          \
    X(event_query, TIME, "a complete event is queried")                                                                                    \
    X(get_current_device, TIME, "which device is current")                                                                                 \
    X(device_memory, TIME, "free memory of the device")                                                                                    \
    X(page_create, SIZED, "a page is created")                                                                                             \
    X(page_map, SIZED, "it is mapped")                                                                                                     \
    X(page_set_access, SIZED, "it is made accessible")                                                                                     \
    X(page_unmap, SIZED, "it is unmapped")                                                                                                 \
    X(page_release, SIZED, "it is given back")

enum cost_id {
#define COST_ENUM(key, form, what) COST_##key,
    COSTS(COST_ENUM)
#undef COST_ENUM
        COST_COUNT
};

enum cost_form { COST_TIME, COST_RATE, COST_SIZED }; /* for a call, for each GiB, either or both */

struct cost_row {
    const char *key;
    enum cost_form form;
    const char *what;
};
extern const struct cost_row cost_rows[COST_COUNT];

struct costs {
    char gpu[256], driver[16], uuid[48]; /* of the GPU; "" where it is not known. driver: "13.0" */
    struct gpu_cost values[COST_COUNT];  /* the simulator's own where nothing was measured */
    bool is_measured[COST_COUNT];
};

/* The simulator's own costs, of no GPU; and 250 ns for COST_pair_arena, for which no call is made: some 1,290 instructions
   (tests/build/instructions.sh). */
void costs_init(struct costs *costs);

/* Reads a table that is called `name` in messages. false: why says what is wrong, where, and what helps; *costs is then unspecified. */
bool costs_read(const char *name, const char *text, size_t len, struct costs *costs, char *why, size_t why_len);

/* What costs_read() reads, with a comment on top; without what was not measured. The caller's to free. */
char *costs_write(const struct costs *costs);

/* What was measured as settings of the simulator, "grow=830us/GiB,malloc_async=300ns", to stand behind devices= and memory=; "" for none.
   The caller's to free. */
char *costs_to_sim(const struct costs *costs);

#endif
