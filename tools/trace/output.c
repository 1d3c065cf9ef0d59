/* SPDX-License-Identifier: MIT */
#include "tools/trace/output.h"
#include "tools/common/complain.h"

#include <sys/stat.h>

/* What is written takes the place of the file, so it may be none of those that are read. */
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

bool output_begin(struct new_file *file, const struct view *view, const char *path)
{
    if (!is_input(view, path))
        return new_file_begin(file, "trace", path, NEW_FILE_OR_STREAM, 0600);
    complain("trace: %s is one of the traces: name another file", path);
    return false;
}
