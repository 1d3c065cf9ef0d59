/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/user.h"
#include "policy/environment.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)
#define PROBLEM_SIZE 160

/* Paths ---------------------------------------------------------------------------------------------------------------------------------- */

weir_status share_fail_long(weir_error *error, const char *socket)
{
    return weir__fail(error, WEIR_INVALID, "the socket '%s' has a path of more than %zu bytes, which is the most that the system allows: "
                                           "choose a shorter share.socket",
                      socket, SHARE_PATH_SIZE - 1);
}

bool share_join(char path[SHARE_PATH_SIZE], const char *directory, const char *name)
{
    int len = snprintf(path, SHARE_PATH_SIZE, "%s/%s", directory, name);
    return len > 0 && (size_t)len < SHARE_PATH_SIZE;
}

void share_directory_of(const char *path, char directory[SHARE_PATH_SIZE])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    memcpy(directory, path, len);
    directory[len] = '\0';
}

/* Directories ---------------------------------------------------------------------------------------------------------------------------- */

static bool is_own_or_roots(const char *directory, const struct stat *info)
{
    return weir__is_directory_of(directory, info, geteuid()) || weir__is_user(info->st_uid, 0);
}

const char *share_runtime_directory(void)
{
    const char *directory = policy_environment("XDG_RUNTIME_DIR");
    struct stat info;
    if (!directory || directory[0] != '/')
        return NULL;
    if (stat(directory, &info) != 0)
        return errno == ENOENT ? NULL : directory; /* the caller fails later, with an error that names this directory */
    bool is_own = is_own_or_roots(directory, &info);
    return is_own && (!(info.st_mode & OTHERS_WRITE) || (info.st_mode & S_ISVTX)) ? directory : NULL;
}

/* Checks that the directory belongs to user `uid` alone. If not, returns true and writes the reason to `problem`, as the rest of a
   sentence that begins with the directory's name. `variable` is the environment variable that decides where the directory is. */
static bool find_problem(const char *directory, uid_t uid, const char *variable, char problem[PROBLEM_SIZE])
{
    struct stat info;
    problem[0] = '\0';
    if (lstat(directory, &info) != 0)
        snprintf(problem, PROBLEM_SIZE, "cannot be looked at (%s)", strerror(errno));
    else if (!S_ISDIR(info.st_mode))
        snprintf(problem, PROBLEM_SIZE, "is not a directory: remove it");
    else if (!weir__is_directory_of(directory, &info, uid))
        snprintf(problem, PROBLEM_SIZE, "belongs to user %u, not to %u: remove it, or set %s to a directory of this user",
                 (unsigned)info.st_uid, (unsigned)uid, variable);
    else if (info.st_mode & OTHERS_WRITE)
        snprintf(problem, PROBLEM_SIZE, "may be written to by others (mode %04o): chmod 0700 it", (unsigned)info.st_mode & 07777);
    return problem[0];
}

bool share_is_safe(const char *directory, uid_t uid)
{
    char problem[PROBLEM_SIZE];
    return !find_problem(directory, uid, "", problem);
}

/* Creates the directory with mode 0700, unless it exists. A umask may take bits of the owner away, now or when the directory was made
   before: they are added again. */
static bool make_directory(const char *path)
{
    struct stat info;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return false;
    bool is_shut = lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & S_IRWXU) != S_IRWXU;
    return !is_shut || chmod(path, (info.st_mode & 07777) | S_IRWXU) == 0;
}

weir_status share_make_safe(const char *parent, const char *name, bool make, const char *variable, const char *what, weir_error *error,
                            char path[SHARE_PATH_SIZE])
{
    char problem[PROBLEM_SIZE], remedy[128];
    snprintf(remedy, sizeof remedy, "set %s to a directory of this user, or unset it", variable);
    for (int step = 0; step < 2; step++) {
        if (step ? !share_join(path, parent, name) : snprintf(path, SHARE_PATH_SIZE, "%s", parent) >= (int)SHARE_PATH_SIZE)
            return share_fail_long(error, parent);
        if (make && !make_directory(path))
            return weir__fail(error, WEIR_INVALID, "the directory %s for %s cannot be made: %s", path, what, WEIR__WHY(errno, remedy));
        if (find_problem(path, geteuid(), variable, problem))
            return weir__fail(error, WEIR_REFUSED, "%s cannot lie in %s, which %s", what, path, problem);
    }
    return WEIR_OK;
}

void share_temporary_place(uid_t uid, char place[SHARE_PATH_SIZE])
{
    snprintf(place, SHARE_PATH_SIZE, SHARE_TEMPORARY_BASE "/" SHARE_TEMPORARY_PREFIX "%u", (unsigned)uid);
}

/* Finds this user's own directory for sockets, which only this user may write to: in `runtime`, or in /tmp if `runtime` is NULL. With
   `make`, creates what is missing. */
