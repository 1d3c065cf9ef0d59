/* SPDX-License-Identifier: MIT */
/*
 * json.h - writes one JSON document to a stream, indented by two. A library dependency for output alone is not worth it.
 *
 * Each call adds one member to the innermost open object, or, with key NULL, one element to the innermost open array. The caller keeps
 * begin and end in pairs.
 */
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 32 /* the schema of the policy has about twenty levels */

struct json {
    FILE *out;
    unsigned depth;
    unsigned line_depth; /* what is open from this depth on stands on one line; 0: nothing does */
    bool is_array[JSON_DEPTH_MAX];
    bool has_members[JSON_DEPTH_MAX];
};

#define JSON_INIT(stream)                                                                                                                  \
    {                                                                                                                                      \
        .out = (stream)                                                                                                                    \
    }

/* Whether any document was begun in this process. */
bool json_was_begun(void);

void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
/* The next object or array, with all that is in it, stands on one line. */
void json_in_line(struct json *json);
/* Ends the innermost object or array; the outermost one with a newline. */
void json_end(struct json *json);

/* NULL is written as null. Bytes that are not UTF-8 become U+FFFD, since JSON has no way to write them. */
void json_string(struct json *json, const char *key, const char *value);
void json_uint(struct json *json, const char *key, uint64_t value);
/* Null where it is no finite number. */
void json_number(struct json *json, const char *key, double value, int decimals);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* An array of numbers, on one line. */
void json_uints(struct json *json, const char *key, const uint64_t *values, size_t count);
/* Members, or an element, that are JSON already. */
void json_text(struct json *json, const char *text);

/* Members of a struct, uint64_t each, that are written under their names. */
struct json_member {
    const char *name;
    size_t offset;
};
#define JSON_MEMBER(type, member)                                                                                                          \
    {                                                                                                                                      \
#member, offsetof(type, member)                                                                                                    \
    }
void json_members(struct json *json, const void *object, const struct json_member *members, size_t count);

#endif
