/* SPDX-License-Identifier: MIT */
/* utf8.h - UTF-8, for formats that allow nothing else. Pure. */
#ifndef WEIR_UTF8_H
#define WEIR_UTF8_H

#include <stddef.h>

/* The next piece of the text, which moves on: a sequence, or U+FFFD for a byte that is part of none. Its length; 0 at the end. */
size_t utf8_next(const char **text, const char **piece);

/* The length of all pieces. */
size_t utf8_clean_len(const char *text);

#endif
