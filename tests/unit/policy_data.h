/* SPDX-License-Identifier: MIT */
/* policy_data.h - the files under tests/unit/policies, for the tests that walk through them. */
#ifndef WEIR_POLICY_DATA_H
#define WEIR_POLICY_DATA_H

#include "policy/policy.h"

struct data_file {
    char name[256]; /* "tag-list.yaml" */
    char path[4096];
    char *text; /* terminated */
    size_t len;
};

/* Calls fn for each file of the folder "good" or "bad", in the order of names, and returns how many there were. */
size_t data_each(const char *folder, void (*fn)(const struct data_file *file));
/* The lines of the file that begin with the word, "# expect ": copies the nth (from 0) without the word. False: there are fewer. */
bool data_line(const struct data_file *file, const char *word, size_t nth, char *line, size_t len);

/* One effective value as text; NULL if the policy has none at the path. Borrowed from the policy. */
const char *data_value(const struct policy *policy, const char *path);
/* Parses text that must be good, and stops the test if it is not. */
struct policy *data_parse(const char *text, const char *overrides);
/* Parses text that must be bad, with one error, and writes that down as policy_error_format() does. */
void data_parse_bad(const char *text, const char *overrides, char *error, size_t len);

#endif
