/* SPDX-License-Identifier: MIT */
/* sleep.c - `weir sleep` and `weir wake`: have live processes give up the memory of pools that they have yielded, or take it back. */
#include "tools/common/command.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/processes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { OPT_POOL, OPT_JSON, OPT_TIMEOUT };
#define PATIENCE_MS 60000 /* contents of many GiB may have to be copied */

static const struct command_option options[] = {
    [OPT_POOL] = {.name = "pool", .kind = OPTION_TEXT, .placeholder = "POOL", .help = "pools of this name only"},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_TIMEOUT] = {"timeout", 0, OPTION_SECONDS, "SECONDS", "how long to wait for the processes (default: 60)", 0.01, 3600},
    {0},
};

/* What decides whether a weir is meant. */
struct meant {
    const struct command_call *call;
    const struct processes *answers;
};

/* Where an operand means a process with several weirs, those that have yielded nothing are passed over if another one has. */
static bool is_not_meant(const struct process *process, const void *data)
{
    const struct meant *meant = data;
    const char *name = process_name(process, &(struct text){{0}});
    bool has_other = false, is_named = false; /* processes_drop() moves answers that stay, and does not lose them meanwhile */
    for (size_t i = 0; i < meant->answers->count; i++) {
        const struct process *other = &meant->answers->items[i];
        has_other = has_other || (other->status == WEIR_OK && other->pid == process->pid && other->is_elsewhere == process->is_elsewhere);
    }
    for (int i = 0; i < meant->call->count; i++)
        is_named = is_named || strcmp(meant->call->operands[i], name) == 0 || strcmp(meant->call->operands[i], process->socket) == 0;
    return process->status == WEIR_NOT_FOUND && has_other && !is_named;
}

static void add_gift(struct json *json, const struct process *process)
{
    if (process->status != WEIR_OK)
        return;
    json_uint(json, "gave_bytes", process->gave_bytes);
    json_uint(json, "gave_us", process->gave_us);
}

static int change(const char *subcommand, enum wire_type type, const struct command_call *call)
{
    const struct option_value *pool = &call->options[OPT_POOL], *timeout = &call->options[OPT_TIMEOUT];
    unsigned timeout_ms = timeout->given ? processes_timeout(timeout) : PATIENCE_MS;
    bool is_json = call->options[OPT_JSON].given;
    uint64_t wait_ms = (uint64_t)timeout_ms * 3 / 4; /* the rest is for copying, and the way there and back */
    struct wire_message question = {.type = type};
    struct processes processes;
    question.u.sleep.deadline_ms = (uint32_t)(wait_ms < WIRE_GIVE_MAX_MS ? wait_ms : WIRE_GIVE_MAX_MS);
    if (pool->given && (!wire_is_name(pool->text) || strlen(pool->text) >= WIRE_NAME_SIZE)) {
        complain("%s: --pool=%s: this is no name of a pool; 'weir ps' shows them", subcommand, pool->text);
        return EXIT_TROUBLE;
    }
    snprintf(question.u.sleep.pool, sizeof question.u.sleep.pool, "%s", pool->given ? pool->text : "");
    int status = processes_find(subcommand, call->count, call->operands, timeout_ms, &processes);
    processes_send(&processes, &question, timeout_ms);
    processes_drop(&processes, is_not_meant, &(struct meant){.call = call, .answers = &processes});
    for (size_t i = 0; i < processes.count; i++) {
        const struct process *process = &processes.items[i];
        const char *name = process_name(process, &(struct text){{0}});
        status = worse_exit(status, process_exit(process));
        if (process->status == WEIR_OK && !is_json && type == WIRE_SLEEP)
            printf("process %s (%s): gave %s in %s\n", name, process->program, SIZE_TEXT(process->gave_bytes), TIME_TEXT(process->gave_us * 1000));
        else if (process->status == WEIR_OK && !is_json)
            printf("process %s (%s): has its memory again\n", name, process->program);
    }
    processes_complain(subcommand, &processes);
    if (is_json && processes.count > 0)
        processes_json(&processes, type == WIRE_SLEEP ? add_gift : NULL, NULL, status, false);
    processes_free(&processes);
    return status;
}

static int run_sleep(const struct command_call *call)
{
    return change("sleep", WIRE_SLEEP, call);
}

const struct command command_sleep = {
    .name = "sleep",
    .summary = "have live processes give up the memory of pools that they have yielded",
    .operands = "PID...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .details =
        "Each process PID, as 'weir ps' shows it, puts the pools to sleep that its program has yielded (weir_pool_yield(), or\n"
        "weir.torch.yielded() in Python): their contents go to the host or are given up, as the program said, and their memory goes back to\n"
        "the device. Pools in use cannot sleep, as work may run on their memory. Its program wakes a pool as ever.\n"
        "Exit status: 0 asleep, 1 nothing is yielded, a process refuses, or there is none, 2 one does not answer, or wrong usage.",
    .example = "  weir sleep 4711\n"
               "  weir sleep 4711 --pool=weights\n",
    .options = options,
    .run = run_sleep,
};

static int run_wake(const struct command_call *call)
{
    return change("wake", WIRE_WAKE, call);
}

const struct command command_wake = {
    .name = "wake",
    .summary = "give live processes the memory of yielded pools back",
    .operands = "PID...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .details =
        "Each process PID takes the memory back of the pools that 'weir sleep' or a neighbour had put to sleep, if the device has so much\n"
        "free. The pools stay yielded: the program's own wake then takes no time, and until then somebody may take the memory again.\n"
        "Pools that the program has put to sleep itself are its own to wake.\n"
        "Exit status: 0 awake, 1 nothing is yielded, a process refuses, or there is none, 2 one does not answer, or wrong usage.",
    .example = "  weir wake 4711\n"
               "  weir trim --all && weir wake 4711 --pool=weights\n",
    .options = options,
    .run = run_wake,
};
