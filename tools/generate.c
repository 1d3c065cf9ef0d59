/* SPDX-License-Identifier: MIT */
/*
 * generate.c - prints what others need of the key table: `generate schema` the JSON schema that editors use, `generate man` the KEYS
 * section of weir-policy(5), `generate completion` the tables of the bash completion. A tool of the build, not installed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "tools/generate.h"

/* JSON --------------------------------------------------------------------------------------------------------------------------------- */

static unsigned depth; /* of the JSON value being written */

static void line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%*s", (int)(2 * depth), "");
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static void open_object(const char *name)
{
    line(name ? "\"%s\": {" : "{", name);
    depth++;
}

static void close_object(bool more)
{
    depth--;
    line("}%s", more ? "," : "");
}

/* "name": "text", with what JSON wants escaped. */
static void string(const char *name, const char *text, bool more)
{
    printf("%*s\"%s\": \"", (int)(2 * depth), "", name);
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"%s\n", more ? "," : "");
}

#define DECIMAL "(0|[1-9][0-9]*)(\\.[0-9]+)?"
#define UUID "(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

/* A pattern of numbers with one of the units, and of the words and shares that the key accepts. */
static void quantity(const struct policy_key *key, const struct policy_unit *units)
{
    char pattern[512];
    size_t len = (size_t)snprintf(pattern, sizeof(pattern), "^(" DECIMAL "(");
    for (size_t i = 0; units[i].name; i++)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "%s%s", i ? "|" : "", units[i].name);
    len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, ")");
    if (key->accepts & POLICY_ACCEPTS_PERCENT)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "|(100(\\.0{1,2})?|[1-9]?[0-9](\\.[0-9]{1,2})?)%%");
    if (key->accepts & POLICY_ACCEPTS_NONE)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "|none");
    if (key->accepts & POLICY_ACCEPTS_ALL)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "|all");
    if (key->accepts & POLICY_ACCEPTS_NEVER)
        len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "|never");
    snprintf(pattern + len, sizeof(pattern) - len, ")$");
    if (units == policy_time_units) {
        string("type", "string", true);
        string("pattern", pattern, false);
        return;
    }
    line("\"anyOf\": [");
    depth++;
    line("{ \"type\": \"integer\", \"minimum\": %" PRIu64 ", \"maximum\": %" PRIu64 " },", key->min, key->max);
    open_object(NULL);
    string("type", "string", true);
    string("pattern", pattern, false);
    close_object(false);
    depth--;
    line("]");
}

static void devices(const struct policy_key *key)
{
    line("\"anyOf\": [");
    depth++;
    line((key->accepts & POLICY_ACCEPTS_NONE) ? "{ \"enum\": [\"none\", \"all\"] }," : "{ \"const\": \"all\" },");
    open_object(NULL);
    string("type", "array", true);
    line("\"uniqueItems\": true,");
    line("\"minItems\": %d,", (key->accepts & POLICY_ACCEPTS_NONE) ? 0 : 1);
    line("\"maxItems\": %d,", POLICY_DEVICES_MAX);
    open_object("items");
    line("\"anyOf\": [");
    depth++;
    line("{ \"type\": \"integer\", \"minimum\": 0, \"maximum\": %" PRIu64 " },", key->max);
    open_object(NULL);
    string("type", "string", true);
    string("pattern", "^" UUID "$", false);
    close_object(false);
    depth--;
    line("]");
    close_object(false);
    close_object(false);
    depth--;
    line("]");
}

static void steps(void)
{
    string("type", "array", true);
    line("\"uniqueItems\": true,");
    open_object("items");
    printf("%*s\"enum\": [", (int)(2 * depth), "");
    for (unsigned step = 0; step < POLICY_STEP_COUNT; step++)
        printf("%s\"%s\"", step ? ", " : "", policy_step_name(step));
    puts("]");
    close_object(false);
}

/* A number of a user is an integer to YAML. */
static void names(void)
{
    string("type", "array", true);
    line("\"uniqueItems\": true,");
    line("\"maxItems\": %d,", POLICY_NAMES_MAX);
    open_object("items");
    line("\"anyOf\": [");
    depth++;
    line("{ \"type\": \"integer\", \"minimum\": 0 },");
    open_object(NULL);
    string("type", "string", true);
    string("pattern", "^" POLICY_USER_PATTERN "$", false);
    close_object(false);
    depth--;
    line("]");
    close_object(false);
}

static void socket_name(void)
{
    line("\"anyOf\": [");
    depth++;
    open_object(NULL);
    string("type", "string", true);
    string("pattern", "^" POLICY_SOCKET_PATTERN "$", true);
    line("\"maxLength\": %d", POLICY_NAME_MAX);
    close_object(true);
    open_object(NULL);
    string("type", "string", true);
    string("pattern", "^/.*[^/]$", true);
    line("\"maxLength\": %d", POLICY_SOCKET_PATH_MAX);
    close_object(false);
    depth--;
    line("]");
}

