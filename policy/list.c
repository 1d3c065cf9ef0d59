/* SPDX-License-Identifier: MIT */
/* list.c - values that are lists: devices, recovery steps and names. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "policy/form.h"

/* What the items of a list are. */
struct kind {
    size_t size;
    const char *before, *after; /* around an item in errors */
    const char *order;          /* the one that items must have; NULL: any */
    bool (*read)(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *item);
    int (*compare)(const void *left, const void *right);
};

static size_t count_items(const struct policy_node *node)
{
    size_t count = 0;
    for (const struct policy_node *item = node->first; item; item = item->next)
        count++;
    return count;
}

/* Reads the items of a list, of which no two may be the same, into memory of the arena. False: reported, or no memory. An item that stands
   behind a later one is left out, so that the others are judged without it. */
static bool read_items(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                       const struct kind *kind, void *items, size_t *count)
{
    char *first = policy_arena_alloc(reading->arena, count_items(node), kind->size), *end = first;
    bool good = first;
    for (const struct policy_node *item = node->first; item && first; item = item->next) {
        if (!kind->read(reading, key, item, end)) {
            good = false;
            continue;
        }
        const char *same = first;
        while (same < end && kind->compare(same, end) != 0)
            same += kind->size;
        if (same < end)
            good =
                policy_fail(reading, item, "%s%s%s is listed twice; remove one", kind->before, policy_quote(item->text).text, kind->after);
        else if (kind->order && end > first && kind->compare(end - kind->size, end) > 0)
            good = policy_fail(reading, item, "%s%s%s is out of order; %s", kind->before, item->text, kind->after, kind->order);
        else
            end += kind->size;
    }
    memcpy(items, &first, sizeof(first));
    *count = first ? (size_t)(end - first) / kind->size : 0;
    return good;
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

static bool read_device(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *item)
{
    struct policy_device *device = item;
    if (!policy_is_text(reading, key, node))
        return false;
    if (is_uuid(node->text)) {
        device->index = -1;
        device->uuid = policy_arena_text(reading->arena, node->text, strlen(node->text));
        for (size_t i = 4; device->uuid && device->uuid[i]; i++)
            device->uuid[i] = (char)tolower((unsigned char)device->uuid[i]);
        return device->uuid;
    }
    if (strncasecmp(node->text, "GPU-", 4) == 0 || strncasecmp(node->text, "MIG-", 4) == 0)
        return policy_fail(reading, node, "'%s' is not a whole UUID; write all of it as nvidia-smi -L prints it",
                           policy_quote(node->text).text);
    if (!policy_is_plain(reading, key, node))
        return false;
    uint64_t index = 0;
    enum policy_number_status status = policy_read_whole(key, node->text, &index);
    if (status == POLICY_NUMBER_TOO_LARGE)
        return policy_fail(reading, node, "%s is no device index; write an index from 0 to %" PRIu64, policy_quote(node->text).text,
                           key->max);
    if (status == POLICY_NUMBER_NONE)
        return policy_fail(reading, node, "'%s' is not a device; write an index as in 0, or a whole UUID", policy_quote(node->text).text);
    if (status != POLICY_NUMBER_OK)
        return policy_fail_number(reading, key, node, status, "devices");
    *device = (struct policy_device){(int)index, NULL};
    return true;
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
    static const struct kind kind = {sizeof(struct policy_device), "device ", "", NULL, read_device, by_device};
    struct policy_devices list = {0};
    size_t count = count_items(node);
    if (count > POLICY_DEVICES_MAX || (count == 0 && !(key->accepts & POLICY_ACCEPTS_NONE)))
        return policy_fail(reading, node,
                           count ? "lists more than %d devices; write all"
                                 : "lists no device, but a pool needs one; write all, or at most %d devices",
                           POLICY_DEVICES_MAX);
    if (!read_items(reading, key, node, &kind, &list.items, &list.count))
        return false;
    qsort(list.items, list.count, sizeof(*list.items), by_device);
    *devices = list;
    return true;
}

static bool read_devices(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (node->kind == POLICY_NODE_LIST)
        return read_device_list(reading, key, node, value);
    if (!policy_is_text(reading, key, node))
        return false;
    bool all = strcmp(node->text, "all") == 0;
    bool local = (key->accepts & POLICY_ACCEPTS_LOCAL) && strcmp(node->text, "local") == 0;
    if (!all && !local && !((key->accepts & POLICY_ACCEPTS_NONE) && strcmp(node->text, "none") == 0)) {
        bool device = isdigit((unsigned char)node->text[0]) || is_uuid(node->text);
        return policy_fail(reading, node, device ? "'%s' is not a list; write [%s]" : "'%s' is not a list of devices; write %s",
                           policy_quote(node->text).text, device ? policy_quote(node->text).text : key->write);
    }
    *(struct policy_devices *)value = (struct policy_devices){.all = all, .local = local};
    return true;
}

static void put_devices(struct policy_text *out, const void *value)
{
    const struct policy_devices *devices = value;
    if (devices->local) {
        policy_put(out, "local");
        return;
    }
    if (devices->all || devices->count == 0) {
        policy_put(out, "%s", devices->all || !(out->key->accepts & POLICY_ACCEPTS_NONE) ? "all" : "none");
        return;
    }
    for (size_t i = 0; i < devices->count; i++) {
        const struct policy_device *device = &devices->items[i];
        policy_put(out, "%s", i ? ", " : "[");
        if (device->uuid)
            policy_put(out, "%s", device->uuid);
        else
            policy_put(out, "%d", device->index);
    }
    policy_put(out, "]");
}

/* Steps -------------------------------------------------------------------------------------------------------------------------------- */

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

static bool read_step(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *item)
{
    if (!policy_is_text(reading, key, node))
        return false;
    struct policy_guess guess = policy_guess_begin(node->text);
    for (enum policy_step step = 0; step < POLICY_STEP_COUNT; step++) {
        if (strcmp(node->text, step_names[step]) == 0) {
            *(enum policy_step *)item = step;
            return true;
        }
        policy_guess_try(&guess, step_names[step]);
    }
    return policy_fail(reading, node, "'%s' is not a step; the steps are flush, wait, trim, callbacks, neighbours%s",
                       policy_quote(node->text).text, policy_guess_text(&guess).text);
}

static int by_step(const void *left, const void *right)
{
    return (int)*(const enum policy_step *)left - (int)*(const enum policy_step *)right;
}

static bool read_steps(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    static const struct kind kind = {sizeof(enum policy_step), "step ", "", "the order is always flush, wait, trim, callbacks, neighbours",
                                     read_step, by_step};
    enum policy_step *items;
    struct policy_steps steps = {0};
    if (node->kind != POLICY_NODE_LIST)
        return policy_fail_kind(reading, key, node);
    if (!read_items(reading, key, node, &kind, &items, &steps.count))
        return false;
    memcpy(steps.items, items, steps.count * sizeof(items[0]));
    *(struct policy_steps *)value = steps;
    return true;
}

static void put_steps(struct policy_text *out, const void *value)
{
    const struct policy_steps *steps = value;
    policy_put(out, "[");
    for (size_t i = 0; i < steps->count; i++)
        policy_put(out, "%s%s", i ? ", " : "", policy_step_name(steps->items[i]));
    policy_put(out, "]");
}

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

/* POLICY_USER_PATTERN. */
static bool is_user(const char *text)
{
    return strspn(text, POLICY_LETTERS_AND_DIGITS "_") > 0 && strspn(text, POLICY_LETTERS_AND_DIGITS "_.@$+-") == strlen(text);
}

static bool read_name(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *item)
{
    if (!policy_is_text(reading, key, node))
        return false;
    if (!is_user(node->text))
        return policy_fail(reading, node, "'%s' can be no name; write a name as the system has it, or a number",
                           policy_quote(node->text).text);
    char *copy = policy_arena_text(reading->arena, node->text, strlen(node->text));
    if (copy)
        *(char **)item = copy;
    return copy;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool read_names(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    static const struct kind kind = {sizeof(char *), "'", "'", NULL, read_name, by_name};
    struct policy_names names = {0};
    if (node->kind != POLICY_NODE_LIST)
        return policy_fail_kind(reading, key, node);
    if (count_items(node) > POLICY_NAMES_MAX)
        return policy_fail(reading, node, "lists %zu names; write at most %d, or a group that has them all", count_items(node),
                           POLICY_NAMES_MAX);
    if (!read_items(reading, key, node, &kind, &names.items, &names.count))
        return false;
    *(struct policy_names *)value = names;
    return true;
}

static void put_names(struct policy_text *out, const void *value)
{
    const struct policy_names *names = value;
    policy_put(out, "[");
    for (size_t i = 0; i < names->count; i++)
        policy_put(out, "%s%s", i ? ", " : "", names->items[i]);
    policy_put(out, "]");
}

const struct policy_form policy_devices_form = {read_devices, put_devices};
const struct policy_form policy_steps_form = {read_steps, put_steps};
const struct policy_form policy_names_form = {read_names, put_names};
