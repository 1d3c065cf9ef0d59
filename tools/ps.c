/* SPDX-License-Identifier: MIT */
/* ps.c - `weir ps`: the live processes with pools, what these hold, and who helped whom. */
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/processes.h"
#include "tools/common/table.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPT_JSON, OPT_LIST, OPT_TIMEOUT, OPT_WATCH };

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
    table_row(table, process_name(process, &name), process_user(process->uid, &user), process->program[0] ? process->program : "-",
              process_age(process->age_ms, &age));
    if (process->pool_count == 0)
        table_row(table, "-", "-", "-", "-", "-", "-");
    for (size_t i = 0; i < process->pool_count; i++) {
        const process_pool *pool = &process->pools[i];
        if (i > 0)
            table_row(table, "", "", "", "");
        table_cell(table, "%u", (unsigned)pool->device);
        table_cell(table, "%s%s", pool->name, pool->flags & WIRE_POOL_PRIVATE ? " (private)" : "");
        table_row(table, SIZE_TEXT(pool->reserved), SIZE_TEXT(pool->live), SIZE_TEXT(pool->cached), SIZE_TEXT(pool->idle));
    }
}

static void print_pools(const struct processes *processes)
{
    struct table table = TABLE_INIT("lllrllrrrr");
    table_row(&table, "PID", "USER", "PROGRAM", "AGE", "DEVICE", "POOL", "RESERVED", "LIVE", "CACHED", "IDLE");
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].status == WEIR_OK)
            add_pools(&table, &processes->items[i]);
    table_print(&table, stdout);
}

static void add_device(struct table *table, const struct process *process, const process_device *device)
{
    const process_quota *quota = process_quota_of(process, device);
    /* As much of the UUID as tells the GPUs of a machine apart: an index is the process's own. */
    table_cell(table, "%u", (unsigned)device->index);
    table_cell(table, "%.12s", device->uuid);
    table_row(table, SIZE_TEXT(device->memory_free), COUNT_TEXT(process_rescues(device)), COUNT_TEXT(device->rescues[WEIR_RUNG_NEIGHBOURS]),
              COUNT_TEXT(device->asks_sent), SIZE_TEXT(device->bytes_got), COUNT_TEXT(device->asks_received),
              SIZE_TEXT(device->bytes_given));
    if (quota && quota->from[0])
        table_cell(table, "%s (%s)", SIZE_TEXT(quota->bytes), quota->from);
    else
        table_cell(table, "-");
}

static void print_devices(const struct processes *processes)
{
    struct table table = TABLE_INIT("lllrrrrrrrl");
    table_row(&table, "PID", "DEVICE", "GPU", "FREE", "RESCUES", "BY NEIGHBOURS", "ASKED", "GOT", "WAS ASKED", "GAVE", "QUOTA");
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        for (size_t j = 0; j < process->device_count; j++) {
            table_row(&table, j ? "" : process_name(process, &(struct text){{0}}));
            add_device(&table, process, &process->devices[j]);
        }
    }
    table_print(&table, stdout);
}

static bool has_label(const struct process *process)
{
    for (unsigned label = 0; label < SHARE_LABELS; label++)
        if (*process->labels.values[label])
            return true;
    return false;
}

/* Nothing, where no process is one of a job. */
static void print_labels(const struct processes *processes)
{
    struct table table = TABLE_INIT("lllll");
    bool is_begun = false;
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        if (!has_label(process))
            continue;
        if (!is_begun)
            table_row(&table, "PID", "RANK", "LOCAL RANK", "JOB", "POD");
        is_begun = true;
        table_row(&table, process_name(process, &(struct text){{0}}));
        for (unsigned label = 0; label < SHARE_LABELS; label++)
            table_cell(&table, "%s", *process->labels.values[label] ? process->labels.values[label] : "-");
    }
    if (is_begun)
        putchar('\n');
    if (is_begun)
        table_print(&table, stdout);
}

static void print_words(const struct processes *processes)
{
    bool has_answer = false, has_stranger = false;
    for (size_t i = 0; i < processes->count; i++) {
        has_answer = has_answer || processes->items[i].status == WEIR_OK;
        has_stranger = has_stranger || processes->items[i].is_elsewhere;
    }
    const char *directory = variable("WEIR_CONTROL_DIR");
    if (processes->count == 0)
        puts("No process can be seen here: programs of this user that Weir serves are, once their policy says control: true.");
    if (processes->count == 0 && directory && directory[0] == '/')
        printf("WEIR_CONTROL_DIR is set, so that only those are looked for that have the same, %s.\n", directory);
    if (!has_answer)
        return;
    print_pools(processes);
    putchar('\n');
    print_devices(processes);
    print_labels(processes);
    if (has_stranger)
        puts("\n* in another PID namespace, and this its number there");
}

