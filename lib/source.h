/* SPDX-License-Identifier: MIT */
/*
 * source.h - where a weir's policy comes from: reading it when the weir is opened, and reading the same source again for a reload.
 *
 * w->policy_text or w->policy_file says which policy that was. Both are the weir's own, fixed after open.
 */
#ifndef WEIR_LIB_SOURCE_H
#define WEIR_LIB_SOURCE_H

#include "lib/pool/weir_internal.h"

/* Reads the environment, on the thread of the program's own call (policy/environment.h). WEIR_NO_HOST_MEMORY. */
weir_status weir__source_environment(weir_error *error);

/* Reads a policy: the text, or without one the file, or without that what the search finds. Statuses as of weir_open(). */
weir_status weir__source_read(const char *file, const char *text, weir_error *error, struct policy **policy);

/* Reads the policy of a weir that is opened into w->policy, and remembers what that was. */
weir_status weir__source_open(weir *w, const weir_options *options, weir_error *error);
/* Reads again what weir_open() read, whatever the working directory is by now. */
weir_status weir__source_again(const weir *w, weir_error *error, struct policy **policy);
void weir__source_forget(weir *w);

/* Copies the policy with these assignments applied ("KEY=VALUE,…"). */
weir_status weir__source_override(const struct policy *before, const char *assignments, weir_error *error, struct policy **after);
/* Checks whether `after` may replace `before` at a reload. */
weir_status weir__source_compare(const struct policy *before, const struct policy *after, weir_error *error);

#endif
