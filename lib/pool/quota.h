/* SPDX-License-Identifier: MIT */
/*
 * quota.h - how much of a device's memory this process may have, as the environment says it: the least of the device's memory and of the
 * limits that are good.
 *
 * Advisory: Weir takes percentages of the quota and caps pools by it; MPS or HAMi may enforce the limits, or nobody. Programs with changed
 * user or group ids have no quota. Pure but for the environment.
 */
#ifndef WEIR_LIB_QUOTA_H
#define WEIR_LIB_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

#define WEIR__QUOTA_LIMITS 4

/* A variable of the environment that is set. */
struct weir__quota_limit {
    char variable[48];
    char value[80];  /* as it may be printed */
    uint64_t bytes;  /* 0: the limit is ignored */
    bool is_refused; /* the variable is Weir's own, and its value no limit: weir_open() fails */
    char why[224];   /* with bytes 0: why, and what to do; empty if the limit is for other devices, or another variable has it */
};

struct weir__quota {
    uint64_t bytes;
    size_t count;
    int counts; /* which of the limits is the least; -1: none is below the device's memory */
    struct weir__quota_limit limits[WEIR__QUOTA_LIMITS];
};

void weir__quota_read(int device, uint64_t memory, struct weir__quota *quota);

/* Bytes that a pool with this entry may have on the device; 0: no cap. A pool without max_size is capped by the quota, if there is one,
   unless the pool is on the host or the driver's own, which can have no cap. */
uint64_t weir__quota_cap(const struct weir__quota *quota, const struct policy_pool *entry);

/* The pool whose max_size this value is, if the policy does not set it, so that a quota may cap the pool; else NULL. *device: whose quota
   counts. */
const struct policy_pool *weir__quota_pool(const struct policy *policy, const struct policy_value *value, int *device);
/* The value that is in force under the quota. Its text is the quota's. */
struct policy_value weir__quota_value(const struct weir__quota *quota, const struct policy_pool *pool, const struct policy_value *value);

#endif