static weir_status find_user_directory(const char *runtime, bool make, const char *socket, weir_error *error,
                                       char directory[SHARE_PATH_SIZE])
{
    char parent[SHARE_PATH_SIZE], what[SHARE_PATH_SIZE + 16];
    snprintf(what, sizeof what, "the socket '%s'", socket);
    if (!runtime)
        share_temporary_place(geteuid(), parent);
    else if (!share_join(parent, runtime, "weir"))
        return share_fail_long(error, socket);
    return share_make_safe(parent, "share", make, "XDG_RUNTIME_DIR", what, error, directory);
}

/*
 * Checks that it is safe to listen at the path. If others may write to the directory, they could replace the socket by their own, unless
 * the sticky bit is set. With the sticky bit they can still take a name first; the client notices that, since it checks the user of the
 * process that listens.
 */
static weir_status check_directory(const char *path, weir_error *error)
{
    char directory[SHARE_PATH_SIZE];
    struct stat info;
    share_directory_of(path, directory);
    if (stat(directory, &info) != 0)
        return weir__fail(error, WEIR_INVALID, "the directory %s of the socket %s: %s", directory, path,
                          WEIR__WHY(errno, "make it, with mode 0700 or 0711"));
    if (!S_ISDIR(info.st_mode))
        return weir__fail(error, WEIR_INVALID, "%s is not a directory, so the socket %s cannot lie there", directory, path);
    if (!is_own_or_roots(directory, &info))
        return weir__fail(error, WEIR_REFUSED, "the directory %s belongs to user %u, who could replace the socket: use one of your own or "
                                               "root's",
                          directory, (unsigned)info.st_uid);
    if ((info.st_mode & OTHERS_WRITE) && !(info.st_mode & S_ISVTX))
        return weir__fail(error, WEIR_REFUSED, "others may write to the directory %s (mode %04o) and replace the socket: chmod go-w it",
                          directory, (unsigned)info.st_mode & 07777);
    return WEIR_OK;
}

/* The socket of a policy ----------------------------------------------------------------------------------------------------------------- */

static weir_status path_to_listen(const char *socket, bool others, weir_error *error, char path[SHARE_PATH_SIZE])
{
    const char *runtime = share_runtime_directory();
    char directory[SHARE_PATH_SIZE] = SHARE_SYSTEM_DIRECTORY;
    weir_status status = WEIR_OK;
    if (others && access(directory, F_OK) != 0)
        status = weir__fail(error, WEIR_INVALID,
                            "%s, where a socket lies that other users may connect to, does not exist: make it with mode "
                            "0711, or write an absolute path as share.socket",
                            directory);
    else if (!others && (runtime || access(directory, W_OK) != 0))
        status = find_user_directory(runtime, true, socket, error, directory);
    if (status == WEIR_OK && !share_join(path, directory, socket))
        status = share_fail_long(error, socket);
    return status;
}

static weir_status path_to_connect(const char *socket, weir_error *error, char path[SHARE_PATH_SIZE])
{
    const char *runtime = share_runtime_directory();
    char directory[SHARE_PATH_SIZE], temporary[SHARE_PATH_SIZE], found[SHARE_PATH_SIZE];
    share_temporary_place(geteuid(), temporary);
    bool is_temporary = share_join(directory, temporary, "share") && share_join(found, directory, socket) && access(found, F_OK) == 0;
    if (runtime) {
        if (!share_join(directory, runtime, "weir/share") || !share_join(path, directory, socket))
            return share_fail_long(error, socket);
        if (access(path, F_OK) == 0)
            return find_user_directory(runtime, false, socket, error, directory);
    }
    if (is_temporary) {
        memcpy(path, found, sizeof found);
        return find_user_directory(NULL, false, socket, error, directory);
    }
    /* If no socket was found, the path in the user's own directory stays, so that the error names that path. */
    if (!share_join(directory, SHARE_SYSTEM_DIRECTORY, socket))
        return share_fail_long(error, socket);
    if (!runtime || access(directory, F_OK) == 0)
        memcpy(path, directory, sizeof directory);
    return WEIR_OK;
}

weir_status share_path(const char *socket, bool listen, bool others, weir_error *error, char path[SHARE_PATH_SIZE])
{
    char found[SHARE_PATH_SIZE];
    weir_status status = WEIR_OK;
    if (!socket[0] || strcmp(socket, ".") == 0 || strcmp(socket, "..") == 0 || (socket[0] != '/' && strchr(socket, '/')))
        return weir__fail(error, WEIR_INVALID,
                          "'%s' is neither the name of a socket nor an absolute path: write frames, or /run/app/frames", socket);
    if (socket[0] != '/')
        status = listen ? path_to_listen(socket, others, error, found) : path_to_connect(socket, error, found);
    else if (strlen(socket) >= sizeof found)
        status = share_fail_long(error, socket);
    else
        memcpy(found, socket, strlen(socket) + 1);
    if (status == WEIR_OK && listen)
        status = check_directory(found, error);
    if (status == WEIR_OK)
        memcpy(path, found, strlen(found) + 1);
    return status;
}
