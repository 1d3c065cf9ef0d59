/* SPDX-License-Identifier: MIT */
/*
 * directory.h - where control sockets lie, and which sockets of exports lie beside them: `weir/control` in $WEIR_CONTROL_DIR, else in $XDG_RUNTIME_DIR, else `control` in /tmp/weir-UID;
 * 0700 and this user's own. Each weir with `control: true` has one there, named PID.N. No state.
 */
#ifndef WEIR_SHARE_DIRECTORY_H
#define WEIR_SHARE_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/clock.h"
#include "share/wire/place.h"

/* This user's directory, made if it is missing. WEIR_REFUSED (it is another's, or others may write there), WEIR_INVALID (too long, or it
   cannot be made). */
weir_status share_control_directory(weir_error *error, char path[SHARE_PATH_SIZE]);
/* The same; but not `make`: what is missing is WEIR_REFUSED, and path is what was looked at last, or as it was if it is too long. */
weir_status share_control_place(bool make, weir_error *error, char path[SHARE_PATH_SIZE]);

/*
 * Every control socket that this process may use, sorted by directory and then by pid: those in this user's directory, and, unless that is
 * in $WEIR_CONTROL_DIR, those in /run/user/UID and /tmp/weir-UID, since processes of one user may have different environments; for root
 * those of all users. Directories that are not safe are passed over. Sockets without a listener (their process was killed) are removed from
 * this user's own directories on the way if `sweep`; nothing of others is, who could lead root elsewhere.
 * Bounded, whatever users put there: of a directory of another user SHARE_SOCKETS_MAX sockets count, and at `deadline`, by
 * weir__service_now(), each directory is looked at for SHARE_FILES_MIN files more, which is all of one that is not flooded; this user's own
 * come first.
 * *paths: free() it. NULL and 0: there is none.
 */
#define SHARE_SOCKETS_MAX 1024
#define SHARE_FILES_MIN 256
#define SHARE_LIST_TIME (100 * GPU_MILLISECOND) /* for who has no deadline of its own */
void share_control_sockets(bool sweep, uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);

/* Every socket of an export that lies in `weir/share` in this user's $XDG_RUNTIME_DIR, or else /run/user/UID, or in /tmp/weir-UID/share; for
   root in those of all users.
   Those that others may connect to lie elsewhere (place.h). Bounded likewise. */
void share_export_sockets(uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);
/* Every socket that lies in a directory, sorted; bounded likewise. Returns 0, or the errno with which it cannot be listed. */
int share_sockets_in(const char *directory, uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count);

#endif
