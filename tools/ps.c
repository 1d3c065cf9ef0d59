/* SPDX-License-Identifier: MIT */
/* ps.c - `weir ps`: the live processes with pools, what these hold, and who helped whom. */
#include "tools/command.h"
#include "tools/format.h"
#include "tools/json.h"
#include "tools/processes.h"
#include "tools/table.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON, OPT_LIST, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_LIST] = {.name = "list",
                  .kind = OPTION_TEXT,
                  .placeholder = "pids|pools",
                  .choices = "pids|pools",
                  .help = "print only these, each on a line of its own"},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

static uint64_t rescues_of(const process_device *device)
{
    uint64_t sum = 0;
    for (unsigned rung = 0; rung < WIRE_RUNGS; rung++)
        sum += device->rescues[rung];
    return sum;
}

/* In words ----------------------------------------------------------------------------------------------------------------------------- */

static void add_pool(struct table *table, const process_pool *pool)
{
    table_cell(table, "%u", (unsigned)pool->device);
    table_cell(table, "%s%s", pool->name, pool->flags & WIRE_POOL_PRIVATE ? " (private)" : "");
    table_cell(table, "%s", SIZE_TEXT(pool->reserved));
    table_cell(table, "%s", SIZE_TEXT(pool->live));
    table_cell(table, "%s", SIZE_TEXT(pool->cached));
    table_cell(table, "%s", SIZE_TEXT(pool->idle));
}

/* The process is named in the first of its rows, so that the eye finds where the next one begins. */
static void add_pools(struct table *table, const struct process *process)
{
    for (size_t i = 0; i < process->pool_count || i == 0; i++) {
        struct text user, age, name;
        table_cell(table, "%s", i ? "" : process_name(process, &name));
        table_cell(table, "%s", i ? "" : process_user(process->uid, &user));
        table_cell(table, "%s", i ? "" : process->program[0] ? process->program : "-");
        table_cell(table, "%s", i ? "" : process_age(process->age_ms, &age));
        if (i < process->pool_count)
            add_pool(table, &process->pools[i]);
        else
            for (int cell = 0; cell < 6; cell++)
                table_cell(table, "-");
    }
}

static void print_pools(const struct processes *processes)
{
    static const char *const headings[] = {"PID", "USER", "PROGRAM", "AGE", "DEVICE", "POOL", "RESERVED", "LIVE", "CACHED", "IDLE"};
    struct table table = TABLE_INIT("lllrllrrrr");
    for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
        table_cell(&table, "%s", headings[i]);
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].status == WEIR_OK)
            add_pools(&table, &processes->items[i]);
    table_print(&table, stdout);
}

static void add_device(struct table *table, const process_device *device)
{
    /* As much of the UUID as tells the GPUs of a machine apart: an index is the process's own. */
    table_cell(table, "%u", (unsigned)device->index);
    table_cell(table, "%.12s", device->uuid);
    table_cell(table, "%s", SIZE_TEXT(device->memory_free));
    table_cell(table, "%s", COUNT_TEXT(rescues_of(device)));
    table_cell(table, "%s", COUNT_TEXT(device->rescues[WEIR_RUNG_NEIGHBOURS]));
    table_cell(table, "%s", COUNT_TEXT(device->asks_sent));
    table_cell(table, "%s", SIZE_TEXT(device->bytes_got));
    table_cell(table, "%s", COUNT_TEXT(device->asks_received));
    table_cell(table, "%s", SIZE_TEXT(device->bytes_given));
}

static void print_devices(const struct processes *processes)
{
    static const char *const headings[] = {"PID", "DEVICE", "GPU", "FREE", "RESCUES", "BY NEIGHBOURS", "ASKED", "GOT", "WAS ASKED", "GAVE"};
    struct table table = TABLE_INIT("lllrrrrrrr");
    for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
        table_cell(&table, "%s", headings[i]);
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        for (size_t j = 0; j < process->device_count; j++) {
            struct text name;
            table_cell(&table, "%s", j ? "" : process_name(process, &name));
            add_device(&table, &process->devices[j]);
        }
    }
    table_print(&table, stdout);
}

static void print_words(const struct processes *processes)
{
    bool has_answer = false, has_stranger = false;
    for (size_t i = 0; i < processes->count; i++) {
        has_answer = has_answer || processes->items[i].status == WEIR_OK;
        has_stranger = has_stranger || processes->items[i].is_elsewhere;
    }
    const char *directory = getenv("WEIR_CONTROL_DIR");
    if (processes->count == 0)
        puts("No process can be seen here: programs of this user that Weir serves are, once their policy says control: true.");
    if (processes->count == 0 && directory && directory[0] == '/')
        printf("WEIR_CONTROL_DIR is set, so that only those are looked for that have the same, %s.\n", directory);
    if (!has_answer)
        return;
    print_pools(processes);
    putchar('\n');
    print_devices(processes);
    if (has_stranger)
        puts("\n* in another PID namespace, and this its number there");
}

/* As a list ---------------------------------------------------------------------------------------------------------------------------- */

static void list_pids(const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        puts(process_name(&processes->items[i], &(struct text){{0}}));
}

