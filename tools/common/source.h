/* SPDX-License-Identifier: MIT */
/* source.h - how subcommands read policies, and say what is wrong with them. */
#ifndef WEIR_SOURCE_H
#define WEIR_SOURCE_H

#include "policy/policy.h"
#include "tools/common/json.h"

#include <stdbool.h>

/* Reads a whole file, or standard input for "-". At most so many bytes and one more, as of POLICY_FILE_MAX, so that the parser refuses what is
   longer. *text: the caller's to free(). Returns 0, or the errno that says why not. */
int source_read(const char *path, size_t most, char **text, size_t *len);

/* Whether it can be read only once: standard input for "-", or a pipe, such as the shell's <(...). */
bool source_is_stream(const char *path);

/* The path of a policy that is named by its path or its name, the caller's to free(). Returns EXIT_GOOD, or EXIT_TROUBLE after a complaint. */
int source_path(const char *operand, char **path);

/* What errors call the file. */
const char *source_name(const char *path);

/*
 * The policy that an operand means: NULL is the usual search, "-" standard input, anything else a name, a file or a stream; $WEIR_CONF applies
 * to each. *policy, and *text (of a stream, else NULL), are the caller's to free. Complains of every error.
 * Returns EXIT_GOOD, EXIT_FAILED for a bad policy, or EXIT_TROUBLE for one that cannot be read.
 */
int source_load(const char *operand, struct policy **policy, char **text);

/* Complains of all errors. */
void source_print_errors(const struct policy_errors *errors);
/* Adds them as an array "errors". */
void source_json_errors(struct json *json, const struct policy_errors *errors);

/* The exit status for a policy's status. */
int source_exit(enum policy_status status);

#endif