/* As a list ---------------------------------------------------------------------------------------------------------------------------- */

static void list_pids(const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        puts(process_name(&processes->items[i], &(struct text){{0}}));
}

/* Whether the name of a pool is that of an earlier one as well. */
static bool is_listed(const struct processes *processes, size_t nth, size_t pool)
{
    const char *name = processes->items[nth].pools[pool].name;
    for (size_t i = 0; i <= nth; i++)
        for (size_t j = 0; j < (i < nth ? processes->items[i].pool_count : pool); j++)
            if (strcmp(processes->items[i].pools[j].name, name) == 0)
                return true;
    return false;
}

/* Each name once, however many pools have it. */
static void list_pools(const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        for (size_t j = 0; j < processes->items[i].pool_count; j++)
            if (!is_listed(processes, i, j))
                puts(processes->items[i].pools[j].name);
}

/* As JSON ------------------------------------------------------------------------------------------------------------------------------ */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void json_device(struct json *json, const struct process *process, const process_device *device)
{
    const process_quota *quota = process_quota_of(process, device);
#define MEMBER(member) JSON_MEMBER(process_device, member)
    static const struct json_member members[] = {MEMBER(memory),    MEMBER(memory_free),   MEMBER(recoveries), MEMBER(asks_sent),
                                                 MEMBER(bytes_got), MEMBER(asks_received), MEMBER(bytes_given)};
#undef MEMBER
    json_object(json, NULL);
    json_uint(json, "index", device->index);
    json_string(json, "uuid", device->uuid);
    json_members(json, device, members, COUNT(members));
    if (quota)
        json_uint(json, "quota", quota->bytes);
    else
        json_null(json, "quota");
    json_string(json, "quota_from", quota && quota->from[0] ? quota->from : NULL);
    json_object(json, "rescues");
    for (unsigned rung = 0; rung < WIRE_RUNGS; rung++)
        json_uint(json, weir_rung_name((weir_rung)rung), device->rescues[rung]);
    json_end(json);
    json_end(json);
}

static void json_pool(struct json *json, const process_pool *pool)
{
#define MEMBER(member) JSON_MEMBER(process_pool, member),
    static const struct json_member members[] = {WIRE_POOL_FIGURES(MEMBER)};
#undef MEMBER
    json_object(json, NULL);
    json_uint(json, "device", pool->device);
    json_string(json, "name", pool->name);
    json_bool(json, "is_private", pool->flags & WIRE_POOL_PRIVATE);
    json_bool(json, "is_exportable", pool->flags & WIRE_POOL_EXPORTABLE);
    json_members(json, pool, members, COUNT(members));
    json_end(json);
}

static void json_audit(struct json *json, const process_audit *audit)
{
#define MEMBER(member) JSON_MEMBER(process_audit, member),
    static const struct json_member members[] = {WIRE_AUDIT_FIGURES(MEMBER)};
#undef MEMBER
    json_object(json, NULL);
    json_uint(json, "device", audit->device);
    json_string(json, "pool", audit->name);
    json_bool(json, "is_private", audit->flags & WIRE_POOL_PRIVATE);
    json_bool(json, "is_auto", audit->flags & WIRE_POOL_AUTO);
    json_members(json, audit, members, COUNT(members));
    json_end(json);
}

static void json_tag(struct json *json, const process_tag *tag)
{
#define MEMBER(member) JSON_MEMBER(process_tag, member),
    static const struct json_member members[] = {WIRE_TAG_FIGURES(MEMBER)};
#undef MEMBER
    json_object(json, NULL);
    json_string(json, "name", tag->name);
    json_members(json, tag, members, COUNT(members));
    json_end(json);
}

