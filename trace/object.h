/* SPDX-License-Identifier: MIT */
/*
 * object.h - finds the function, source file and line for an offset in a program or shared object on this machine. It uses libdw. Without
 * libdw, or if the file is not the one that was recorded, nothing is found.
 *
 * The path comes from a trace, which is not trusted: only a regular file is opened, and only a file with the recorded build id is read
 * further. Debug information is searched on this machine only; no server is asked. The caller of object_open() owns the object; one thread
 * uses it.
 */
#ifndef WEIR_TRACE_OBJECT_H
#define WEIR_TRACE_OBJECT_H

#include <stdint.h>

struct object;

enum object_state {
    OBJECT_KNOWN,   /* the file is the recorded one, and can be searched */
    OBJECT_UNKNOWN, /* there is no such file, or it is not a program or shared object, or was recorded without a build id */
    OBJECT_CHANGED, /* the file has another build id */
};

/* Opens the object at that path. build_id: the recorded build id, in hexadecimal. Never returns NULL. */
struct object *object_open(const char *path, const char *build_id);
enum object_state object_state(const struct object *object);

/* The function, source file and line of an offset in the file; NULL or 0 if unknown. The object owns the strings. */
struct object_place {
    const char *function; /* the name of the symbol, which is mangled for C++ */
    const char *file;
    unsigned line;
};
struct object_place object_find(struct object *object, uint64_t offset);

void object_close(struct object *object);

#endif
