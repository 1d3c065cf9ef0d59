/* SPDX-License-Identifier: MIT */
/*
 * valid.h - identities that debug builds look at (configure --enable-debug, which --enable-sanitizer brings along).
 *
 * Each struct whose members must fit each other has a function weir__..._is_valid(), which says at which moments that is. It is called
 * where such a moment is at hand and microseconds do not count: at snapshots, flushes, and when something is closed. A debug build stops
 * where one does not hold, since what comes later only hides the cause; other builds have none of this.
 */
#ifndef WEIR_LIB_VALID_H
#define WEIR_LIB_VALID_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>

#ifdef WEIR_DEBUG
void weir__must_hold(bool holds, const char *condition, const char *file, int line);
#define WEIR__MUST(condition) weir__must_hold(condition, #condition, __FILE__, __LINE__)
#else
#define WEIR__MUST(condition) ((void)0)
#endif

#endif
