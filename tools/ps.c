/* SPDX-License-Identifier: MIT */
/* ps.c - `weir ps` and `weir top`: the live processes with pools, what these hold, and who helped whom; once, or again and again. */
#include "lib/about.h"
#include "tools/common/claims.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/processes.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { OPT_JSON, OPT_LIST, OPT_TIMEOUT, OPT_WATCH };

/* How the processes are shown. */
struct view {
    const char *subcommand;
    int count; /* of operands; 0: all processes */
    char **operands;
    unsigned timeout_ms;
    bool is_json;
    const char *list; /* NULL, "pids" or "pools" */
    bool is_watch;    /* sorted; and what does not answer is part of it */
};

static const struct command_option options[] = {
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_LIST] = {.name = "list", .kind = OPTION_TEXT, .placeholder = "pids|pools", .help = "print only these, each on a line of its own"},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    [OPT_WATCH] = {.name = "watch", .kind = OPTION_MAYBE_SECONDS, .placeholder = "SECONDS", .low = 0.01, .high = 86400,
                   .help = "look again and again until interrupted, with so long between two looks (default: 2)"},
    {0},
};

/* In words ----------------------------------------------------------------------------------------------------------------------------- */

/* The process is named in the first of its rows, so that the eye finds where the next one begins. */
static void add_pools(struct table *table, const struct process *process)
{
    struct text user, age, name;
    const figures *document = process->figures;
    size_t count = figures_count(document, "pools");
    table_row(table, process_name(process, &name), process_user(process->uid, &user), process->program,
              process_age(figure(document, "age_ms"), &age));
    if (count == 0)
        table_row(table, "-", "-", "-", "-", "-", "-", "-", figure_text(document, "policy"));
    for (size_t i = 0; i < count; i++) {
        const figures *pool = figures_at(document, "pools", i);
        uint64_t cap = figure(pool, "max_size");
        if (i > 0)
            table_row(table, "", "", "", "");
        table_cell(table, "%u", (unsigned)figure(pool, "device"));
        const char *state = figure(pool, "asleep") ? " (asleep)" : figure(pool, "yielded") ? " (yielded)" : "";
        table_cell(table, "%s%s%s", figure_text(pool, "name"), figure_is(pool, "is_private") ? " (private)" : "", state);
        table_row(table, SIZE_TEXT(figure(pool, "reserved")), SIZE_TEXT(figure(pool, "live")), SIZE_TEXT(figure(pool, "cached")),
                  SIZE_TEXT(figure(pool, "idle")), cap ? SIZE_TEXT(cap) : "-", i ? "" : figure_text(document, "policy"));
    }
}

static void print_pools(const struct processes *processes, FILE *out)
{
    struct table table = TABLE_INIT("lllrllrrrrrl");
    table_row(&table, "PID", "USER", "PROGRAM", "AGE", "DEVICE", "POOL", "RESERVED", "LIVE", "CACHED", "IDLE", "CAP", "POLICY");
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].status == WEIR_OK)
            add_pools(&table, &processes->items[i]);
    table_print(&table, out);
}

static void add_device(struct table *table, const figures *device)
{
    const char *quota_from = figure_text(device, "quota_from");
    /* As much of the UUID as tells the GPUs of a machine apart: an index is the process's own. */
    table_cell(table, "%u", (unsigned)figure(device, "index"));
    table_cell(table, "%.12s", figure_text(device, "uuid"));
    table_row(table, SIZE_TEXT(figure(device, "memory_free")), COUNT_TEXT(figures_rescues(device)),
              COUNT_TEXT(figure(figures_of(device, "rescues"), weir_rung_name(WEIR_RUNG_NEIGHBOURS))), COUNT_TEXT(figure(device, "asks_sent")),
              SIZE_TEXT(figure(device, "bytes_got")), COUNT_TEXT(figure(device, "asks_received")), SIZE_TEXT(figure(device, "bytes_given")));
    if (quota_from)
        table_cell(table, "%s (%s)", SIZE_TEXT(figure(device, "quota")), quota_from);
    else
        table_cell(table, "-");
}

static void print_devices(const struct processes *processes, FILE *out)
{
    struct table table = TABLE_INIT("lllrrrrrrrl");
    table_row(&table, "PID", "DEVICE", "GPU", "FREE", "RESCUES", "BY NEIGHBOURS", "ASKED", "GOT", "WAS ASKED", "GAVE", "QUOTA");
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        for (size_t j = 0; j < figures_count(process->figures, "devices"); j++) {
            table_row(&table, j ? "" : process_name(process, &(struct text){{0}}));
            add_device(&table, figures_at(process->figures, "devices", j));
        }
    }
    table_print(&table, out);
}

