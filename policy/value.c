/* SPDX-License-Identifier: MIT */
#include "policy/value.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "policy/number.h"

#define PERCENT_SCALE 100 /* hundredths of a percent are stored */

static const char *const step_names[POLICY_STEP_COUNT] = {
    [POLICY_STEP_FLUSH] = "flush",
    [POLICY_STEP_WAIT] = "wait",
    [POLICY_STEP_TRIM] = "trim",
    [POLICY_STEP_CALLBACKS] = "callbacks",
    [POLICY_STEP_NEIGHBOURS] = "neighbours",
};

const char *policy_step_name(enum policy_step step)
{
    return (unsigned)step < POLICY_STEP_COUNT ? step_names[step] : "unknown";
}

/* Failing ------------------------------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 4, 0)))
static void fail_at(const struct policy_reading *reading, struct policy_mark mark, const struct policy_node *node, const char *format,
                    va_list arguments)
{
    char path[POLICY_PATH_MAX], message[1024];
    policy_node_path(node, path, sizeof(path));
    vsnprintf(message, sizeof(message), format, arguments);
    policy_report_add(reading->report, mark, path, "%s", message);
}

void policy_fail(const struct policy_reading *reading, const struct policy_node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_at(reading, node->mark, node, format, arguments);
    va_end(arguments);
}

void policy_fail_name(const struct policy_reading *reading, const struct policy_node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_at(reading, node->name_mark, node, format, arguments);
    va_end(arguments);
}

bool policy_node_is_null(const struct policy_node *node)
{
    if (node->kind != POLICY_NODE_SCALAR || !node->plain)
        return false;
    return node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcasecmp(node->text, "null") == 0;
}

static bool fail_kind(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (node->kind == POLICY_NODE_REFUSED)
        return false;
    if (policy_node_is_null(node))
        policy_fail(reading, node, "has no value; write %s%s", key->write,
                    !node->name                        ? ", or take it off the list"
                    : key->type == POLICY_TYPE_VERSION ? ""
                                                       : ", or leave the key out");
    else if (node->kind == POLICY_NODE_SCALAR)
        policy_fail(reading, node, "'%s' is not what belongs here; write %s", policy_quote(node->text).text, key->write);
    else
        policy_fail(reading, node, "is a %s; write %s", node->kind == POLICY_NODE_LIST ? "list" : "mapping", key->write);
    return false;
}

/* Whether the node is text, with quotes or without. */
static bool is_text(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (node->kind != POLICY_NODE_SCALAR || policy_node_is_null(node))
        return fail_kind(reading, key, node);
    return true;
}

/* Whether the node is a value that quotes would turn into text. */
static bool is_plain(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (!is_text(reading, key, node))
        return false;
    if (!node->plain)
        policy_fail(reading, node, "'%s' is in quotes, which makes it text; write %s, without quotes", policy_quote(node->text).text,
                    key->write);
    return node->plain;
}

/* Numbers ------------------------------------------------------------------------------------------------------------------------------ */

/* Reports what is wrong with a number; smallest is the unit that it must be a whole number of. */
static bool fail_number(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                        enum policy_number_status status, const char *smallest)
{
    struct policy_quote text = policy_quote(node->text);
    switch (status) {
    case POLICY_NUMBER_NEGATIVE:
        policy_fail(reading, node, "%s is negative; write %s", text.text, key->write);
        break;
    case POLICY_NUMBER_LEADING_ZERO:
        policy_fail(reading, node, "%s begins with a zero, which some readers take for octal; leave the zero out", text.text);
        break;
    case POLICY_NUMBER_TOO_LARGE:
        policy_fail(reading, node, "%s is too large; write %s", text.text, key->write);
        break;
    case POLICY_NUMBER_TOO_FINE:
        policy_fail(reading, node, "%s is not a whole number of %s; round it, or use a smaller unit", text.text, smallest);
        break;
    default:
        return fail_kind(reading, key, node);
    }
    return false;
}

