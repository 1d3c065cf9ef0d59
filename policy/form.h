/* SPDX-License-Identifier: MIT */
/*
 * form.h - how the values of one type are read and written. Each type has a form in value.c, quantity.c or list.c; policy_value_read() and
 * its like in value.h find it by the key. Pure; the thread that parses uses it.
 */
#ifndef WEIR_POLICY_FORM_H
#define WEIR_POLICY_FORM_H

#include "policy/number.h"
#include "policy/value.h"

/* Text that is being written, twice: first to be measured. */
struct policy_text {
    const struct policy_key *key;
    char *text;
    size_t room, len; /* len counts on where room ends */
};
void policy_put(struct policy_text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct policy_form {
    bool (*read)(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value);
    void (*put)(struct policy_text *out, const void *value);
};
extern const struct policy_form policy_size_form, policy_bytes_form, policy_time_form, policy_number_form; /* quantity.c */
extern const struct policy_form policy_devices_form, policy_steps_form, policy_names_form;                 /* list.c */

/* All return false, once they have reported what is wrong. */
bool policy_fail_kind(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node);
/* smallest: the unit that the number must be a whole number of. */
bool policy_fail_number(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node,
                        enum policy_number_status status, const char *smallest);
/* Whether the node is text, with quotes or without. */
bool policy_is_text(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node);
/* Whether the node is a value that quotes would turn into text. */
bool policy_is_plain(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node);

/* The same of what other tools' configurations have (foreign.c): a word in the place of a number, a unit that is none of these. */
bool policy_fail_foreign(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node);
bool policy_fail_unit(const struct policy_reading *reading, const struct policy_node *node, const char *unit,
                      const struct policy_unit *units);
/* What to write for no limit: "none for no limit"; NULL: the key always has one. */
const char *policy_unlimited(const struct policy_key *key);
/* The fewest bytes that may be written without a unit. */
uint64_t policy_bare_least(const struct policy_key *key);
/* Whether a size is no number that only another tool takes for a size. */
bool policy_has_unit(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node);
/* What to write in place of a key of another tool, behind its name; NULL: it is none. */
const char *policy_foreign_key(const char *name);

/* A whole number without a unit, up to the key's max. */
enum policy_number_status policy_read_whole(const struct policy_key *key, const char *text, uint64_t *value);

#define POLICY_LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

#endif
