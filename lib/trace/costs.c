/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/trace/costs.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/user.h"
#include "policy/environment.h"

void weir__costs_slug(const char *name, char slug[static NAME_MAX])
{
    size_t len = 0;
    for (; *name && len < NAME_MAX / 4; name++)
        if (isalnum((unsigned char)*name) || *name == '.')
            slug[len++] = (char)tolower((unsigned char)*name);
        else if (len > 0 && slug[len - 1] != '-')
            slug[len++] = '-';
    slug[len] = '\0';
}

void weir__costs_name(const char *gpu, const char *driver, const char *uuid, char name[static NAME_MAX])
{
    char parts[3][NAME_MAX];
    weir__costs_slug(gpu, parts[0]);
    weir__costs_slug(driver, parts[1]);
    weir__costs_slug(uuid, parts[2]);
    snprintf(name, NAME_MAX, "%.80s-%.20s-%.60s.yaml", parts[0], parts[1], parts[2]);
}

int weir__costs_open_folder(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &status) != 0 || !weir__is_file_of(fd, &status, geteuid()) || (status.st_mode & (S_IWGRP | S_IWOTH)))) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/* Opens the cache directory of Weir. Returns a descriptor or -1. Relative paths in the environment variables are ignored, as the XDG base
   directory specification demands. */
static int open_cache(void)
{
    char path[PATH_MAX];
    const char *cache = policy_environment("XDG_CACHE_HOME"), *home = policy_environment("HOME");
    bool has_cache = cache && cache[0] == '/';
    if (!has_cache && !(home && home[0] == '/'))
        return -1;
    int len = snprintf(path, sizeof path, "%s%s/weir", has_cache ? cache : home, has_cache ? "" : "/.cache");
    return len < (int)sizeof path ? weir__costs_open_folder(path) : -1;
}

static bool is_text(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (iscntrl((unsigned char)bytes[i]) && bytes[i] != '\n' && bytes[i] != '\t' && bytes[i] != '\r')
            return false;
    return len > 0;
}

/* Returns the text of the file, or NULL. Only a regular file of this user's is read: reading a pipe or a device could block. */
static char *read_table(int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !weir__is_file_of(fd, &status, geteuid()) || status.st_size > WEIR__COSTS_MAX)
        return NULL;
    char *text = malloc(WEIR__COSTS_MAX + 1);
    size_t len = 0;
    ssize_t got = -1;
    while (text && len < WEIR__COSTS_MAX && (got = read(fd, text + len, WEIR__COSTS_MAX - len)) > 0)
        len += (size_t)got;
    if (got < 0 || !is_text(text, len)) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

char *weir__costs_text(const char *gpu, int driver, const char *uuid)
{
    char version[16], name[NAME_MAX], *text = NULL;
    int folder = open_cache();
    if (folder < 0)
        return NULL;
    snprintf(version, sizeof version, "%d.%d", driver / 1000, driver % 1000 / 10);
    weir__costs_name(gpu, version, uuid, name);
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) {
        text = read_table(fd);
        close(fd);
    }
    close(folder);
    return text;
}