/* The unit that a wrong one stands for, whatever its case and however much of it is missing: GiB for G, Gi and gib. */
static const char *nearest_unit(const char *unit, const struct policy_unit *units)
{
    for (; units->name; units++) {
        if (strncasecmp(units->name, unit, strlen(unit)) == 0)
            return units->name;
    }
    return NULL;
}

static bool fail_unit(const struct policy_reading *reading, const struct policy_node *node, const char *unit,
                      const struct policy_unit *units)
{
    char all[64] = "";
    for (size_t i = 0; units[i].name; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? " " : "", units[i].name);
    const char *nearest = nearest_unit(unit, units);
    if (isspace((unsigned char)unit[0]))
        policy_fail(reading, node, "'%s' has a space before its unit; write number and unit together", policy_quote(node->text).text);
    else
        policy_fail(reading, node, "unknown unit '%s'; %s%s%sthe units are %s", policy_quote(unit).text, nearest ? "did you mean '" : "",
                    nearest ? nearest : "", nearest ? "'? " : "", all);
    return false;
}

/* A number with one of the units; bare: what a number without one is counted in, 0 if it may not be without. */
static bool read_quantity(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                          const struct policy_unit *units, uint64_t bare, const char *smallest, uint64_t *value)
{
    struct policy_number number;
    enum policy_number_status status = policy_number_read(node->text, &number);
    if (status != POLICY_NUMBER_OK)
        return fail_number(reading, key, node, status, smallest);
    uint64_t factor = bare;
    if (number.unit[0]) {
        const struct policy_unit *unit = units;
        while (unit->name && strcmp(unit->name, number.unit) != 0)
            unit++;
        if (!unit->name)
            return fail_unit(reading, node, number.unit, units);
        factor = unit->factor;
    }
    if (factor == 0) {
        policy_fail(reading, node, "%s has no unit; write %s", policy_quote(node->text).text, key->write);
        return false;
    }
    uint64_t result;
    status = policy_number_scale(&number, factor, &result);
    if (status == POLICY_NUMBER_OK && result > key->max)
        status = POLICY_NUMBER_TOO_LARGE;
    if (status != POLICY_NUMBER_OK)
        return fail_number(reading, key, node, status, smallest);
    *value = result;
    return true;
}

static bool read_percent(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                         struct policy_size *size)
{
    struct policy_number number;
    enum policy_number_status status = policy_number_read(node->text, &number);
    if (status == POLICY_NUMBER_OK && strcmp(number.unit, "%") != 0)
        status = POLICY_NUMBER_NONE;
    uint64_t hundredths = 0;
    if (status == POLICY_NUMBER_OK)
        status = policy_number_scale(&number, PERCENT_SCALE, &hundredths);
    if (status == POLICY_NUMBER_TOO_LARGE || (status == POLICY_NUMBER_OK && hundredths > 100 * PERCENT_SCALE)) {
        policy_fail(reading, node, "%s is more than the whole; write 100%% at most", policy_quote(node->text).text);
        return false;
    }
    if (status != POLICY_NUMBER_OK)
        return fail_number(reading, key, node, status, "hundredths of a percent");
    *size = (struct policy_size){POLICY_SIZE_PERCENT, hundredths};
    return true;
}

static bool fail_zero(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    policy_fail(reading, node, "%s would leave nothing; write %s", policy_quote(node->text).text, key->write);
    return false;
}

/* Types -------------------------------------------------------------------------------------------------------------------------------- */

/* A type reads a node into *value, and writes a value through `put`. */
struct text_out {
    char *text;
    size_t room, len; /* len counts on where room ends */
};

static void put(struct text_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text_out *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool fits = out->len < out->room;
    int len = vsnprintf(fits ? out->text + out->len : NULL, fits ? out->room - out->len : 0, format, arguments);
    va_end(arguments);
    out->len += (size_t)len;
}

