/* SPDX-License-Identifier: MIT */
/* format.h - numbers and codes as people read them, for error texts and reports. */
#ifndef WEIR_LIB_FORMAT_H
#define WEIR_LIB_FORMAT_H

#include <stdint.h>

#define WEIR__BYTES_LEN 32

/* Writes "512 B" or "1.50 GiB" into text and returns it. The macros here have a text of their own, until the end of
   the enclosing block. */
const char *weir__bytes(char text[WEIR__BYTES_LEN], uint64_t bytes);

#define WEIR__BYTES(bytes) weir__bytes((char[WEIR__BYTES_LEN]){ 0 }, bytes)

/* The same for a size that a pool is to keep: "all" for UINT64_MAX. */
const char *weir__bytes_kept(char text[WEIR__BYTES_LEN], uint64_t bytes);

#define WEIR__TIME_LEN 32
#define WEIR__TIME_DIGITS 3 /* significant digits, in all that Weir prints */
#define WEIR__TIME_DIGITS_MOST 20

/* Writes "0 s", "87 ns", "1.50 µs", "12.3 ms", "1.23 s" or "3600 s" into text and returns it: three digits that count, and all those of whole
   seconds. */
const char *weir__time(char text[WEIR__TIME_LEN], uint64_t nanoseconds);
#define WEIR__TIME(nanoseconds) weir__time((char[WEIR__TIME_LEN]){ 0 }, nanoseconds)

/* The same with another number of digits, for columns whose rows must be told apart. */
const char *weir__time_digits(char text[WEIR__TIME_LEN], uint64_t nanoseconds, unsigned digits);

/* "s" for any number of things but one. */
const char *weir__plural(uint64_t count);

#define WEIR__WHY_LEN 192

/* Writes what an errno means, and what to do about it, into text and returns it: remedy, unless the errno itself says what is wanting,
   whatever was tried. */
const char *weir__why(char text[WEIR__WHY_LEN], int code, const char *remedy);
#define WEIR__WHY(code, remedy) weir__why((char[WEIR__WHY_LEN]){ 0 }, code, remedy)

#endif
