/* SPDX-License-Identifier: MIT */
/* json.h - what stands for a character in a string of JSON. Pure. */
#ifndef WEIR_LIB_JSON_H
#define WEIR_LIB_JSON_H

#include <stddef.h>

#define WEIR__JSON_CHARACTER 8

/* Takes the next character of *text, which moves on, and writes what stands for it between quotation marks. Returns how many bytes that is; 0
   at the end of the text. A byte that is part of no UTF-8 is U+FFFD, since JSON has no way to write it. Control characters are
   escaped, so that a terminal may get the document. */
size_t weir__json_character(const char **text, char escaped[WEIR__JSON_CHARACTER]);

#endif
