/* SPDX-License-Identifier: MIT */
/* policy.h - the policies that a replay is held under, as texts. What is returned is the caller's to free(). */
#ifndef WEIR_REPLAY_POLICY_H
#define WEIR_REPLAY_POLICY_H

#include <stdio.h>

#include "trace/merge.h"

/* YAML of a policy that was recorded: values as the header of a trace has them, "pools.main.devices: [0]", a line each. NULL: none is
   there, or it is none. */
char *replay_policy_recorded(const struct trace *trace);

/* The same of any such lines, as policy_each_value() makes them. */
char *replay_policy_of_values(const char *values);

/* Writes the parents of a key, "pools:" and "main:" of "pools.main.devices", a line each: those that the key written before, `former`, does
   not have as well. Returns how deep the key itself stands. Only the first eight dots divide: no policy is deeper. */
unsigned replay_policy_put_parents(FILE *out, const char *path, size_t len, const char *former, size_t former_len);

/* The whole file, as text; NULL after a complaint of that command: it cannot be read, or has a NUL byte, which no policy has. */
char *replay_policy_read(const char *command, const char *file);

/* The same of a file that is a policy, in *text. EXIT_GOOD, or after a complaint another exit status. */
int replay_policy_read_valid(const char *command, const char *file, char **text);

/* A copy of the text in which devices that it names by their UUIDs stand by their numbers, as the header of the trace has both. */
char *replay_policy_by_index(const char *text, const struct trace *trace);

#endif
