/* SPDX-License-Identifier: MIT */
/*
 * quota.h - how much of a device's memory this process may have, as the environment says it: the least of the device's memory and of the
 * limits that are good.
 *
 * Advisory: Weir takes shares of it and caps pools by it, while who enforces a limit, if anybody does, is MPS, HAMi or nobody. Programs
 * with changed user or group ids do not read it. Pure but for the environment.
 */
#ifndef WEIR_LIB_QUOTA_H
#define WEIR_LIB_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

#define WEIR__QUOTA_LIMITS 4

/* One variable that is set. */
struct weir__quota_limit {
    char variable[48];
    char value[80];  /* as it may be printed */
    uint64_t bytes;  /* 0: it is ignored */
    bool is_refused; /* it is Weir's own, and no limit: a weir is not opened with it */
    char why[224];   /* with 0: why, and what to do. May be empty: it is for other devices only, or another one stands for it */
};

struct weir__quota {
    uint64_t bytes;
    size_t count;
    int counts; /* which of the limits is the least; -1: none is below the device's memory */
    struct weir__quota_limit limits[WEIR__QUOTA_LIMITS];
};

void weir__quota_read(int device, uint64_t memory, struct weir__quota *quota);

/* Bytes that a pool with this entry may have on the device; 0: no cap. Where the policy says nothing, that is the quota, if one is set: not
   for host memory, of which it does not speak, nor for the driver's own pool, which can have no cap. */
uint64_t weir__quota_cap(const struct weir__quota *quota, const struct policy_pool *entry);

/* The pool whose max_size this value is, where the policy does not set it, so that a quota may cap the pool; NULL: none. *device: the one
   whose quota counts. */
const struct policy_pool *weir__quota_pool(const struct policy *policy, const struct policy_value *value, int *device);
/* That value as it is in force under the quota, of which its text is. */
struct policy_value weir__quota_value(const struct weir__quota *quota, const struct policy_pool *pool, const struct policy_value *value);

#endif
