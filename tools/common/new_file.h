/* SPDX-License-Identifier: MIT */
/* new_file.h - a file that a command writes at its end. Complaints begin with the command's name. */
#ifndef WEIR_NEW_FILE_H
#define WEIR_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* For commands that take long before they make one that must not exist. false after a complaint. */
bool new_file_can_be_made(const char *command, const char *path);
/* For commands that put a file in the place of what has that name. false, after a complaint, if that would be the end of a device or a pipe. */
bool new_file_can_replace(const char *command, const char *path);
/* One that must not exist before. NULL after a complaint. */
FILE *new_file_make(const char *command, const char *path);
/* Closes it; an exit status, after a complaint another one than EXIT_GOOD: then there is no file. */
int new_file_end(const char *command, const char *path, FILE *out);

#endif
