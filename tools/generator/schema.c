/* SPDX-License-Identifier: MIT */
/* schema.c - `generate schema`: the JSON schema of a policy. */
#include "tools/generator/generate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "tools/common/json.h"

#define DECIMAL "(0|[1-9][0-9]*)([.][0-9]+)?"
#define UUID "(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

static struct json *json; /* the schema that is being written */

/* Adds members, or an element, in one line: JSON, but with ' for quotation marks, which no value has. */
__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *at = text; (at = strchr(at, '\'')); at++)
        *at = '"';
    json_text(json, text);
}

/* The words of an enum, NULL at the end, for add(). */
static const char *listed(const char *const *words, char text[512])
{
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; words[i]; i++)
        len += (size_t)snprintf(text + len, 512 - len, "%s'%s'", i ? ", " : "", words[i]);
    return text;
}

/* Whole numbers, for add(). max: 0 for any. */
static const char *integers(uint64_t min, uint64_t max, char text[128])
{
    int len = snprintf(text, 128, "'type': 'integer', 'minimum': %" PRIu64, min);
    if (max)
        snprintf(text + len, 128 - (size_t)len, ", 'maximum': %" PRIu64, max);
    return text;
}

/* Numbers with one of the units, and the words and shares that the key accepts; sizes may be numbers alone. */
static void quantity(const struct policy_key *key, const struct policy_unit *units)
{
    static const struct {
        unsigned accepts;
        const char *pattern;
    } others[] = {
        {POLICY_ACCEPTS_PERCENT, "|(100([.]0{1,2})?|[1-9]?[0-9]([.][0-9]{1,2})?)%"},
        {POLICY_ACCEPTS_NONE, "|none"},
        {POLICY_ACCEPTS_ALL, "|all"},
        {POLICY_ACCEPTS_NEVER, "|never"},
        {POLICY_ACCEPTS_AUTO, "|auto"},
        {POLICY_ACCEPTS_QUOTA, "|quota"},
    };
    char pattern[512], numbers[128];
    size_t len = (size_t)snprintf(pattern, sizeof(pattern), "^(" DECIMAL "(");
    for (size_t i = 0; units[i].name; i++)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "%s%s", i ? "|" : "", units[i].name);
    len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, ")");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (key->accepts & others[i].accepts)
            len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "%s", others[i].pattern);
    snprintf(pattern + len, sizeof(pattern) - len, ")$");
    if (units == policy_time_units)
        add("'type': 'string', 'pattern': '%s'", pattern);
    else
        add("'anyOf': [{%s}, {'type': 'string', 'pattern': '%s'}]", integers(key->min, key->max, numbers), pattern);
}

static void steps(void)
{
    const char *names[POLICY_STEP_COUNT + 1] = {NULL};
    char text[512];
    for (unsigned step = 0; step < POLICY_STEP_COUNT; step++)
        names[step] = policy_step_name(step);
    add("'type': 'array', 'uniqueItems': true, 'items': {'enum': [%s]}", listed(names, text));
}

static void scope(enum policy_scope which, const char *prefix);

/* A switch, or the mapping of the keys below it. Readers of YAML 1.1 take on and off for booleans, those of 1.2 for text. */
static void switched(enum policy_scope which, const struct policy_key *key)
{
    char below[64];
    snprintf(below, sizeof(below), "%s.", key->name);
    json_array(json, "anyOf");
    add("{'enum': ['off', 'on', false, true]}");
    json_object(json, NULL);
    scope(which, below);
    json_end(json);
    json_end(json);
}

/* A mapping whose keys are names and whose values are the objects of a scope. */
static void objects(enum policy_scope which, unsigned min, unsigned max)
{
    add("'type': 'object', 'minProperties': %u, 'maxProperties': %u, 'additionalProperties': false", min, max);
    add("'propertyNames': {'maxLength': %d}", POLICY_NAME_MAX);
    json_object(json, "patternProperties");
    json_object(json, "^" POLICY_NAME_PATTERN "$");
    scope(which, "");
    json_end(json);
    json_end(json);
}

static void devices(const struct policy_key *key)
{
    bool takes_none = key->accepts & POLICY_ACCEPTS_NONE;
    char numbers[128];
    add("'anyOf': [{'enum': [%s'all'%s]}, {'type': 'array', 'uniqueItems': true, 'maxItems': %d, 'minItems': %d, "
        "'items': {'anyOf': [{%s}, {'type': 'string', 'pattern': '^" UUID "$'}]}}]",
        takes_none ? "'none', " : "", key->accepts & POLICY_ACCEPTS_LOCAL ? ", 'local'" : "", POLICY_DEVICES_MAX, takes_none ? 0 : 1,
        integers(0, key->max, numbers));
}

