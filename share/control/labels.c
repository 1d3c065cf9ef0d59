/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/labels.h"

#include <stdlib.h>
#include <string.h>

#include "policy/environment.h"

#define VARIABLES_MAX 3

/* The first variable that is set counts. */
static const struct {
    const char *name;
    const char *variables[VARIABLES_MAX];
} labels_known[SHARE_LABELS] = {
    { "rank", { "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK" } },
    { "local_rank", { "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK" } },
    { "job", { "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID" } },
    { "pod", { "POD_NAME" } },
};
#define JOB_NONE "none" /* torchrun's, for a job without a name */
enum { POD = 3 };

static const char *value_of(const char *variable)
{
    const char *value = policy_environment(variable);
    return value && *value && strcmp(value, JOB_NONE) != 0 ? value : NULL;
}

void share_label_copy(char to[WIRE_NAME_SIZE], const char *text)
{
    size_t len = strlen(text), kept = len < WIRE_NAME_SIZE ? len : WIRE_NAME_SIZE - 1;
    memset(to, 0, WIRE_NAME_SIZE);
    text += len - kept;
    for (size_t i = 0; i < kept; i++)
        to[i] = text[i] > 0x20 && text[i] < 0x7f ? text[i] : '?';
}

void share_labels_read(struct share_labels *labels)
{
    memset(labels, 0, sizeof *labels);
    for (unsigned label = 0; label < SHARE_LABELS; label++) {
        const char *value = NULL;
        for (size_t i = 0; i < VARIABLES_MAX && !value && labels_known[label].variables[i]; i++)
            value = value_of(labels_known[label].variables[i]);
        /* A pod's host name is its own name; what the host name of another machine is tells nothing of a pod. */
        if (!value && label == POD && value_of("KUBERNETES_SERVICE_HOST"))
            value = value_of("HOSTNAME");
        if (value)
            share_label_copy(labels->values[label], value);
    }
}

const char *share_label_name(unsigned label)
{
    return labels_known[label].name;
}
