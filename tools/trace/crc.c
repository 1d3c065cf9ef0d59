/* SPDX-License-Identifier: MIT */
/* A table of its own, made at run time: the processor's instruction needs code for each architecture, and files are read at the speed of a
   disk. Eight bytes a step, as one at a time would take half of the time that a trace takes to be read. */
#include "tools/trace/crc.h"

#include <stdbool.h>
#include <string.h>

static uint32_t tables[8][256];

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0); /* 0x1EDC6F41, reflected */
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xFF];
}

uint32_t trace_crc(uint32_t crc, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    if (!tables[0][1])
        make_tables();
    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^ tables[4][low >> 24] ^ tables[3][at[4]] ^
              tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    }
    for (; len; at++, len--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    return ~crc;
}
