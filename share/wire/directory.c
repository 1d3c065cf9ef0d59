/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/service.h"
#include "policy/environment.h"
#include "policy/report.h"
#include "share/wire/socket.h"

#define RUNTIME_BASE "/run/user"
#define FILES_MAX (4 * SHARE_SOCKETS_MAX) /* files that are read of another user's directory: each socket has a lock file beside it */
#define SOCKET_NAME_MAX (sizeof "/.4194304.9999" - 1) /* the longest name .PID.N: pids have 22 bits */

/* Places: directories above those of sockets ------------------------------------------------------------------------------------------- */

/* Writes BASE/weir. Returns false if a control socket in it would have too long a path. */
static bool make_place(const char *base, char place[SHARE_PATH_SIZE])
{
    return share_join(place, base, "weir") && strlen(place) + sizeof "/control" - 1 + SOCKET_NAME_MAX < SHARE_PATH_SIZE;
}

/* Writes the directory of a user in /run/user, whose path is always short enough. */
static void runtime_place(uid_t uid, char place[SHARE_PATH_SIZE])
{
    snprintf(place, SHARE_PATH_SIZE, RUNTIME_BASE "/%u/weir", (unsigned)uid);
}

/* $WEIR_CONTROL_DIR, which replaces all other places; NULL if it is not set. */
static const char *only_place(void)
{
    const char *base = policy_environment("WEIR_CONTROL_DIR");
    return base && base[0] == '/' ? base : NULL;
}

/* Writes the place of this process's own control sockets, or that of claims, which is the same for all processes of a user. Returns false if
   its path is too long. */
static bool own_place(bool of_claims, char place[SHARE_PATH_SIZE])
{
    const char *base = only_place() || of_claims ? only_place() : share_runtime_directory();
    if (base)
        return make_place(base, place);
    share_temporary_place(geteuid(), place);
    return true;
}

static weir_status find_place(bool of_claims, bool make, weir_error *error, char path[SHARE_PATH_SIZE])
{
    char place[SHARE_PATH_SIZE];
    const char *set = policy_environment("WEIR_CONTROL_DIR");
    /* The environment variable that decides where they lie, for error texts. */
    const char *variable = only_place() || of_claims ? "WEIR_CONTROL_DIR" : "XDG_RUNTIME_DIR";
    if (set && set[0] && set[0] != '/')
        return weir__fail(error, WEIR_INVALID, "WEIR_CONTROL_DIR is '%s', which is no absolute path: set it to one as in /run/user/1000, or "
                                               "unset it", policy_quote(set).text);
    if (own_place(of_claims, place))
        return share_make_safe(place, "control", make, variable, of_claims ? "claims" : "control sockets", error, path);
    return weir__fail(error, WEIR_INVALID, "%s is too long for sockets to lie there: use a directory of at most %zu bytes", variable,
                      SHARE_PATH_SIZE - 1 - SOCKET_NAME_MAX - (sizeof "/weir/control" - 1));
}

weir_status share_control_place(bool make, weir_error *error, char path[SHARE_PATH_SIZE])
{
    return find_place(false, make, error, path);
}

weir_status share_claims_path(const char *uuid, weir_error *error, char path[SHARE_PATH_SIZE])
{
    char directory[SHARE_PATH_SIZE];
    weir_status status = find_place(true, true, error, directory);
    int len = status == WEIR_OK ? snprintf(path, SHARE_PATH_SIZE, "%s/%s" SHARE_CLAIMS_SUFFIX, directory, uuid) : 0;
    if (len >= (int)SHARE_PATH_SIZE)
        status = weir__fail(error, WEIR_INVALID, "WEIR_CONTROL_DIR is too long for claims to lie there: use a directory of at most %zu bytes",
                            SHARE_PATH_SIZE - 1 - strlen(uuid) - (sizeof "/weir/control/" SHARE_CLAIMS_SUFFIX - 1));
    return status;
}

weir_status share_control_directory(weir_error *error, char path[SHARE_PATH_SIZE])
{
    return share_control_place(true, error, path);
}

