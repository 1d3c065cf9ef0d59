/* SPDX-License-Identifier: MIT */
/*
 * recover.h - the ladder that a request climbs when there is no memory left.
 *
 * One recovery per device at a time. `lock` guards the flag and the outcome of the last recovery; it is held only to look at and change
 * them, so that no lock of Weir's is held while a rung runs.
 */
#ifndef WEIR_LIB_RECOVER_H
#define WEIR_LIB_RECOVER_H

#include "lib/alloc/request.h"

/*
 * What the neighbours rung asks of whoever knows other processes (share/), by weir.neighbours. It runs on the requesting thread with no
 * lock held, until a retry succeeds or it has asked everybody who could help.
 */
struct weir__plea {
    struct weir__device *device;
    uint64_t size;        /* bytes that the request needs */
    uint64_t time_left;   /* nanoseconds */
    uint64_t gave;        /* bytes that neighbours gave: the rung's to fill */
    char note[256];       /* what there is to say of it in the report; "" */
    void (*prepare)(struct weir__plea *plea); /* to be called before each retry, best while somebody gives: it can take long */
    bool (*retry)(struct weir__plea *plea); /* true: the request is served or cannot be: ask nobody else */
};

void weir__recovery_init(struct weir__recovery *recovery);
void weir__recovery_destroy(struct weir__recovery *recovery);

/* After an attempt that found no memory: climbs the ladder. On failure the thread's last error has the report. */
weir_status weir__recover(struct weir__request *request, void **ptr);

#endif
