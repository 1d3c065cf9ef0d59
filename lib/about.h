/* SPDX-License-Identifier: MIT */
/*
 * about.h - the description of a weir that goes with its statistics: its program, its labels (rank, job and pod, which a launcher puts into
 * the environment), its age, and the policy in force.
 *
 * The description belongs to its weir. weir__about_open() sets everything but the policy once: it reads the environment when the weir is
 * opened, since other threads may change the environment later. Programs with changed user or group ids (set-user-ID) have no labels.
 */
#ifndef WEIR_LIB_ABOUT_H
#define WEIR_LIB_ABOUT_H

#include "lib/pool/weir_internal.h"

#define WEIR__LABELS 4
#define WEIR__LABEL_SIZE 64

struct weir__labels {
    char values[WEIR__LABELS][WEIR__LABEL_SIZE]; /* printable ASCII without blanks; "" if the label has no value */
};

/* A policy as text: the members "policy" and "values" of a JSON object. The object is shared; `users` counts its references, and dropping
   the last one frees it. */
struct weir__in_force {
    atomic_uint users;
    char json[];
};

struct weir__about {
    char program[64];
    struct weir__labels labels;
    uint64_t opened_at; /* nanoseconds, by weir__service_now() */
    struct weir__in_force *policy; /* guarded by w->leaf */
};

/* Returns false if host memory runs out. */
bool weir__about_open(weir *w);
void weir__about_close(weir *w);

/* Returns the description of a policy, with one reference, or NULL if host memory runs out. Limits that a device's quota lowers appear with
   the lowered values (stats_json.c). */
struct weir__in_force *weir__in_force_new(weir *w, const struct policy *policy);
/* Replaces the description in force. The weir takes over the caller's reference. */
void weir__in_force_set(weir *w, struct weir__in_force *policy);
/* Returns the description in force, with a reference that the caller drops by weir__in_force_drop(). */
struct weir__in_force *weir__in_force_get(weir *w);
/* Drops a reference. NULL is allowed. */
void weir__in_force_drop(struct weir__in_force *policy);

/* Returns the name of a label: "rank", "local_rank", "job" or "pod". */
const char *weir__label_name(unsigned label);

#endif
