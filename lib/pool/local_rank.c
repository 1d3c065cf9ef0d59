/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/pool/local_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/environment.h"
#include "policy/keys.h"
#include "policy/report.h"

/* The first that is set counts. torchrun, which sets LOCAL_RANK, may itself run in a job of Slurm or MPI. */
static const char *const variables[] = {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"};

const char *weir__local_rank_variable(const char **value)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        *value = policy_environment(variables[i]);
        if (*value && **value)
            return variables[i];
    }
    *value = NULL;
    return NULL;
}

/* Reads a rank, which is digits alone. strtol() would also accept blanks and signs, which no launcher writes. */
static bool read_rank(const char *text, size_t *rank)
{
    size_t len = strlen(text);
    *rank = 0;
    if (len == 0 || strspn(text, "0123456789") != len)
        return false;
    for (; *text && *rank <= POLICY_INDEX_MAX; text++)
        *rank = *rank * 10 + (size_t)(*text - '0');
    return *rank <= POLICY_INDEX_MAX;
}

bool weir__local_rank_device(size_t count, int *device, char why[WEIR__LOCAL_RANK_WHY])
{
    const char *value, *variable = weir__local_rank_variable(&value);
    size_t rank = 0;
    if (!variable && count > 1) {
        snprintf(why, WEIR__LOCAL_RANK_WHY,
                 "is local, but none of LOCAL_RANK, SLURM_LOCALID and OMPI_COMM_WORLD_LOCAL_RANK is set and %zu devices are visible: set "
                 "LOCAL_RANK, leave one device in CUDA_VISIBLE_DEVICES, or write a list as in [0]",
                 count);
        return false;
    }
    if (variable && !read_rank(value, &rank)) {
        snprintf(why, WEIR__LOCAL_RANK_WHY, "is local, and %s is '%s', which is no local rank: set it to a number from 0 to %d, or unset it",
                 variable, policy_quote(value).text, POLICY_INDEX_MAX);
        return false;
    }
    /* A launcher may make just one device visible to each process. The rank still counts up from 0 then, but the device is always 0. */
    if (count == 1)
        rank = 0;
    if (rank >= count) {
        snprintf(why, WEIR__LOCAL_RANK_WHY,
                 "is local, and %s is %s, but %zu devices are visible, counted from 0: start at most %zu ranks on this machine, or show each "
                 "rank its own device by CUDA_VISIBLE_DEVICES",
                 variable, policy_quote(value).text, count, count);
        return false;
    }
    *device = (int)rank;
    return true;
}
