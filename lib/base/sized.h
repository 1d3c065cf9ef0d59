/* SPDX-License-Identifier: MIT */
/*
 * sized.h - public structs that begin with their size, so that later versions can add members and programs go on working unchanged.
 *
 * The caller's struct may be shorter than the library's, if the program is older, or longer. Nothing behind its end is read or written.
 */
#ifndef WEIR_LIB_SIZED_H
#define WEIR_LIB_SIZED_H

#include "include/weir.h"

/* Checks that the size with which the struct begins can be one of a release. name: of the struct's type. WEIR_OK or WEIR_INVALID. */
weir_status weir__sized_check(const void *given, const char *name, weir_error *error);

/* Copies options to `known`, of this library's size. Members that the caller's struct lacks become 0. Members that this library does not
   know must be 0, since they would ask for something that it cannot do: WEIR_INVALID otherwise. */
weir_status weir__sized_read(const void *given, const char *name, void *known, size_t known_size, weir_error *error);

/* Copies the figures in `known` to the caller's struct, which weir__sized_check() has accepted: as many as that has room for. Members that
   only the caller's struct has become 0. */
void weir__sized_write(void *given, const void *known, size_t known_size);

#endif
