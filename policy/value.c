/* SPDX-License-Identifier: MIT */
#include "policy/value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "policy/form.h"

bool policy_node_is_null(const struct policy_node *node)
{
    if (node->kind != POLICY_NODE_SCALAR || !node->plain)
        return false;
    return node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcasecmp(node->text, "null") == 0;
}

bool policy_fail_kind(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (node->kind == POLICY_NODE_REFUSED)
        return false;
    if (policy_node_is_null(node))
        return policy_fail(reading, node, "has no value; write %s%s", key->write,
                           !node->name                        ? ", or take it off the list"
                           : key->type == POLICY_TYPE_VERSION ? ""
                                                              : ", or leave the key out");
    if (node->kind == POLICY_NODE_SCALAR)
        return policy_fail(reading, node, "'%s' is not what belongs here; write %s", policy_quote(node->text).text, key->write);
    return policy_fail(reading, node, "is a %s; write %s", node->kind == POLICY_NODE_LIST ? "list" : "mapping", key->write);
}

bool policy_is_text(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (node->kind != POLICY_NODE_SCALAR || policy_node_is_null(node))
        return policy_fail_kind(reading, key, node);
    return true;
}

bool policy_is_plain(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node)
{
    if (!policy_is_text(reading, key, node))
        return false;
    if (!node->plain)
        policy_fail(reading, node, "'%s' is in quotes, which makes it text; write %s, without quotes", policy_quote(node->text).text,
                    key->write);
    return node->plain;
}

void policy_put(struct policy_text *out, const char *format, ...)
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
    if (!policy_is_plain(reading, key, node))
        return false;
    if (strcmp(node->text, "1") == 0)
        return true;
    return policy_fail(reading, node, "format '%s' is not known; this release reads format 1, so write weir: 1",
                       policy_quote(node->text).text);
}

static void put_version(struct policy_text *out, const void *value)
{
    (void)value;
    policy_put(out, "%" PRIu64, out->key->max);
}

/* Whether the text is what some dialect writes for a boolean, and which. */
static bool means_bool(const char *text, bool *meant)
{
    static const char *const meant_true[] = {"yes", "on", "y", "true", "1", "enabled", "enable", NULL};
    static const char *const meant_false[] = {"no", "off", "n", "false", "0", "disabled", "disable", NULL};
    for (size_t i = 0; meant_true[i]; i++) {
        *meant = strcasecmp(text, meant_true[i]) == 0;
        if (*meant || strcasecmp(text, meant_false[i]) == 0)
            return true;
    }
    return false;
}

/* A boolean by its own words, for which other dialects have others. A switch is on or off as well, which some editors turn into booleans;
   the mapping in its place is for the reader of mappings. */
static bool read_bool(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    bool meant, takes_on = key->type == POLICY_TYPE_SWITCH;
    if (!policy_is_plain(reading, key, node))
        return false;
    if (!means_bool(node->text, &meant))
        return policy_fail_kind(reading, key, node);
    if (strcmp(node->text, meant ? "true" : "false") == 0 || (takes_on && strcmp(node->text, meant ? "on" : "off") == 0)) {
        *(bool *)value = meant;
        return true;
    }
    if (takes_on)
        return policy_fail(reading, node, "'%s' is not known; write %s", node->text, meant ? "on" : "off");
    return policy_fail(reading, node, "'%s' is not a boolean here; write %s", node->text, meant ? "true" : "false");
}

static void put_bool(struct policy_text *out, const void *value)
{
    policy_put(out, "%s", *(const bool *)value ? "true" : "false");
}

static void put_switch(struct policy_text *out, const void *value)
{
    policy_put(out, "%s", *(const bool *)value ? "on" : "off");
}

static bool read_word(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_text(reading, key, node))
        return false;
    struct policy_guess guess = policy_guess_begin(node->text);
    for (int i = 0; key->words[i]; i++) {
        if (strcmp(node->text, key->words[i]) == 0) {
            memcpy(value, &i, sizeof(i));
            return true;
        }
        policy_guess_try(&guess, key->words[i]);
    }
    return policy_fail(reading, node, "'%s' is not known; write %s%s", policy_quote(node->text).text, key->write,
                       policy_guess_text(&guess).text);
}

