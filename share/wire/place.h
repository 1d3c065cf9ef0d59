/* SPDX-License-Identifier: MIT */
/*
 * place.h - where sockets lie, and whether nobody but a user, and root, can have put there what is there. No state.
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
 * The path of a share.socket: one that begins with '/' is the path itself; a name lies in $XDG_RUNTIME_DIR/weir/share, in
 * /tmp/weir-UID/share (both 0700, made here if missing), or in /run/weir/share. Who listens takes the last if others than this user are
 * allowed, or if it has no XDG_RUNTIME_DIR and may write there; who connects takes the first in which the socket exists. WEIR_INVALID (no name, too long, no
 * directory), WEIR_REFUSED (a directory in $XDG_RUNTIME_DIR is not this user's alone; who listens: the directory belongs to somebody else
 * than this user or root, or others may replace what is in it).
 */
weir_status share_path(const char *socket, bool listen, bool others, weir_error *error, char path[SHARE_PATH_SIZE]);

/* DIRECTORY/NAME into path, or false: too long. */
bool share_join(char path[SHARE_PATH_SIZE], const char *directory, const char *name);
/* The directory that a path lies in. */
void share_directory_of(const char *path, char directory[SHARE_PATH_SIZE]);
/* WEIR_INVALID: the path of that socket is too long. */
weir_status share_fail_long(weir_error *error, const char *socket);

/* $XDG_RUNTIME_DIR. NULL: it is not set, not absolute, not there (any more, after a logout), or another user could replace what is in it,
   so that it is none of this user. */
const char *share_runtime_directory(void);
/* /tmp/weir-UID, for users without. */
void share_temporary_place(uid_t uid, char place[SHARE_PATH_SIZE]);

/* Whether it is a directory of this user, no link, that nobody else may write to. */
bool share_is_safe(const char *directory, uid_t uid);

/* PARENT/NAME, both of which are to be safe directories of this user; make: they are made if they are missing. what is to lie there, and
   the variable that decides where it is, are for the error: WEIR_INVALID, WEIR_REFUSED. */
weir_status share_make_safe(const char *parent, const char *name, bool make, const char *variable, const char *what, weir_error *error,
                            char path[SHARE_PATH_SIZE]);

#endif