static void json_answer(struct json *json, const struct process *process)
{
    if (process->status != WEIR_OK)
        return;
    json_uint(json, "uid", process->uid);
    json_string(json, "user", process_user(process->uid, &(struct text){{0}}));
    json_string(json, "version", process->version);
    json_string(json, "policy", process->policy);
    json_uint(json, "age_ms", process->age_ms);
    json_object(json, "labels");
    for (unsigned label = 0; label < SHARE_LABELS; label++)
        json_string(json, share_label_name(label), *process->labels.values[label] ? process->labels.values[label] : NULL);
    json_end(json);
    json_array(json, "devices");
    for (size_t i = 0; i < process->device_count; i++)
        json_device(json, process, &process->devices[i]);
    json_end(json);
    json_array(json, "pools");
    for (size_t i = 0; i < process->pool_count; i++)
        json_pool(json, &process->pools[i]);
    json_end(json);
    json_array(json, "tags");
    for (size_t i = 0; i < process->tag_count; i++)
        json_tag(json, &process->tags[i]);
    json_end(json);
    json_array(json, "audits");
    for (size_t i = 0; i < process->audit_count; i++)
        json_audit(json, &process->audits[i]);
    json_end(json);
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static int look(const struct command_call *call)
{
    struct processes processes;
    unsigned timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT]);
    int status = processes_find("ps", call->count, call->operands, timeout_ms, &processes);
    if (!call->options[OPT_LIST].given)
        processes_ask_labels(&processes, timeout_ms);
    if (!call->options[OPT_LIST].given)
        processes_ask_quotas(&processes, timeout_ms);
    if (call->options[OPT_JSON].given)
        processes_ask_details(&processes, timeout_ms);
    status = worse_exit(status, processes_exit(&processes));
    if (call->options[OPT_LIST].given)
        (strcmp(call->options[OPT_LIST].text, "pids") == 0 ? list_pids : list_pools)(&processes);
    else if (call->options[OPT_JSON].given && (processes.count > 0 || status == EXIT_GOOD))
        processes_json(&processes, json_answer, status);
    else if (!call->options[OPT_JSON].given && (call->count == 0 || processes.count > 0))
        print_words(&processes);
    processes_complain("ps", &processes);
    processes_free(&processes);
    return status;
}

/* Looks until a signal ends it, or nobody reads any more. A pipe gets one block behind another; a terminal shows each where the last one
   was, by one write, so that it does not flicker. */
static int watch(const struct command_call *call)
{
    static char screen[1 << 16];
    const char *kind = variable("TERM");
    bool in_place = isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0;
    double seconds = call->options[OPT_WATCH].text ? call->options[OPT_WATCH].seconds : 2;
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    setvbuf(stdout, screen, _IOFBF, sizeof screen);
    for (int status, looks = 0;; looks++) {
        if (in_place)
            fputs("\033[H\033[J", stdout);
        else if (looks > 0)
            putchar('\n');
        status = look(call);
        /* What could not be written is said at the end of the command. Where a signal is pending already, the wait is none. */
        if (fflush(stdout) || ferror(stdout) || sigtimedwait(&ends, NULL, &pause) > 0)
            return status;
    }
}

static int run(const struct command_call *call)
{
    bool is_json = call->options[OPT_JSON].given;
    if (is_json && (call->options[OPT_LIST].given || call->options[OPT_WATCH].given)) {
        complain("ps: %s and --json go not together; give one of them", call->options[OPT_LIST].given ? "--list" : "--watch");
        return EXIT_TROUBLE;
    }
    return call->options[OPT_WATCH].given ? watch(call) : look(call);
}

const struct command command_ps = {
    .name = "ps",
    .summary = "show the live processes, and what their pools hold",
    .operands = "[PID]...",
    .operands_max = INT_MAX,
    .details =
        "Asks each PID, or without any all processes of this user (as root: of all users) whose policy says control: true. The first\n"
        "table has their pools: RESERVED is what a pool has from the device, LIVE what the program uses of it, CACHED what is kept for\n"
        "its streams, IDLE what nobody uses. The second has their devices: requests that the recovery ladder rescued, in all and by\n"
        "the help of neighbours; how often this process asked neighbours and what it GOT; how often it was asked and what it GAVE;\n"
        "its QUOTA, as far as its environment lets it have less than the device has.\n"
        "Processes of a job are in a third one, with their rank, job and pod as their environment had them at the start.\n"
        "A process with several weirs is shown as PID.1, PID.2 and so on, and may be named so.\n"
        "Exit status: 0 all answered, 1 there is no such process, 2 a process does not answer (this wins over 1).",
    .example = "  weir ps\n"
               "  weir ps --json 4711\n"
               "  weir ps --list pools 4711\n"
               "  weir ps --watch=0.5\n",
    .options = options,
    .run = run,
};
