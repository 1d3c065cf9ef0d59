/* SPDX-License-Identifier: MIT */
/* quantity.c - values that are numbers: sizes, bytes, times and bare ones. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "policy/form.h"

#define PERCENT_SCALE 100 /* hundredths of a percent are stored */

const struct policy_unit policy_size_units[] = {
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", UINT64_C(1000000000000)},
    {NULL, 0},
};

const struct policy_unit policy_time_units[] = {{"ms", POLICY_SECOND / 1000}, {"s", POLICY_SECOND}, {"m", 60 * POLICY_SECOND}, {NULL, 0}};

bool policy_fail_number(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                        enum policy_number_status status, const char *smallest)
{
    struct policy_quote text = policy_quote(node->text);
    switch (status) {
    case POLICY_NUMBER_NEGATIVE:
        if (strcmp(node->text, "-1") == 0 && policy_unlimited(key))
            return policy_fail(reading, node, "-1 is negative; write %s, or %s", policy_unlimited(key), key->write);
        return policy_fail(reading, node, "%s is negative; write %s", text.text, key->write);
    case POLICY_NUMBER_LEADING_ZERO:
        return policy_fail(reading, node, "%s begins with a zero, which some readers take for octal; leave the zero out", text.text);
    case POLICY_NUMBER_TOO_LARGE:
        return policy_fail(reading, node, "%s is too large; write %s", text.text, key->write);
    case POLICY_NUMBER_TOO_FINE:
        return policy_fail(reading, node, "%s is not a whole number of %s; round it, or use a smaller unit", text.text, smallest);
    default:
        return policy_fail_foreign(reading, key, node);
    }
}

/* A number with one of the units; bare: what a number without one is counted in, 0 if it may not be without. */
static bool read_quantity(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                          const struct policy_unit *units, uint64_t bare, const char *smallest, uint64_t *value)
{
    struct policy_number number;
    enum policy_number_status status = policy_number_read(node->text, &number);
    if (status != POLICY_NUMBER_OK)
        return policy_fail_number(reading, key, node, status, smallest);
    uint64_t factor = bare;
    if (number.unit[0]) {
        const struct policy_unit *unit = units;
        while (unit->name && strcmp(unit->name, number.unit) != 0)
            unit++;
        if (!unit->name)
            return policy_fail_unit(reading, node, number.unit, units);
        factor = unit->factor;
    }
    if (factor == 0)
        return policy_fail(reading, node, "%s has no unit; write %s", policy_quote(node->text).text, key->write);
    uint64_t result;
    status = policy_number_scale(&number, factor, &result);
    if (status == POLICY_NUMBER_OK && result > key->max)
        status = POLICY_NUMBER_TOO_LARGE;
    if (status != POLICY_NUMBER_OK)
        return policy_fail_number(reading, key, node, status, smallest);
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
    if (status == POLICY_NUMBER_TOO_LARGE || (status == POLICY_NUMBER_OK && hundredths > 100 * PERCENT_SCALE))
        return policy_fail(reading, node, "%s is more than the whole; write 100%% at most", policy_quote(node->text).text);
    if (status != POLICY_NUMBER_OK)
        return policy_fail_number(reading, key, node, status, "hundredths of a percent");
    *size = (struct policy_size){POLICY_SIZE_PERCENT, hundredths};
    return true;
}

static bool read_size(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_plain(reading, key, node))
        return false;
    struct policy_size size = {POLICY_SIZE_BYTES, 0};
    if ((key->accepts & POLICY_ACCEPTS_NONE) && strcmp(node->text, "none") == 0) {
        size.kind = POLICY_SIZE_NONE;
    } else if ((key->accepts & POLICY_ACCEPTS_ALL) && strcmp(node->text, "all") == 0) {
        size.kind = POLICY_SIZE_ALL;
    } else if ((key->accepts & POLICY_ACCEPTS_AUTO) && strcmp(node->text, "auto") == 0) {
        size.kind = POLICY_SIZE_AUTO;
    } else if ((key->accepts & POLICY_ACCEPTS_QUOTA) && strcmp(node->text, "quota") == 0) {
        size.kind = POLICY_SIZE_QUOTA;
    } else if (node->text[strlen(node->text) - 1] == '%') {
        if (!read_percent(reading, key, node, &size))
            return false;
    } else if (!policy_has_unit(reading, key, node) ||
               !read_quantity(reading, key, node, policy_size_units, 1, "bytes", &size.value)) {
        return false;
    }
    if (size.kind <= POLICY_SIZE_PERCENT && size.value < key->min)
        return policy_fail(reading, node, "%s would leave nothing; write %s", policy_quote(node->text).text, key->write);
    *(struct policy_size *)value = size;
    return true;
}

/* A number of thousandths, without zeros at its end; whatever the locale has for a decimal point. */
static void put_thousandths(struct policy_text *out, uint64_t value, const char *unit)
{
    uint64_t fraction = value % 1000;
    int digits = 3;
    for (; fraction && fraction % 10 == 0; digits--)
        fraction /= 10;
    policy_put(out, "%" PRIu64, value / 1000);
    if (fraction)
        policy_put(out, ".%0*" PRIu64, digits, fraction);
    policy_put(out, "%s", unit);
}

