/* SPDX-License-Identifier: MIT */
#include "tools/common/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lib/base/json.h"

static void write_string(FILE *out, const char *value)
{
    char escaped[WEIR__JSON_CHARACTER];
    fputc('"', out);
    for (size_t len; (len = weir__json_character(&value, escaped)) > 0;)
        fwrite(escaped, 1, len, out);
    fputc('"', out);
}

static bool is_in_line(const struct json *json)
{
    return json->line_depth > 0 && json->depth >= json->line_depth;
}

/* What stands before every value: the comma, the line and the key. */
static void lead_in(struct json *json, const char *key)
{
    if (json->depth == 0)
        return;
    bool *has_members = &json->has_members[json->depth - 1];
    if (is_in_line(json))
        fputs(*has_members ? ", " : "", json->out);
    else
        fprintf(json->out, "%s\n%*s", *has_members ? "," : "", (int)json->depth * 2, "");
    *has_members = true;
    if (key) {
        write_string(json->out, key);
        fputs(": ", json->out);
    }
}

static bool was_begun;

bool json_was_begun(void)
{
    return was_begun;
}

static void begin(struct json *json, const char *key, bool is_array)
{
    was_begun = true;
    lead_in(json, key);
    fputc(is_array ? '[' : '{', json->out);
    json->is_array[json->depth] = is_array;
    json->has_members[json->depth] = false;
    json->depth++;
}

void json_object(struct json *json, const char *key)
{
    begin(json, key, false);
}

void json_array(struct json *json, const char *key)
{
    begin(json, key, true);
}

void json_in_line(struct json *json)
{
    if (!is_in_line(json))
        json->line_depth = json->depth + 1;
}

void json_end(struct json *json)
{
    bool in_line = is_in_line(json);
    json->depth--;
    if (!is_in_line(json))
        json->line_depth = 0;
    if (json->has_members[json->depth] && !in_line)
        fprintf(json->out, "\n%*s", (int)json->depth * 2, "");
    fputc(json->is_array[json->depth] ? ']' : '}', json->out);
    if (json->depth == 0)
        fputc('\n', json->out);
}

void json_string(struct json *json, const char *key, const char *value)
{
    if (!value) {
        json_null(json, key);
        return;
    }
    lead_in(json, key);
    write_string(json->out, value);
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
    lead_in(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_uints(struct json *json, const char *key, const uint64_t *values, size_t count)
{
    json_in_line(json);
    json_array(json, key);
    for (size_t i = 0; i < count; i++)
        json_uint(json, NULL, values[i]);
    json_end(json);
}

void json_number(struct json *json, const char *key, double value, int decimals)
{
    if (!isfinite(value)) {
        json_null(json, key);
        return;
    }
    lead_in(json, key);
    fprintf(json->out, "%.*f", decimals, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
    lead_in(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
    lead_in(json, key);
    fputs("null", json->out);
}

void json_text(struct json *json, const char *text)
{
    lead_in(json, NULL);
    fputs(text, json->out);
}

void json_members(struct json *json, const void *object, const struct json_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)object + members[i].offset, sizeof(value));
        json_uint(json, members[i].name, value);
    }
}
