/* SPDX-License-Identifier: MIT */
/*
 * directory.h - finds control sockets, and the sockets of exports. Each weir with `control: true` has a control socket named PID.N. It lies
 * in `weir/control` in $WEIR_CONTROL_DIR, else in $XDG_RUNTIME_DIR, else in `control` in /tmp/weir-UID; the directory has mode 0700 and
 * belongs to this user. No state.
 */
#ifndef WEIR_SHARE_DIRECTORY_H
#define WEIR_SHARE_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/clock.h"
#include "share/wire/place.h"

/* Finds this user's directory for control sockets, and makes it if it is missing. Returns WEIR_REFUSED (it belongs to another user, or
   others may write there) or WEIR_INVALID (its path is too long, or it cannot be made). */
weir_status share_control_directory(weir_error *error, char path[SHARE_PATH_SIZE]);
/* The same; but without `make` a missing directory is not made, and the result is WEIR_REFUSED. On failure `path` is the directory that was
   checked last, or unchanged if the path is too long. */
weir_status share_control_place(bool make, weir_error *error, char path[SHARE_PATH_SIZE]);

/*
 * Lists every control socket that this process may use, sorted by directory and then by pid. These are the sockets in this user's directory
 * and, unless $WEIR_CONTROL_DIR is set, those in /run/user/UID and /tmp/weir-UID, since processes of one user may have different
 * environments; for root the sockets of all users. Directories that are not safe are skipped. With `sweep`, sockets whose process was
 * killed are removed from this user's own directories. Nothing in other users' directories is removed, since their owners could trick root
 * into removing other files.
 *
 * The work is bounded, whatever users put into the directories: at most SHARE_SOCKETS_MAX sockets are taken from a directory of another
 * user, and after `deadline` (weir__service_now()) at most SHARE_FILES_MIN files of each further directory are read, which is enough for
 * every directory that nobody flooded. This user's own directories come first.
 *
 * The caller frees *paths; it is NULL, with *count 0, if there are no sockets.
 */
#define SHARE_SOCKETS_MAX 1024
#define SHARE_FILES_MIN 256
#define SHARE_LIST_TIME (100 * GPU_MILLISECOND) /* for callers that have no deadline of their own */
void share_control_sockets(bool sweep, uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);

/* The file with the claims of this user on a GPU (share/control/ledger.h), in a directory that is made if it is missing. All processes of a
   user have to agree on it, so $XDG_RUNTIME_DIR, which some of them may lack, does not count: it lies in $WEIR_CONTROL_DIR, or else in
   /tmp/weir-UID. Returns WEIR_OK, WEIR_REFUSED or WEIR_INVALID as above. share_claims_files() lists these files, bounded as above; for
   root those of all users. */
#define SHARE_CLAIMS_SUFFIX ".claims"
weir_status share_claims_path(const char *uuid, weir_error *error, char path[SHARE_PATH_SIZE]);
void share_claims_files(uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);

/* Lists every socket of an export in `weir/share` in this user's $XDG_RUNTIME_DIR, or else /run/user/UID, and in /tmp/weir-UID/share;
   for root those of all users. Sockets that other users may connect to are in another directory (place.h). Bounded as above. */
void share_export_sockets(uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);
/* Lists every socket in a directory, sorted, and bounded as above. Returns 0, or the errno with which the directory cannot be read. */
int share_sockets_in(const char *directory, uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);

#endif
