/* SPDX-License-Identifier: MIT */
/*
 * place.h - the directories of sockets, and checks that only one user, and root, can put files there. No state.
 */
#ifndef WEIR_SHARE_PLACE_H
#define WEIR_SHARE_PLACE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

#include "include/weir.h"

#define SHARE_PATH_SIZE sizeof((struct sockaddr_un *)0)->sun_path
#define SHARE_SYSTEM_DIRECTORY "/run/weir/share"
#define SHARE_TEMPORARY_BASE "/tmp"
#define SHARE_TEMPORARY_PREFIX "weir-"

/*
 * Finds the path for a share.socket of the policy. A value that begins with '/' is the path itself. A name is looked for in three
 * directories: $XDG_RUNTIME_DIR/weir/share, /tmp/weir-UID/share (both 0700, and made here for a listener if missing), and /run/weir/share.
 * A listener takes the last one if the export allows `others` than this user, or if XDG_RUNTIME_DIR is not set and this process may write
 * there; else it takes the first one, or without XDG_RUNTIME_DIR the second. A client takes the first directory in which the socket exists.
 *
 * Returns WEIR_INVALID (no valid name, too long, or no directory) or WEIR_REFUSED: a directory in $XDG_RUNTIME_DIR or /tmp is not this
 * user's alone, or, for a listener, the directory belongs to another user than this user or root, or others may replace the files in it.
 */
weir_status share_path(const char *socket, bool listen, bool others, weir_error *error, char path[SHARE_PATH_SIZE]);

/* Writes DIRECTORY/NAME to `path`. Returns false if that is too long. */
bool share_join(char path[SHARE_PATH_SIZE], const char *directory, const char *name);
/* Writes the directory part of a path. */
void share_directory_of(const char *path, char directory[SHARE_PATH_SIZE]);
/* Fills the error for a socket path that is too long; returns WEIR_INVALID. */
weir_status share_fail_long(weir_error *error, const char *socket);

/* $XDG_RUNTIME_DIR, or NULL if the variable is not set or not an absolute path, or the directory does not exist (as after a logout), or
   another user could replace files in it. */
const char *share_runtime_directory(void);
/* Writes /tmp/weir-UID, for users without a runtime directory. */
void share_temporary_place(uid_t uid, char place[SHARE_PATH_SIZE]);

/* Whether `directory` is a directory of user `uid`, is no symbolic link, and nobody else may write to it. */
bool share_is_safe(const char *directory, uid_t uid);

/* Checks that PARENT and PARENT/NAME are safe directories of this user, and writes PARENT/NAME to `path`; with `make`, creates those that
   are missing. `what` is the file that shall lie in it, and `variable` is the environment variable that decides where it is; both are for
   the error text. Returns WEIR_INVALID or WEIR_REFUSED on failure. */
weir_status share_make_safe(const char *parent, const char *name, bool make, const char *variable, const char *what, weir_error *error,
                            char path[SHARE_PATH_SIZE]);

#endif
