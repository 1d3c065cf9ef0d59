/* SPDX-License-Identifier: MIT */
/*
 * sized.h - public structs that begin with their size, so that later versions can add members and programs go on working unchanged.
 *
 * The caller's struct may be shorter than the library's (the program is older) or longer (the program is newer). The functions neither read
 * nor write beyond the end of the caller's struct.
 */
#ifndef WEIR_LIB_SIZED_H
#define WEIR_LIB_SIZED_H

#include "include/weir.h"

/* Checks that the size at the beginning of the struct is plausible. `name` is the name of the struct's type, for the error text. Returns
   WEIR_OK or WEIR_INVALID. */
weir_status weir__sized_check(const void *given, const char *name, weir_error *error);

/* Copies the caller's options to `known`, a struct of this library's version. Members that the caller's struct lacks become 0. Members that
   this library does not know must be 0, since any other value asks for a feature that this library lacks: WEIR_INVALID otherwise. */
weir_status weir__sized_read(const void *given, const char *name, void *known, size_t known_size, weir_error *error);

/* Copies the figures in `known` to the caller's struct, as far as there is room. weir__sized_check() must have accepted the caller's
   struct. Members that only the caller's struct has become 0. */
void weir__sized_write(void *given, const void *known, size_t known_size);

#endif
