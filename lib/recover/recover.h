/* SPDX-License-Identifier: MIT */
/*
 * recover.h - the recovery ladder, which a request climbs when there is no memory left.
 *
 * Only one recovery runs on a device at a time. `lock` guards the flag `running` and the outcome of the last recovery. It is held only to
 * read or change them, so no lock of Weir's is held while a rung runs.
 */
#ifndef WEIR_LIB_RECOVER_H
#define WEIR_LIB_RECOVER_H

#include "lib/alloc/request.h"

/* The request of the neighbours rung to share/, which knows the other processes and whose function is weir.neighbours. That function runs
   on the requesting thread with no lock held, until a retry succeeds or it has asked all neighbours that could help. */
struct weir__plea {
    struct weir__device *device;
    uint64_t size;        /* bytes that the request needs */
    uint64_t grain;       /* the unit, in bytes, in which it takes memory from the device */
    uint64_t yielded;     /* bytes that spend() can find beside idle memory */
    uint64_t time_left;   /* nanoseconds */
    uint64_t gave;        /* out: bytes that neighbours gave */
    char note[256];       /* out: a note for the report, or "" */
    struct weir__vain *vain; /* what the asker knows of its last plea */
    void (*prepare)(struct weir__plea *plea); /* call it before each retry, best while a neighbour gives memory, as it can take long */
    /* Called once nothing idle is left, before neighbours are asked for what they have yielded: the process gives what it has yielded
       itself. Returns as retry(). */
    bool (*spend)(struct weir__plea *plea);
    bool (*retry)(struct weir__plea *plea); /* true: the request is served, or can never be: ask no other neighbour */
};

void weir__recovery_init(struct weir__recovery *recovery);
void weir__recovery_destroy(struct weir__recovery *recovery);

/* Climbs the ladder for a request whose first attempt found no memory. If it fails, the thread's last error has the report. */
weir_status weir__recover(struct weir__request *request, void **ptr);

#endif
