/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/format.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"

#define NAMES_TRIED 100

static bool complain_of(const char *command, const char *path, int error)
{
    complain("%s: %s cannot be written: %s", command, path,
             WEIR__WHY(error, error == EEXIST ? "name another file, or move it away" : "name a file in a directory that may be written to"));
    return false;
}

/* Whether it is written to as it is: a device or a pipe. */
static bool is_stream(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* Whether what has that name lets itself be replaced. */
static bool can_replace(const char *command, const char *path)
{
    struct stat info;
    bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode), is_lost = is_stream(path);
    if (is_lost)
        complain("%s: %s is no regular file, and would be replaced by one: name another file", command, path);
    else if (is_link)
        complain("%s: %s is a link, which would be replaced by a file: name the file itself, or remove the link", command, path);
    return !is_lost && !is_link;
}

/* With the slash; "." of a name alone. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? format_text("%.*s", (int)(slash - path) + 1, path) : format_text(".");
}

/* By which a file without a name is linked. */
static struct text link_of(int fd)
{
    struct text text;
    snprintf(text.chars, sizeof text.chars, "/proc/self/fd/%d", fd);
    return text;
}

bool new_file_can_be_made(const char *command, const char *path, enum new_file_place place)
{
    struct stat status;
    if (place == NEW_FILE_OR_STREAM && is_stream(path))
        return true;
    if (place != NEW_FILE_NOWHERE && !can_replace(command, path))
        return false;
    char *folder = folder_of(path);
    bool is_there = lstat(path, &status) == 0;
    int error = !*path ? ENOENT : access(folder, W_OK | X_OK) ? errno : 0;
    if (is_there && place == NEW_FILE_NOWHERE)
        error = EEXIST;
    else if (is_there && S_ISDIR(status.st_mode))
        error = EISDIR;
    free(folder);
    return !error || complain_of(command, path, error);
}

/* stdio forgets why a write failed, if it was not the last. */
static ssize_t write_out(void *data, const char *bytes, size_t size)
{
    struct new_file *file = data;
    size_t done = 0;
    while (done < size) {
        ssize_t count = write(file->fd, bytes + done, size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && !file->error)
            file->error = errno;
        if (count < 0)
            return 0;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

static int open_place(struct new_file *file, enum new_file_place place, mode_t mode)
{
    file->is_stream = place == NEW_FILE_OR_STREAM && is_stream(file->path);
    if (file->is_stream)
        return open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    file->is_first = place == NEW_FILE_NOWHERE;
    char *folder = folder_of(file->path);
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, file->is_first ? mode : 0600);
    free(folder);
    /* Where it can have a name later: not without /proc, nor on each file system. */
    if (fd >= 0 && access(link_of(fd).chars, F_OK) != 0) {
        close(fd);
        fd = -1;
    }
    file->is_nameless = fd >= 0;
    if (file->is_first)
        return fd >= 0 ? fd : open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, mode);
    if (!file->is_nameless) {
        file->beside = format_text("%s.XXXXXX", file->path);
        fd = mkostemp(file->beside, O_CLOEXEC); /* makes it anew, 0600, and follows no link */
    }
    if (fd >= 0 && mode != 0600 && fchmod(fd, mode) != 0)
        file->error = errno;
    return fd;
}

bool new_file_begin(struct new_file *file, const char *command, const char *path, enum new_file_place place, mode_t mode)
{
    *file = (struct new_file){.command = command, .path = path};
    if (!new_file_can_be_made(command, path, place))
        return false;
    file->fd = open_place(file, place, mode);
    if (file->fd < 0) {
        complain_of(command, path, errno);
        free(file->beside);
        return false;
    }
    file->out = must(fopencookie(file, "w", (cookie_io_functions_t){.write = write_out}));
    return true;
}

/* Gives a file that is whole its name, or one beside it: a link cannot take the place of a file, and so that one is renamed next. */
static void name(struct new_file *file)
{
    if (file->is_first) {
        if (linkat(AT_FDCWD, link_of(file->fd).chars, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) != 0)
            file->error = errno;
        return;
    }
    for (unsigned i = 0; i < NAMES_TRIED && !file->beside; i++) {
        char *beside = format_text("%s.%lx%u", file->path, (unsigned long)getpid(), i);
        if (linkat(AT_FDCWD, link_of(file->fd).chars, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0)
            file->beside = beside;
        else
            free(beside);
        if (!file->beside && errno != EEXIST)
            break;
    }
    if (!file->beside && !file->error)
        file->error = errno;
}

int new_file_end(struct new_file *file, bool is_whole)
{
    errno = 0;
    if (fclose(file->out) != 0 && !file->error)
        file->error = errno ? errno : EIO;
    if ((file->beside || file->is_nameless) && is_whole && !file->error && fsync(file->fd) != 0)
        file->error = errno;
    if (file->is_nameless && is_whole && !file->error)
        name(file);
    if (close(file->fd) != 0 && !file->error)
        file->error = errno;
    if (file->beside && is_whole && !file->error && rename(file->beside, file->path) != 0)
        file->error = errno;
    bool is_good = is_whole && !file->error;
    if (!is_good && !file->is_stream && (file->beside || !file->is_nameless))
        unlink(file->beside ? file->beside : file->path);
    if (file->error)
        complain_of(file->command, file->path, file->error);
    free(file->beside);
    return is_good ? EXIT_GOOD : EXIT_TROUBLE;
}
