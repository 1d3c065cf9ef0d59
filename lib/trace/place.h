/* SPDX-License-Identifier: MIT */
/* place.h - the file that a trace goes to: a new one, by a name with %p, %r and %% in it. No state. */
#ifndef WEIR_LIB_TRACE_PLACE_H
#define WEIR_LIB_TRACE_PLACE_H

#include <sys/stat.h>

#include "policy/keys.h"

#define WEIR__TRACE_PATH_MAX (POLICY_FILE_NAME_MAX + 64) /* with numbers in place of %p and %r */
#define WEIR__TRACE_WHY_MAX (WEIR__TRACE_PATH_MAX + 128)

/* A file that was made here, and which one it is. */
struct weir__trace_place {
    char path[WEIR__TRACE_PATH_MAX];
    dev_t device;
    ino_t number;
};

/* A new file for this user alone, which nobody else can have put there. serial: 0, or stands behind the process's number: "4711-2". *fd: to
   be closed, with CLOEXEC. Returns 0, or an errno, of which `why` says more; EEXIST: the file exists. */
int weir__trace_place_make(const char *name, unsigned serial, char why[static WEIR__TRACE_WHY_MAX], int *fd,
                           struct weir__trace_place *place);
/* Removes it, unless another file has the name by now. */
void weir__trace_place_drop(const struct weir__trace_place *place);

#endif