/* The constraints of one value. */
static void value(const struct policy_key *key)
{
    switch (key->type) {
    case POLICY_TYPE_VERSION:
        line("\"const\": %" PRIu64, key->max);
        break;
    case POLICY_TYPE_POOL:
        string("type", "string", true);
        string("pattern", "^" POLICY_NAME_PATTERN "$", true);
        line("\"maxLength\": %d", POLICY_NAME_MAX);
        break;
    case POLICY_TYPE_BOOL:
        string("type", "boolean", false);
        break;
    case POLICY_TYPE_WORD:
        printf("%*s\"enum\": [", (int)(2 * depth), "");
        for (size_t i = 0; key->words[i]; i++)
            printf("%s\"%s\"", i ? ", " : "", key->words[i]);
        puts("]");
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
        string("type", "string", true);
        string("pattern", "^(device|host|host_numa:(0|[1-9][0-9]{0,2}|10[01][0-9]|102[0-3]))$", false);
        break;
    case POLICY_TYPE_STEPS:
        steps();
        break;
    case POLICY_TYPE_NUMBER:
        string("type", "integer", true);
        line("\"minimum\": %" PRIu64 ",", key->min);
        line("\"maximum\": %" PRIu64, key->max);
        break;
    case POLICY_TYPE_NAMES:
        names();
        break;
    case POLICY_TYPE_SOCKET:
        socket_name();
        break;
    default:
        break;
    }
}

static void scope(enum policy_scope which, const char *prefix);

/* A switch, or the mapping of the keys below it. Readers of YAML 1.1 take on and off for booleans, those of 1.2 for text. */
static void switched(enum policy_scope which, const char *below)
{
    line("\"anyOf\": [");
    depth++;
    line("{ \"enum\": [\"off\", \"on\", false, true] },");
    open_object(NULL);
    scope(which, below);
    close_object(false);
    depth--;
    line("]");
}

/* A mapping whose keys are names and whose values are the objects of a scope. */
static void objects(enum policy_scope which, size_t min, size_t max)
{
    string("type", "object", true);
    line("\"minProperties\": %zu,", min);
    line("\"maxProperties\": %zu,", max);
    line("\"propertyNames\": { \"maxLength\": %d },", POLICY_NAME_MAX);
    open_object("patternProperties");
    open_object("^" POLICY_NAME_PATTERN "$");
    scope(which, "");
    close_object(false);
    close_object(true);
    line("\"additionalProperties\": false");
}

static void member(enum policy_scope which, const struct policy_key *key)
{
    char text[1024];
    snprintf(text, sizeof(text), "%s Write %s.", key->help, key->write);
    string("description", text, true);
    bool bare = key->type == POLICY_TYPE_BOOL || (key->initial && strspn(key->initial, "0123456789") == strlen(key->initial));
    if (key->initial && bare)
        line("\"default\": %s,", key->initial);
    else if (key->initial && key->type != POLICY_TYPE_STEPS && key->type != POLICY_TYPE_NAMES)
        string("default", key->initial, true);
    snprintf(text, sizeof(text), "%s.", key->name);
    if (key->type == POLICY_TYPE_POOLS)
        objects(POLICY_SCOPE_POOL, 1, POLICY_POOLS_MAX);
    else if (key->type == POLICY_TYPE_STREAMS)
        objects(POLICY_SCOPE_STREAM, 0, POLICY_STREAMS_MAX);
    else if (key->type == POLICY_TYPE_SWITCH)
        switched(which, text);
    else
        value(key);
}

/* The part of a key's name behind the prefix, up to its next dot. */
static void part_of(const struct policy_key *key, const char *prefix, char *part, size_t len)
{
    const char *rest = key->name + strlen(prefix);
    snprintf(part, len, "%.*s", (int)strcspn(rest, "."), rest);
}

/* Whether an earlier key of the scope has the same part. */
static bool is_repeated(const struct policy_key *keys, size_t index, const char *prefix)
{
    char part[64], other[64];
    part_of(&keys[index], prefix, part, sizeof(part));
    for (size_t i = 0; i < index; i++) {
        if (strncmp(keys[i].name, prefix, strlen(prefix)) != 0)
            continue;
        part_of(&keys[i], prefix, other, sizeof(other));
        if (strcmp(part, other) == 0)
            return true;
    }
    return false;
}

/* Whether a member of this mapping begins with the key at the index. */
static bool is_member(const struct policy_key *keys, size_t index, const char *prefix)
{
    return strncmp(keys[index].name, prefix, strlen(prefix)) == 0 && !is_repeated(keys, index, prefix);
}