static bool read_version(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    (void)value;
    if (!is_plain(reading, key, node))
        return false;
    if (strcmp(node->text, "1") != 0)
        policy_fail(reading, node, "format '%s' is not known; this release reads format 1, so write weir: 1",
                    policy_quote(node->text).text);
    return strcmp(node->text, "1") == 0;
}

static void put_version(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)value;
    put(out, "%" PRIu64, key->max);
}

/* Whether the text is what some dialect writes for a boolean, and which. */
static bool means_bool(const char *text, bool *meant)
{
    static const char *const meant_true[] = {"yes", "on", "y", "true", "1", NULL};
    static const char *const meant_false[] = {"no", "off", "n", "false", "0", NULL};
    for (size_t i = 0; meant_true[i]; i++) {
        *meant = strcasecmp(text, meant_true[i]) == 0;
        if (*meant || strcasecmp(text, meant_false[i]) == 0)
            return true;
    }
    return false;
}

static bool read_bool(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_plain(reading, key, node))
        return false;
    bool is_true = strcmp(node->text, "true") == 0;
    if (is_true || strcmp(node->text, "false") == 0) {
        *(bool *)value = is_true;
        return true;
    }
    bool meant;
    if (!means_bool(node->text, &meant))
        return fail_kind(reading, key, node);
    policy_fail(reading, node, "'%s' is not a boolean here; write %s", node->text, meant ? "true" : "false");
    return false;
}

static void put_bool(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    put(out, "%s", *(const bool *)value ? "true" : "false");
}

/* As a boolean, and as on and off, which some editors turn into booleans. The mapping in its place is for the reader of mappings. */
static bool read_switch(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_plain(reading, key, node))
        return false;
    bool on = strcmp(node->text, "on") == 0 || strcmp(node->text, "true") == 0;
    if (on || strcmp(node->text, "off") == 0 || strcmp(node->text, "false") == 0) {
        *(bool *)value = on;
        return true;
    }
    bool meant;
    if (!means_bool(node->text, &meant))
        return fail_kind(reading, key, node);
    policy_fail(reading, node, "'%s' is not known; write %s", node->text, meant ? "on" : "off");
    return false;
}

static void put_switch(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    put(out, "%s", *(const bool *)value ? "on" : "off");
}

static bool read_word(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_text(reading, key, node))
        return false;
    struct policy_guess guess = policy_guess_begin(node->text);
    for (int i = 0; key->words[i]; i++) {
        if (strcmp(node->text, key->words[i]) == 0) {
            memcpy(value, &i, sizeof(i));
            return true;
        }
        policy_guess_try(&guess, key->words[i]);
    }
    policy_fail(reading, node, "'%s' is not known; write %s%s", policy_quote(node->text).text, key->write, policy_guess_text(&guess).text);
    return false;
}

static void put_word(const struct policy_key *key, const void *value, struct text_out *out)
{
    int index;
    memcpy(&index, value, sizeof(index));
    put(out, "%s", key->words[index]);
}

static bool read_size(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_plain(reading, key, node))
        return false;
    struct policy_size size = {POLICY_SIZE_BYTES, 0};
    if ((key->accepts & POLICY_ACCEPTS_NONE) && strcmp(node->text, "none") == 0) {
        size.kind = POLICY_SIZE_NONE;
    } else if ((key->accepts & POLICY_ACCEPTS_ALL) && strcmp(node->text, "all") == 0) {
        size.kind = POLICY_SIZE_ALL;
    } else if (node->text[strlen(node->text) - 1] == '%') {
        if (!read_percent(reading, key, node, &size))
            return false;
    } else if (!read_quantity(reading, key, node, policy_size_units, 1, "bytes", &size.value)) {
        return false;
    }
    if (size.kind <= POLICY_SIZE_PERCENT && size.value < key->min)
        return fail_zero(reading, key, node);
    *(struct policy_size *)value = size;
    return true;
}

