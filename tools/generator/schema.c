/* SPDX-License-Identifier: MIT */
/* schema.c - `generate schema`: the JSON schema of a policy. */
#include "tools/generator/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "tools/common/json.h"

#define DECIMAL "(0|[1-9][0-9]*)(\\.[0-9]+)?"
#define UUID "(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

static struct json *json; /* the schema that is being written */

static void text(const char *pattern)
{
    json_string(json, "type", "string");
    json_string(json, "pattern", pattern);
}

/* Text that is also no longer than that. */
static void short_text(const char *pattern, uint64_t max)
{
    text(pattern);
    json_uint(json, "maxLength", max);
}

static void integer(uint64_t min, uint64_t max)
{
    json_string(json, "type", "integer");
    json_uint(json, "minimum", min);
    if (max)
        json_uint(json, "maximum", max);
}

static void list(size_t max)
{
    json_string(json, "type", "array");
    json_bool(json, "uniqueItems", true);
    if (max)
        json_uint(json, "maxItems", max);
}

/* Begins one of several ways to write a value. */
static void alternative(void)
{
    json_in_line(json);
    json_object(json, NULL);
}

static void begin_enum(void)
{
    json_in_line(json);
    json_array(json, "enum");
}

static void integer_or_text(uint64_t min, uint64_t max, const char *pattern)
{
    json_array(json, "anyOf");
    alternative();
    integer(min, max);
    json_end(json);
    alternative();
    text(pattern);
    json_end(json);
    json_end(json);
}

/* A pattern of numbers with one of the units, and of the words and shares that the key accepts. */
static void quantity(const struct policy_key *key, const struct policy_unit *units)
{
    static const struct {
        unsigned accepts;
        const char *pattern;
    } others[] = {
        {POLICY_ACCEPTS_PERCENT, "|(100(\\.0{1,2})?|[1-9]?[0-9](\\.[0-9]{1,2})?)%"},
        {POLICY_ACCEPTS_NONE, "|none"},
        {POLICY_ACCEPTS_ALL, "|all"},
        {POLICY_ACCEPTS_NEVER, "|never"},
    };
    char pattern[512];
    size_t len = (size_t)snprintf(pattern, sizeof(pattern), "^(" DECIMAL "(");
    for (size_t i = 0; units[i].name; i++)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "%s%s", i ? "|" : "", units[i].name);
    len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, ")");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (key->accepts & others[i].accepts)
            len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "%s", others[i].pattern);
    snprintf(pattern + len, sizeof(pattern) - len, ")$");
    if (units == policy_time_units) {
        text(pattern);
        return;
    }
    integer_or_text(key->min, key->max, pattern);
}

/* The items of a list that are numbers or match the pattern. */
static void items(uint64_t max, const char *pattern)
{
    json_object(json, "items");
    integer_or_text(0, max, pattern);
    json_end(json);
}

static void devices(const struct policy_key *key)
{
    bool takes_none = key->accepts & POLICY_ACCEPTS_NONE;
    json_array(json, "anyOf");
    alternative();
    json_array(json, "enum");
    if (takes_none)
        json_string(json, NULL, "none");
    json_string(json, NULL, "all");
    json_end(json);
    json_end(json);
    json_object(json, NULL);
    list(POLICY_DEVICES_MAX);
    json_uint(json, "minItems", takes_none ? 0 : 1);
    items(key->max, "^" UUID "$");
    json_end(json);
    json_end(json);
}

static void steps(void)
{
    list(0);
    json_object(json, "items");
    begin_enum();
    for (unsigned step = 0; step < POLICY_STEP_COUNT; step++)
        json_string(json, NULL, policy_step_name(step));
    json_end(json);
    json_end(json);
}

static void socket_name(void)
{
    json_array(json, "anyOf");
    alternative();
    short_text("^" POLICY_SOCKET_PATTERN "$", POLICY_NAME_MAX);
    json_end(json);
    alternative();
    short_text("^/.*[^/]$", POLICY_SOCKET_PATH_MAX);
    json_end(json);
    json_end(json);
}

static void scope(enum policy_scope which, const char *prefix);

/* A switch, or the mapping of the keys below it. Readers of YAML 1.1 take on and off for booleans, those of 1.2 for text. */
static void switched(enum policy_scope which, const struct policy_key *key)
{
    char below[64];
    snprintf(below, sizeof(below), "%s.", key->name);
    json_array(json, "anyOf");
    alternative();
    json_array(json, "enum");
    json_string(json, NULL, "off");
    json_string(json, NULL, "on");
    json_bool(json, NULL, false);
    json_bool(json, NULL, true);
    json_end(json);
    json_end(json);
    json_object(json, NULL);
    scope(which, below);
    json_end(json);
    json_end(json);
}

/* A mapping whose keys are names and whose values are the objects of a scope. */
static void objects(enum policy_scope which, size_t min, size_t max)
{
    json_string(json, "type", "object");
    json_uint(json, "minProperties", min);
    json_uint(json, "maxProperties", max);
    json_in_line(json);
    json_object(json, "propertyNames");
    json_uint(json, "maxLength", POLICY_NAME_MAX);
    json_end(json);
    json_object(json, "patternProperties");
    json_object(json, "^" POLICY_NAME_PATTERN "$");
    scope(which, "");
    json_end(json);
    json_end(json);
    json_bool(json, "additionalProperties", false);
}

/* The constraints of one value. */
static void value(enum policy_scope which, const struct policy_key *key)
{
    switch (key->type) {
    case POLICY_TYPE_VERSION:
        json_uint(json, "const", key->max);
        break;
    case POLICY_TYPE_POOLS:
        objects(POLICY_SCOPE_POOL, 1, POLICY_POOLS_MAX);
        break;
    case POLICY_TYPE_STREAMS:
        objects(POLICY_SCOPE_STREAM, 0, POLICY_STREAMS_MAX);
        break;
    case POLICY_TYPE_POOL:
        short_text("^" POLICY_NAME_PATTERN "$", POLICY_NAME_MAX);
        break;
    case POLICY_TYPE_BOOL:
        json_string(json, "type", "boolean");
        break;
    case POLICY_TYPE_SWITCH:
        switched(which, key);
        break;
    case POLICY_TYPE_WORD:
        begin_enum();
        for (size_t i = 0; key->words[i]; i++)
            json_string(json, NULL, key->words[i]);
        json_end(json);
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
        text("^(device|host|host_numa:(0|[1-9][0-9]{0,2}|10[01][0-9]|102[0-3]))$");
        break;
    case POLICY_TYPE_STEPS:
        steps();
        break;
    case POLICY_TYPE_NUMBER:
        integer(key->min, key->max);
        break;
    case POLICY_TYPE_NAMES: /* a number of a user is an integer to YAML */
        list(POLICY_NAMES_MAX);
        items(0, "^" POLICY_USER_PATTERN "$");
        break;
    case POLICY_TYPE_SOCKET:
        socket_name();
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
    json_string(json, "type", "object");
    json_bool(json, "additionalProperties", false);
    if (which == POLICY_SCOPE_FILE && prefix[0] == '\0') {
        json_in_line(json);
        json_array(json, "required");
        json_string(json, NULL, "weir");
        json_string(json, NULL, "pools");
        json_end(json);
    }
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
