/* SPDX-License-Identifier: MIT */
/* new_file.h - a file that a command writes at its end, and that must not exist before. Complaints begin with the command's name. */
#ifndef WEIR_NEW_FILE_H
#define WEIR_NEW_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* For commands that take long before they make it. false after a complaint. */
bool new_file_can_be_made(const char *command, const char *path);
/* NULL after a complaint. */
FILE *new_file_make(const char *command, const char *path);
/* Closes it; an exit status, after a complaint another one than EXIT_GOOD: then there is no file. */
int new_file_end(const char *command, const char *path, FILE *out);

#endif