/* Listing ------------------------------------------------------------------------------------------------------------------------------ */

struct listing {
    bool sweep, of_exports; /* of_exports: list the sockets of exports, in directories called `share` */
    bool of_claims;         /* list the files of claims instead of sockets */
    uint64_t deadline;
    struct stat first; /* the first directory listed, as another path may lead to it again; st_nlink 0: none yet */
    char (*paths)[SHARE_PATH_SIZE];
    size_t count, room;
};

static bool ends_in(const char *name, const char *suffix)
{
    size_t len = strlen(name);
    return len > strlen(suffix) && strcmp(name + len - strlen(suffix), suffix) == 0;
}

/* The next file of the directory; NULL at its end, or if the time is up. */
static const struct dirent *next_file(DIR *stream, size_t *looks, uint64_t deadline)
{
    return ++*looks <= SHARE_FILES_MIN || weir__service_now() < deadline ? readdir(stream) : NULL;
}

/* Removes the sockets of killed processes. They are found by their lock files, which every listener has. */
static void sweep_directory(const char *directory, DIR *stream, uint64_t deadline)
{
    size_t looks = 0;
    for (const struct dirent *entry; (entry = next_file(stream, &looks, deadline));) {
        char path[SHARE_PATH_SIZE];
        size_t len = strlen(entry->d_name);
        if (!ends_in(entry->d_name, SHARE_LOCK_SUFFIX))
            continue;
        int written = snprintf(path, sizeof path, "%s/%.*s", directory, (int)(len - (sizeof SHARE_LOCK_SUFFIX - 1)), entry->d_name);
        if (written > 0 && (size_t)written < sizeof path)
            share_socket_sweep(path);
    }
    rewinddir(stream);
}

static bool has_room(struct listing *listing)
{
    if (listing->count < listing->room)
        return true;
    size_t room = listing->room ? 2 * listing->room : 16;
    char (*larger)[SHARE_PATH_SIZE] = realloc(listing->paths, room * sizeof *larger);
    if (!larger)
        return false;
    listing->paths = larger;
    listing->room = room;
    return true;
}

/* Orders paths by the numbers in PID.N; sockets with other names come last. */
static int by_process(const void *a, const void *b)
{
    return strverscmp(a, b);
}

/* Whether the directory was listed already, by another path. */
static bool is_known(struct listing *listing, DIR *stream)
{
    struct stat info;
    if (fstat(dirfd(stream), &info) != 0)
        return false;
    if (listing->first.st_nlink)
        return listing->first.st_dev == info.st_dev && listing->first.st_ino == info.st_ino;
    listing->first = info;
    return false;
}

static bool is_socket(const char *path, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_SOCK;
    return lstat(path, &info) == 0 && S_ISSOCK(info.st_mode);
}

/* Adds every socket of the directory but those that only hand out pages, whose names begin with a dot. From another user's directory it takes at most SHARE_SOCKETS_MAX sockets and reads at most FILES_MAX
   files. */
static void add_sockets(struct listing *listing, const char *directory, DIR *stream, bool is_own)
{
    size_t first = listing->count, looks = 0;
    for (const struct dirent *entry; (entry = next_file(stream, &looks, listing->deadline)) && has_room(listing);) {
        char *path = listing->paths[listing->count];
        if (!is_own && (looks > FILES_MAX || listing->count - first == SHARE_SOCKETS_MAX))
            break;
        /* A longer path cannot be a socket's: nobody could connect to it. */
        if (entry->d_name[0] != '.' && share_join(path, directory, entry->d_name) &&
            (listing->of_claims ? ends_in(path, SHARE_CLAIMS_SUFFIX) : is_socket(path, entry)))
            listing->count++;
    }
    if (listing->count > first)
        qsort(listing->paths + first, listing->count - first, sizeof listing->paths[0], by_process);
}

