/* SPDX-License-Identifier: MIT */
/* view_export.c - `weir trace export`: the file that other tools read. */
#include "config.h"

#include "lib/base/format.h"
#include "tools/common/complain.h"
#include "tools/trace/export.h"
#include "tools/trace/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
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

/* false after a complaint. */
static bool begin_output(struct new_file *file, const struct view *view, const struct choice *choice)
{
    if (strcmp(choice->path, "-") == 0) {
        if (view->json)
            complain("trace: --json and --%s=- both want standard output: name a file", choice->option);
        else if (!choice->is_text && isatty(STDOUT_FILENO))
            complain("trace: what --%s writes is not for a terminal: name a file, or redirect it", choice->option);
        else
            return true;
        return false;
    }
    return output_begin(file, view, choice->path);
}

static struct symbols *symbols_of(void *files, size_t trace)
{
    return view_symbols(&((struct view_file *)files)[trace]);
}

static int write_export(const struct view *view, const struct choice *choice, struct new_file *file)
{
    struct trace **traces = must(calloc(view->count + 1, sizeof traces[0]));
    for (size_t i = 0; i < view->count; i++)
        traces[i] = &view->files[i].trace;
    struct export export = {.traces = traces, .count = view->count, .out = file->out, .symbols_of = symbols_of, .context = view->files};
    bool is_whole = choice->write(&export);
    free(traces);
    /* What went wrong at stdout is said when the command ends. */
    bool is_written = file->out == stdout || new_file_end(file, is_whole) == EXIT_GOOD;
    if (!is_whole)
        complain("trace: export --%s: %s", choice->option, export.error);
    if (export.left_out)
        complain("trace: export --%s: %" PRIu64 " block%s at addresses that no memory has are left out", choice->option, export.left_out,
                 weir__plural(export.left_out));
    return is_written && is_whole ? EXIT_GOOD : EXIT_TROUBLE;
}

int view_export(const struct view *view)
{
    struct choice choice;
    if (!choose(view, &choice))
        return EXIT_TROUBLE;
    struct new_file file = {.out = stdout};
    if (!begin_output(&file, view, &choice))
        return EXIT_TROUBLE;
    int status = write_export(view, &choice, &file);
    for (size_t i = 0; i < view->count; i++) {
        if (view->json)
            view_file_begin(view, &view->files[i]);
        view_say_losses(view, &view->files[i]);
        if (view->json)
            view_file_end(view);
    }
    return status;
}
