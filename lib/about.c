/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/about.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/service.h"
#include "policy/environment.h"

/* Labels ------------------------------------------------------------------------------------------------------------------------------- */

#define VARIABLES_MAX 3

/* The labels, and the environment variables from which each gets its value: the first variable that is set counts. */
static const struct {
    const char *name;
    const char *variables[VARIABLES_MAX];
} labels_known[WEIR__LABELS] = {
    { "rank", { "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK" } },
    { "local_rank", { "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK" } },
    { "job", { "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID" } },
    { "pod", { "POD_NAME" } },
};
#define JOB_NONE "none" /* the value that torchrun sets for a job without a name */
enum { POD = 3 };

static const char *value_of(const char *variable)
{
    const char *value = policy_environment(variable);
    return value && *value && strcmp(value, JOB_NONE) != 0 ? value : NULL;
}

/* Copies a label. If the text is too long, its end is kept, which tells more than its beginning. Characters that are not printable become
   question marks. */
static void copy_label(char to[WEIR__LABEL_SIZE], const char *text)
{
    size_t len = strlen(text), kept = len < WEIR__LABEL_SIZE ? len : WEIR__LABEL_SIZE - 1;
    text += len - kept;
    for (size_t i = 0; i < kept; i++)
        to[i] = text[i] > 0x20 && text[i] < 0x7f ? text[i] : '?';
}

/* Reads the labels from the environment into *labels, which must be zeroed. */
static void read_labels(struct weir__labels *labels)
{
    for (unsigned label = 0; label < WEIR__LABELS; label++) {
        const char *value = NULL;
        for (size_t i = 0; i < VARIABLES_MAX && !value && labels_known[label].variables[i]; i++)
            value = value_of(labels_known[label].variables[i]);
        /* Inside a pod of Kubernetes the host name is the pod's name. Elsewhere the host name is not used. */
        if (!value && label == POD && value_of("KUBERNETES_SERVICE_HOST"))
            value = value_of("HOSTNAME");
        if (value)
            copy_label(labels->values[label], value);
    }
}

const char *weir__label_name(unsigned label)
{
    return labels_known[label].name;
}

/* The policy in force ------------------------------------------------------------------------------------------------------------------ */

void weir__in_force_set(weir *w, struct weir__in_force *policy)
{
    pthread_mutex_lock(&w->leaf);
    struct weir__in_force *former = w->about->policy;
    w->about->policy = policy;
    pthread_mutex_unlock(&w->leaf);
    weir__in_force_drop(former);
}

struct weir__in_force *weir__in_force_get(weir *w)
{
    pthread_mutex_lock(&w->leaf);
    struct weir__in_force *policy = w->about->policy;
    atomic_fetch_add(&policy->users, 1);
    pthread_mutex_unlock(&w->leaf);
    return policy;
}

void weir__in_force_drop(struct weir__in_force *policy)
{
    if (policy && atomic_fetch_sub(&policy->users, 1) == 1)
        free(policy);
}

/* Opening and closing ------------------------------------------------------------------------------------------------------------------ */

bool weir__about_open(weir *w)
{
    struct weir__about *about = calloc(1, sizeof *about);
    if (!about)
        return false;
    w->about = about;
    snprintf(about->program, sizeof about->program, "%s", program_invocation_short_name);
    read_labels(&about->labels);
    about->opened_at = weir__service_now();
    about->policy = weir__in_force_new(w, w->policy);
    return about->policy;
}

void weir__about_close(weir *w)
{
    if (!w->about)
        return;
    weir__in_force_drop(w->about->policy);
    free(w->about);
    w->about = NULL;
}
