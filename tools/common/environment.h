/* SPDX-License-Identifier: MIT */
/* environment.h - what a command that is run finds: variables of the environment, which say nothing to a set-user-ID program, and paths. */
#ifndef WEIR_ENVIRONMENT_H
#define WEIR_ENVIRONMENT_H

/* The value; NULL where there is none, also if it is empty. */
const char *variable(const char *name);
/* Sets a variable of the command's environment; takes the value. */
void set_variable(const char *name, char *value);

/* The path for processes that may have changed their directory when they come to use it, the caller's to free(). Links stay, as they may be
   turned elsewhere. */
char *absolute_path(const char *path);
/*
 * Where a file of Weir's own is, the caller's to free(): `configured`, for the command in the folder that it was configured for. For one
 * elsewhere, as in a wheel, or where a prefix was moved to, it is `below` the folder above that of the command, if it is there.
 */
char *installed_path(const char *configured, const char *below);
/* sprintf() into a new string, the caller's to free(). */
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Of a command that cannot be run: as those of env(1) and the shell, so that scripts know them. */
enum { EXIT_CANNOT_RUN = 126, EXIT_NO_COMMAND = 127 };

#endif
