/* SPDX-License-Identifier: MIT */
/*
 * weir_reserve.h - claims: how processes that start together agree on who gets how much of a GPU before any of them has it. Beside weir.h,
 * whose rules hold here too. `weir run --reserve` claims for a command, and `weir ps` shows all claims.
 *
 * A claim is a promise among processes of one user that claim: together, their claims never exceed the memory of the device. Where policies
 * say `leave_free`, each claimant looks to its own alone, when it claims. A claim is no allocation, and no cap: pools grow as before, and
 * processes without a claim know nothing of it.
 *
 * While a pool sleeps (weir_sleep.h), others may claim what its process has claimed for it. Its wake claims that again, and waits for room
 * first; a pool that is closed in its sleep does so only if there is room. A yielded pool keeps its claim until a neighbour or an operator
 * has it put to sleep; what another pool of its process takes stays claimed.
 *
 * The claims lie in a file for each GPU in $WEIR_CONTROL_DIR/weir/control, or else in /tmp/weir-UID/control, whatever $XDG_RUNTIME_DIR is.
 */
#ifndef WEIR_RESERVE_H
#define WEIR_RESERVE_H

#include "weir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_reservation weir_reservation; /* one claim; owned by the caller of weir_reserve() */

/*
 * Claims bytes of a device for this process, beside what it has claimed already. First waits until the claim fits beside all claims of
 * others and the largest leave_free that a pool of `w` has on the device: a claim ends with its process, also by a kill, and the next one
 * that waits has its room within some milliseconds. From then on the claim stands, and others see it. Then waits until the device has this
 * much free memory, and asks neighbours for their unused memory as a request does; where the operating system manages the device's memory,
 * CUDA does not tell how much is free, and the claim is all. What the pools of `w` have reserved there counts as part of the claim.
 * Claims that wait have no order: a large one may wait on while smaller ones fit.
 * timeout_ms: for both; 0: only what is there at once, and nobody is asked. After an error nothing is claimed.
 * *r: end it with weir_reservation_end(). weir_close() ends those that are left. The child of a fork has no part in it.
 * WEIR_TIMEOUT (the error names who claims how much, or says what the device lacks), WEIR_INVALID (0 bytes, or more than the device has
 * beside leave_free; the place of the claims cannot be made), WEIR_NOT_FOUND (device), WEIR_REFUSED (the place of the claims, or the file, is
 * not this user's alone), WEIR_BUSY (256 claims are there, the most of a user on a device), WEIR_NO_HOST_MEMORY (also without descriptors, or
 * room on the disk), WEIR_CUDA_ERROR, WEIR_FORKED.
 */
WEIR_API WEIR_CHECK weir_status weir_reserve(weir *w, int device, uint64_t bytes, unsigned timeout_ms, weir_error *error,
                                             weir_reservation **r);

/* Ends a claim. Memory that the process has stays its own. NULL, and a call in the child of a fork, do nothing. */
WEIR_API void weir_reservation_end(weir_reservation *r);

#ifdef __cplusplus
}
#endif

#endif
