/* SPDX-License-Identifier: MIT */
/* place.h - makes the file for a trace: a new file, whose name may contain %p (process), %r (rank) and %%. The functions have no state. */
#ifndef WEIR_LIB_TRACE_PLACE_H
#define WEIR_LIB_TRACE_PLACE_H

#include <sys/stat.h>

#include "policy/keys.h"

#define WEIR__TRACE_PATH_MAX (POLICY_FILE_NAME_MAX + 64) /* room for a path in which numbers have replaced %p and %r */
#define WEIR__TRACE_WHY_MAX (WEIR__TRACE_PATH_MAX + 128)

/* A file that was made here. The device and the inode number identify the file even if another file has the path later. */
struct weir__trace_place {
    char path[WEIR__TRACE_PATH_MAX];
    dev_t device;
    ino_t number;
};

/* Makes a new file that only this user can read and write; an existing file or link is never used. serial: if it is not 0, %p becomes
   "PROCESS-SERIAL", such as "4711-2". Sets *fd to a descriptor with CLOEXEC, which the caller closes. Returns 0, or an errno with the error
   text in `why`; EEXIST means that the file exists already. */
int weir__trace_place_make(const char *name, unsigned serial, char why[static WEIR__TRACE_WHY_MAX], int *fd,
                           struct weir__trace_place *place);
/* Removes the file, unless another file has the path by now. */
void weir__trace_place_drop(const struct weir__trace_place *place);

#endif
