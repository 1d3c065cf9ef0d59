/* SPDX-License-Identifier: MIT */
/*
 * costs.h - finds and reads the cost tables that `weir calibrate` has measured and stored in this user's cache directory. The header of a
 * trace contains such a table.
 *
 * Only the command interprets the text of a table (tools/common/costs.h). These functions treat the text as bytes, and check that the file
 * belongs to this user.
 */
#ifndef WEIR_LIB_TRACE_COSTS_H
#define WEIR_LIB_TRACE_COSTS_H

#include <limits.h>
#include <stddef.h>

#define WEIR__COSTS_MAX 65536 /* bytes of a table as text */

/* Turns a name into a part of a file name: "NVIDIA H200" becomes "nvidia-h200". */
void weir__costs_slug(const char *name, char slug[static NAME_MAX]);
/* Writes the name of a table's file. driver: the version, such as "13.0". */
void weir__costs_name(const char *gpu, const char *driver, const char *uuid, char name[static NAME_MAX]);

/* Opens the directory of tables. Returns a descriptor, which the caller closes, or -1 with errno. errno is EPERM if the directory does not
   belong to this user or other users may write to it. */
int weir__costs_open_folder(const char *path);

/* Returns the text of the table for exactly that GPU and driver, which the caller frees. Returns NULL if there is none, if its file does
   not belong to this user, or if it is not text; in a set-user-ID program always NULL. driver: the number that gpu->versions() returns. */
char *weir__costs_text(const char *gpu, int driver, const char *uuid);

#endif
