/* SPDX-License-Identifier: MIT */
/*
 * arena_fuzz.c - any bytes as steps of an arena beside its model (tests/unit/arena_model.h), which ends the program where they differ.
 *
 * `make arena-fuzz` builds it with libFuzzer. Built without, it runs the files that it is given through the same entry, as a test.
 */
#include "config.h"

#include <stdint.h>

#include "tests/fuzz/run_files.h"
#include "tests/unit/arena_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    model_run(data, size, false);
    return 0;
}

#ifndef WEIR_LIBFUZZER
int main(int argc, char **argv)
{
    static uint8_t data[1 << 16];
    return run_files(argc, argv, data, sizeof(data));
}
#endif
