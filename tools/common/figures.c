/* SPDX-License-Identifier: MIT */
#include "tools/common/figures.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>


#define DEPTH_MAX 8 /* those of Weir have four levels */
#define OBJECT_MEMORY 1024 /* bytes that an object or an array takes, however short it is */
#define VALUE_MEMORY 192 /* bytes that a member or an item takes, besides its text */
#define TEXT_MAX 4096 /* of names, and of the path of the policy: the longest that there can be */

/* Access ------------------------------------------------------------------------------------------------------------------------------- */

/* NULL: there is none of this type. */
static json_object *member_of(const figures *object, const char *member, json_type type)
{
    json_object *value;
    return object && json_object_object_get_ex(object, member, &value) && json_object_is_type(value, type) ? value : NULL;
}

size_t figures_count(const figures *document, const char *array)
{
    const json_object *items = member_of(document, array, json_type_array);
    return items ? json_object_array_length(items) : 0;
}

const figures *figures_at(const figures *document, const char *array, size_t index)
{
    const json_object *items = member_of(document, array, json_type_array);
    return items ? json_object_array_get_idx(items, index) : NULL;
}

const figures *figures_of(const figures *object, const char *member)
{
    return member_of(object, member, json_type_object);
}

uint64_t figure(const figures *object, const char *member)
{
    return json_object_get_uint64(member_of(object, member, json_type_int));
}

bool figure_is(const figures *object, const char *member)
{
    return json_object_get_boolean(member_of(object, member, json_type_boolean));
}

const char *figure_text(const figures *object, const char *member)
{
    json_object *value = member_of(object, member, json_type_string);
    return value ? json_object_get_string(value) : NULL;
}

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

/* The arrays of a document, as many objects as no process has, and what each object must have: a name, and a number that tells it from the
   others. A policy names 1,024 pools at most, each of which may be on each GPU, and 4,096 streams. */
static const struct array {
    const char *name;
    size_t most;
    const char *text, *number;
} arrays[] = {
    { "devices", 256, "uuid", "index" },
    { "pools", 16384, "name", "device" },
    { "tags", 4096, "name", NULL },
    { "values", 65536, "key", NULL },
};

static bool is_number(const figures *object, const char *member)
{
    json_object *value = member_of(object, member, json_type_int);
    return value && json_object_get_int64(value) >= 0 && json_object_get_int64(value) <= INT_MAX;
}

static bool is_text(const figures *object, const char *member)
{
    const char *text = figure_text(object, member);
    return text && strlen(text) < TEXT_MAX;
}

/* A device that came twice would be two series of metrics with the same name. */
static bool is_told_before(const figures *document, size_t device)
{
    uint64_t index = figure(figures_at(document, "devices", device), "index");
    return figures_device(document, index) != figures_at(document, "devices", device);
}

static bool has_shape(const figures *document, const struct array *array, char why[FIGURES_WHY])
{
    size_t count = figures_count(document, array->name);
    snprintf(why, FIGURES_WHY, "there is no array '%s'", array->name);
    if (!member_of(document, array->name, json_type_array))
        return false;
    snprintf(why, FIGURES_WHY, "there are %zu %s, more than %zu", count, array->name, array->most);
    if (count > array->most)
        return false;
    for (size_t i = 0; i < count; i++) {
        const figures *object = figures_at(document, array->name, i);
        snprintf(why, FIGURES_WHY, "item %zu of '%s' is no object with '%s'%s%s", i, array->name, array->text, array->number ? " and the number " : "",
                 array->number ? array->number : "");
        if (!json_object_is_type(object, json_type_object) || !is_text(object, array->text) ||
            (array->number && !is_number(object, array->number)))
            return false;
    }
    return true;
}

static bool is_document(const figures *document, char why[FIGURES_WHY])
{
    static const char *const texts[] = { "version", "program", "policy" };
    snprintf(why, FIGURES_WHY, "they are no object");
    if (!json_object_is_type(document, json_type_object))
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(why, FIGURES_WHY, "there is no text '%s'", texts[i]);
        if (!is_text(document, texts[i]))
            return false;
    }
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (!has_shape(document, &arrays[i], why))
            return false;
    for (size_t i = 0; i < figures_count(document, "devices"); i++) {
        snprintf(why, FIGURES_WHY, "one device is there twice");
        if (is_told_before(document, i))
            return false;
    }
    return true;
}

