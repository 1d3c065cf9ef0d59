/* SPDX-License-Identifier: MIT */
/*
 * callbacks.h - the application's out-of-memory callbacks.
 *
 * Owned by the weir. `lock` is a leaf and is not held while a callback runs; `running` counts those calls so that removing one can wait.
 */
#ifndef WEIR_LIB_CALLBACKS_H
#define WEIR_LIB_CALLBACKS_H

#include "lib/alloc/request.h"

void weir__callbacks_init(struct weir__callbacks *callbacks);
void weir__callbacks_destroy(struct weir__callbacks *callbacks);

/* Calls the first callback with an id above `after` that was not given up in the climb of that number, and asks it for `needed` bytes. Returns
   its id and what it returned in *freed, or 0 if there is none. */
unsigned weir__callbacks_run(struct weir__callbacks *callbacks, const struct weir__request *request, unsigned after, uint64_t climb,
                             uint64_t needed, uint64_t *freed);
/* The callback did not help. Another climb that gives it up at the same time may make this one ask it once more. */
void weir__callbacks_give_up(struct weir__callbacks *callbacks, unsigned id, uint64_t climb);

#endif
