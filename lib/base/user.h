/* SPDX-License-Identifier: MIT */
/*
 * user.h - whether a user or group id that the kernel reported for a process or a file belongs to a given user or group. Such ids are
 * compared in this file only.
 *
 * Inside a user namespace the kernel reports every id that the namespace does not map as the overflow id, by default 65534. Inside a
 * namespace that does not map every id, the overflow id can stand for any number of users, so no comparison with it succeeds: not even if
 * this process itself runs under that id. The functions have no state.
 */
#ifndef WEIR_LIB_USER_H
#define WEIR_LIB_USER_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Return whether the id that the kernel reported, `seen`, belongs to that user or group. */
bool weir__is_user(uid_t seen, uid_t user);
bool weir__is_group(gid_t seen, gid_t group);
/* Returns whether `seen` is this process's user or root. */
bool weir__is_self_or_root(uid_t seen);
/* Returns a note for error texts: that `seen` is the overflow id, with the remedy, or "" if it is not. */
const char *weir__user_note(uid_t seen);

/* Return whether an open file, or the directory at `path`, belongs to the user. `info` is what stat() or fstat() said about the file.
   Unlike weir__is_user() these functions recognise the process's own files even if it runs under the overflow id: the kernel lets only the
   owner of a file set O_NOATIME on its descriptor, so they try that. */
bool weir__is_file_of(int fd, const struct stat *info, uid_t user);
bool weir__is_directory_of(const char *path, const struct stat *info, uid_t user);

#endif
