/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/user.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define OVERFLOW_ID 65534 /* the kernel's default */

struct kind {
    const char *map, *overflow;
};
static const struct kind users = { "/proc/self/uid_map", "/proc/sys/kernel/overflowuid" };
static const struct kind groups = { "/proc/self/gid_map", "/proc/sys/kernel/overflowgid" };

static size_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}

static unsigned long overflow_id(const struct kind *kind)
{
    char text[32];
    return read_text(kind->overflow, text, sizeof text) ? strtoul(text, NULL, 10) : OVERFLOW_ID;
}

/* Returns whether this process's user namespace maps every id, as the initial namespace does. A map that cannot be read, or is longer than
   the buffer, counts as one that lacks some ids. */
static bool maps_all(const struct kind *kind)
{
    char text[1024], *at = text, *end = NULL;
    uint64_t mapped = 0;
    read_text(kind->map, text, sizeof text);
    /* A line of the map has three columns: the first id inside the namespace, the first id outside, and the number of ids. */
    for (unsigned column = 0; end != at; column = (column + 1) % 3) {
        at = end ? end : text;
        unsigned long number = strtoul(at, &end, 10);
        mapped += column == 2 ? number : 0;
    }
    return mapped >= UINT32_MAX;
}

static bool is_anybody(const struct kind *kind, unsigned long seen)
{
    return seen == overflow_id(kind) && !maps_all(kind);
}

bool weir__is_user(uid_t seen, uid_t user)
{
    return seen == user && !is_anybody(&users, seen);
}

bool weir__is_group(gid_t seen, gid_t group)
{
    return seen == group && !is_anybody(&groups, seen);
}

bool weir__is_self_or_root(uid_t seen)
{
    return weir__is_user(seen, geteuid()) || weir__is_user(seen, 0);
}

const char *weir__user_note(uid_t seen)
{
    return is_anybody(&users, seen) ? " (in this user namespace that number stands for every user whom it does not map, so nobody is let in by "
                                      "it: map both users, and run as another one)"
                                    : "";
}

bool weir__is_file_of(int fd, const struct stat *info, uid_t user)
{
    if (info->st_uid != user || weir__is_user(info->st_uid, user))
        return info->st_uid == user;
    int flags = user == geteuid() ? fcntl(fd, F_GETFL) : -1;
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NOATIME) == 0;
}

bool weir__is_directory_of(const char *path, const struct stat *info, uid_t user)
{
    struct stat opened;
    if (info->st_uid != user || weir__is_user(info->st_uid, user))
        return info->st_uid == user;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_theirs = fd >= 0 && fstat(fd, &opened) == 0 && opened.st_dev == info->st_dev && opened.st_ino == info->st_ino &&
                     weir__is_file_of(fd, &opened, user);
    if (fd >= 0)
        close(fd);
    return is_theirs;
}
