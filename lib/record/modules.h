/* SPDX-License-Identifier: MIT */
/*
 * modules.h - a list of the machine code that the process has loaded. With the list a reader of a trace can turn a return address into a
 * file and an offset in the file after the process has ended.
 *
 * One thread at a time uses a list. Reading a list opens no file, since the loader has the data in memory. Reading takes the loader's own
 * lock, so callers hold no lock of Weir.
 *
 * dl_iterate_phdr() visits only the objects of its caller's linker namespace. A library in another namespace (LD_AUDIT) sets
 * weir__modules_each to a function that visits the program's objects in the same way, before the first list is read.
 */
#ifndef WEIR_RECORD_MODULES_H
#define WEIR_RECORD_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__BUILD_ID_MAX 64 /* bytes; a longer build id is ignored */

struct dl_phdr_info;
typedef int weir__modules_each_fn(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data);
extern weir__modules_each_fn *weir__modules_each __attribute__((visibility("hidden")));

/* One executable segment of a program or shared object, which may have several. */
struct weir__module {
    uintptr_t start;
    uint64_t length;                           /* bytes */
    uint64_t offset;                           /* of the segment's first byte in the file */
    char build_id[2 * WEIR__BUILD_ID_MAX + 1]; /* in hexadecimal, or "" */
    const char *path;                          /* the loader's path, made absolute with the working directory; points into `paths` */
};

/* All modules at one moment. Zero-initialise before use. */
struct weir__modules {
    size_t count;
    struct weir__module *list;
    char *paths;                         /* the text of all paths */
    unsigned long long loaded, unloaded; /* the loader's counts of objects that were ever loaded and unloaded */
};

/* Reads the list again if objects were loaded or unloaded since the last time. Returns false if the list has not changed, or if host memory
   runs out, which leaves the list as it was. */
bool weir__modules_read(struct weir__modules *modules);
void weir__modules_clear(struct weir__modules *modules);

#endif
