/* SPDX-License-Identifier: MIT */
/*
 * model.h - what `weir top` knows: the processes as they answered last, how fast each pool served since the look before, and in which
 * order to show them. No terminal, no sockets, no clock; the caller's thread alone.
 */
#ifndef WEIR_TOP_MODEL_H
#define WEIR_TOP_MODEL_H

#include "tools/common/processes.h"

/* What orders processes: the largest first, process numbers from the smallest. */
enum top_sort { TOP_BY_RESERVED, TOP_BY_LIVE, TOP_BY_IDLE, TOP_BY_RATE, TOP_BY_PID };

/* Of several pools. */
struct top_sums {
    uint64_t reserved, live, idle;
    double rate; /* requests a second that were served */
};

struct top_process {
    struct process now; /* as it answered; the devices and pools are those of `seen`, and there are none if it did not answer */
    double *rates;      /* for each pool, since the look before, in the model's; negative: not known yet */
    struct top_sums sums;
    char name[32], user[32];
    bool is_gone;      /* it has vanished since the look before; the next look forgets it */
    bool has_answered; /* this time; else now.reason says why not */
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
    uint64_t looked_at; /* the time of the latest look; 0: there was none */
    struct processes seen; /* by it */
    double *rates;
    size_t process_count, device_count;
    struct top_process *processes; /* sorted */
    struct top_device *devices;    /* by index, then UUID */
};

/* Takes in one look at all processes, which are the model's from now on. now: nanoseconds, from any beginning but 0. */
void top_model_look(struct top_model *model, struct processes processes, uint64_t now);
/* By this from now on. */
void top_model_sort(struct top_model *model, enum top_sort sort);
/* The place of the pool's device in model.devices; device_count: the process did not tell of it. */
size_t top_model_device(const struct top_model *model, const struct top_process *process, const process_pool *pool);
void top_model_free(struct top_model *model);

#endif
