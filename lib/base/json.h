/* SPDX-License-Identifier: MIT */
/* json.h - escapes the characters of a JSON string. Pure functions. */
#ifndef WEIR_LIB_JSON_H
#define WEIR_LIB_JSON_H

#include <stddef.h>

#define WEIR__JSON_CHARACTER 8

/* Reads one character at *text, advances *text behind it, and writes the character into `escaped` as a JSON string has it. Returns the
   number of bytes written, or 0 at the end of the text. A byte that is not valid UTF-8 becomes U+FFFD, since JSON cannot express it.
   Control characters are escaped, so that the document may be printed to a terminal. */
size_t weir__json_character(const char **text, char escaped[WEIR__JSON_CHARACTER]);

#endif
