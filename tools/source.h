/* SPDX-License-Identifier: MIT */
/* source.h - how subcommands read policies, and say what is wrong with them. */
#ifndef WEIR_SOURCE_H
#define WEIR_SOURCE_H

#include "policy/policy.h"
#include "tools/json.h"

#include <stdbool.h>

/* Reads a whole file, or standard input for "-". At most POLICY_FILE_MAX bytes and one more, so that the parser refuses what is longer.
 *text: the caller's to free(). Returns 0, or the errno that says why not. */
int source_read(const char *path, char **text, size_t *len);

/* What errors call the file. */
const char *source_name(const char *path);

/*
 * The policy that an operand means: NULL is the usual search, "-" standard input, anything else a file; $WEIR_CONF applies to each.
 * *policy, and *text (NULL unless it came from standard input), are the caller's to free. Prints every error on stderr.
 * Returns EXIT_GOOD, EXIT_FAILED for a bad policy, or EXIT_TROUBLE for one that cannot be read.
 */
int source_load(const char *operand, struct policy **policy, char **text);

/* Prints all errors on stderr, one line each. */
void source_print_errors(const struct policy_errors *errors);
/* Adds them as an array "errors". */
void source_json_errors(struct json *json, const struct policy_errors *errors);

/* The exit status for a policy's status. */
int source_exit(enum policy_status status);

#endif
