/* SPDX-License-Identifier: MIT */
/* sim_settings.c - reads the text of $WEIR_SIM, "devices=2,memory=8GiB,peers=0-1", into struct sim_settings. */
#include "lib/gpu/sim_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define SETTING_SIZE 1024

/* Reads a decimal number from the front of *text, and moves *text behind it. */
static bool take_number(char **text, uint64_t *number)
{
    errno = 0;
    if (!isdigit((unsigned char)**text))
        return false;
    *number = strtoull(*text, text, 10);
    return errno == 0;
}

static bool parse_with_unit(char *value, const char *const *units, const uint64_t *factors, uint64_t *number)
{
    uint64_t count;
    if (!take_number(&value, &count))
        return false;
    for (size_t i = 0; units[i]; i++)
        if (strcmp(value, units[i]) == 0)
            return !__builtin_mul_overflow(count, factors[i], number);
    return false;
}

static bool parse_count(char *value, uint64_t *number)
{
    return take_number(&value, number) && !*value;
}

static bool parse_size(char *value, uint64_t *number)
{
    static const char *const units[] = { "", "KiB", "MiB", "GiB", "TiB", NULL };
    static const uint64_t factors[] = { 1, 1 << 10, 1 << 20, GIB, GIB << 10 };
    return parse_with_unit(value, units, factors, number);
}

static bool parse_rate(char *value, uint64_t *number)
{
    struct gpu_cost cost;
    bool is_rate = gpu_cost_parse(value, &cost) && !cost.call;
    *number = is_rate ? cost.gib : 0;
    return is_rate;
}

static bool parse_time(char *value, uint64_t *number)
{
    struct gpu_cost cost;
    bool is_time = gpu_cost_parse(value, &cost) && !cost.gib;
    *number = is_time ? cost.call : 0;
    return is_time;
}

static bool parse_yes_no(char *value, uint64_t *number)
{
    *number = strcmp(value, "yes") == 0;
    return *number || strcmp(value, "no") == 0;
}

static bool parse_version(char *value, uint64_t *number)
{
    uint64_t major, minor;
    if (!take_number(&value, &major) || *value++ != '.' || !parse_count(value, &minor) || major > 99 || minor > 9)
        return false;
    *number = major * 1000 + minor * 10;
    return true;
}