/* The largest unit that divides it, binary ones first. */
static void put_bytes(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    uint64_t bytes = *(const uint64_t *)value;
    const struct policy_unit *best = NULL;
    for (const struct policy_unit *unit = policy_size_units; unit->name && unit->name[1] == 'i'; unit++) {
        if (bytes > 0 && bytes % unit->factor == 0)
            best = unit;
    }
    put(out, "%" PRIu64 "%s", best ? bytes / best->factor : bytes, best ? best->name : "");
}

static void put_size(const struct policy_key *key, const void *value, struct text_out *out)
{
    const struct policy_size *size = value;
    uint64_t fraction = size->value % PERCENT_SCALE;
    switch (size->kind) {
    case POLICY_SIZE_BYTES:
        put_bytes(key, &size->value, out);
        break;
    case POLICY_SIZE_PERCENT:
        put(out, "%" PRIu64, size->value / PERCENT_SCALE);
        if (fraction)
            put(out, fraction % 10 ? ".%02" PRIu64 : ".%" PRIu64, fraction % 10 ? fraction : fraction / 10);
        put(out, "%%");
        break;
    case POLICY_SIZE_NONE:
        put(out, "none");
        break;
    case POLICY_SIZE_ALL:
        put(out, "all");
        break;
    }
}

static bool is_enough(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                      const uint64_t *value)
{
    if (*value < key->min)
        policy_fail(reading, node, "%s is too small; write %s", policy_quote(node->text).text, key->write);
    return *value >= key->min;
}

static bool read_bytes(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_plain(reading, key, node))
        return false;
    if (strcmp(node->text, "none") == 0) {
        policy_fail(reading, node, "'none' is not a number of bytes; write %s", key->min > 0 ? key->write : "0");
        return false;
    }
    if (node->text[strlen(node->text) - 1] == '%') {
        policy_fail(reading, node, "%s is a share, but this key counts bytes; write %s", policy_quote(node->text).text, key->write);
        return false;
    }
    return read_quantity(reading, key, node, policy_size_units, 1, "bytes", value) && is_enough(reading, key, node, value);
}

static bool read_time(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_plain(reading, key, node))
        return false;
    if ((key->accepts & POLICY_ACCEPTS_NEVER) && strcmp(node->text, "never") == 0) {
        *(uint64_t *)value = UINT64_MAX;
        return true;
    }
    return read_quantity(reading, key, node, policy_time_units, 0, "nanoseconds", value) && is_enough(reading, key, node, value);
}

/* The largest unit that divides it; else milliseconds with as many decimals as it takes. */
static void put_time(const struct policy_key *key, const void *value, struct text_out *out)
{
    uint64_t time = *(const uint64_t *)value;
    if ((key->accepts & POLICY_ACCEPTS_NEVER) && time == UINT64_MAX) {
        put(out, "never");
        return;
    }
    const struct policy_unit *best = policy_time_units;
    for (const struct policy_unit *unit = policy_time_units; unit->name; unit++) {
        if (time % unit->factor == 0 && (time > 0 || unit->factor == UINT64_C(1000000000)))
            best = unit;
    }
    put(out, "%" PRIu64, time / best->factor);
    uint64_t fraction = time % best->factor;
    int digits = 6;
    for (; fraction && fraction % 10 == 0; digits--)
        fraction /= 10;
    if (fraction)
        put(out, ".%0*" PRIu64, digits, fraction);
    put(out, "%s", best->name);
}

static bool read_number(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_plain(reading, key, node))
        return false;
    struct policy_number number;
    enum policy_number_status status = policy_number_read(node->text, &number);
    if (status == POLICY_NUMBER_OK && (number.unit[0] != '\0' || number.scale != 1))
        status = POLICY_NUMBER_NONE;
    if (status == POLICY_NUMBER_OK && number.whole > key->max)
        status = POLICY_NUMBER_TOO_LARGE;
    if (status != POLICY_NUMBER_OK)
        return fail_number(reading, key, node, status, "1");
    *(uint64_t *)value = number.whole;
    return is_enough(reading, key, node, value);
}

static void put_number(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    put(out, "%" PRIu64, *(const uint64_t *)value);
}

