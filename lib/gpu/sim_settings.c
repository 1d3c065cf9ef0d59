/* SPDX-License-Identifier: MIT */
/* sim_settings.c - the text of $WEIR_SIM, "devices=2,memory=8GiB,peers=0-1", read into struct sim_settings. */
#include "lib/gpu/sim_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

/* A piece of the text; not terminated. */
struct span {
    const char *text;
    size_t len;
};

static bool span_is(struct span span, const char *word)
{
    return span.len == strlen(word) && !memcmp(span.text, word, span.len);
}

/* Takes what stands before the first `separator` off the front of *rest, and the separator with it. */
static struct span take_until(struct span *rest, char separator)
{
    const char *at = memchr(rest->text, separator, rest->len);
    struct span head = { rest->text, at ? (size_t)(at - rest->text) : rest->len };
    size_t skip = head.len + (at != NULL);
    *rest = (struct span){ rest->text + skip, rest->len - skip };
    return head;
}

/* Takes a decimal number off the front. */
static bool take_number(struct span *rest, uint64_t *number)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; digits < rest->len && isdigit((unsigned char)rest->text[digits]); digits++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(rest->text[digits] - '0'), &value))
            return false;
    *rest = (struct span){ rest->text + digits, rest->len - digits };
    *number = value;
    return digits > 0;
}

static bool parse_with_unit(struct span value, const char *const *units, const uint64_t *factors, uint64_t *number)
{
    uint64_t count;
    if (!take_number(&value, &count))
        return false;
    for (size_t i = 0; units[i]; i++)
        if (span_is(value, units[i]))
            return !__builtin_mul_overflow(count, factors[i], number);
    return false;
}

static bool parse_count(struct span value, uint64_t *number)
{
    return take_number(&value, number) && !value.len;
}

static bool parse_size(struct span value, uint64_t *number)
{
    static const char *const units[] = { "", "KiB", "MiB", "GiB", "TiB", NULL };
    static const uint64_t factors[] = { 1, 1 << 10, 1 << 20, GIB, GIB << 10 };
    return parse_with_unit(value, units, factors, number);
}

static bool parse_cost(struct span value, uint64_t *number)
{
    static const char *const units[] = { "ns/GiB", "us/GiB", "ms/GiB", NULL };
    static const uint64_t factors[] = { 1, 1000, 1000000 };
    return parse_with_unit(value, units, factors, number);
}

static bool parse_yes_no(struct span value, uint64_t *number)
{
    *number = span_is(value, "yes");
    return *number || span_is(value, "no");
}

static bool parse_version(struct span value, uint64_t *number)
{
    uint64_t major, minor;
    struct span rest = value;
    if (!take_number(&rest, &major) || !rest.len || *rest.text != '.')
        return false;
    rest = (struct span){ rest.text + 1, rest.len - 1 };
    if (!take_number(&rest, &minor) || rest.len || major > 99 || minor > 9)
        return false;
    *number = major * 1000 + minor * 10;
    return true;
}

