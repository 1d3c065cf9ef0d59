/* SPDX-License-Identifier: MIT */
/*
 * callbacks.h - the application's out-of-memory callbacks.
 *
 * The weir owns the list. `lock` guards it; no lock is taken under it, and it is not held while a callback runs. A callback's `running`
 * counts its calls in progress, so that removing the callback can wait for them.
 */
#ifndef WEIR_LIB_CALLBACKS_H
#define WEIR_LIB_CALLBACKS_H

#include "lib/alloc/request.h"

void weir__callbacks_init(struct weir__callbacks *callbacks);
void weir__callbacks_destroy(struct weir__callbacks *callbacks);

/* Calls the first callback with an id above `after` that was not given up in the climb of that number, and asks it for `needed` bytes. Returns
   its id and what it returned in *freed, or 0 if there is none. */
unsigned weir__callbacks_run(const struct weir__request *request, unsigned after, uint64_t climb, uint64_t needed, uint64_t *freed);
/* The callback did not help. Another climb that gives it up at the same time may make this one ask it once more. */
void weir__callbacks_give_up(weir *w, unsigned id, uint64_t climb);

#endif