static bool read_location(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    static const char numa[] = "host_numa:";
    struct policy_location *location = value;
    if (node->kind == POLICY_NODE_MAPPING && node->first && strcmp(node->first->name, "host_numa") == 0) {
        policy_fail(reading, node, "is a mapping because of the space behind the colon; write host_numa:N without it");
        return false;
    }
    if (!is_text(reading, key, node))
        return false;
    if (strcmp(node->text, "device") == 0 || strcmp(node->text, "host") == 0) {
        *location = (struct policy_location){node->text[0] == 'd' ? POLICY_LOCATION_DEVICE : POLICY_LOCATION_HOST, 0};
        return true;
    }
    struct policy_number number;
    if (strncmp(node->text, numa, strlen(numa)) == 0) {
        if (policy_number_read(node->text + strlen(numa), &number) == POLICY_NUMBER_OK && number.unit[0] == '\0' && number.scale == 1 &&
            number.whole <= key->max) {
            *location = (struct policy_location){POLICY_LOCATION_HOST_NUMA, (int)number.whole};
            return true;
        }
        policy_fail(reading, node, "'%s' names no NUMA node; write host_numa:N with N from 0 to %" PRIu64, policy_quote(node->text).text,
                    key->max);
        return false;
    }
    struct policy_guess guess = policy_guess_begin(node->text);
    policy_guess_try(&guess, "device");
    policy_guess_try(&guess, "host");
    policy_guess_try(&guess, "host_numa:0");
    policy_fail(reading, node, "'%s' is not a location; write %s%s", policy_quote(node->text).text, key->write,
                policy_guess_text(&guess).text);
    return false;
}

static void put_location(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    const struct policy_location *location = value;
    if (location->kind == POLICY_LOCATION_HOST_NUMA)
        put(out, "host_numa:%d", location->node);
    else
        put(out, "%s", location->kind == POLICY_LOCATION_HOST ? "host" : "device");
}

/* Devices ------------------------------------------------------------------------------------------------------------------------------ */

bool policy_device_equal(const struct policy_device *a, const struct policy_device *b)
{
    if (a->uuid && b->uuid)
        return strcmp(a->uuid, b->uuid) == 0;
    return !a->uuid && !b->uuid && a->index == b->index;
}

/* "GPU-" or "MIG-" and 8-4-4-4-12 hexadecimal digits. */
static bool is_uuid(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (strlen(text) != 4 + strlen(form) || (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0))
        return false;
    for (size_t i = 0; form[i]; i++) {
        if (form[i] == 'x' ? !isxdigit((unsigned char)text[4 + i]) : text[4 + i] != '-')
            return false;
    }
    return true;
}

static bool read_device(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                        struct policy_device *device)
{
    if (!is_text(reading, key, node))
        return false;
    if (is_uuid(node->text)) {
        device->index = -1;
        device->uuid = policy_arena_text(reading->arena, node->text, strlen(node->text));
        for (size_t i = 4; device->uuid && device->uuid[i]; i++)
            device->uuid[i] = (char)tolower((unsigned char)device->uuid[i]);
        return device->uuid;
    }
    if (strncasecmp(node->text, "GPU-", 4) == 0 || strncasecmp(node->text, "MIG-", 4) == 0) {
        policy_fail(reading, node, "'%s' is not a whole UUID; write all of it as nvidia-smi -L prints it", policy_quote(node->text).text);
        return false;
    }
    struct policy_number number;
    enum policy_number_status status = policy_number_read(node->text, &number);
    if (!is_plain(reading, key, node))
        return false;
    if (status == POLICY_NUMBER_OK && (number.unit[0] != '\0' || number.scale != 1))
        status = POLICY_NUMBER_NONE;
    if (status == POLICY_NUMBER_OK && number.whole > key->max)
        status = POLICY_NUMBER_TOO_LARGE;
    if (status == POLICY_NUMBER_TOO_LARGE)
        policy_fail(reading, node, "%s is no device index; write an index from 0 to %" PRIu64, policy_quote(node->text).text, key->max);
    else if (status == POLICY_NUMBER_NONE)
        policy_fail(reading, node, "'%s' is not a device; write an index as in 0, or a whole UUID", policy_quote(node->text).text);
    else if (status != POLICY_NUMBER_OK)
        fail_number(reading, key, node, status, "devices");
    else
        *device = (struct policy_device){(int)number.whole, NULL};
    return status == POLICY_NUMBER_OK;
}

