/* SPDX-License-Identifier: MIT */
/* utf8.h - where a character of UTF-8 ends. Pure. */
#ifndef WEIR_LIB_UTF8_H
#define WEIR_LIB_UTF8_H

#include <stddef.h>

/* The length of the sequence at text, which ends with a zero; 0 if there is no valid one, 1 at the end. */
size_t weir__utf8_len(const char *text);

#endif
