/* SPDX-License-Identifier: MIT */
/*
 * numbers.h - pages that are only numbers, for what an arena does without memory: replays (replay.h), and tests. The device has as many
 * pages as are asked for. The arena's `data` is NULL, or points to the bytes of the largest page that the device makes.
 */
#ifndef WEIR_BENCH_NUMBERS_H
#define WEIR_BENCH_NUMBERS_H

#include "lib/backing/arena/page.h"

static int numbers_create(void *data, uint64_t bytes, uint64_t *handle)
{
    const uint64_t *most = data;
    *handle = bytes;
    return most && bytes > *most;
}

static int numbers_map(void *data, uint64_t address, uint64_t bytes, uint64_t handle)
{
    (void)data, (void)address;
    return bytes != handle;
}

static int numbers_unmap(void *data, uint64_t address, uint64_t bytes)
{
    (void)data, (void)address, (void)bytes;
    return 0;
}

static void numbers_release(void *data, uint64_t bytes, uint64_t handle)
{
    (void)data, (void)bytes, (void)handle;
}

static bool numbers_is_shortage(int code)
{
    return code;
}

static const struct weir__page_driver numbers = {numbers_create, numbers_map, numbers_unmap, numbers_release, numbers_is_shortage};

#endif
