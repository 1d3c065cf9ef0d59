/* SPDX-License-Identifier: MIT */
/* crc.h - CRC32C of the blocks of a trace. Pure. */
#ifndef WEIR_TRACE_CRC_H
#define WEIR_TRACE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Goes on with what it returned for the bytes before; 0 at the beginning. */
uint32_t trace_crc(uint32_t crc, const void *bytes, size_t len);

#endif
