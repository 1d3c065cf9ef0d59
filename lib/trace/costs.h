/* SPDX-License-Identifier: MIT */
/*
 * costs.h - where the cost tables of this user lie that `weir calibrate` measured, and the text of one, for the header of a trace.
 *
 * A table is a text that only the command reads (tools/common/costs.h). Here it is bytes, which a file of this user's must have.
 */
#ifndef WEIR_LIB_TRACE_COSTS_H
#define WEIR_LIB_TRACE_COSTS_H

#include <limits.h>
#include <stddef.h>

#define WEIR__COSTS_MAX 65536 /* bytes of a table as text */

/* "NVIDIA H200" as part of a file's name: nvidia-h200. */
void weir__costs_slug(const char *name, char slug[static NAME_MAX]);
/* The file's name. driver: as in "13.0". */
void weir__costs_name(const char *gpu, const char *driver, const char *uuid, char name[static NAME_MAX]);

/* A descriptor of the folder, to be closed. -1 with errno; EPERM: another user could have filled it, so it is no cache of this one's. */
int weir__costs_open_folder(const char *path);

/* The text of the table of exactly that GPU and driver in the cache, to be freed; NULL: there is none, it is not this user's, or it is no
   text. Always none in a set-user-ID program. driver: as gpu->versions() has it. */
char *weir__costs_text(const char *gpu, int driver, const char *uuid);

#endif
