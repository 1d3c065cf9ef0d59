/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/pool/quota.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/format.h"
#include "policy/environment.h"
#include "policy/keys.h"
#include "policy/number.h"
#include "policy/report.h"

#define MPS "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
#define HAMI "CUDA_DEVICE_MEMORY_LIMIT"
/* The most bytes of one entry of MPS's list, as "0=1GB", and the smallest number of bytes that may stand without a unit in $WEIR_QUOTA. */
#define ENTRY_MAX 64
#define BARE_LEAST (UINT64_C(1) << 20)

/* Reading one size ----------------------------------------------------------------------------------------------------------------------- */

/* Reads a size as a policy writes it: "8GiB", bytes, or a percentage of the device's memory. Returns false if the text is no such size. */
static bool read_own(const char *text, uint64_t memory, uint64_t *bytes)
{
    struct policy_number number;
    if (policy_number_read(text, &number) != POLICY_NUMBER_OK)
        return false;
    if (strcmp(number.unit, "%") == 0) {
        uint64_t hundredths;
        if (policy_number_scale(&number, 100, &hundredths) != POLICY_NUMBER_OK || hundredths > 10000)
            return false;
        *bytes = (uint64_t)((unsigned __int128)memory * hundredths / 10000);
        return true;
    }
    /* A number without a unit means bytes. A small one is refused, since the user probably meant a percentage or mebibytes. */
    uint64_t factor = number.unit[0] || number.scale > 1 || number.whole < BARE_LEAST ? 0 : 1;
    for (const struct policy_unit *unit = policy_size_units; unit->name; unit++)
        if (strcmp(unit->name, number.unit) == 0)
            factor = unit->factor;
    return factor && policy_number_scale(&number, factor, bytes) == POLICY_NUMBER_OK;
}

/* Reads a size as MPS and HAMi write it: a whole number with K, M, G or T in upper or lower case, all of them powers of 1024. bare: a
   number without a unit is allowed and means bytes. Returns false if the text is no such size. */
static bool read_others(const char *text, bool bare, uint64_t *bytes)
{
    static const char units[] = "kmgt";
    struct policy_number number;
    if (policy_number_read(text, &number) != POLICY_NUMBER_OK || number.scale != 1)
        return false;
    const char *unit = number.unit[0] ? strchr(units, tolower((unsigned char)number.unit[0])) : NULL;
    if (!unit && (!bare || number.unit[0]))
        return false;
    const char *rest = unit ? number.unit + 1 : "";
    if (*rest && strcasecmp(rest, "b") != 0 && strcasecmp(rest, "ib") != 0)
        return false;
    uint64_t factor = unit ? UINT64_C(1) << (10 * (unit - units + 1)) : 1;
    return policy_number_scale(&number, factor, bytes) == POLICY_NUMBER_OK;
}

/* Reads a list like "0=1GB,1=512M". *is_told: the list has a size for this device; then *bytes is the smallest such size. Returns false if
   any part of the list is not a device and a size. */
static bool read_mps(const char *text, int device, uint64_t *bytes, bool *is_told)
{
    *is_told = false;
    while (*text) {
        char entry[ENTRY_MAX], *value;
        size_t len = strcspn(text, ",");
        uint64_t one;
        if (len >= sizeof entry)
            return false;
        memcpy(entry, text, len);
        entry[len] = '\0';
        value = strchr(entry, '=');
        if (!value)
            return false;
        *value++ = '\0';
        if (!*entry || strlen(entry) > 4 || strspn(entry, "0123456789") != strlen(entry) || !read_others(value, false, &one))
            return false;
        if (strtol(entry, NULL, 10) == device) {
            *bytes = *is_told && *bytes < one ? *bytes : one;
            *is_told = true;
        }
        text += len;
        if (*text == ',' && !*++text)
            return false;
    }
    return true;
}

/* The limits ----------------------------------------------------------------------------------------------------------------------------- */

/* Adds a limit for the variable, and sets *value. Returns NULL if the variable is not set, or empty. */
static struct weir__quota_limit *add(struct weir__quota *quota, const char *variable, const char **value)
{
    *value = policy_environment_now(variable);
    if (!*value || !**value)
        return NULL;
    struct weir__quota_limit *limit = &quota->limits[quota->count++];
    snprintf(limit->variable, sizeof limit->variable, "%s", variable);
    snprintf(limit->value, sizeof limit->value, "%s", policy_quote(*value).text);
    return limit;
}

