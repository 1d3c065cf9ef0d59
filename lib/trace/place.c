/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "policy/environment.h"

/* Writes `name` to `out` with %p, %r and %% replaced. Returns false if another character follows a percent sign, or if `out` is too
   short. */
static bool expand(const char *name, unsigned serial, char *out, size_t room)
{
    size_t len = 0;
    const char *rank = policy_environment("RANK");
    for (; *name; name++) {
        int written;
        if (*name != '%')
            written = snprintf(out + len, room - len, "%c", *name);
        else if (*++name == 'p')
            written = serial ? snprintf(out + len, room - len, "%ld-%u", (long)getpid(), serial)
                             : snprintf(out + len, room - len, "%ld", (long)getpid());
        else if (*name == 'r')
            written = snprintf(out + len, room - len, "%lu", rank ? strtoul(rank, NULL, 10) : 0);
        else if (*name == '%')
            written = snprintf(out + len, room - len, "%%");
        else
            return false;
        len += (size_t)written;
        if (len >= room)
            return false;
    }
    return true;
}

/* If the descriptor is 0, 1 or 2, moves it to a higher number: the program has closed a standard stream, and output that it still prints
   there must not go into the trace. Returns the descriptor, or -1 with errno. */
static int move_up(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), why = errno;
    close(fd);
    errno = why;
    return copy;
}

int weir__trace_place_make(const char *name, unsigned serial, char why[static WEIR__TRACE_WHY_MAX], int *fd,
                           struct weir__trace_place *place)
{
    char *path = place->path;
    struct stat found;
    int made, code = getauxval(AT_SECURE) ? EPERM : !expand(name, serial, path, sizeof place->path) ? EINVAL : 0;
    if (code == EPERM)
        snprintf(why, WEIR__TRACE_WHY_MAX, "%s: a program with changed user or group ids writes no traces", name);
    else if (code)
        snprintf(why, WEIR__TRACE_WHY_MAX, "%s: behind a %% only p (process), r (rank) and %% can stand", name);
    if (code)
        return code;
    made = move_up(open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600));
    code = made < 0 ? errno : 0;
    if (code == EEXIST)
        snprintf(why, WEIR__TRACE_WHY_MAX, "%s exists, and existing files are never overwritten: move it away, or put %%p into the name", path);
    else if (code)
        snprintf(why, WEIR__TRACE_WHY_MAX, "%s: %s", path, strerror(code));
    if (code)
        return code;
    bool is_known = fstat(made, &found) == 0;
    place->device = is_known ? found.st_dev : 0;
    place->number = is_known ? found.st_ino : 0;
    *fd = made;
    return 0;
}

void weir__trace_place_drop(const struct weir__trace_place *place)
{
    struct stat found = {0};
    if (lstat(place->path, &found) == 0 && found.st_dev == place->device && found.st_ino == place->number)
        unlink(place->path);
}