/* Adds the sockets of a place. A directory that is missing, unsafe or listed already is skipped. */
static void add_place(struct listing *listing, const char *place, uid_t uid)
{
    char path[SHARE_PATH_SIZE];
    bool is_safe = share_join(path, place, listing->of_exports ? "share" : "control") && share_is_safe(place, uid) && share_is_safe(path, uid);
    DIR *stream = is_safe ? opendir(path) : NULL;
    if (!stream)
        return;
    if (!is_known(listing, stream)) {
        if (listing->sweep && uid == geteuid())
            sweep_directory(path, stream, listing->deadline);
        add_sockets(listing, path, stream, uid == geteuid());
    }
    closedir(stream);
}

/* Adds the sockets of both places of a user, in /run/user and in /tmp. */
static void add_user(struct listing *listing, uid_t uid)
{
    char place[SHARE_PATH_SIZE];
    runtime_place(uid, place);
    add_place(listing, place, uid);
    share_temporary_place(uid, place);
    add_place(listing, place, uid);
}

/* Whether the name is the prefix followed by a user's number in its usual form (not 01). Sets *uid. */
static bool is_of_user(const char *name, const char *prefix, uid_t *uid)
{
    char again[32];
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0)
        return false;
    unsigned long number = strtoul(name + len, NULL, 10);
    snprintf(again, sizeof again, "%lu", number);
    *uid = (uid_t)number;
    return number < UINT32_MAX && strcmp(again, name + len) == 0;
}

/* Adds the sockets of all other users that have a directory in `base`. */
static void add_others(struct listing *listing, const char *base, const char *prefix, void (*place_of)(uid_t uid, char place[SHARE_PATH_SIZE]))
{
    DIR *stream = opendir(base);
    uid_t uid;
    size_t looks = 0;
    if (!stream)
        return;
    for (const struct dirent *entry; (entry = next_file(stream, &looks, listing->deadline));) {
        char place[SHARE_PATH_SIZE];
        if (!is_of_user(entry->d_name, prefix, &uid) || uid == geteuid())
            continue;
        place_of(uid, place);
        add_place(listing, place, uid);
    }
    closedir(stream);
}

static void hand_over(struct listing *listing, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    if (!listing->count) {
        free(listing->paths);
        listing->paths = NULL;
    }
    *paths = listing->paths;
    *count = listing->count;
}

static void list_control(struct listing *listing, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    char own[SHARE_PATH_SIZE];
    if (own_place(listing->of_claims, own))
        add_place(listing, own, geteuid());
    if (!only_place() && !listing->of_claims)
        add_user(listing, geteuid());
    if (!only_place() && !listing->of_claims && geteuid() == 0)
        add_others(listing, RUNTIME_BASE, "", runtime_place);
    if (!only_place() && geteuid() == 0)
        add_others(listing, SHARE_TEMPORARY_BASE, SHARE_TEMPORARY_PREFIX, share_temporary_place);
    hand_over(listing, paths, count);
}

void share_control_sockets(bool sweep, uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    list_control(&(struct listing){ .sweep = sweep, .deadline = deadline }, paths, count);
}

void share_claims_files(uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    list_control(&(struct listing){ .of_claims = true, .deadline = deadline }, paths, count);
}

void share_export_sockets(uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    struct listing listing = { .of_exports = true, .deadline = deadline };
    const char *runtime = share_runtime_directory();
    char place[SHARE_PATH_SIZE];
    bool fits = true;
    if (runtime)
        fits = make_place(runtime, place);
    else
        runtime_place(geteuid(), place);
    if (fits)
        add_place(&listing, place, geteuid());
    share_temporary_place(geteuid(), place);
    add_place(&listing, place, geteuid());
    if (geteuid() == 0) {
        add_others(&listing, RUNTIME_BASE, "", runtime_place);
        add_others(&listing, SHARE_TEMPORARY_BASE, SHARE_TEMPORARY_PREFIX, share_temporary_place);
    }
    hand_over(&listing, paths, count);
}

int share_sockets_in(const char *directory, uint64_t deadline, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    struct listing listing = { .of_exports = true, .deadline = deadline };
    DIR *stream = opendir(directory);
    int code = stream ? 0 : errno;
    if (stream) {
        add_sockets(&listing, directory, stream, false);
        closedir(stream);
    }
    hand_over(&listing, paths, count);
    return code;
}
