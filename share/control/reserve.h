/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - claims on a device (include/weir_reserve.h): the ledger first, and then the neighbours, until there is as much memory.
 *
 * A reservation belongs to the caller. Its members are fixed once it is made, and no lock is held while a thread waits for room.
 */
#ifndef WEIR_SHARE_RESERVE_H
#define WEIR_SHARE_RESERVE_H

#include "include/weir_reserve.h"
#include "lib/attached.h"
#include "share/base/forked.h"
#include "share/control/ledger.h"

struct weir_reservation {
    struct weir__attached attached;
    struct share_forked forked;
    weir *w;
    struct share_claim claim;
    int fd; /* the opening of the ledger that has the claim; -1: none yet */
};

/* Returns the bytes that this process has claimed on the device, or inherited as a claim of `weir run --reserve`, less what is asleep. */
uint64_t share_claimed(const struct weir__device *device);
/* Returns the bytes that the weir's pools have reserved there. */
uint64_t share_held(struct weir__device *device);

/* weir.claims (weir_internal.h): others may claim what pools do not need while they sleep. The descriptor of the claim need not be known. */
weir_status share_claims_shift(struct weir__device *device, uint64_t wanted, uint64_t patience, weir_error *error, uint64_t *asleep);

/* weir_reserve() for arguments that are checked, on behalf of a program of that name and number; `leave` bytes of the device belong to
   nobody. */
weir_status share_reserve(weir *w, int device, uint64_t bytes, uint64_t leave, unsigned timeout_ms, const char *program, int pid,
                          weir_error *error, weir_reservation **r);

#endif