/* Indices ascending, then UUIDs, so that the order in the file makes no difference. */
static int by_device(const void *left, const void *right)
{
    const struct policy_device *a = left, *b = right;
    if (!a->uuid != !b->uuid)
        return a->uuid ? 1 : -1;
    if (a->uuid)
        return strcmp(a->uuid, b->uuid);
    return a->index < b->index ? -1 : a->index > b->index;
}

static bool read_device_list(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                             struct policy_devices *devices)
{
    size_t count = 0;
    for (const struct policy_node *item = node->first; item; item = item->next)
        count++;
    if (count > POLICY_DEVICES_MAX || (count == 0 && !(key->accepts & POLICY_ACCEPTS_NONE))) {
        policy_fail(reading, node,
                    count ? "lists more than %d devices; write all"
                          : "lists no device, but a pool needs one; write all, or at most %d devices",
                    POLICY_DEVICES_MAX);
        return false;
    }
    struct policy_devices list = {.items = policy_arena_alloc(reading->arena, count, sizeof(*list.items))};
    if (!list.items)
        return false;
    bool good = true;
    for (const struct policy_node *item = node->first; item; item = item->next) {
        struct policy_device *device = &list.items[list.count];
        if (!read_device(reading, key, item, device)) {
            good = false;
            continue;
        }
        size_t same = 0;
        while (!policy_device_equal(&list.items[same], device))
            same++;
        if (same < list.count) {
            policy_fail(reading, item, "device %s is listed twice; remove one", policy_quote(item->text).text);
            good = false;
            continue;
        }
        list.count++;
    }
    if (!good)
        return false;
    qsort(list.items, list.count, sizeof(*list.items), by_device);
    *devices = list;
    return true;
}

static bool read_devices(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (node->kind == POLICY_NODE_LIST)
        return read_device_list(reading, key, node, value);
    if (!is_text(reading, key, node))
        return false;
    bool all = strcmp(node->text, "all") == 0;
    if (!all && !((key->accepts & POLICY_ACCEPTS_NONE) && strcmp(node->text, "none") == 0)) {
        bool device = isdigit((unsigned char)node->text[0]) || is_uuid(node->text);
        policy_fail(reading, node, device ? "'%s' is not a list; write [%s]" : "'%s' is not a list of devices; write %s",
                    policy_quote(node->text).text, device ? policy_quote(node->text).text : key->write);
        return false;
    }
    *(struct policy_devices *)value = (struct policy_devices){.all = all};
    return true;
}

static void put_devices(const struct policy_key *key, const void *value, struct text_out *out)
{
    const struct policy_devices *devices = value;
    if (devices->all || devices->count == 0) {
        put(out, "%s", devices->all || !(key->accepts & POLICY_ACCEPTS_NONE) ? "all" : "none");
        return;
    }
    for (size_t i = 0; i < devices->count; i++) {
        const struct policy_device *device = &devices->items[i];
        put(out, "%s", i ? ", " : "[");
        if (device->uuid)
            put(out, "%s", device->uuid);
        else
            put(out, "%d", device->index);
    }
    put(out, "]");
}

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

/* The step that the node names; POLICY_STEP_COUNT, reported, if none. */
static enum policy_step read_step(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (!is_text(reading, key, node))
        return POLICY_STEP_COUNT;
    struct policy_guess guess = policy_guess_begin(node->text);
    for (unsigned step = 0; step < POLICY_STEP_COUNT; step++) {
        if (strcmp(node->text, step_names[step]) == 0)
            return step;
        policy_guess_try(&guess, step_names[step]);
    }
    policy_fail(reading, node, "'%s' is not a step; the steps are flush, wait, trim, callbacks, neighbours%s", policy_quote(node->text).text,
                policy_guess_text(&guess).text);
    return POLICY_STEP_COUNT;
}

