/* SPDX-License-Identifier: MIT */
/*
 * quota.h - how many bytes of a device this process may have, according to the environment: the smallest of the device's memory and the
 * valid limits in $WEIR_QUOTA and in the variables of MPS and HAMi.
 *
 * Weir takes percentages of the quota and caps pools by it. Weir enforces nothing else: MPS or HAMi may enforce their limits, or nobody
 * does. Programs with changed user or group ids have no quota. The functions only compute; their one input beside the arguments is the
 * environment.
 */
#ifndef WEIR_LIB_QUOTA_H
#define WEIR_LIB_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

#define WEIR__QUOTA_LIMITS 4

/* The limit that one variable of the environment sets. */
struct weir__quota_limit {
    char variable[48];
    char value[80];  /* the variable's value, escaped for printing */
    uint64_t bytes;  /* 0: the limit is ignored */
    bool is_refused; /* the variable is $WEIR_QUOTA, and its value is no limit: weir_open() fails */
    /* If bytes is 0: why, and the remedy. Empty: the value says nothing of this device, or a variable for this device alone overrides
       it. */
    char why[224];
};

struct weir__quota {
    uint64_t bytes;
    size_t count;
    int counts; /* the index of the limit that `bytes` is from; -1: no limit is below the device's memory */
    struct weir__quota_limit limits[WEIR__QUOTA_LIMITS];
};

/* Reads the quota of a device that has `memory` bytes. */
void weir__quota_read(int device, uint64_t memory, struct weir__quota *quota);

/* Returns the cap of a pool with this entry on the device, in bytes; 0: no cap. A pool without max_size is capped by the quota, if one is
   below the device's memory. Pools on the host, and the driver's own pools, have no such cap. */
uint64_t weir__quota_cap(const struct weir__quota *quota, const struct policy_pool *entry);

/* Returns the pool of the policy if `value` is the default of its max_size, so that a quota may cap the pool; else NULL. *device: the
   device whose quota counts. */
const struct policy_pool *weir__quota_pool(const struct policy *policy, const struct policy_value *value, int *device);
/* Returns the value that is in force under the quota, for printing. Its text points into the quota. */
struct policy_value weir__quota_value(const struct weir__quota *quota, const struct policy_pool *pool, const struct policy_value *value);

#endif
