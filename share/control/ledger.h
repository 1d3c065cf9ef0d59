/* SPDX-License-Identifier: MIT */
/*
 * ledger.h - the claims of this user's processes on one GPU, in a file that all of them share: asking each process by messages would not be
 * atomic.
 *
 * A claim is a slot (lib/gpu/slots.h), and lives as long as a descriptor of the opening of the file that locked the slot. The lock of one
 * more slot, held for some system calls, orders sums and new claims. What the file says counts only where the slot is locked and the
 * figures can be true, so a claimant may be killed at any instant, and the file may be cut or overwritten: nobody else's claim suffers.
 * The file is never removed. If somebody removes it, the claims in it go on, but claims in the new file do not see them. No state.
 */
#ifndef WEIR_SHARE_LEDGER_H
#define WEIR_SHARE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weir.h"

#define SHARE_CLAIMS_MAX 256 /* of one user on one GPU */

/* A claim, as its slot of the file has it. */
struct share_claim {
    uint64_t bytes;
    uint64_t mark;    /* a random number of the process that made it; a command that inherits the claim knows it by this */
    uint32_t pid;     /* the claimant, as it sees itself */
    char program[36]; /* its name, for people */
    uint64_t asleep;  /* bytes of the claim that others may claim, as pools under it sleep */
};

/* Returns the bytes of the claim that count. */
static inline uint64_t share_claim_stands(const struct share_claim *claim)
{
    return claim->asleep < claim->bytes ? claim->bytes - claim->asleep : 0;
}

struct share_claims {
    size_t count;
    uint64_t bytes; /* of all of them, less what is asleep */
    struct share_claim items[SHARE_CLAIMS_MAX];
    uint16_t slots[SHARE_CLAIMS_MAX]; /* where the items are in the file */
};

/* Opens the file for the GPU, which is made if it is missing. *fd: for share_ledger_close(), closed on exec. Returns WEIR_OK; WEIR_REFUSED or
   WEIR_INVALID (its directory or the file is not this user's alone, or cannot be made) or WEIR_NO_HOST_MEMORY (no descriptors, or no room on
   the disk). */
weir_status share_ledger_open(const char *uuid, weir_error *error, int *fd);

/* Finds the claims of others than this opening; of claims on a device that has `memory` bytes. A claim that is being made is waited for
   until the deadline, by weir__service_now(), but for a moment at the least. Where its process is stopped, the others are found without it,
   or with what its slot had before. Returns 0 or an errno. */
int share_ledger_read(int fd, uint64_t memory, uint64_t deadline, struct share_claims *others);

/* Finds the same, then makes the claim by this opening if it fits into `room` beside the others. Also returns EAGAIN (it does not fit),
   EUSERS (every slot is taken) or ETIMEDOUT (a process that makes a claim is stopped). */
int share_ledger_claim(int fd, const struct share_claim *claim, uint64_t memory, uint64_t room, uint64_t deadline,
                       struct share_claims *others);

/* Changes how much of the claims that `is_own` knows by their marks is asleep, together, from `asleep` bytes, which one pool made it, to
   `wanted`. More than the claims have stays out of it; less returns EAGAIN if that does not fit into `room` beside all that others claim.
   Returns 0 or an errno as above. *asleep: how much it is now, also after an error; of a claim that has ended nothing can come back, and
   what the pool had made asleep of it stays in the number. */
int share_ledger_shift(int fd, bool (*is_own)(uint64_t mark), uint64_t memory, uint64_t room, uint64_t deadline, uint64_t wanted,
                       uint64_t *asleep, struct share_claims *claims);

/* Ends the claim that was made by the opening, if there is one, and closes it. A copy of the descriptor that is closed does so only if it is
   the last one. */
void share_ledger_close(int fd);

#endif
