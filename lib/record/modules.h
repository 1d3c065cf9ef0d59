/* SPDX-License-Identifier: MIT */
/*
 * modules.h - the code that the process has loaded: what turns a return address into a place of a file, once the process is gone.
 *
 * A list is its owner's, one thread at a time. It is read from what the loader keeps in memory: no file is opened. The C library's loader
 * lock is taken meanwhile, so callers hold none of Weir's.
 *
 * dl_iterate_phdr() tells a caller of its own namespace alone. A library in another one (LD_AUDIT) has another function tell of the program's
 * objects, in the same way: set before the first list, and fixed then.
 */
#ifndef WEIR_RECORD_MODULES_H
#define WEIR_RECORD_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__BUILD_ID_MAX 64 /* bytes; a longer one counts as none */

struct dl_phdr_info;
typedef int weir__modules_each_fn(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data);
extern weir__modules_each_fn *weir__modules_each __attribute__((visibility("hidden")));

/* A piece of code of a program or shared object. One may have several. */
struct weir__module {
    uintptr_t start;
    uint64_t length;                           /* bytes */
    uint64_t offset;                           /* of its first byte in the file */
    char build_id[2 * WEIR__BUILD_ID_MAX + 1]; /* in hexadecimal, or "" */
    const char *path;                          /* as the loader knows it, from the working folder on if it is relative; the list's */
};

/* All of them at one moment. Zero-initialise before use. */
struct weir__modules {
    size_t count;
    struct weir__module *list;
    char *paths;                         /* what the modules' paths point into */
    unsigned long long loaded, unloaded; /* objects since the process began */
};

/* Reads the list anew if objects were loaded or unloaded since. False: it is as it was, which is also so where there is no memory. */
bool weir__modules_read(struct weir__modules *modules);
void weir__modules_clear(struct weir__modules *modules);

#endif
