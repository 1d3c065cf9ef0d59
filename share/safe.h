/* SPDX-License-Identifier: MIT */
/* safe.h - whether nobody but a user, and root, can have put in a directory what is there. No state. */
#ifndef WEIR_SHARE_SAFE_H
#define WEIR_SHARE_SAFE_H

#include <stdbool.h>
#include <sys/types.h>

#define SHARE_PROBLEM_SIZE 160

/* $XDG_RUNTIME_DIR. NULL: it is not set, not absolute, or another user could replace what is in it, so that it is none of this user. */
const char *share_runtime_directory(void);

/* Whether it is a directory of this user, no link, that nobody else may write to. Else *problem says what is wrong, for "DIRECTORY ...";
   variable: what decides where it is. */
bool share_is_safe(const char *directory, uid_t uid, const char *variable, char problem[SHARE_PROBLEM_SIZE]);

#endif
