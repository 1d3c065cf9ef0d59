/* SPDX-License-Identifier: MIT */
/* utf8.h - the length of a UTF-8 character. A pure function. */
#ifndef WEIR_LIB_UTF8_H
#define WEIR_LIB_UTF8_H

#include <stddef.h>

/* Returns the length in bytes of the UTF-8 character at `text`, which is terminated by a zero byte. Returns 0 if the bytes are not valid
   UTF-8, and 1 for the terminating zero. */
size_t weir__utf8_len(const char *text);

#endif
