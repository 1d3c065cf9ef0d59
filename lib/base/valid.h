/* SPDX-License-Identifier: MIT */
/*
 * valid.h - invariants that debug builds check (configure --enable-debug; --enable-sanitizer switches it on as well).
 *
 * A struct whose members must agree with each other has a function weir__..._is_valid(), whose comment says when they do. WEIR__MUST()
 * calls these functions where speed does not matter: at snapshots, at flushes, and when an object is closed. A debug build traps at once if
 * a condition is false, since running on would hide the cause. In other builds WEIR__MUST() does nothing.
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
