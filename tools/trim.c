/* SPDX-License-Identifier: MIT */
/* trim.c - `weir trim`: has live processes give memory that they do not use back to the device. */
#include "tools/common/change.h"
#include "tools/common/command.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/processes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { OPT_PID, OPT_ALL, OPT_POOL, OPT_KEEP, OPT_JSON, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_PID] = {.name = "pid", .kind = OPTION_TEXT, .placeholder = "PID", .help = "the same as the operand PID"},
    [OPT_ALL] = {.name = "all", .kind = OPTION_FLAG, .help = "all processes that 'weir ps' shows"},
    [OPT_POOL] = {.name = "pool", .kind = OPTION_TEXT, .placeholder = "POOL", .help = "pools of this name only"},
    [OPT_KEEP] = {"keep", 0, OPTION_TEXT, "SIZE", "leave so much to each pool (default: the policy's keep)", 0, 0},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

static bool read_keep(const char *text, uint64_t *bytes)
{
    if (strcmp(text, "none") == 0) {
        *bytes = 0;
        return true;
    }
    /* The largest number of all stands for something else in the message. */
    return size_read(text, bytes) && *bytes < WIRE_POLICY_KEEP - 1;
}

/* What the command line asks for. false, after a complaint: nothing that can be done. */
static bool read_question(const struct command_call *call, struct wire_message *question)
{
    const struct option_value *pid = &call->options[OPT_PID], *all = &call->options[OPT_ALL];
    const struct option_value *pool = &call->options[OPT_POOL], *keep = &call->options[OPT_KEEP];
    unsigned timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT]);
    bool is_named = pid->given || call->count;
    if (is_named == all->given || (pid->given && call->count)) {
        complain(is_named ? "trim: PID, --pid and --all exclude each other; give one of them"
                          : "trim: which process? Write its PID, as 'weir ps' shows it, or --all for all of them");
        return false;
    }
    /* A quarter of the time is for the way there and back, and for giving what was waited for. */
    uint64_t wait_ms = (uint64_t)timeout_ms * 3 / 4;
    *question = (struct wire_message){.type = WIRE_TRIM, .u.trim.keep = WIRE_POLICY_KEEP};
    question->u.trim.deadline_ms = (uint32_t)(wait_ms < WIRE_GIVE_MAX_MS ? wait_ms : WIRE_GIVE_MAX_MS);
    if (pool->given && (!wire_is_name(pool->text) || strlen(pool->text) >= WIRE_NAME_SIZE)) {
        complain("trim: --pool=%s: this is no name of a pool; 'weir ps' shows them", pool->text);
        return false;
    }
    snprintf(question->u.trim.pool, sizeof question->u.trim.pool, "%s", pool->given ? pool->text : "");
    if (keep->given && !read_keep(keep->text, &question->u.trim.keep)) {
        complain("trim: --keep=%s: write bytes, or a number with a unit, as in 512MiB", keep->text);
        return false;
    }
    return true;
}

/* Where all processes are asked, those that have no such pool are not meant, nor those that ended meanwhile. */
static bool is_not_meant(const struct process *process, const void *data)
{
    (void)data;
    return process->status == WEIR_NOT_FOUND || process->status == WEIR_GONE;
}

static void print_words(const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        struct text name;
        process_name(process, &name);
        if (process->status == WEIR_OK)
            printf("process %s (%s): gave %s in %s\n", name.chars, process->program,
                   SIZE_TEXT(process->gave_bytes), TIME_TEXT(process->gave_us * 1000));
        else
            complain("trim: process %s: %s", name.chars, process->reason);
    }
}

static void print_json(const struct processes *processes, int status)
{
    struct json json = JSON_INIT(stdout);
    uint64_t sum = 0;
    json_object(&json, NULL);
    json_array(&json, "processes");
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        process_json(&json, process);
        if (process->status == WEIR_OK) {
            json_uint(&json, "gave_bytes", process->gave_bytes);
            json_uint(&json, "gave_us", process->gave_us);
            sum += process->gave_bytes;
        }
        json_end(&json);
    }
    json_end(&json);
    json_uint(&json, "gave_bytes", sum);
    json_uint(&json, "status", (uint64_t)status);
    json_end(&json);
}

/* All weirs of a process are meant; but elsewhere those of one number may be of several processes. */
static int find(const struct command_call *call, unsigned timeout_ms, struct processes *processes)
{
    char *pid = (char *)call->options[OPT_PID].text;
    int count = pid ? 1 : call->count, status = processes_find("trim", count, pid ? &pid : call->operands, timeout_ms, processes);
    for (size_t i = 0; i < processes->count && count == 1; i++) {
        if (!processes->items[i].is_elsewhere || processes->count == 1)
            continue;
        change_complain_of_several("trim", pid ? pid : call->operands[0], processes);
        processes_free(processes);
        return EXIT_TROUBLE;
    }
    return status;
}

static int run(const struct command_call *call)
{
    unsigned timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT]);
    const struct option_value *pool = &call->options[OPT_POOL];
    bool is_json = call->options[OPT_JSON].given, is_all = call->options[OPT_ALL].given;
    struct wire_message question;
    struct processes processes;
    if (!read_question(call, &question))
        return EXIT_TROUBLE;
    int status = find(call, timeout_ms, &processes);
    size_t asked = processes.count;
    processes_send(&processes, &question, timeout_ms);
    if (is_all)
        processes_drop(&processes, is_not_meant, NULL);
    for (size_t i = 0; i < processes.count; i++)
        status = worse_exit(status, process_exit(&processes.items[i]));
    if (asked > 0 && processes.count == 0 && pool->given) {
        complain("trim: no process has a pool '%s'; 'weir ps' shows which there are", pool->text);
        status = EXIT_FAILED;
    }
    /* Where no process is meant the reasons are the document. */
    if (is_json && (processes.count > 0 || status == EXIT_GOOD))
        print_json(&processes, status);
    else if (!is_json)
        print_words(&processes);
    if (!is_json && asked == 0 && is_all)
        puts("No process can be asked here: 'weir ps' would show none.");
    processes_free(&processes);
    return status;
}

const struct command command_trim = {
    .name = "trim",
    .summary = "have live processes give unused memory back to the device",
    .operands = "[PID]...",
    .operands_max = INT_MAX,
    .details =
        "Each process PID, as 'weir ps' shows it, or with --all every one, returns what its caches hold, waits for frees that are pending,\n"
        "for three quarters of the time-out at most, and gives the idle memory of its pools back to the device, but for what the policy's\n"
        "keep says, or --keep. What the programs use is not touched; what they need again they have to take from the device again. Shared\n"
        "pools, and pools whose stream captures a graph, are left alone.\n"
        "Exit status: 0 trimmed, 1 there is no such process or pool, 2 a process does not answer, or wrong usage.",
    .example = "  weir trim 4711\n"
               "  weir trim --all --pool=main --keep=512MiB\n",
    .options = options,
    .run = run,
};
