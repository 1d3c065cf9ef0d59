/* SPDX-License-Identifier: MIT */
/* trace.c - `weir trace`: opens traces, and hands them to a view. */
#include "policy/report.h"
#include "tools/common/command.h"
#include "tools/trace/import.h"
#include "tools/trace/view.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_AT, OPT_COLLAPSED, OPT_JSON, OPT_LIMIT, OPT_OUTPUT, OPT_POLICY, OPT_SINCE, OPT_TUNE, OPT_COUNT };

enum { LIMIT_DEFAULT = 10 };

static const struct command_option options[] = {
    [OPT_AT] = {.name = "at", .kind = OPTION_TEXT, .placeholder = "MOMENT", .help = "live and why: a time, as 1.5s, or the name of a mark; live as well #1234, behind so many events"},
    [OPT_COLLAPSED] = {.name = "collapsed", .kind = OPTION_FLAG, .help = "stacks: a line for each, as flame graphs are made of"},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_LIMIT] = {.name = "limit",
                   .letter = 'n',
                   .kind = OPTION_COUNT,
                   .placeholder = "COUNT",
                   .help = "rows of each list (default: 10)",
                   .low = 1,
                   .high = 1000000000},
    [OPT_OUTPUT] = {.name = "output", .letter = 'o', .kind = OPTION_TEXT, .placeholder = "FILE", .help = "page: the file to write; -: standard output"},
    [OPT_POLICY] = {.name = "policy",
                    .letter = 'p',
                    .kind = OPTION_TEXTS,
                    .placeholder = "FILE",
                    .help = "page: lay a replay under this policy over the trace; may be given several times"},
    [OPT_SINCE] = {.name = "since",
                   .kind = OPTION_TEXT,
                   .placeholder = "MOMENT",
                   .help = "leaks: without what was live then; a time, or the name of a mark"},
    [OPT_TUNE] = {.name = "tune", .kind = OPTION_TEXT, .placeholder = "FILE", .help = "page: show what weir tune found, as its JSON in FILE has it"},
    {0},
};

/* Views: their names, whether each shows one file or all of them, and which options each has besides --json and --limit. */
#define VIEW_TABLE(X)                                                                                                                      \
    X(summary, each, 0)                                                                                                                    \
    X(peak, each, 0)                                                                                                                       \
    X(leaks, each, 1 << OPT_SINCE)                                                                                                         \
    X(live, each, 1 << OPT_AT)                                                                                                             \
    X(tags, each, 0)                                                                                                                       \
    X(stacks, each, 1 << OPT_COLLAPSED)                                                                                                    \
    X(waits, all, 0)                                                                                                                       \
    X(plot, all, 0)                                                                                                                        \
    X(events, each, 0)                                                                                                                     \
    X(why, each, 1 << OPT_AT)                                                                                                              \
    X(page, all, 1 << OPT_OUTPUT | 1 << OPT_POLICY | 1 << OPT_TUNE)

static const struct {
    const char *name;
    view_file_fn *each; /* NULL: the other */
    int (*all)(const struct view *view);
    unsigned has; /* bits of options */
} views[] = {
#define X(name, how, options) {#name, .how = view_##name, .has = (options)},
    VIEW_TABLE(X)
#undef X
};

enum { VIEWS = sizeof views / sizeof views[0] };

/* The place of the view of that name; VIEWS if it is none. */
static size_t find_view(const char *name)
{
    size_t i = 0;
    while (i < VIEWS && strcmp(views[i].name, name) != 0)
        i++;
    return i;
}

/* Whether it is neither a view nor a file, but nearly a view. Complains then. */
static bool is_misspelt(const char *operand)
{
    struct policy_guess guess = policy_guess_begin(operand);
    for (size_t i = 0; i < VIEWS; i++)
        policy_guess_try(&guess, views[i].name);
    bool is_one = guess.best && access(operand, F_OK) != 0;
    if (is_one)
        complain("trace: there is no view '%s', and no such file; did you mean '%s'?", operand, guess.best);
    return is_one;
}

/* An option that the view does not know would do nothing. */
static bool takes_options(const struct command_call *call, size_t which)
{
    static const unsigned special = 1 << OPT_AT | 1 << OPT_COLLAPSED | 1 << OPT_OUTPUT | 1 << OPT_POLICY | 1 << OPT_SINCE | 1 << OPT_TUNE;
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        if (!call->options[i].given || !(special & 1U << i) || views[which].has & 1U << i)
            continue;
        for (size_t other = 0; other < VIEWS; other++)
            if (views[other].has & 1U << i)
                complain("trace: --%s is of 'weir trace %s', not of '%s'", options[i].name, views[other].name, views[which].name);
        return false;
    }
    if (call->options[OPT_JSON].given && call->options[OPT_COLLAPSED].given) {
        complain("trace: --json and --collapsed are two ways to print: choose one");
        return false;
    }
    return true;
}

/* Times of all files count from when the first was started. */
static void set_shifts(struct view *view)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < view->count; i++) {
        uint64_t started = view->files[i].trace.header.started_real;
        if (started && started < first)
            first = started;
    }
    for (size_t i = 0; i < view->count; i++) {
        uint64_t started = view->files[i].trace.header.started_real;
        view->files[i].shift = started ? started - first : 0;
    }
}