size_t figures_memory(const char *text, size_t len)
{
    size_t objects = 0, values = 0;
    bool is_text = false;
    for (size_t i = 0; i < len; i++) {
        is_text = is_text != (text[i] == '"');
        i += is_text && text[i] == '\\';
        objects += !is_text && (text[i] == '{' || text[i] == '[');
        values += !is_text && text[i] == ',';
    }
    return len + OBJECT_MEMORY * objects + VALUE_MEMORY * values;
}

/* Before memory is taken for it. */
static bool is_bounded(const char *text, size_t len, char why[FIGURES_WHY])
{
    size_t memory = figures_memory(text, len);
    snprintf(why, FIGURES_WHY, "they are %zu bytes, and to read them takes %zu, more than %zu", len, memory, FIGURES_MEMORY_MAX);
    return len <= FIGURES_SIZE_MAX && memory <= FIGURES_MEMORY_MAX;
}

figures *figures_read(const char *text, size_t len, char why[FIGURES_WHY])
{
    if (!is_bounded(text, len, why))
        return NULL;
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
    snprintf(why, FIGURES_WHY, "no host memory");
    if (!tokener)
        return NULL;
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *document = json_tokener_parse_ex(tokener, text, (int)len);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    if (error == json_tokener_success && json_tokener_get_parse_end(tokener) != len)
        error = json_tokener_error_parse_unexpected;
    json_tokener_free(tokener);
    if (error == json_tokener_success && is_document(document, why))
        return document;
    if (error != json_tokener_success)
        snprintf(why, FIGURES_WHY, "%s", error == json_tokener_continue ? "their end is missing" : json_tokener_error_desc(error));
    json_object_put(document);
    return NULL;
}

void figures_free(figures *document)
{
    json_object_put(document);
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

const figures *figures_device(const figures *document, uint64_t index)
{
    size_t count = figures_count(document, "devices");
    for (size_t i = 0; i < count; i++)
        if (figure(figures_at(document, "devices", i), "index") == index)
            return figures_at(document, "devices", i);
    return NULL;
}

static void add_number(void *data, const char *key, const struct figures_value *value)
{
    (void)key;
    *(uint64_t *)data += value->number;
}

uint64_t figures_rescues(const figures *device)
{
    const figures *rescues = figures_of(device, "rescues");
    uint64_t sum = 0;
    figures_each(rescues, add_number, &sum);
    return sum;
}

const char *const figures_audit[] = {"kept_used",      "kept_used_ms", "kept_unused",     "kept_unused_ms",
                                     "given_missed", "given_missed_ms", NULL};

bool figures_has_audit(const figures *pool)
{
    bool has_any = figure_is(pool, "is_auto");
    for (size_t i = 0; figures_audit[i] && !has_any; i++)
        has_any = figure(pool, figures_audit[i]) != 0;
    return has_any;
}

/* All of it ---------------------------------------------------------------------------------------------------------------------------- */

static struct figures_value value_of(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_boolean:
        return (struct figures_value){ .kind = FIGURES_BOOL, .is = json_object_get_boolean(value) };
    case json_type_int:
        return (struct figures_value){ .kind = FIGURES_NUMBER, .number = json_object_get_uint64(value) };
    case json_type_string:
        return (struct figures_value){ .kind = FIGURES_TEXT, .text = json_object_get_string(value) };
    case json_type_object:
        return (struct figures_value){ .kind = FIGURES_OBJECT, .object = value };
    case json_type_array:
        return (struct figures_value){ .kind = FIGURES_ARRAY, .object = value };
    default:
        return (struct figures_value){ .kind = FIGURES_NULL };
    }
}

void figures_each(const figures *object, void (*visit)(void *data, const char *key, const struct figures_value *value), void *data)
{
    size_t count = json_object_is_type(object, json_type_array) ? json_object_array_length(object) : 0;
    for (size_t i = 0; i < count; i++) {
        struct figures_value value = value_of(json_object_array_get_idx(object, i));
        visit(data, NULL, &value);
    }
    if (!json_object_is_type(object, json_type_object))
        return;
    json_object_object_foreach(object, key, member)
    {
        struct figures_value value = value_of(member);
        visit(data, key, &value);
    }
}
