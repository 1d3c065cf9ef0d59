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

/* Calls the next callback: the first one with an id above `after` that weir__callbacks_give_up() has not marked for this climb (climb.h).
   Asks it for `needed` bytes. Returns its id, and what it returned in *freed, or 0 if there is no such callback. */
unsigned weir__callbacks_run(struct weir__callbacks *callbacks, const struct weir__request *request, unsigned after, uint64_t climb,
                             uint64_t needed, uint64_t *freed);
/* Marks a callback that did not help, so that this climb does not call it again. If another climb marks it at the same time, this climb may
   call it once more. */
void weir__callbacks_give_up(struct weir__callbacks *callbacks, unsigned id, uint64_t climb);

#endif