static const char *label_of(const struct process *process, unsigned label)
{
    return figure_text(figures_of(process->figures, "labels"), weir__label_name(label));
}

static bool has_label(const struct process *process)
{
    for (unsigned label = 0; label < WEIR__LABELS; label++)
        if (label_of(process, label))
            return true;
    return false;
}

/* Nothing, where no process is one of a job. */
static void print_labels(const struct processes *processes, FILE *out)
{
    struct table table = TABLE_INIT("lllll");
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        if (!has_label(process))
            continue;
        if (table.count == 0)
            table_row(&table, "PID", "RANK", "LOCAL RANK", "JOB", "POD");
        table_row(&table, process_name(process, &(struct text){{0}}));
        for (unsigned label = 0; label < WEIR__LABELS; label++)
            table_cell(&table, "%s", label_of(process, label) ? label_of(process, label) : "-");
    }
    if (table.count == 0)
        return;
    fputc('\n', out);
    table_print(&table, out);
}

/* Where the figures come again and again there is no other place that stays to be seen. */
static void print_reasons(const struct processes *processes, FILE *out)
{
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        if (process->status == WEIR_OK)
            continue;
        char *text = format_text("process %s: %s", process_name(process, &(struct text){{0}}), process->reason);
        style_line(out, STYLE_BAD, text);
        free(text);
    }
}

static void print_words(const struct processes *processes, const struct view *view, FILE *out)
{
    bool has_answer = false, has_stranger = false;
    for (size_t i = 0; i < processes->count; i++) {
        has_answer = has_answer || processes->items[i].status == WEIR_OK;
        has_stranger = has_stranger || processes->items[i].is_elsewhere;
    }
    const char *directory = variable("WEIR_CONTROL_DIR");
    if (processes->count == 0)
        fputs("No process can be seen here. A program of this user that uses Weir can be seen\nif its policy says control: true.\n", out);
    if (processes->count == 0 && directory && directory[0] == '/')
        fprintf(out, "WEIR_CONTROL_DIR is set, so that only those are looked for that have the same, %s.\n", SHOWN(directory));
    if (view->is_watch)
        print_reasons(processes, out);
    if (has_answer) {
        print_pools(processes, out);
        fputc('\n', out);
        print_devices(processes, out);
        print_labels(processes, out);
    }
    if (!view->count)
        claims_print(out);
    if (has_stranger)
        fputs("\n* in another PID namespace, and this its number there\n", out);
}

/* As a list ---------------------------------------------------------------------------------------------------------------------------- */

static void list_pids(const struct processes *processes, FILE *out)
{
    for (size_t i = 0; i < processes->count; i++)
        fprintf(out, "%s\n", process_name(&processes->items[i], &(struct text){{0}}));
}

/* Each name once, however many pools have it. */
static void list_pools(const struct processes *processes, FILE *out)
{
    const char **names = NULL;
    size_t count = 0, room = 0;
    for (size_t i = 0; i < processes->count; i++)
        for (size_t j = 0; j < figures_count(processes->items[i].figures, "pools"); j++) {
            *MUST_ADD(names, count, room) = figure_text(figures_at(processes->items[i].figures, "pools", j), "name");
        }
    size_t *first = first_same(names, count);
    for (size_t i = 0; i < count; i++)
        if (first[i] == i)
            fprintf(out, "%s\n", SHOWN(names[i]));
    free(first);
    free(names);
}

/* As JSON ------------------------------------------------------------------------------------------------------------------------------ */

/* What the process tells, as it tells it, so that a figure that is new to this command is there too. */
static void json_value(void *data, const char *key, const struct figures_value *value)
{
    struct json *json = data;
    switch (value->kind) {
    case FIGURES_BOOL:
        json_bool(json, key, value->is);
        break;
    case FIGURES_NUMBER:
        json_uint(json, key, value->number);
        break;
    case FIGURES_TEXT:
        json_string(json, key, value->text);
        break;
    case FIGURES_OBJECT:
    case FIGURES_ARRAY:
        (value->kind == FIGURES_OBJECT ? json_object : json_array)(json, key);
        figures_each(value->object, json_value, json);
        json_end(json);
        break;
    default:
        json_null(json, key);
    }
}

/* Nothing that this command says itself, and of the policy its name: `weir show --pid` has the values. */
static void json_member(void *data, const char *key, const struct figures_value *value)
{
    static const char *const members[] = {"version", "policy", "age_ms", "labels", "devices", "pools", "tags"};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (strcmp(members[i], key) == 0)
            json_value(data, key, value);
}

