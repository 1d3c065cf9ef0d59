/* SPDX-License-Identifier: MIT */
/*
 * about.h - what a weir tells of itself beside its figures: its program, its labels (rank, job and pod, as the launcher put them into the
 * environment), its age, and the policy in force.
 *
 * Owned by its weir. All but the policy is fixed by weir__about_open(), which reads the environment: afterwards another thread might change
 * that. Programs with changed user or group ids have no labels.
 */
#ifndef WEIR_LIB_ABOUT_H
#define WEIR_LIB_ABOUT_H

#include <pthread.h>

#include "lib/pool/weir_internal.h"

#define WEIR__LABELS 4
#define WEIR__LABEL_SIZE 64

struct weir__labels {
    char values[WEIR__LABELS][WEIR__LABEL_SIZE]; /* printable ASCII without blanks; "": there is none */
};

/* A policy as the members "policy" and "values" of a JSON object. Whoever has one shares it with others; the last of them frees it. */
struct weir__in_force {
    atomic_uint users;
    char json[];
};

struct weir__about {
    char program[64];
    struct weir__labels labels;
    uint64_t opened_at; /* nanoseconds, by weir__service_now() */
    pthread_mutex_t lock;
    struct weir__in_force *policy; /* guarded by lock */
};

/* false: no host memory. */
bool weir__about_open(weir *w);
void weir__about_close(weir *w);

/* Describes a policy, with the quotas of the weir's devices (stats_json.c). NULL: no host memory. */
struct weir__in_force *weir__in_force_new(weir *w, const struct policy *policy);
/* Puts the description in place of the former one. The weir owns it from then on. */
void weir__in_force_set(weir *w, struct weir__in_force *policy);
/* The description in force, which the caller has to weir__in_force_drop(). */
struct weir__in_force *weir__in_force_get(weir *w);
/* NULL does nothing. */
void weir__in_force_drop(struct weir__in_force *policy);

/* The name of a label: "rank", "local_rank", "job" or "pod". */
const char *weir__label_name(unsigned label);

#endif
