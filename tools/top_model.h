/* SPDX-License-Identifier: MIT */
/*
 * top_model.h - what `weir top` knows: the processes as they answered last, what their pools held before that, and in which order to show
 * them. No terminal, no sockets, no clock; the caller's thread alone.
 */
#ifndef WEIR_TOP_MODEL_H
#define WEIR_TOP_MODEL_H

#include "tools/processes.h"

#define TOP_HISTORY 256 /* looks at a pool that are remembered: more than a line of any screen shows */

/* What orders processes, and the pools within one. Sizes: the largest first; others from the smallest. */
enum top_sort { TOP_BY_RESERVED, TOP_BY_LIVE, TOP_BY_CACHED, TOP_BY_IDLE, TOP_BY_PID, TOP_BY_NAME };

struct top_pool {
    process_pool now;
    size_t device;  /* in top_model.devices */
    uint64_t looks; /* at it so far; the one k looks ago is at [(looks - 1 - k) % TOP_HISTORY] */
    uint64_t reserved[TOP_HISTORY], live[TOP_HISTORY];
};

/* Of several pools. */
struct top_sums {
    uint64_t reserved, live, cached, idle;
};

/* Of one process on one device, or of several. */
struct top_deeds {
    uint64_t rescues;
    uint64_t asked, got;      /* neighbours, and what they gave */
    uint64_t was_asked, gave; /* by neighbours */
};

struct top_process {
    char socket[SHARE_PATH_SIZE]; /* which one it is */
    char name[32], user[32], program[WIRE_NAME_SIZE];
    int pid;
    uint64_t age_ms;
    bool is_gone;      /* it has vanished since the look before; the next look forgets it */
    bool has_answered; /* this time; else `reason` says why not, and the figures are those of its last answer */
    char reason[WIRE_TEXT_SIZE];
    struct top_sums sums;
    size_t pool_count, device_count;
    struct top_pool *pools;   /* as the process tells of them */
    struct top_pool **sorted; /* the same, as they are to be shown */
    struct top_deeds *deeds;  /* for each of top_model.devices */
};

/* A GPU, of whichever processes. */
struct top_device {
    char uuid[WIRE_UUID_SIZE];
    uint32_t index;               /* the least under which a process knows it */
    uint64_t memory, memory_free; /* of the whole device */
    struct top_sums sums;         /* what is seen here of it */
};

struct top_model {
    enum top_sort sort;
    bool is_reversed;
    uint64_t looks; /* taken so far */
    size_t process_count, device_count;
    struct top_process *processes; /* sorted */
    struct top_device *devices;    /* by index, then UUID */
    struct top_sums sums;
    struct top_deeds deeds;
};

#define TOP_MODEL_INIT { .sort = TOP_BY_RESERVED }

/* Takes in one look at all processes, of which nothing is kept. */
void top_model_look(struct top_model *model, const struct processes *processes);
/* By this from now on; or, if it is so already, the other way round. */
void top_model_sort(struct top_model *model, enum top_sort sort);
void top_model_free(struct top_model *model);

#endif