static bool read_steps(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (node->kind != POLICY_NODE_LIST)
        return fail_kind(reading, key, node);
    struct policy_steps steps = {0};
    bool good = true, seen[POLICY_STEP_COUNT] = {false};
    int last = -1;
    for (const struct policy_node *item = node->first; item; item = item->next) {
        enum policy_step step = read_step(reading, key, item);
        if (step == POLICY_STEP_COUNT) {
            good = false;
            continue;
        }
        if (seen[step] || (int)step < last) {
            policy_fail(reading, item,
                        seen[step] ? "step %s is listed twice; remove one"
                                   : "step %s is out of order; the order is always flush, wait, trim, callbacks, neighbours",
                        step_names[step]);
            good = false;
        } else {
            last = (int)step;
            steps.items[steps.count++] = step;
        }
        seen[step] = true;
    }
    if (good)
        *(struct policy_steps *)value = steps;
    return good;
}

static void put_steps(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    const struct policy_steps *steps = value;
    put(out, "[");
    for (size_t i = 0; i < steps->count; i++)
        put(out, "%s%s", i ? ", " : "", policy_step_name(steps->items[i]));
    put(out, "]");
}

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

#define LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* POLICY_USER_PATTERN. */
static bool is_user(const char *text)
{
    return strspn(text, LETTERS_AND_DIGITS "_") > 0 && strspn(text, LETTERS_AND_DIGITS "_.@$+-") == strlen(text);
}

/* Reads one item into the list; false: reported, or no memory. */
static bool read_name(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                      struct policy_names *names)
{
    if (!is_text(reading, key, node))
        return false;
    if (!is_user(node->text)) {
        policy_fail(reading, node, "'%s' can be no name; write a name as the system has it, or a number", policy_quote(node->text).text);
        return false;
    }
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], node->text) == 0) {
            policy_fail(reading, node, "'%s' is listed twice; remove one", policy_quote(node->text).text);
            return false;
        }
    }
    char *copy = policy_arena_text(reading->arena, node->text, strlen(node->text));
    if (copy)
        names->items[names->count++] = copy;
    return copy;
}

static bool read_names(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (node->kind != POLICY_NODE_LIST)
        return fail_kind(reading, key, node);
    size_t count = 0;
    for (const struct policy_node *item = node->first; item; item = item->next)
        count++;
    if (count > POLICY_NAMES_MAX) {
        policy_fail(reading, node, "lists %zu names; write at most %d, or a group that has them all", count, POLICY_NAMES_MAX);
        return false;
    }
    struct policy_names names = {.items = policy_arena_alloc(reading->arena, count, sizeof(*names.items))};
    bool good = names.items;
    for (const struct policy_node *item = node->first; item && names.items; item = item->next)
        good = read_name(reading, key, item, &names) && good;
    if (good)
        *(struct policy_names *)value = names;
    return good;
}

static void put_names(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    const struct policy_names *names = value;
    put(out, "[");
    for (size_t i = 0; i < names->count; i++)
        put(out, "%s%s", i ? ", " : "", names->items[i]);
    put(out, "]");
}

/* POLICY_SOCKET_PATTERN, or a path to a file. */
static bool is_socket(const char *text)
{
    size_t len = strlen(text);
    if (text[0] == '/')
        return len <= POLICY_SOCKET_PATH_MAX && text[len - 1] != '/';
    return len > 0 && len <= POLICY_NAME_MAX && text[0] != '.' && strspn(text, LETTERS_AND_DIGITS "_.-") == len;
}

