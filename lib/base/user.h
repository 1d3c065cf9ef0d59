/* SPDX-License-Identifier: MIT */
/*
 * user.h - whether an id that the kernel gave of a process or a file is that of a user. The one place where such ids are compared.
 *
 * Inside a user namespace the kernel shows each id that the namespace does not map as the overflow id, 65534 unless the system says
 * otherwise. There that id stands for any number of users, and is nobody's: not even that of a process which runs as it. No state.
 */
#ifndef WEIR_LIB_USER_H
#define WEIR_LIB_USER_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

bool weir__is_user(uid_t seen, uid_t user);
bool weir__is_group(gid_t seen, gid_t group);
/* Whether it is this process's user, or root. */
bool weir__is_self_or_root(uid_t seen);
/* For error texts: "", or that the id stands for users whom the namespace does not map, and the remedy. */
const char *weir__user_note(uid_t seen);

/* Whether an open file, of which `info` tells, is the user's. Of its own files a process knows for certain, whatever id it runs as: the
   kernel lets nobody but the owner ask for O_NOATIME, which is set then. */
bool weir__is_file_of(int fd, const struct stat *info, uid_t user);
bool weir__is_directory_of(const char *path, const struct stat *info, uid_t user);

#endif
