/* SPDX-License-Identifier: MIT */
/*
 * costs_find.h - where cost tables lie: in a file that is named; measured ones of this user in $XDG_CACHE_HOME/weir, else ~/.cache/weir, one
 * file for each GPU and driver; shipped ones, which a name ("nvidia-h200") means as well, in $WEIR_COSTS_DIR, else where they were installed.
 */
#ifndef WEIR_COSTS_FIND_H
#define WEIR_COSTS_FIND_H

#include <limits.h>

#include "tools/common/costs.h"

/* Where a table came from; costs_find() finds none that was recorded with a trace. path: of its file, "" for none. */
struct costs_origin {
    enum { COSTS_NAMED, COSTS_RECORDED, COSTS_CACHED, COSTS_SHIPPED, COSTS_BUILT_IN } kind;
    char path[PATH_MAX];
};

/*
 * The table for that GPU, of which driver ("13.0") and uuid may be NULL: the file, if that is not NULL; else the measured one of that GPU, or
 * of one of its name, rather with the same driver; else the shipped one; else the simulator's own costs. A file that is named may be of
 * another GPU. Complains and returns EXIT_FAILED of a bad table, EXIT_TROUBLE of one that cannot be read; else EXIT_GOOD.
 */
int costs_find(const char *file, const char *gpu, const char *driver, const char *uuid, struct costs *costs, struct costs_origin *origin);

/* The shipped table whose name has the longest beginning in common with that GPU's, of several the first by name. Where none is shipped,
   nothing is changed. Complains and returns as costs_find(). */
int costs_find_nearest(const char *gpu, struct costs *costs, struct costs_origin *origin);

/* "named", "recorded", "measured", "shipped" or "built-in". */
const char *costs_origin_word(const struct costs_origin *origin);

/* Writes the table, mode 0600, in one step: into the file, or for NULL into the cache. path: where it went. Complains and returns
   EXIT_TROUBLE if it could not. */
int costs_save(const struct costs *costs, const char *file, char path[static PATH_MAX]);

#endif