static bool read_socket(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_text(reading, key, node))
        return false;
    if (!is_socket(node->text)) {
        policy_fail(reading, node, "'%s' can be no socket; write %s", policy_quote(node->text).text, key->write);
        return false;
    }
    char *copy = policy_arena_text(reading->arena, node->text, strlen(node->text));
    if (copy)
        *(char **)value = copy;
    return copy;
}

static void put_socket(const struct policy_key *key, const void *value, struct text_out *out)
{
    (void)key;
    put(out, "%s", *(char *const *)value);
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

static bool read_pool(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!is_text(reading, key, node))
        return false;
    struct policy_guess guess = policy_guess_begin(node->text);
    const struct policy *policy = reading->policy;
    for (size_t i = 0; i < policy->pool_count; i++) {
        if (strcmp(policy->pools[i].name, node->text) == 0) {
            *(size_t *)value = i;
            return true;
        }
        policy_guess_try(&guess, policy->pools[i].name);
    }
    /* Without pools, or with half of them, this would only repeat an error that stands elsewhere. */
    if (!reading->cut && policy->pool_count > 0)
        policy_fail(reading, node, "there is no pool '%s'; write the name of a pool that stands under pools%s",
                    policy_quote(node->text).text, policy_guess_text(&guess).text);
    return false;
}

/* The table of types ------------------------------------------------------------------------------------------------------------------- */

struct type {
    bool (*read)(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value);
    void (*put)(const struct policy_key *key, const void *value, struct text_out *out);
};

static const struct type types[] = {
    [POLICY_TYPE_VERSION] = {read_version, put_version},
    [POLICY_TYPE_POOL] = {read_pool, NULL},
    [POLICY_TYPE_BOOL] = {read_bool, put_bool},
    [POLICY_TYPE_SWITCH] = {read_switch, put_switch},
    [POLICY_TYPE_WORD] = {read_word, put_word},
    [POLICY_TYPE_SIZE] = {read_size, put_size},
    [POLICY_TYPE_BYTES] = {read_bytes, put_bytes},
    [POLICY_TYPE_TIME] = {read_time, put_time},
    [POLICY_TYPE_DEVICES] = {read_devices, put_devices},
    [POLICY_TYPE_LOCATION] = {read_location, put_location},
    [POLICY_TYPE_STEPS] = {read_steps, put_steps},
    [POLICY_TYPE_NUMBER] = {read_number, put_number},
    [POLICY_TYPE_NAMES] = {read_names, put_names},
    [POLICY_TYPE_SOCKET] = {read_socket, put_socket},
};

bool policy_value_read(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    return types[key->type].read(reading, key, node, value);
}

bool policy_value_default(const struct policy_reading *reading, const struct policy_key *key, void *value)
{
    if (!key->initial)
        return true;
    if (key->type == POLICY_TYPE_STEPS) {
        struct policy_steps *steps = value;
        for (steps->count = 0; steps->count < POLICY_STEP_COUNT; steps->count++)
            steps->items[steps->count] = (enum policy_step)steps->count;
        return true;
    }
    if (key->type == POLICY_TYPE_NAMES) {
        *(struct policy_names *)value = (struct policy_names){0};
        return true;
    }
    char text[32];
    snprintf(text, sizeof(text), "%s", key->initial);
    const struct policy_node node = {.kind = POLICY_NODE_SCALAR, .mark = {"default", 0, 0}, .text = text, .plain = true};
    return policy_value_read(reading, key, &node, value);
}

const char *policy_value_text(const struct policy_reading *reading, const struct policy_key *key, const void *value)
{
    if (key->type == POLICY_TYPE_SOCKET && !*(char *const *)value)
        return NULL;
    if (key->type == POLICY_TYPE_POOL)
        return reading->policy->pools[*(const size_t *)value].name;
    struct text_out measure = {0};
    types[key->type].put(key, value, &measure);
    struct text_out out = {.text = policy_arena_alloc(reading->arena, measure.len + 1, 1), .room = measure.len + 1};
    if (out.text)
        types[key->type].put(key, value, &out);
    return out.text;
}
