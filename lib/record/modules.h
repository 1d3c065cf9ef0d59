/* SPDX-License-Identifier: MIT */
/*
 * modules.h - the code that the process has loaded: what turns a return address into a place of a file, once the process is gone.
 *
 * One thread at a time uses a list. Reading it opens no file: the loader has everything in memory. The loader's own lock is held meanwhile,
 * so callers hold no lock of Weir's.
 *
 * dl_iterate_phdr() shows only the objects of its caller's namespace. A library in another namespace (LD_AUDIT) sets weir__modules_each to
 * a function that shows the program's objects in the same way; it does so before the first list is read.
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

/* A piece of code of a program or shared object, each of which may have several. */
struct weir__module {
    uintptr_t start;
    uint64_t length;                           /* bytes */
    uint64_t offset;                           /* of its first byte in the file */
    char build_id[2 * WEIR__BUILD_ID_MAX + 1]; /* in hexadecimal, or "" */
    const char *path;                          /* the loader's, behind the working folder if it is relative; lies in `paths` */
};

/* All modules at one moment. Zero-initialise before use. */
struct weir__modules {
    size_t count;
    struct weir__module *list;
    char *paths;                         /* what the modules' paths point into */
    unsigned long long loaded, unloaded; /* how many objects ever were */
};

/* Reads the list anew if objects were loaded or unloaded since. Returns false if the list stays as it was, also for want of host memory. */
bool weir__modules_read(struct weir__modules *modules);
void weir__modules_clear(struct weir__modules *modules);

#endif