/* Sets the limit to `bytes`, or sets the text why it is ignored. good: the variable's value could be read. write: what the user should
   write instead. */
static void judge(struct weir__quota_limit *limit, int device, uint64_t memory, bool good, uint64_t bytes, const char *write)
{
    if (!good)
        snprintf(limit->why, sizeof limit->why, "is no limit: write %s, or unset it", write);
    else if (bytes == 0)
        snprintf(limit->why, sizeof limit->why, "would leave nothing: write %s, or unset it", write);
    else if (bytes > memory)
        snprintf(limit->why, sizeof limit->why, "is more than the %s that device %d has: lower it, or unset it", WEIR__BYTES(memory),
                 device);
    else
        limit->bytes = bytes;
}

static void read_hami(int device, uint64_t memory, struct weir__quota *quota)
{
    static const char write[] = "a size as in 3000m or 8g";
    char variable[48];
    const char *value;
    uint64_t bytes = 0;
    snprintf(variable, sizeof variable, HAMI "_%d", device);
    struct weir__quota_limit *own = add(quota, variable, &value);
    if (own) {
        bool good = read_others(value, true, &bytes);
        judge(own, device, memory, good, bytes, write);
    }
    struct weir__quota_limit *all = add(quota, HAMI, &value);
    if (all) {
        bool good = read_others(value, true, &bytes);
        /* As in HAMi, a valid limit for this device overrides the one for all devices. */
        if (!good || !own || !own->bytes)
            judge(all, device, memory, good, bytes, write);
    }
}

void weir__quota_read(int device, uint64_t memory, struct weir__quota *quota)
{
    const char *value;
    uint64_t bytes = 0;
    *quota = (struct weir__quota){.bytes = memory, .counts = -1};
    struct weir__quota_limit *limit = add(quota, "WEIR_QUOTA", &value);
    if (limit) {
        bool good = read_own(value, memory, &bytes);
        judge(limit, device, memory, good, bytes, "bytes as in 8GiB, or a share of the device's memory as in 50%");
        limit->is_refused = !good || bytes == 0;
    }
    limit = add(quota, MPS, &value);
    if (limit) {
        bool is_told, good = read_mps(value, device, &bytes, &is_told);
        if (!good || is_told)
            judge(limit, device, memory, good, bytes, "a list of devices and sizes as in 0=1G,1=512M");
    }
    read_hami(device, memory, quota);
    for (size_t i = 0; i < quota->count; i++)
        if (quota->limits[i].bytes && quota->limits[i].bytes < quota->bytes) {
            quota->bytes = quota->limits[i].bytes;
            quota->counts = (int)i;
        }
}

uint64_t weir__quota_cap(const struct weir__quota *quota, const struct policy_pool *entry)
{
    bool can_have = entry->location.kind == POLICY_LOCATION_DEVICE && entry->backing != POLICY_BACKING_DEFAULT;
    if (quota->counts >= 0 && can_have && !policy_pool_sets(entry, "max_size"))
        return quota->bytes;
    return policy_size_bytes(entry->max_size, quota->bytes);
}

const struct policy_pool *weir__quota_pool(const struct policy *policy, const struct policy_value *value, int *device)
{
    static const char before[] = "pools.", behind[] = ".max_size";
    for (size_t i = 0; i < policy->pool_count && !value->file; i++) {
        const struct policy_pool *pool = &policy->pools[i];
        size_t len = strlen(pool->name);
        if (strncmp(value->path, before, sizeof before - 1) != 0 || strncmp(value->path + sizeof before - 1, pool->name, len) != 0 ||
            strcmp(value->path + sizeof before - 1 + len, behind) != 0)
            continue;
        *device = pool->devices.count && pool->devices.items[0].index > 0 ? pool->devices.items[0].index : 0;
        return pool;
    }
    return NULL;
}

struct policy_value weir__quota_value(const struct weir__quota *quota, const struct policy_pool *pool, const struct policy_value *value)
{
    struct policy_value shown = *value;
    if (quota->counts >= 0 && weir__quota_cap(quota, pool)) {
        shown.text = quota->limits[quota->counts].value;
        shown.file = quota->limits[quota->counts].variable;
        shown.line = shown.column = 0;
    }
    return shown;
}
