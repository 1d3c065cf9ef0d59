/* SPDX-License-Identifier: MIT */
/* run_files.h - files through a fuzzer's entry, for a program that is built without libFuzzer and runs the seeds as a test. */
#ifndef WEIR_TESTS_RUN_FILES_H
#define WEIR_TESTS_RUN_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first bytes of a file, as many as the buffer holds. */
static inline bool run_file(const char *path, uint8_t *data, size_t capacity)
{
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return false;
    size_t size = fread(data, 1, capacity, stream);
    bool good = !ferror(stream);
    fclose(stream);
    if (good)
        LLVMFuzzerTestOneInput(data, size);
    return good;
}

/* Those that the program's arguments name. Returns its exit status. */
static inline int run_files(int argc, char **argv, uint8_t *data, size_t capacity)
{
    for (int i = 1; i < argc; i++) {
        if (!run_file(argv[i], data, capacity)) {
            fprintf(stderr, "%s: cannot read %s\n", argv[0], argv[i]);
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

#endif