/* The constraints of one value. */
static void value(enum policy_scope which, const struct policy_key *key)
{
    char text[512], numbers[128];
    switch (key->type) {
    case POLICY_TYPE_VERSION:
        add("'const': %" PRIu64, key->max);
        break;
    case POLICY_TYPE_POOLS:
        objects(POLICY_SCOPE_POOL, 1, POLICY_POOLS_MAX);
        break;
    case POLICY_TYPE_STREAMS:
        objects(POLICY_SCOPE_STREAM, 0, POLICY_STREAMS_MAX);
        break;
    case POLICY_TYPE_POOL:
        add("'type': 'string', 'pattern': '^" POLICY_NAME_PATTERN "$', 'maxLength': %d", POLICY_NAME_MAX);
        break;
    case POLICY_TYPE_BOOL:
        add("'type': 'boolean'");
        break;
    case POLICY_TYPE_SWITCH:
        switched(which, key);
        break;
    case POLICY_TYPE_WORD:
        add("'enum': [%s]", listed(key->words, text));
        break;
    case POLICY_TYPE_SIZE:
    case POLICY_TYPE_BYTES:
        quantity(key, policy_size_units);
        break;
    case POLICY_TYPE_TIME:
        quantity(key, policy_time_units);
        break;
    case POLICY_TYPE_DEVICES:
        devices(key);
        break;
    case POLICY_TYPE_LOCATION:
        add("'type': 'string', 'pattern': '^(device|host|host_numa:(0|[1-9][0-9]{0,2}|10[01][0-9]|102[0-3]))$'");
        break;
    case POLICY_TYPE_STEPS:
        steps();
        break;
    case POLICY_TYPE_NUMBER:
        add("%s", integers(key->min, key->max, numbers));
        break;
    case POLICY_TYPE_NAMES: /* a number of a user is an integer to YAML */
        add("'type': 'array', 'uniqueItems': true, 'maxItems': %d, "
            "'items': {'anyOf': [{%s}, {'type': 'string', 'pattern': '^" POLICY_USER_PATTERN "$'}]}",
            POLICY_NAMES_MAX, integers(0, 0, numbers));
        break;
    case POLICY_TYPE_PATH:
        add("'type': 'string', 'minLength': 1, 'maxLength': %d", POLICY_FILE_NAME_MAX);
        break;
    case POLICY_TYPE_SOCKET:
        add("'anyOf': [{'type': 'string', 'pattern': '^" POLICY_SOCKET_PATTERN "$', 'maxLength': %d}, "
            "{'type': 'string', 'pattern': '^/.*[^/]$', 'maxLength': %d}]",
            POLICY_NAME_MAX, POLICY_SOCKET_PATH_MAX);
        break;
    }
}

static void initial(const struct policy_key *key)
{
    if (!key->initial || key->type == POLICY_TYPE_STEPS || key->type == POLICY_TYPE_NAMES)
        return;
    if (key->type == POLICY_TYPE_BOOL)
        json_bool(json, "default", strcmp(key->initial, "true") == 0);
    else if (strspn(key->initial, "0123456789") == strlen(key->initial))
        json_uint(json, "default", strtoull(key->initial, NULL, 10));
    else
        json_string(json, "default", key->initial);
}

static void member(enum policy_scope which, const struct policy_key *key)
{
    char description[1024];
    snprintf(description, sizeof(description), "%s Write %s.", key->help, key->write);
    json_string(json, "description", description);
    initial(key);
    value(which, key);
}

/* The members of a scope, or of the group of keys in it that prefix ("on_oom.") names. Keys of one group stand together in the table. */
static void scope(enum policy_scope which, const char *prefix)
{
    size_t count, skip = strlen(prefix);
    const struct policy_key *keys = policy_keys(which, &count);
    char last[64] = "";
    add("'type': 'object', 'additionalProperties': false");
    if (which == POLICY_SCOPE_FILE && prefix[0] == '\0')
        add("'required': ['weir', 'pools']");
    json_object(json, "properties");
    for (size_t i = 0; i < count; i++) {
        char part[64], below[128];
        if (strncmp(keys[i].name, prefix, skip) != 0)
            continue;
        snprintf(part, sizeof(part), "%.*s", (int)strcspn(keys[i].name + skip, "."), keys[i].name + skip);
        if (strcmp(part, last) == 0)
            continue;
        memcpy(last, part, sizeof(last));
        snprintf(below, sizeof(below), "%s%s.", prefix, part);
        json_object(json, part);
        if (keys[i].name[skip + strlen(part)])
            scope(which, below);
        else
            member(which, &keys[i]);
        json_end(json);
    }
    json_end(json);
}

void generate_schema(void)
{
    struct json out = JSON_INIT(stdout);
    json = &out;
    json_object(json, NULL);
    json_string(json, "$schema", "http://json-schema.org/draft-07/schema#");
    json_string(json, "title", "Weir policy");
    json_string(json, "$comment", "SPDX-License-Identifier: MIT. Generated from the key table in policy/keys.c by tools/generate.");
    scope(POLICY_SCOPE_FILE, "");
    json_end(json);
}