/* The members of a scope, or of the group of keys in it that prefix ("on_oom.") names. */
static void scope(enum policy_scope which, const char *prefix)
{
    size_t count, last = 0;
    const struct policy_key *keys = policy_keys(which, &count);
    for (size_t i = 0; i < count; i++) {
        if (is_member(keys, i, prefix))
            last = i;
    }
    string("type", "object", true);
    line("\"additionalProperties\": false,");
    if (which == POLICY_SCOPE_FILE && prefix[0] == '\0')
        line("\"required\": [\"weir\", \"pools\"],");
    open_object("properties");
    for (size_t i = 0; i < count; i++) {
        char part[64], below[128];
        if (!is_member(keys, i, prefix))
            continue;
        part_of(&keys[i], prefix, part, sizeof(part));
        open_object(part);
        snprintf(below, sizeof(below), "%s%s.", prefix, part);
        if (strlen(prefix) + strlen(part) < strlen(keys[i].name))
            scope(which, below);
        else
            member(which, &keys[i]);
        close_object(i != last);
    }
    close_object(false);
}

static void schema(void)
{
    open_object(NULL);
    string("$schema", "http://json-schema.org/draft-07/schema#", true);
    string("title", "Weir policy", true);
    string("$comment", "SPDX-License-Identifier: MIT. Generated from the key table in policy/keys.c by tools/generate.", true);
    scope(POLICY_SCOPE_FILE, "");
    close_object(false);
}

/* Man page ----------------------------------------------------------------------------------------------------------------------------- */

#define MAN_WIDTH 78

/* Text in lines of at most MAN_WIDTH, each sentence on a new one. Hyphens stay hyphens, so that keys and values can be copied. */
static void roff(const char *text)
{
    size_t column = 0;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        size_t len = strcspn(word, " ");
        size_t at = (size_t)(word - text);
        bool sentence = at >= 4 && text[at - 2] == '.' && strncmp(text + at - 4, "...", 3) != 0;
        if (column > 0)
            putchar(sentence || column + 1 + len > MAN_WIDTH ? '\n' : ' ');
        column = column > 0 && !sentence && column + 1 + len <= MAN_WIDTH ? column + 1 + len : len;
        for (; len > 0; len--, word++)
            printf(*word == '-' ? "\\-" : *word == '\\' ? "\\e" : "%c", *word);
    }
    putchar('\n');
}

/* How numbers, times and the rest are written, from the units that the parser knows. */
static void man_values(void)
{
    char text[1024];
    size_t len = (size_t)snprintf(text, sizeof(text), "Sizes are bytes, or a number with one of the units");
    for (size_t i = 0; policy_size_units[i].name; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s", i ? "," : "", policy_size_units[i].name);
    snprintf(text + len, sizeof(text) - len,
             " directly behind it. A decimal fraction as in 1.5GiB is good where it comes to whole bytes. "
             "Shares of the device's memory are a number from 0 to 100, with two decimals at most, and %%.");
    printf(".Ss Values\n");
    roff(text);
    len = (size_t)snprintf(text, sizeof(text), "Times always have a unit:");
    for (size_t i = 0; policy_time_units[i].name; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s", i ? "," : "", policy_time_units[i].name);
    snprintf(text + len, sizeof(text) - len,
             " for milliseconds, seconds and minutes. Booleans are true and false, and nothing else. Names, words and UUIDs may stand in "
             "quotes; numbers, sizes, times and booleans may not, as quotes make them text.");
    printf(".Pp\n");
    roff(text);
}

static void man_key(const char *before, const struct policy_key *key)
{
    char text[1024];
    printf(".It Ic ");
    snprintf(text, sizeof(text), "%s%s", before, key->name);
    roff(text);
    bool required = !key->initial && strcmp(key->otherwise, "required") == 0;
    snprintf(text, sizeof(text), "%s Write %s. %s%s.%s", key->help, key->write, required ? "Required" : "Default: ",
             required       ? ""
             : key->initial ? key->initial
                            : key->otherwise,
             key->live ? " Can change at reload." : "");
    roff(text);
}

static void man(void)
{
    static const struct {
        const char *title, *before;
    } parts[POLICY_SCOPE_COUNT] = {
        [POLICY_SCOPE_FILE] = {"The file", ""},
        [POLICY_SCOPE_POOL] = {"Each pool", "pools.NAME."},
        [POLICY_SCOPE_STREAM] = {"Each stream", "streams.NAME."},
    };
    printf(".Sh KEYS\nA dot in the name of a key stands for one level of nesting.\n");
    man_values();
    for (unsigned which = 0; which < POLICY_SCOPE_COUNT; which++) {
        size_t count;
        const struct policy_key *keys = policy_keys(which, &count);
        printf(".Ss %s\n.Bl -tag -width Ds\n", parts[which].title);
        for (size_t i = 0; i < count; i++)
            man_key(parts[which].before, &keys[i]);
        printf(".El\n");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "schema") == 0)
        schema();
    else if (argc == 2 && strcmp(argv[1], "man") == 0)
        man();
    else if (argc == 2 && strcmp(argv[1], "completion") == 0)
        generate_completion();
    else {
        fprintf(stderr, "usage: generate schema|man|completion\n");
        return 2;
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