static void put_word(struct policy_text *out, const void *value)
{
    int index;
    memcpy(&index, value, sizeof(index));
    policy_put(out, "%s", out->key->words[index]);
}

static bool read_location(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    static const char numa[] = "host_numa:";
    struct policy_location *location = value;
    if (node->kind == POLICY_NODE_MAPPING && node->first && strcmp(node->first->name, "host_numa") == 0)
        return policy_fail(reading, node, "is a mapping because of the space behind the colon; write host_numa:N without it");
    if (!policy_is_text(reading, key, node))
        return false;
    if (strcmp(node->text, "device") == 0 || strcmp(node->text, "host") == 0) {
        *location = (struct policy_location){node->text[0] == 'd' ? POLICY_LOCATION_DEVICE : POLICY_LOCATION_HOST, 0};
        return true;
    }
    if (strncmp(node->text, numa, strlen(numa)) == 0) {
        uint64_t index;
        if (policy_read_whole(key, node->text + strlen(numa), &index) != POLICY_NUMBER_OK)
            return policy_fail(reading, node, "'%s' names no NUMA node; write host_numa:N with N from 0 to %" PRIu64,
                               policy_quote(node->text).text, key->max);
        *location = (struct policy_location){POLICY_LOCATION_HOST_NUMA, (int)index};
        return true;
    }
    struct policy_guess guess = policy_guess_begin(node->text);
    policy_guess_try(&guess, "device");
    policy_guess_try(&guess, "host");
    policy_guess_try(&guess, "host_numa:0");
    return policy_fail(reading, node, "'%s' is not a location; write %s%s", policy_quote(node->text).text, key->write,
                       policy_guess_text(&guess).text);
}

static void put_location(struct policy_text *out, const void *value)
{
    const struct policy_location *location = value;
    if (location->kind == POLICY_LOCATION_HOST_NUMA)
        policy_put(out, "host_numa:%d", location->node);
    else
        policy_put(out, "%s", location->kind == POLICY_LOCATION_HOST ? "host" : "device");
}

/* Sockets ------------------------------------------------------------------------------------------------------------------------------ */

/* POLICY_SOCKET_PATTERN, or a path to a file. */
static bool is_socket(const char *text)
{
    size_t len = strlen(text);
    if (text[0] == '/')
        return len <= POLICY_SOCKET_PATH_MAX && text[len - 1] != '/';
    return len > 0 && len <= POLICY_NAME_MAX && text[0] != '.' && strspn(text, POLICY_LETTERS_AND_DIGITS "_.-") == len;
}

static bool read_socket(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_text(reading, key, node))
        return false;
    if (!is_socket(node->text))
        return policy_fail(reading, node, "'%s' can be no socket; write %s", policy_quote(node->text).text, key->write);
    char *copy = policy_arena_text(reading->arena, node->text, strlen(node->text));
    if (copy)
        *(char **)value = copy;
    return copy;
}

static void put_socket(struct policy_text *out, const void *value)
{
    policy_put(out, "%s", *(char *const *)value);
}

/* Files: any name; what of it cannot be is said where it is opened. The bare word none is no file, so that an assignment can take one away. */
static bool read_path(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_text(reading, key, node))
        return false;
    size_t len = strlen(node->text);
    *(char **)value = NULL;
    if (node->plain && strcmp(node->text, "none") == 0)
        return true;
    if (len == 0 || len > POLICY_FILE_NAME_MAX)
        return policy_fail(reading, node, "the name of a file has 1 to %d bytes, this one has %zu; write %s", POLICY_FILE_NAME_MAX, len,
                           key->write);
    char *copy = policy_arena_text(reading->arena, node->text, len);
    if (copy)
        *(char **)value = copy;
    return copy;
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

