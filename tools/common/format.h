/* SPDX-License-Identifier: MIT */
/* format.h - figures as people read them, each in the caller's buffer, and sizes as they write them. Pure. */
#ifndef WEIR_FORMAT_H
#define WEIR_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/format.h"

/* Room for any figure below. The macros at the end make one on the spot; it lives until the end of the enclosing block. */
struct text {
    char chars[32];
};

/* 0 B, 512 B, 64 KiB, 6.8 GiB: at most four digits before the unit. */
const char *format_size(struct text *text, uint64_t bytes);
/* 1,234,567. */
const char *format_count(struct text *text, uint64_t count);

#define SIZE_TEXT(bytes) format_size(&(struct text){{0}}, (bytes))
/* 0 s, 480 ns, 1.50 µs, 52.0 ms, 1.23 s. */
#define TIME_TEXT(nanoseconds) WEIR__TIME(nanoseconds)
#define COUNT_TEXT(count) format_count(&(struct text){{0}}, (count))

/* The bytes of a size as a policy has it: "512", "512MiB", "1.5GiB". false: it is none. */
bool size_read(const char *text, uint64_t *bytes);
/* The nanoseconds of a time as a policy has it, "500ms", "60s" or "2m", or of seconds without a unit. */
bool time_read(const char *text, uint64_t *nanoseconds);

#endif