static bool has_pool(const struct process *process, size_t pools, const char *name)
{
    for (size_t i = 0; i < pools; i++)
        if (strcmp(process->pools[i].name, name) == 0)
            return true;
    return false;
}

/* Each name once, however many pools have it. */
static void list_pools(const struct processes *processes)
{
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        for (size_t j = 0; j < process->pool_count; j++) {
            bool is_known = has_pool(process, j, process->pools[j].name);
            for (size_t k = 0; k < i && !is_known; k++)
                is_known = has_pool(&processes->items[k], processes->items[k].pool_count, process->pools[j].name);
            if (!is_known)
                puts(process->pools[j].name);
        }
    }
}

/* As JSON ------------------------------------------------------------------------------------------------------------------------------ */

static void json_device(struct json *json, const process_device *device)
{
    json_object(json, NULL);
    json_uint(json, "index", device->index);
    json_string(json, "uuid", device->uuid);
    json_uint(json, "memory", device->memory);
    json_uint(json, "memory_free", device->memory_free);
    json_uint(json, "recoveries", device->recoveries);
    json_object(json, "rescues");
    for (unsigned rung = 0; rung < WIRE_RUNGS; rung++)
        json_uint(json, weir_rung_name((weir_rung)rung), device->rescues[rung]);
    json_end(json);
    json_uint(json, "asks_sent", device->asks_sent);
    json_uint(json, "bytes_got", device->bytes_got);
    json_uint(json, "asks_received", device->asks_received);
    json_uint(json, "bytes_given", device->bytes_given);
    json_end(json);
}

static void json_pool(struct json *json, const process_pool *pool)
{
    json_object(json, NULL);
    json_uint(json, "device", pool->device);
    json_string(json, "name", pool->name);
    json_bool(json, "is_private", pool->flags & WIRE_POOL_PRIVATE);
    json_bool(json, "is_exportable", pool->flags & WIRE_POOL_EXPORTABLE);
    json_uint(json, "live", pool->live);
    json_uint(json, "cached", pool->cached);
    json_uint(json, "slack", pool->slack);
    json_uint(json, "idle", pool->idle);
    json_uint(json, "reserved", pool->reserved);
    json_uint(json, "live_high", pool->live_high);
    json_uint(json, "reserved_high", pool->reserved_high);
    json_uint(json, "max_size", pool->max_size);
    json_uint(json, "release_threshold", pool->release_threshold);
    json_uint(json, "keep", pool->keep);
    json_uint(json, "live_blocks", pool->live_blocks);
    json_uint(json, "graph_blocks", pool->graph_blocks);
    json_uint(json, "mallocs", pool->mallocs);
    json_uint(json, "frees", pool->frees);
    json_uint(json, "failures", pool->failures);
    json_uint(json, "cache_hits", pool->cache_hits);
    json_end(json);
}

static void json_answer(struct json *json, const struct process *process)
{
    process_json(json, process);
    if (process->status == WEIR_OK) {
        struct text user;
        json_uint(json, "uid", process->uid);
        json_string(json, "user", process_user(process->uid, &user));
        json_string(json, "version", process->version);
        json_string(json, "policy", process->policy);
        json_uint(json, "age_ms", process->age_ms);
        json_array(json, "devices");
        for (size_t i = 0; i < process->device_count; i++)
            json_device(json, &process->devices[i]);
        json_end(json);
        json_array(json, "pools");
        for (size_t i = 0; i < process->pool_count; i++)
            json_pool(json, &process->pools[i]);
        json_end(json);
    }
    json_end(json);
}

static void print_json(const struct processes *processes, int status)
{
    struct json json = JSON_INIT(stdout);
    json_object(&json, NULL);
    json_array(&json, "processes");
    for (size_t i = 0; i < processes->count; i++)
        json_answer(&json, &processes->items[i]);
    json_end(&json);
    json_uint(&json, "status", (uint64_t)status);
    json_end(&json);
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static int run(const struct command_call *call)
{
    struct processes processes;
    if (call->options[OPT_LIST].given && call->options[OPT_JSON].given) {
        complain("ps: --list and --json go not together; give one of them");
        return EXIT_TROUBLE;
    }
    int status = processes_find("ps", call->count, call->operands, processes_timeout(&call->options[OPT_TIMEOUT]), &processes);
    if (processes_exit(&processes) > status)
        status = processes_exit(&processes);
    if (call->options[OPT_LIST].given)
        (strcmp(call->options[OPT_LIST].text, "pids") == 0 ? list_pids : list_pools)(&processes);
    else if (call->options[OPT_JSON].given)
        print_json(&processes, status);
    else if (call->count == 0 || processes.count > 0)
        print_words(&processes);
    processes_complain("ps", &processes);
    processes_free(&processes);
    return status;
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
        "the help of neighbours; how often this process asked neighbours and what it GOT; how often it was asked and what it GAVE.\n"
        "A process with several weirs is shown as PID.1, PID.2 and so on, and may be named so.\n"
        "Exit status: 0 all answered, 1 there is no such process, 2 a process does not answer (this wins over 1).",
    .example = "  weir ps\n"
               "  weir ps --json 4711\n"
               "  weir ps --list pools 4711\n",
    .options = options,
    .run = run,
};
