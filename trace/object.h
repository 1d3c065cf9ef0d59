/* SPDX-License-Identifier: MIT */
/*
 * object.h - one program or shared object on this machine, to be asked which function is at a place of it. By libdw; without that, and
 * where the file is not the one that was recorded, it knows nothing.
 *
 * Which file it is comes from a trace, which nobody vouches for: only regular files are opened, and only one with the recorded build id is
 * looked into. Its debug information is looked for on this machine; no server is asked. It belongs to its maker; one thread.
 */
#ifndef WEIR_TRACE_OBJECT_H
#define WEIR_TRACE_OBJECT_H

#include <stdint.h>

struct object;

enum object_state {
    OBJECT_KNOWN,   /* it can be asked */
    OBJECT_UNKNOWN, /* it is not there, or no such file, or was recorded without a build id */
    OBJECT_CHANGED, /* the file has another build id */
};

/* build_id: in hexadecimal. */
struct object *object_open(const char *path, const char *build_id);
enum object_state object_state(const struct object *object);

/* What is at a place of the file. All of it is the object's, and NULL or 0 where it is not known. */
struct object_place {
    const char *function; /* as the linker knows it */
    const char *file;
    unsigned line;
};
struct object_place object_find(struct object *object, uint64_t offset);

void object_close(struct object *object);

#endif
