/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/safe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

const char *share_runtime_directory(void)
{
    const char *directory = secure_getenv("XDG_RUNTIME_DIR");
    struct stat info;
    if (!directory || directory[0] != '/')
        return NULL;
    if (stat(directory, &info) != 0)
        return directory; /* who makes something there is told why it cannot be */
    bool is_own = info.st_uid == geteuid() || info.st_uid == 0;
    return is_own && (!(info.st_mode & OTHERS_WRITE) || (info.st_mode & S_ISVTX)) ? directory : NULL;
}

bool share_is_safe(const char *directory, uid_t uid, const char *variable, char problem[SHARE_PROBLEM_SIZE])
{
    struct stat info;
    problem[0] = '\0';
    if (lstat(directory, &info) != 0)
        snprintf(problem, SHARE_PROBLEM_SIZE, "cannot be looked at (%s)", strerror(errno));
    else if (!S_ISDIR(info.st_mode))
        snprintf(problem, SHARE_PROBLEM_SIZE, "is not a directory: remove it");
    else if (info.st_uid != uid)
        snprintf(problem, SHARE_PROBLEM_SIZE, "belongs to user %u, not to %u: remove it, or set %s to a directory of this user",
                 (unsigned)info.st_uid, (unsigned)uid, variable);
    else if (info.st_mode & OTHERS_WRITE)
        snprintf(problem, SHARE_PROBLEM_SIZE, "may be written to by others (mode %04o): chmod 0700 it", (unsigned)info.st_mode & 07777);
    return !problem[0];
}
