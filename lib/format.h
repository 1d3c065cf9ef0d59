/* SPDX-License-Identifier: MIT */
/* format.h - numbers as people read them, for error texts and reports. */
#ifndef WEIR_LIB_FORMAT_H
#define WEIR_LIB_FORMAT_H

#include <stdint.h>

#define WEIR__BYTES_LEN 32

/* Writes "512 B", "1.50 GiB" or "all" (UINT64_MAX) into text and returns it. */
const char *weir__bytes(char text[WEIR__BYTES_LEN], uint64_t bytes);

#endif
