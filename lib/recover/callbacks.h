/* SPDX-License-Identifier: MIT */
/*
 * callbacks.h - the application's out-of-memory callbacks.
 *
 * Owned by the weir. `lock` is a leaf and is not held while a callback runs; `running` counts those calls so that removing one can wait.
 */
#ifndef WEIR_LIB_CALLBACKS_H
#define WEIR_LIB_CALLBACKS_H

#include "lib/pool/weir_internal.h"
void weir__callbacks_init(struct weir__callbacks *callbacks);
void weir__callbacks_destroy(struct weir__callbacks *callbacks);

/* Calls the first callback with an id above `after`. Returns its id and what it returned in *freed, or 0 if there is none. */
unsigned weir__callbacks_run(struct weir__callbacks *callbacks, unsigned after, int device, uint64_t needed, uint64_t *freed);

#endif