/* Opens all that can be; the status says whether that was all. */
static int open_files(struct view *view, char **paths, size_t count)
{
    int status = EXIT_GOOD;
    view->files = must(calloc(count, sizeof view->files[0]));
    for (size_t i = 0; i < count; i++) {
        struct trace *trace = &view->files[view->count].trace;
        if (import_open(trace, paths[i])) {
            view->count++;
            continue;
        }
        trace_close(trace);
        status = EXIT_TROUBLE;
    }
    set_shifts(view);
    return status;
}

static int show(struct view *view, size_t which)
{
    if (view->json) {
        json_object(view->json, NULL);
        json_string(view->json, "view", views[which].name);
        json_array(view->json, "files");
    }
    int status = views[which].each ? view_each(view, views[which].each) : views[which].all(view);
    if (view->json) {
        json_end(view->json);
        json_end(view->json);
    }
    return status;
}

static int run(const struct command_call *call)
{
    size_t which = find_view(call->operands[0]), first = which < VIEWS;
    which = first ? which : 0;
    if (!first && access(call->operands[0], F_OK) != 0 && command_is_gone("trace", call->operands[0]))
        return EXIT_TROUBLE;
    if (!first && is_misspelt(call->operands[0]))
        return EXIT_TROUBLE;
    if (first && call->count == 1) {
        complain("trace: %s of which file? A file of that name would be ./%s", call->operands[0], call->operands[0]);
        return EXIT_TROUBLE;
    }
    if (!takes_options(call, which))
        return EXIT_TROUBLE;
    struct json json = JSON_INIT(stdout);
    struct view view = {
        .json = call->options[OPT_JSON].given ? &json : NULL,
        .limit = call->options[OPT_LIMIT].given ? (size_t)call->options[OPT_LIMIT].count : LIMIT_DEFAULT,
        .has_limit = call->options[OPT_LIMIT].given,
        .at = call->options[OPT_AT].text,
        .since = call->options[OPT_SINCE].text,
        .is_collapsed = call->options[OPT_COLLAPSED].given,
        .page = {call->options[OPT_OUTPUT].text, call->options[OPT_POLICY].texts, call->options[OPT_POLICY].text_count,
                 call->options[OPT_TUNE].text},
    };
    int status = open_files(&view, call->operands + first, (size_t)call->count - first);
    if (view.count)
        status = worse_exit(status, show(&view, which));
    for (size_t i = 0; i < view.count; i++) {
        status = view.files[i].is_bad ? EXIT_TROUBLE : status;
        symbols_free(view.files[i].symbols);
        trace_close(&view.files[i].trace);
    }
    free(view.files);
    return status;
}

const struct command command_trace = {
    .name = "trace",
    .summary = "show what memory did, from recorded traces",
    .operands = "[VIEW] FILE...",
#define X(name, how, options) " " #name
    .words = VIEW_TABLE(X),
#undef X
    .operands_min = 1,
    .operands_max = INT_MAX,
    .details =
        "Reads traces that a recorder of Weir wrote, and shows one view of them. Logs of RMM and memory snapshots of torch, which may be packed "
        "with gzip, are read as traces that 'python3 -m weir.trace import' makes of them; - is standard input.\n"
        "summary, the default: what the trace has, and what each pool came to.\n"
        "peak: who had memory when the process had the most.\n"
        "leaks: the blocks that are live at the end, and for how long; with --since those alone that were taken behind that moment.\n"
        "live: who had memory at the moment that --at says.\n"
        "tags: what each tag had and asked for.\n"
        "stacks: the same of each stack.\n"
        "waits: waits, steps of recovery, growth and trims, with their times; of a program that calls CUDA by itself, the calls that held it "
        "up, and where most did.\n"
        "plot: memory over time.\n"
        "events: each event; in Python weir.trace.read(FILE) has them, and blocks, as columns for data frames.\n"
        "why: of a request that found no memory, the last or the one that --at names: who had memory, why it failed, and by replay (weir "
        "replay) which changes of the policy would have served it, and what they cost.\n"
        "page: all of it to look at, as one file of HTML that a browser opens without a network: memory over time by tag, stack, pool, stream "
        "or size, steps of each thread, a map of addresses, and who had memory at any moment. With --policy what the pools would have had "
        "under other policies (weir replay), with --tune what weir tune found.\n"
        "Several files, as of the ranks of one job, are shown below each other, with times that count from when the first was started.\n"
        "Exit status: 0 shown, 1 a file does not have the moment, or why cannot judge, 2 a file cannot be read.",
    .example = "  weir trace train.weir\n"
               "  weir trace peak train.weir\n"
               "  weir trace live --at='step 12' train.weir\n"
               "  weir trace leaks --since='step 12' train.weir\n"
               "  weir trace why train.weir\n"
               "  weir trace stacks --collapsed train.weir | flamegraph.pl >memory.svg\n"
               "  weir trace page -o train.html train.weir\n"
               "  weir trace plot rank-*.weir\n"
               "  python3 -m weir.trace export --memory-viz=snapshot.pickle train.weir\n",
    .options = options,
    .run = run,
};