/* The settings that are one number. */
static const struct setting {
    const char *key;
    bool (*parse)(struct span value, uint64_t *number);
    size_t offset;
    uint64_t least, most, standard;
    const char *help; /* "write …" */
} settings_table[] = {
#define SETTING(key, parse, least, most, standard, help) \
    { #key, parse, offsetof(struct sim_settings, key), least, most, standard, help }
    SETTING(devices, parse_count, 0, SIM_DEVICES_MAX, 1, "a number of devices from 0 to 16, as in devices=2"),
    SETTING(memory, parse_size, SIM_STEP, GIB << 10, 8 * GIB, "bytes from 32MiB to 1TiB, as in memory=8GiB"),
    SETTING(grow, parse_cost, 0, 60000000000, 830000, "virtual time for each GiB in ns, us or ms up to 60000ms, as in grow=830us/GiB"),
    SETTING(trim, parse_cost, 0, 60000000000, 930000, "virtual time for each GiB in ns, us or ms up to 60000ms, as in trim=930us/GiB"),
    SETTING(driver, parse_version, 10000, 99090, 13000, "a CUDA version from 10.0, as in driver=12.2"),
    SETTING(numa, parse_count, 0, 64, 1, "a number of host NUMA nodes from 0 to 64, as in numa=1"),
    SETTING(pools, parse_yes_no, 0, 1, 1, "yes or no, as in pools=yes"),
    SETTING(posix_fd, parse_yes_no, 0, 1, 1, "yes or no, as in posix_fd=no"),
    SETTING(mig, parse_yes_no, 0, 1, 0, "yes or no, as in mig=no"),
    SETTING(os_managed, parse_yes_no, 0, 1, 0, "yes or no, as in os_managed=no"),
    SETTING(mapping, parse_yes_no, 0, 1, 1, "yes or no, as in mapping=no"),
#undef SETTING
};

static uint64_t *place_of(struct sim_settings *settings, const struct setting *setting)
{
    return (uint64_t *)(void *)((char *)settings + setting->offset);
}

static bool set_number(struct sim_settings *settings, const struct setting *setting, struct span value)
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

static bool set_peers(struct sim_settings *settings, struct span value)
{
    bool all = span_is(value, "all");
    reach_all(settings, all);
    if (all || span_is(value, "none"))
        return true;
    do {
        uint64_t a, b;
        struct span pair = take_until(&value, '+');
        struct span first = take_until(&pair, '-');
        if (!parse_count(first, &a) || !parse_count(pair, &b) || a >= SIM_DEVICES_MAX || b >= SIM_DEVICES_MAX || a == b)
            return false;
        settings->reaches[a][b] = settings->reaches[b][a] = true;
    } while (value.len);
    return true;
}

static bool set_fault(struct sim_settings *settings, struct span value)
{
    uint64_t nth, code;
    struct span name = take_until(&value, ':');
    struct span nth_text = take_until(&value, ':');
    int operation = span_is(name, "any") ? SIM_OP_COUNT : sim_operation_find(name.text, name.len);
    if (operation < 0 || !parse_count(nth_text, &nth) || !parse_count(value, &code) || !nth || nth > 1000000000 || !code || code > 9999)
        return false;
    settings->faults[operation] = (struct sim_fault){ (unsigned)nth, (int)code };
    return true;
}

static int refuse(struct span setting, const char *help, char *why, size_t len)
{
    snprintf(why, len, "simulator setting '%.*s': write %s", (int)setting.len, setting.text, help);
    return -1;
}

static bool set_name(struct sim_settings *settings, struct span value)
{
    if (!value.len || value.len >= sizeof(settings->name))
        return false;
    for (size_t i = 0; i < value.len; i++)
        if (!isalnum((unsigned char)value.text[i]) && value.text[i] != '-' && value.text[i] != '_')
            return false;
    memset(settings->name, 0, sizeof(settings->name));
    memcpy(settings->name, value.text, value.len);
    return true;
}

static const char fault_help[] =
    "an operation of gpu.h or any, the number of the call, and an error number, as in fail=malloc_async:3:2";

static int set_one(struct sim_settings *settings, struct span setting, char *why, size_t len)
{
    struct span value = setting;
    struct span key = take_until(&value, '=');
    for (size_t i = 0; i < sizeof(settings_table) / sizeof(*settings_table); i++) {
        if (!span_is(key, settings_table[i].key))
            continue;
        return set_number(settings, &settings_table[i], value) ? 0 : refuse(setting, settings_table[i].help, why, len);
    }
    if (span_is(key, "peers"))
        return set_peers(settings, value) ? 0 : refuse(setting, "all, none or pairs of devices, as in peers=0-1+1-2", why, len);
    if (span_is(key, "fail"))
        return set_fault(settings, value) ? 0 : refuse(setting, fault_help, why, len);
    if (span_is(key, "name"))
        return set_name(settings, value) ? 0 : refuse(setting, "1 to 32 letters, digits, '-' and '_', as in name=test-1", why, len);
    return refuse(setting,
                  "one of devices=, memory=, peers=, grow=, trim=, driver=, numa=, pools=, posix_fd=, mig=, os_managed=, mapping=, "
                  "name= and fail=, with commas between them",
                  why, len);
}

int sim_settings_parse(const char *text, struct sim_settings *settings, char *why, size_t len)
{
    *settings = (struct sim_settings){ 0 };
    for (size_t i = 0; i < sizeof(settings_table) / sizeof(*settings_table); i++)
        *place_of(settings, &settings_table[i]) = settings_table[i].standard;
    reach_all(settings, true);
    struct span rest = { text ? text : "", text ? strlen(text) : 0 };
    while (rest.len) {
        struct span setting = take_until(&rest, ',');
        if (set_one(settings, setting, why, len))
            return -1;
    }
    return 0;
}

const char *sim_settings_difference(const struct sim_settings *a, const struct sim_settings *b)
{
    for (size_t i = 0; i < sizeof(settings_table) / sizeof(*settings_table); i++) {
        size_t offset = settings_table[i].offset;
        if (memcmp((const char *)a + offset, (const char *)b + offset, sizeof(uint64_t)) != 0)
            return settings_table[i].key;
    }
    return memcmp(a->reaches, b->reaches, sizeof(a->reaches)) != 0 ? "peers" : NULL;
}
