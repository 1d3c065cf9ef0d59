/* SPDX-License-Identifier: MIT */
/* stats.h - the members of a snapshot of statistics. The caller of weir_stats_take() owns the snapshot, which does not change any more. */
#ifndef WEIR_LIB_STATS_H
#define WEIR_LIB_STATS_H

#include "lib/about.h"
#include "lib/pool/quota.h"
#include "lib/record/tag.h"

struct weir_stats {
    int pid;
    uint64_t age_ms; /* of the weir */
    char program[sizeof ((struct weir__about *)0)->program];
    struct weir__labels labels;
    struct weir__in_force *policy;
    size_t pool_count, device_count;
    weir_pool_stats *pools;     /* each name is allocated separately */
    struct weir__device_figures {
        weir_device_stats stats;
        char uuid[sizeof ((struct gpu_device_info *)0)->uuid];
        char quota_from[sizeof ((struct weir__quota_limit *)0)->variable];
    } *devices; /* the devices that have pools */
    size_t tag_count;
    struct weir__tag_figures {
        weir_tag_stats stats;
        char name[WEIR__TAG_NAME_MAX + 1];
    } *tags;
};

#endif
