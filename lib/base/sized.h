/* SPDX-License-Identifier: MIT */
/*
 * sized.h - public structs that begin with their size, so that later versions can add members and programs go on working unchanged.
 *
 * The caller's struct may be shorter than the library's, if the program is older, or longer. Nothing behind its end is read or written.
 */
#ifndef WEIR_LIB_SIZED_H
#define WEIR_LIB_SIZED_H

#include "include/weir.h"

/* Whether a program can have been compiled with such a struct. name: of its type. WEIR_INVALID. */
weir_status weir__sized_check(const void *given, const char *name, weir_error *error);

/* Copies options to `known`, of this library's size. Members that the caller lacks become 0; what he has beyond must be 0, since it would
   ask for something that this library cannot do. WEIR_INVALID. */
weir_status weir__sized_read(const void *given, const char *name, void *known, size_t known_size, weir_error *error);

/* Copies figures to a struct that was checked: as many as it has room for, and zeros behind the last that there are. */
void weir__sized_write(void *given, const void *known, size_t known_size);

#endif
