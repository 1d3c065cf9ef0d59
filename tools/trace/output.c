/* SPDX-License-Identifier: MIT */
#include "tools/trace/output.h"
#include "tools/common/complain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writing empties the file first, so it may be none of those that are read. */
static bool is_input(const struct view *view, const char *path)
{
    struct stat output, input;
    if (stat(path, &output) != 0)
        return false;
    for (size_t i = 0; i < view->count; i++)
        if (stat(view->files[i].trace.path, &input) == 0 && input.st_dev == output.st_dev && input.st_ino == output.st_ino)
            return true;
    return false;
}

FILE *output_open(const struct view *view, const char *path)
{
    if (is_input(view, path)) {
        complain("trace: %s is one of the traces: name another file", path);
        return NULL;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        complain("cannot write %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return out;
}

bool output_close(FILE *out, const char *path, bool is_whole)
{
    struct stat status;
    bool is_file = fstat(fileno(out), &status) == 0 && S_ISREG(status.st_mode);
    errno = 0;
    int error = fflush(out) != 0 || ferror(out) ? errno ? errno : EIO : 0;
    if (fclose(out) != 0 && !error)
        error = errno;
    if (is_file && (error || !is_whole))
        unlink(path);
    if (error)
        complain("cannot write %s: %s", path, strerror(error));
    return !error;
}
