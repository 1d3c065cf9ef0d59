/* SPDX-License-Identifier: MIT */
#include "tools/common/new_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"

/* 0, or why no new file of that name can be made. */
static int why_not_made(const char *path)
{
    struct stat status;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? format_text("%.*s", (int)(slash - path) + 1, path) : format_text(".");
    int why = lstat(path, &status) == 0 ? EEXIST : !*path || access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    free(folder);
    return *path ? why : ENOENT;
}

static bool complain_of(const char *command, const char *path, int why)
{
    complain("%s: %s: %s: name another file%s", command, path, strerror(why), why == EEXIST ? ", or move it away" : "");
    return false;
}

bool new_file_can_be_made(const char *command, const char *path)
{
    int why = why_not_made(path);
    return !why || complain_of(command, path, why);
}

bool new_file_can_replace(const char *command, const char *path)
{
    struct stat status;
    bool is_lost = stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
    if (is_lost)
        complain("%s: %s is no regular file, and would be replaced by one: name another file", command, path);
    return !is_lost;
}

FILE *new_file_make(const char *command, const char *path)
{
    FILE *out = fopen(path, "wxe");
    if (!out)
        complain_of(command, path, errno);
    return out;
}

int new_file_end(const char *command, const char *path, FILE *out)
{
    bool is_bad = ferror(out);
    if (fclose(out) == 0 && !is_bad)
        return EXIT_GOOD;
    complain("%s: %s: %s", command, path, strerror(errno));
    remove(path);
    return EXIT_TROUBLE;
}
