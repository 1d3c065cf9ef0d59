/* SPDX-License-Identifier: MIT */
/* view_export.c - `weir trace export`: the file that other tools read. */
#include "config.h"

#include "lib/base/format.h"
#include "tools/common/complain.h"
#include "tools/trace/export.h"
#include "tools/trace/view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What was asked for. */
struct choice {
    const char *path; /* NULL: nothing */
    export_fn *write;
    const char *option;
    bool is_text;
};

/* The one that was asked for; false, after a complaint, if it is not one. */
static bool choose(const struct view *view, struct choice *choice)
{
    const struct choice choices[] = {
        {view->exports.viz, export_viz, "memory-viz", false},
        {view->exports.perfetto, export_perfetto, "perfetto", false},
        {view->exports.rmm, export_rmm, "rmm", true},
    };
    *choice = (struct choice){0};
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (choices[i].path && choice->path) {
            complain("trace: --%s and --%s are two files: write one at a time", choice->option, choices[i].option);
            return false;
        }
        if (choices[i].path)
            *choice = choices[i];
    }
    if (!choice->path)
        complain("trace: export to what? Name a file with --memory-viz, --perfetto or --rmm");
    return choice->path != NULL;
}

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

/* NULL after a complaint. */
static FILE *open_output(const struct view *view, const struct choice *choice)
{
    if (strcmp(choice->path, "-") == 0) {
        if (view->json)
            complain("trace: --json and --%s=- both want standard output: name a file", choice->option);
        else if (!choice->is_text && isatty(STDOUT_FILENO))
            complain("trace: what --%s writes is not for a terminal: name a file, or redirect it", choice->option);
        else
            return stdout;
        return NULL;
    }
    if (is_input(view, choice->path)) {
        complain("trace: %s is one of the traces: name another file", choice->path);
        return NULL;
    }
    /* It has the names and paths that the trace has, which is for its user alone. */
    int fd = open(choice->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        complain("cannot write %s: %s", choice->path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return out;
}

/* An errno; what went wrong at stdout is said when the command ends. A part of an export is none, so a file that lacks the rest goes. */
static int close_output(FILE *out, const char *path, bool is_whole)
{
    struct stat status;
    if (out == stdout)
        return 0;
    bool is_file = fstat(fileno(out), &status) == 0 && S_ISREG(status.st_mode);
    errno = 0;
    int error = fflush(out) != 0 || ferror(out) ? errno ? errno : EIO : 0;
    if (fclose(out) != 0 && !error)
        error = errno;
    if (is_file && (error || !is_whole))
        unlink(path);
    return error;
}

static struct symbols *symbols_of(void *files, size_t trace)
{
    return view_symbols(&((struct view_file *)files)[trace]);
}

static int write_export(const struct view *view, const struct choice *choice, FILE *out)
{
    struct trace **traces = must(calloc(view->count + 1, sizeof traces[0]));
    for (size_t i = 0; i < view->count; i++)
        traces[i] = &view->files[i].trace;
    struct export export = {.traces = traces, .count = view->count, .out = out, .symbols_of = symbols_of, .context = view->files};
    bool is_whole = choice->write(&export);
    free(traces);
    int error = close_output(out, choice->path, is_whole);
    if (error)
        complain("cannot write %s: %s", choice->path, strerror(error));
    if (!is_whole)
        complain("trace: export --%s: %s", choice->option, export.error);
    if (export.left_out)
        complain("trace: export --%s: %" PRIu64 " block%s at addresses that no memory has are left out", choice->option, export.left_out,
                 weir__plural(export.left_out));
    return error || !is_whole ? EXIT_TROUBLE : EXIT_GOOD;
}

int view_export(const struct view *view)
{
    struct choice choice;
    if (!choose(view, &choice))
        return EXIT_TROUBLE;
    FILE *out = open_output(view, &choice);
    if (!out)
        return EXIT_TROUBLE;
    int status = write_export(view, &choice, out);
    for (size_t i = 0; i < view->count; i++) {
        if (view->json)
            view_file_begin(view, &view->files[i]);
        view_say_losses(view, &view->files[i]);
        if (view->json)
            view_file_end(view);
    }
    return status;
}
