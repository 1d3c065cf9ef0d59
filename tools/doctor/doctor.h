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
#include "tools/common/json.h"

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

/* What a device says of itself. */
struct doctor_device {
    bool is_read; /* false: a question failed, which is a finding, and what follows is not whole */
    struct gpu_device_info info;
    uint64_t memory_free, memory_total;
    bool supports[GPU_FEATURE_COUNT];
    char why_not[GPU_FEATURE_COUNT][256];
    bool *peers; /* whether that device's kernels can reach this one's memory, by the index of that device */
};

struct doctor {
    const struct gpu *gpu; /* NULL: none was found */
    char *driver, *toolkit; /* their versions; NULL: no GPU answered */
    int device_count;
    struct doctor_device *devices;
    unsigned timeout_ms;
    size_t count, room;
    struct doctor_finding *findings;
};

/* remedy: may be NULL; both are copied, as is about. */
void doctor_add(struct doctor *doctor, enum doctor_state state, const char *topic, const char *about, const char *remedy,
                const char *format, ...) __attribute__((format(printf, 6, 7)));

/* A file that may be anybody's, to read. NULL: there is none. A pipe does not keep it waiting. */
FILE *doctor_open(const char *path);

/* Asks the device all of it. Returns the first code that is no success; peers is set whatever that is. */
int doctor_read_device(const struct doctor *doctor, int index, struct doctor_device *device);
/* What all devices said, in words behind the findings, and as members of the document. */
void doctor_print_devices(const struct doctor *doctor);
void doctor_json_devices(const struct doctor *doctor, struct json *json);

/* The parts, in this order. gpu_name: as in $WEIR_GPU, or NULL. */
void doctor_look_at_gpu(struct doctor *doctor, const char *gpu_name); /* driver, devices, MIG; fills in gpu and devices */
void doctor_look_at_place(struct doctor *doctor);                     /* the rank, MPS, limits and which one counts */
void doctor_look_at_policy(struct doctor *doctor);
void doctor_look_at_sockets(struct doctor *doctor); /* of processes and exports, and whose they are */

#endif
