/* SPDX-License-Identifier: MIT */
/*
 * source.h - reads a weir's policy when the weir is opened, and reads the same source again for a reload.
 *
 * The source is the text w->policy_text or the file w->policy_file; the other one is NULL. The weir owns both strings, and they do not
 * change after the weir was opened.
 */
#ifndef WEIR_LIB_SOURCE_H
#define WEIR_LIB_SOURCE_H

#include "lib/pool/weir_internal.h"

/* Reads the environment variables (policy/environment.h). Call it only on a thread of the program, within the program's own call. Returns
   WEIR_OK or WEIR_NO_HOST_MEMORY. */
weir_status weir__source_environment(weir_error *error);

/* Reads a policy from the text; if `text` is NULL, from the file; if both are NULL, from the file that the search for a policy finds.
   Returns the statuses of weir_open(). */
weir_status weir__source_read(const char *file, const char *text, weir_error *error, struct policy **policy);

/* Reads the policy of a weir that is being opened into w->policy, and remembers the source for weir__source_again(). */
weir_status weir__source_open(weir *w, const weir_options *options, weir_error *error);
/* Reads the source of weir_open() again, even if the working directory has changed. */
weir_status weir__source_again(const weir *w, weir_error *error, struct policy **policy);
/* Frees the remembered source. */
void weir__source_forget(weir *w);

/* Returns in *after a copy of the policy that is changed by the assignments "KEY=VALUE,…". */
weir_status weir__source_override(const struct policy *before, const char *assignments, weir_error *error, struct policy **after);
/* Checks whether `after` may replace `before` at a reload: only live keys may differ. */
weir_status weir__source_compare(const struct policy *before, const struct policy *after, weir_error *error);

#endif