/* The settings whose value is one number. */
static const struct setting {
    const char *key;
    bool (*parse)(char *value, uint64_t *number);
    size_t offset;
    uint64_t least, most, standard;
    const char *help; /* the rest of the message "write …" */
} settings_table[] = {
#define SETTING(key, parse, least, most, standard, help) \
    { #key, parse, offsetof(struct sim_settings, key), least, most, standard, help }
    SETTING(devices, parse_count, 0, SIM_DEVICES_MAX, 1, "a number of devices from 0 to 16, as in devices=2"),
    SETTING(memory, parse_size, SIM_STEP, GIB << 10, 8 * GIB, "bytes from 32MiB to 1TiB, as in memory=8GiB"),
    SETTING(grow, parse_rate, 0, GPU_COST_MOST, 830000, "virtual time for each GiB in ns, us or ms up to 60000ms, as in grow=830us/GiB"),
    SETTING(grow_host, parse_rate, 0, GPU_COST_MOST, 830000, "virtual time for each GiB up to 60000ms, as in grow_host=250ms/GiB"),
    SETTING(grow_each, parse_time, 0, GPU_COST_MOST, 0, "virtual time in ns, us or ms up to 60000ms, as in grow_each=15us"),
    SETTING(first, parse_time, 0, GPU_COST_MOST, 0, "virtual time in ns, us or ms up to 60000ms, as in first=360us"),
    SETTING(first_of_all, parse_time, 0, GPU_COST_MOST, 0, "virtual time in ns, us or ms up to 60000ms, as in first_of_all=9ms"),
    SETTING(trim, parse_rate, 0, GPU_COST_MOST, 930000, "virtual time for each GiB in ns, us or ms up to 60000ms, as in trim=930us/GiB"),
    SETTING(driver, parse_version, 10000, 99090, 13000, "a CUDA version from 10.0, as in driver=12.2"),
    SETTING(numa, parse_count, 0, 64, 1, "a number of host NUMA nodes from 0 to 64, as in numa=1"),
    SETTING(pools, parse_yes_no, 0, 1, 1, "yes or no, as in pools=yes"),
    SETTING(posix_fd, parse_yes_no, 0, 1, 1, "yes or no, as in posix_fd=no"),
    SETTING(mig, parse_yes_no, 0, 1, 0, "yes or no, as in mig=no"),
    SETTING(os_managed, parse_yes_no, 0, 1, 0, "yes or no, as in os_managed=no"),
    SETTING(mapping, parse_yes_no, 0, 1, 1, "yes or no, as in mapping=no"),
    SETTING(addresses, parse_size, 0, GIB << 17, GIB << 17, "bytes up to 128TiB, as in addresses=64GiB"),
#undef SETTING
};

static uint64_t *place_of(struct sim_settings *settings, const struct setting *setting)
{
    return (uint64_t *)(void *)((char *)settings + setting->offset);
}

static bool set_number(struct sim_settings *settings, const struct setting *setting, char *value)
{
    uint64_t number;
    if (!setting->parse(value, &number) || number < setting->least || number > setting->most)
        return false;
    *place_of(settings, setting) = number;
    return true;
}

static void reach_all(struct sim_settings *settings, bool reach)
{
    for (int device = 0; device < SIM_DEVICES_MAX; device++)
        for (int peer = 0; peer < SIM_DEVICES_MAX; peer++)
            settings->reaches[device][peer] = device == peer || reach;
}

static bool set_peers(struct sim_settings *settings, char *value)
{
    bool all = strcmp(value, "all") == 0;
    reach_all(settings, all);
    if (all || strcmp(value, "none") == 0)
        return true;
    do {
        uint64_t a, b;
        char *pair = strsep(&value, "+");
        if (!take_number(&pair, &a) || *pair++ != '-' || !parse_count(pair, &b) || a >= SIM_DEVICES_MAX || b >= SIM_DEVICES_MAX || a == b)
            return false;
        settings->reaches[a][b] = settings->reaches[b][a] = true;
    } while (value && *value);
    return true;
}

static bool set_fault(struct sim_settings *settings, char *value)
{
    uint64_t nth, code;
    const char *name = strsep(&value, ":");
    char *nth_text = strsep(&value, ":");
    int operation = sim_operation_find(strcmp(name, "any") == 0 ? NULL : name);
    if (operation < 0 || !value || !parse_count(nth_text, &nth) || !parse_count(value, &code) || !nth || nth > 1000000000 || !code ||
        code > 9999)
        return false;
    settings->faults[operation] = (struct sim_fault){ (unsigned)nth, (int)code };
    return true;
}

/* The default costs of calls: as on a GPU, with pages of 32 MiB, or 0 where that was not measured. A query must cost something, so that a
   program that polls comes to an end. So must the capture status, which every request queries, so that the clock moves while caches serve
   all requests. */
static const struct gpu_cost standard_costs[SIM_OP_COUNT] = {
    [SIM_OP_stream_capture_status] = { .call = 16 },
    [SIM_OP_event_query] = { .call = 1000 },       [SIM_OP_page_create] = { .call = 6500 },       [SIM_OP_page_map] = { .call = 600 },
    [SIM_OP_page_set_access] = { .call = 21000 },  [SIM_OP_page_unmap] = { .call = 13000 },       [SIM_OP_page_release] = { .call = 15000 },
};

static bool is_sized(int operation)
{
    return operation == SIM_OP_page_create || operation == SIM_OP_page_map || operation == SIM_OP_page_set_access ||
           operation == SIM_OP_page_unmap || operation == SIM_OP_page_release;
}

/* Sets the cost of an operation. Returns NULL, or what to write instead. */
static const char *set_cost(struct sim_settings *settings, int operation, const char *value)
{
    struct gpu_cost cost;
    bool is_cost = value && gpu_cost_parse(value, &cost);
    if (is_sized(operation) && !is_cost)
        return "virtual time of a call, of each GiB or of both, up to 60000ms, as in page_create=7us+10us/GiB";
    if (!is_sized(operation) && (!is_cost || cost.gib))
        return "virtual time of a call in ns, us or ms up to 60000ms, as in malloc_async=300ns";
    settings->costs[operation] = cost;
    return NULL;
}

static bool set_name(struct sim_settings *settings, char *value)
{
    size_t len = strlen(value);
    if (!len || len >= sizeof(settings->name))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)value[i]) && value[i] != '-' && value[i] != '_')
            return false;
    memset(settings->name, 0, sizeof(settings->name));
    memcpy(settings->name, value, len);
    return true;
}

