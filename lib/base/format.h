/* SPDX-License-Identifier: MIT */
/* format.h - formats sizes, times and error codes for error texts and reports. */
#ifndef WEIR_LIB_FORMAT_H
#define WEIR_LIB_FORMAT_H

#include <stdint.h>

#define WEIR__BYTES_LEN 32

/* Writes a size, such as "512 B" or "1.50 GiB", into `text` and returns `text`. The macros of this file, such as WEIR__BYTES, bring a
   buffer of their own, which is valid until the end of the enclosing block. */
const char *weir__bytes(char text[WEIR__BYTES_LEN], uint64_t bytes);

#define WEIR__BYTES(bytes) weir__bytes((char[WEIR__BYTES_LEN]){ 0 }, bytes)

/* weir__bytes() for a number of bytes that a pool keeps instead of giving them back to the device: UINT64_MAX becomes "all". */
const char *weir__bytes_kept(char text[WEIR__BYTES_LEN], uint64_t bytes);

#define WEIR__TIME_LEN 32
#define WEIR__TIME_DIGITS 3 /* significant digits of the times that Weir prints */
#define WEIR__TIME_DIGITS_MOST 20

/* Writes a time, such as "0 s", "87 ns", "1.50 µs", "12.3 ms", "1.23 s" or "3600 s", into `text` and returns `text`. A time has three
   significant digits; only whole seconds may have more. */
const char *weir__time(char text[WEIR__TIME_LEN], uint64_t nanoseconds);
#define WEIR__TIME(nanoseconds) weir__time((char[WEIR__TIME_LEN]){ 0 }, nanoseconds)

/* weir__time() with `digits` significant digits, for columns of times that three digits would make look equal. */
const char *weir__time_digits(char text[WEIR__TIME_LEN], uint64_t nanoseconds, unsigned digits);

/* Returns the plural's "s", or "" if `count` is 1. */
const char *weir__plural(uint64_t count);

#define WEIR__WHY_LEN 192

/* Writes the meaning of the errno `code` and a remedy, "MEANING: REMEDY", into `text` and returns `text`. Codes such as EMFILE or ENOMEM
   have one remedy whatever the program tried; for all other codes the remedy is the caller's. */
const char *weir__why(char text[WEIR__WHY_LEN], int code, const char *remedy);
#define WEIR__WHY(code, remedy) weir__why((char[WEIR__WHY_LEN]){ 0 }, code, remedy)

#endif