/* What came of an automatic threshold. */
static void json_audit(struct json *json, const figures *pool)
{
    json_object(json, NULL);
    json_uint(json, "device", figure(pool, "device"));
    json_string(json, "pool", figure_text(pool, "name"));
    json_bool(json, "is_private", figure_is(pool, "is_private"));
    json_bool(json, "is_auto", figure_is(pool, "is_auto"));
    for (size_t i = 0; figures_audit[i]; i++)
        json_uint(json, figures_audit[i], figure(pool, figures_audit[i]));
    json_end(json);
}

static void json_answer(struct json *json, const struct process *process)
{
    if (process->status != WEIR_OK)
        return;
    json_uint(json, "uid", process->uid);
    json_string(json, "user", process_user(process->uid, &(struct text){{0}}));
    figures_each(process->figures, json_member, json);
    json_array(json, "audits");
    for (size_t i = 0; i < figures_count(process->figures, "pools"); i++)
        if (figures_has_audit(figures_at(process->figures, "pools", i)))
            json_audit(json, figures_at(process->figures, "pools", i));
    json_end(json);
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static uint64_t reserved_of(const struct process *process)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < figures_count(process->figures, "pools"); i++)
        sum += figure(figures_at(process->figures, "pools", i), "reserved");
    return sum;
}

/* Who has most comes first. */
static int compare(const void *one, const void *other)
{
    const struct process *a = one, *b = other;
    uint64_t x = reserved_of(a), y = reserved_of(b);
    if (x != y)
        return x < y ? 1 : -1;
    return a->pid != b->pid ? (a->pid > b->pid ? 1 : -1) : strcmp(a->socket, b->socket);
}

/* Looks once, and says on `out` what there is. *is_lost: a process that was named is not there. */
static int look(const struct view *view, FILE *out, bool *is_lost)
{
    struct processes processes;
    int status = processes_find(view->subcommand, view->count, view->operands, view->timeout_ms, &processes);
    *is_lost = status != EXIT_GOOD;
    status = worse_exit(status, processes_exit(&processes));
    if (view->is_watch && processes.count > 0)
        qsort(processes.items, processes.count, sizeof processes.items[0], compare);
    if (view->list)
        (strcmp(view->list, "pids") == 0 ? list_pids : list_pools)(&processes, out);
    else if (view->is_json && (processes.count > 0 || status == EXIT_GOOD))
        processes_json(&processes, json_answer, view->count ? NULL : claims_json, status, view->is_watch);
    else if (!view->is_json && (view->count == 0 || processes.count > 0))
        print_words(&processes, view, out);
    if (!view->is_watch || view->list)
        processes_complain(view->subcommand, &processes);
    processes_free(&processes);
    return status;
}

/* Draws the text where the one before was, with as many lines as the terminal has room for and as much of each, by one write, so that it does
   not flicker. */
static void draw(const char *text)
{
    struct winsize size = {.ws_row = 24};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    unsigned rows = size.ws_row > 1 ? size.ws_row : 24, lines = 0;
    const char *end = text, *last = text; /* the last line may have to make room */
    for (const char *at = text; *at; at++)
        if (*at == '\n' && ++lines == rows - 2)
            last = at + 1;
        else if (*at == '\n' && lines == rows - 1)
            end = at + 1;
    fputs("\033[?7l\033[H\033[J", stdout);
    if (lines < rows)
        fputs(text, stdout);
    else
        fprintf(stdout, "%.*s%.*s... %u more lines: this terminal has %u", (int)(last - text), text, (int)(end - last), last,
                lines - (rows - 1), rows);
    fputs("\033[?7h", stdout);
}

/* One look of many. A terminal shows each where the last one was; whatever else reads gets one block behind another, or one line of JSON. */
static int look_again(const struct view *view, bool in_place, unsigned looks, bool *is_lost)
{
    char *text = NULL;
    size_t len;
    if (!in_place) {
        if (looks > 0 && !view->is_json)
            putchar('\n');
        return look(view, stdout, is_lost);
    }
    FILE *out = must(open_memstream(&text, &len));
    int status = look(view, out, is_lost);
    if (fclose(out) != 0)
        must(NULL);
    if (!*is_lost)
        draw(text);
    free(text);
    return status;
}