static bool read_pool(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    if (!policy_is_text(reading, key, node))
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

static const struct policy_form version_form = {read_version, put_version}, pool_form = {read_pool, NULL};
static const struct policy_form bool_form = {read_bool, put_bool}, switch_form = {read_bool, put_switch};
static const struct policy_form word_form = {read_word, put_word}, location_form = {read_location, put_location};
static const struct policy_form socket_form = {read_socket, put_socket}, path_form = {read_path, put_socket};

static const struct policy_form *const forms[] = {
    [POLICY_TYPE_VERSION] = &version_form,    [POLICY_TYPE_POOL] = &pool_form,          [POLICY_TYPE_BOOL] = &bool_form,
    [POLICY_TYPE_SWITCH] = &switch_form,      [POLICY_TYPE_WORD] = &word_form,          [POLICY_TYPE_SIZE] = &policy_size_form,
    [POLICY_TYPE_BYTES] = &policy_bytes_form, [POLICY_TYPE_TIME] = &policy_time_form,   [POLICY_TYPE_DEVICES] = &policy_devices_form,
    [POLICY_TYPE_LOCATION] = &location_form,  [POLICY_TYPE_STEPS] = &policy_steps_form, [POLICY_TYPE_NUMBER] = &policy_number_form,
    [POLICY_TYPE_NAMES] = &policy_names_form, [POLICY_TYPE_SOCKET] = &socket_form,
    [POLICY_TYPE_PATH] = &path_form,
};

bool policy_value_read(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value)
{
    return forms[key->type]->read(reading, key, node, value);
}

void policy_value_default(const struct policy_reading *reading, const struct policy_key *key, void *value)
{
    struct policy_steps *steps = value;
    char text[32];
    if (!key->initial || key->type == POLICY_TYPE_NAMES) /* zero, as it is, is an empty list */
        return;
    if (key->type == POLICY_TYPE_STEPS) {
        for (steps->count = 0; steps->count < POLICY_STEP_COUNT; steps->count++)
            steps->items[steps->count] = (enum policy_step)steps->count;
        return;
    }
    snprintf(text, sizeof(text), "%s", key->initial);
    const struct policy_node node = {.kind = POLICY_NODE_SCALAR, .mark = {"default", 0, 0}, .text = text, .plain = true};
    policy_value_read(reading, key, &node, value);
}

const char *policy_value_text(const struct policy_reading *reading, const struct policy_key *key, const void *value)
{
    if ((key->type == POLICY_TYPE_SOCKET || key->type == POLICY_TYPE_PATH) && !*(char *const *)value)
        return NULL;
    if (key->type == POLICY_TYPE_POOL)
        return reading->policy->pools[*(const size_t *)value].name;
    struct policy_text measure = {.key = key};
    forms[key->type]->put(&measure, value);
    struct policy_text out = {key, policy_arena_alloc(reading->arena, measure.len + 1, 1), measure.len + 1, 0};
    if (out.text)
        forms[key->type]->put(&out, value);
    return out.text;
}

/* Keys beside keys ----------------------------------------------------------------------------------------------------------------------- */

bool policy_key_is_group(enum policy_scope scope, const char *name)
{
    size_t len = strlen(name), count;
    const struct policy_key *keys = policy_keys(scope, &count);
    for (size_t i = 0; i < count; i++)
        if (strncmp(keys[i].name, name, len) == 0 && keys[i].name[len] == '.')
            return true;
    return false;
}

const struct policy_key *policy_key_switch(enum policy_scope scope, const struct policy_key *key)
{
    size_t len = strcspn(key->name, "."), count;
    const struct policy_key *keys = policy_keys(scope, &count);
    for (size_t i = 0; key->name[len] && i < count; i++) {
        const struct policy_key *above = &keys[i];
        if (above->type == POLICY_TYPE_SWITCH && strlen(above->name) == len && strncmp(above->name, key->name, len) == 0)
            return above;
    }
    return NULL;
}

bool policy_key_is_served(const struct policy_pool *pool, const struct policy_key *key)
{
    if (!key->needs)
        return true;
    return strcmp(key->needs, "ipc") == 0 ? pool->ipc != POLICY_IPC_NONE : pool->share_socket != NULL;
}
