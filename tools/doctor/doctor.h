/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - what `weir doctor` finds: one finding for each thing that it looks at, with what it means and what to do.
 *
 * Nothing that is looked at is trusted or changed; texts may have anything in them, and are made fit for a line where they are printed.
 */
#ifndef WEIR_DOCTOR_H
#define WEIR_DOCTOR_H

#include <stddef.h>
#include <stdio.h>

#include "lib/gpu/gpu.h"

enum doctor_state {
    DOCTOR_GOOD,
    DOCTOR_NOTE, /* nothing to repair, but good to know */
    DOCTOR_BAD,  /* to be repaired */
};

struct doctor_finding {
    enum doctor_state state;
    const char *topic; /* "device", "limits" */
    char *about;       /* which one: a device's index, a variable, a path; NULL: the topic itself */
    char *text;        /* what is, and what it means */
    char *remedy;      /* what to do; NULL: nothing */
};

struct doctor {
    const struct gpu *gpu; /* NULL: none was found */
    int device_count;
    struct gpu_device_info *devices;
    unsigned timeout_ms;
    size_t count, room;
    struct doctor_finding *findings;
};

/* remedy: may be NULL; both are copied, as is about. */
void doctor_add(struct doctor *doctor, enum doctor_state state, const char *topic, const char *about, const char *remedy,
                const char *format, ...) __attribute__((format(printf, 6, 7)));

/* A file that may be anybody's, to read. NULL: there is none. A pipe does not keep it waiting. */
FILE *doctor_open(const char *path);

/* The parts, in this order. gpu_name: as in $WEIR_GPU, or NULL. */
void doctor_look_at_gpu(struct doctor *doctor, const char *gpu_name); /* driver, devices, MIG; fills in gpu and devices */
void doctor_look_at_place(struct doctor *doctor);                     /* the rank, MPS, limits and which one counts */
void doctor_look_at_policy(struct doctor *doctor);
void doctor_look_at_sockets(struct doctor *doctor); /* of processes and exports, and whose they are */
void doctor_look_at_python(struct doctor *doctor);  /* torch, the plug-in and its shim */

#endif