/* Looks until a signal ends it, nobody reads any more, or a process that was named is gone. */
static int watch(const struct view *view, double seconds)
{
    static char screen[1 << 16];
    const char *kind = variable("TERM");
    bool in_place = !view->is_json && isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0, is_lost = false;
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    sigset_t wakes;
    sigemptyset(&wakes);
    sigaddset(&wakes, SIGINT);
    sigaddset(&wakes, SIGTERM);
    sigaddset(&wakes, SIGHUP);
    sigaddset(&wakes, SIGWINCH);
    sigprocmask(SIG_BLOCK, &wakes, NULL);
    setvbuf(stdout, screen, _IOFBF, sizeof screen);
    for (unsigned looks = 0;; looks++) {
        int status = look_again(view, in_place, looks, &is_lost);
        /* What could not be written is said at the end of the command. Where a signal is pending already, the wait is none. */
        if (is_lost || fflush(stdout) || ferror(stdout))
            return status;
        int woken = sigtimedwait(&wakes, NULL, &pause);
        if (woken <= 0 || woken == SIGWINCH)
            continue;
        if (in_place)
            putchar('\n');
        return status;
    }
}

static int run(const struct command_call *call)
{
    const struct option_value *list = &call->options[OPT_LIST], *watched = &call->options[OPT_WATCH];
    const struct view view = {.subcommand = "ps",
                              .count = call->count,
                              .operands = call->operands,
                              .timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT]),
                              .is_json = call->options[OPT_JSON].given,
                              .list = list->text,
                              .is_watch = watched->given};
    bool is_lost;
    if (view.is_json && view.list) {
        complain("ps: --list and --json exclude each other; give one of them");
        return EXIT_TROUBLE;
    }
    return view.is_watch ? watch(&view, watched->text ? watched->seconds : 2) : look(&view, stdout, &is_lost);
}

const struct command command_ps = {
    .name = "ps",
    .summary = "show the live processes, and what their pools hold",
    .operands = "[PID]...",
    .operands_max = INT_MAX,
    .details =
        "Asks each PID, or without any all processes of this user (as root: of all users) whose policy says control: true. The first\n"
        "table has their pools: RESERVED is what a pool has from the device, LIVE what the program uses of it, CACHED what is kept for\n"
        "its streams, IDLE what nobody uses, CAP its max_size; POLICY is the file in force. The second has their devices: requests that the recovery ladder rescued, in all and by\n"
        "the help of neighbours; how often this process asked neighbours and what it GOT; how often it was asked and what it GAVE;\n"
        "its QUOTA, as far as its environment lets it have less than the device has.\n"
        "Processes of a job are in a third one, with their rank, job and pod as their environment had them at the start.\n"
        "Without a PID, the last one has what processes claim of a GPU by weir_reserve() or 'weir run --reserve', whether or not they can be\n"
        "asked; PID is what the process calls itself.\n"
        "A process with several weirs is shown as PID.1, PID.2 and so on, and may be named so.\n"
        "With --watch the one that has most reserved comes first, and a terminal shows each look where the last one was; with --json\n"
        "besides each is a line. It ends when a PID is gone.\n"
        "Exit status: 0 all answered, 1 there is no such process, 2 a process does not answer (this wins over 1).",
    .example = "  weir ps\n"
               "  weir ps --json 4711\n"
               "  weir ps --list pools 4711\n"
               "  weir ps --watch=0.5\n",
    .options = options,
    .run = run,
};

/* weir top ------------------------------------------------------------------------------------------------------------------------------- */

enum { TOP_INTERVAL, TOP_TIMEOUT };

static const struct command_option top_options[] = {
    [TOP_INTERVAL] = {"interval", 'i', OPTION_SECONDS, "SECONDS", "from one look at the processes to the next (default: 1)", 0.1, 3600},
    [TOP_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

static int run_top(const struct command_call *call)
{
    const struct option_value *interval = &call->options[TOP_INTERVAL];
    const struct view view = {.subcommand = "top",
                              .count = call->count,
                              .operands = call->operands,
                              .timeout_ms = processes_timeout(&call->options[TOP_TIMEOUT]),
                              .is_watch = true};
    return watch(&view, interval->given ? interval->seconds : 1);
}

const struct command command_top = {
    .name = "top",
    .summary = "watch live processes and their pools: weir ps --watch=1",
    .operands = "[PID]...",
    .operands_max = INT_MAX,
    .details = "Shows what 'weir ps --watch' shows, until it is interrupted.\n"
               "Exit status: as that of 'weir ps'.",
    .example = "  weir top\n"
               "  weir top --interval=0.2\n",
    .options = top_options,
    .run = run_top,
};
