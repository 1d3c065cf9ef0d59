/* SPDX-License-Identifier: MIT */
/* size.h - bytes on a command line, as a policy has them. Pure. */
#ifndef WEIR_SIZE_H
#define WEIR_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* "512", "512MiB", "1.5GiB". false: it is none. */
bool size_read(const char *text, uint64_t *bytes);

#endif