/* The largest binary unit that divides it; else bytes, but for so few that they have to be written with a unit. */
static void put_bytes(struct policy_text *out, const void *value)
{
    uint64_t bytes = *(const uint64_t *)value;
    const struct policy_unit *best = NULL;
    for (const struct policy_unit *unit = policy_size_units; unit->name && unit->name[1] == 'i'; unit++) {
        if (bytes > 0 && bytes % unit->factor == 0)
            best = unit;
    }
    if (!best && bytes > 0 && bytes < policy_bare_least(out->key))
        put_thousandths(out, bytes, "KB");
    else
        policy_put(out, "%" PRIu64 "%s", best ? bytes / best->factor : bytes, best ? best->name : "");
}

static void put_size(struct policy_text *out, const void *value)
{
    const struct policy_size *size = value;
    uint64_t fraction = size->value % PERCENT_SCALE;
    switch (size->kind) {
    case POLICY_SIZE_BYTES:
        put_bytes(out, &size->value);
        break;
    case POLICY_SIZE_PERCENT:
        policy_put(out, "%" PRIu64, size->value / PERCENT_SCALE);
        if (fraction)
            policy_put(out, fraction % 10 ? ".%02" PRIu64 : ".%" PRIu64, fraction % 10 ? fraction : fraction / 10);
        policy_put(out, "%%");
        break;
    case POLICY_SIZE_NONE:
        policy_put(out, "none");
        break;
    case POLICY_SIZE_ALL:
        policy_put(out, "all");
        break;
    case POLICY_SIZE_AUTO:
        policy_put(out, "auto");
        break;
    case POLICY_SIZE_QUOTA:
        policy_put(out, "quota");
        break;
    }
}

static bool is_enough(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                      const uint64_t *value)
{
    if (*value >= key->min)
        return true;
    return policy_fail(reading, node, "%s is too small; write %s", policy_quote(node->text).text, key->write);
}

static bool read_bytes(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_plain(reading, key, node))
        return false;
    if (strcmp(node->text, "none") == 0)
        return policy_fail(reading, node, "'none' is not a number of bytes; write %s", key->min > 0 ? key->write : "0");
    if (node->text[strlen(node->text) - 1] == '%')
        return policy_fail(reading, node, "%s is a share, but this key counts bytes; write %s", policy_quote(node->text).text, key->write);
    return policy_has_unit(reading, key, node) && read_quantity(reading, key, node, policy_size_units, 1, "bytes", value) &&
           is_enough(reading, key, node, value);
}

static bool read_time(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_plain(reading, key, node))
        return false;
    if ((key->accepts & POLICY_ACCEPTS_NEVER) && strcmp(node->text, "never") == 0) {
        *(uint64_t *)value = UINT64_MAX;
        return true;
    }
    return read_quantity(reading, key, node, policy_time_units, 0, "nanoseconds", value) && is_enough(reading, key, node, value);
}

/* The largest unit that divides it; else milliseconds with as many decimals as it takes. */
static void put_time(struct policy_text *out, const void *value)
{
    uint64_t time = *(const uint64_t *)value;
    if ((out->key->accepts & POLICY_ACCEPTS_NEVER) && time == UINT64_MAX) {
        policy_put(out, "never");
        return;
    }
    const struct policy_unit *best = policy_time_units;
    for (const struct policy_unit *unit = policy_time_units; unit->name; unit++) {
        if (time % unit->factor == 0 && (time > 0 || unit->factor == POLICY_SECOND))
            best = unit;
    }
    policy_put(out, "%" PRIu64, time / best->factor);
    uint64_t fraction = time % best->factor;
    int digits = 6;
    for (; fraction && fraction % 10 == 0; digits--)
        fraction /= 10;
    if (fraction)
        policy_put(out, ".%0*" PRIu64, digits, fraction);
    policy_put(out, "%s", best->name);
}

enum policy_number_status policy_read_whole(const struct policy_key *key, const char *text, uint64_t *value)
{
    struct policy_number number;
    enum policy_number_status status = policy_number_read(text, &number);
    if (status != POLICY_NUMBER_OK)
        return status;
    if (number.unit[0] != '\0' || number.scale != 1)
        return POLICY_NUMBER_NONE;
    if (number.whole > key->max)
        return POLICY_NUMBER_TOO_LARGE;
    *value = number.whole;
    return POLICY_NUMBER_OK;
}

static bool read_number(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_plain(reading, key, node))
        return false;
    enum policy_number_status status = policy_read_whole(key, node->text, value);
    if (status != POLICY_NUMBER_OK)
        return policy_fail_number(reading, key, node, status, "1");
    return is_enough(reading, key, node, value);
}

static void put_number(struct policy_text *out, const void *value)
{
    policy_put(out, "%" PRIu64, *(const uint64_t *)value);
}

const struct policy_form policy_size_form = {read_size, put_size};
const struct policy_form policy_bytes_form = {read_bytes, put_bytes};
const struct policy_form policy_time_form = {read_time, put_time};
const struct policy_form policy_number_form = {read_number, put_number};