/* The other settings. */
static const struct {
    const char *key;
    bool (*set)(struct sim_settings *settings, char *value);
    const char *help; /* the rest of the message "write …" */
} others[] = {
    { "peers", set_peers, "all, none or pairs of devices, as in peers=0-1+1-2" },
    { "fail", set_fault, "an operation of gpu.h or any, the number of the call, and an error number, as in fail=malloc_async:3:2" },
    { "name", set_name, "1 to 32 letters, digits, '-' and '_', as in name=test-1" },
};

/* Sets one setting. Returns NULL, or what to write instead. */
static const char *set_one(struct sim_settings *settings, const char *key, char *value)
{
    for (size_t i = 0; i < sizeof(settings_table) / sizeof(*settings_table); i++)
        if (strcmp(key, settings_table[i].key) == 0)
            return value && set_number(settings, &settings_table[i], value) ? NULL : settings_table[i].help;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strcmp(key, others[i].key) == 0)
            return value && others[i].set(settings, value) ? NULL : others[i].help;
    int operation = sim_operation_find(key);
    if (operation >= 0)
        return set_cost(settings, operation, value);
    return "one of devices=, memory=, peers=, grow=, grow_host=, grow_each=, first=, first_of_all=, trim=, driver=, numa=, pools=, posix_fd=, "
           "mig=, os_managed=, mapping=, addresses=, name= and fail=, or OPERATION=COST, with commas between";
}

int sim_settings_parse(const char *text, struct sim_settings *settings, char *why, size_t len)
{
    *settings = (struct sim_settings){ 0 };
    for (size_t i = 0; i < sizeof(settings_table) / sizeof(*settings_table); i++)
        *place_of(settings, &settings_table[i]) = settings_table[i].standard;
    memcpy(settings->costs, standard_costs, sizeof settings->costs);
    reach_all(settings, true);
    while (text && *text) {
        char copy[SETTING_SIZE], *value = copy;
        size_t size = strcspn(text, ",");
        snprintf(copy, sizeof(copy), "%.*s", (int)size, text);
        const char *key = strsep(&value, "="), *help = size < sizeof(copy) ? set_one(settings, key, value) : "less than 1024 bytes";
        if (help) {
            snprintf(why, len, "simulator setting '%.*s': write %s", (int)size, text, help);
            return -1;
        }
        text += size + (text[size] == ',');
    }
    return 0;
}

bool sim_standard_cost(const char *name, struct gpu_cost *cost)
{
    int operation = sim_operation_find(name);
    if (operation >= 0 && operation < SIM_OP_COUNT)
        *cost = standard_costs[operation];
    for (size_t i = 0; operation < 0 && i < sizeof(settings_table) / sizeof(*settings_table); i++) {
        const struct setting *setting = &settings_table[i];
        bool is_rate = setting->parse == parse_rate, is_time = setting->parse == parse_time;
        if ((is_rate || is_time) && strcmp(name, setting->key) == 0) {
            *cost = (struct gpu_cost){ .call = is_time ? setting->standard : 0, .gib = is_rate ? setting->standard : 0 };
            return true;
        }
    }
    return operation >= 0 && operation < SIM_OP_COUNT;
}

const char *sim_settings_difference(const struct sim_settings *a, const struct sim_settings *b)
{
    for (size_t i = 0; i < sizeof(settings_table) / sizeof(*settings_table); i++) {
        size_t offset = settings_table[i].offset;
        if (memcmp((const char *)a + offset, (const char *)b + offset, sizeof(uint64_t)) != 0)
            return settings_table[i].key;
    }
    for (int i = 0; i < SIM_OP_COUNT; i++)
        if (memcmp(&a->costs[i], &b->costs[i], sizeof(a->costs[i])) != 0)
            return sim_operation_names[i];
    return memcmp(a->reaches, b->reaches, sizeof(a->reaches)) != 0 ? "peers" : NULL;
}
