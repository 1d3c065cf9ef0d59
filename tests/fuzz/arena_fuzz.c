/* SPDX-License-Identifier: MIT */
/*
 * arena_fuzz.c - any bytes as steps of an arena beside its model (tests/unit/arena_model.h), which ends the program where they differ.
 *
 * `make arena-fuzz` builds it with libFuzzer. Built without, it runs the files that it is given through the same entry, as a test.
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/arena_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    model_run(data, size, false);
    return 0;
}

#ifndef WEIR_LIBFUZZER
static bool run_file(const char *path)
{
    FILE *stream = fopen(path, "rb");
    static uint8_t data[1 << 16];
    if (!stream)
        return false;
    size_t size = fread(data, 1, sizeof(data), stream);
    bool good = !ferror(stream);
    fclose(stream);
    if (good)
        LLVMFuzzerTestOneInput(data, size);
    return good;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!run_file(argv[i])) {
            fprintf(stderr, "arena_fuzz: cannot read %s\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
#endif
