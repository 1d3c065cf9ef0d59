/* SPDX-License-Identifier: MIT */
/* show.c - `weir show`: the policy in force, here or in a live process, each key with its value and where that came from. */
#include "lib/pool/quota.h"
#include "policy/policy.h"
#include "policy/report.h"
#include "tools/common/change.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/json.h"
#include "tools/common/processes.h"
#include "tools/common/source.h"
#include "tools/common/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON, OPT_LIST, OPT_PID, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_LIST] = {.name = "list", .kind = OPTION_FLAG, .help = "print the names of the installed policies, each on a line of its own"},
    [OPT_PID] = {.name = "pid", .kind = OPTION_TEXT, .placeholder = "PID", .help = "print what is in force in this live process"},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

static bool is_builtin(const char *file)
{
    return strcmp(file, "built-in") == 0;
}

/* Why this policy and no other: the first of the places searched that had one. */
static const char *chosen_by(const char *operand, const struct policy *policy)
{
    if (operand)
        return "named on the command line";
    if (variable("WEIR_POLICY"))
        return "named by $WEIR_POLICY";
    if (is_builtin(policy->file))
        return "no policy file was found, and $WEIR_POLICY is not set";
    return "found in the search path";
}

/* A policy that is shown: one that was read here, or what a live process tells of its own. */
struct showing {
    const char *file;
    char *reason; /* why this one */
    const struct policy *policy; /* NULL: a process tells of it */
    const figures *told;
    policy_value_fn add; /* gets each value, on its way into one of these */
    struct table *table;
    struct json *json;
};

/* The value as it is where a quota is set, which caps a pool without a max_size: what weir_open() makes of it. How much memory the device has,
   a share of which it may be, is not known here. */
static void add_in_force(const struct policy_value *value, void *data)
{
    const struct showing *showing = data;
    struct weir__quota quota;
    struct policy_value shown = *value;
    int device;
    const struct policy_pool *pool = weir__quota_pool(showing->policy, value, &device);
    if (pool) {
        weir__quota_read(device, UINT64_MAX, &quota);
        shown = weir__quota_value(&quota, pool, value);
    }
    showing->add(&shown, data);
}

static void each_value(const struct showing *showing)
{
    if (showing->policy)
        policy_each_value(showing->policy, add_in_force, (void *)showing);
    for (size_t i = 0; i < figures_count(showing->told, "values"); i++) {
        const figures *told = figures_at(showing->told, "values", i);
        const char *text = figure_text(told, "value");
        const struct policy_value value = {
            .path = figure_text(told, "key"),
            .text = text ? text : "",
            .file = figure_text(told, "file"),
            .line = (unsigned)figure(told, "line"),
            .column = (unsigned)figure(told, "column"),
            .live = figure_is(told, "live"),
        };
        showing->add(&value, (void *)showing);
    }
}

/* Whether weir_open() would fail with a variable; says so. */
static bool is_quota_refused(void)
{
    struct weir__quota quota;
    weir__quota_read(0, UINT64_MAX, &quota);
    for (size_t i = 0; i < quota.count; i++)
        if (quota.limits[i].is_refused) {
            complain("show: %s is '%s', which %s", quota.limits[i].variable, quota.limits[i].value, quota.limits[i].why);
            return true;
        }
    return false;
}

static bool is_variable(const char *file)
{
    return strspn(file, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(file);
}

static void add_row(const struct policy_value *value, void *data)
{
    struct table *table = ((const struct showing *)data)->table;
    table_row(table, value->path, value->text, value->live ? "live" : "");
    if (!value->file)
        table_cell(table, "default");
    else if (value->line == 0 && is_variable(value->file))
        table_cell(table, "$%s", value->file);
    else if (value->line == 0 || is_builtin(value->file) || strcmp(value->file, POLICY_SET) == 0)
        table_cell(table, "%s", value->file);
    else if (strcmp(value->file, "WEIR_CONF") == 0)
        table_cell(table, "$WEIR_CONF, column %u", value->column);
    else
        table_cell(table, "%s:%u", value->file, value->line);
}

static void add_member(const struct policy_value *value, void *data)
{
    struct json *json = ((const struct showing *)data)->json;
    json_object(json, NULL);
    json_string(json, "key", value->path);
    json_string(json, "value", value->text);
    json_bool(json, "live", value->live);
    json_string(json, "file", value->file);
    if (value->file && value->line) {
        json_uint(json, "line", value->line);
        json_uint(json, "column", value->column);
    }
    json_end(json);
}

static void show_json(struct showing showing)
{
    struct json json = JSON_INIT(stdout);
    showing.json = &json;
    showing.add = add_member;
    json_object(&json, NULL);
    json_string(&json, "policy", showing.file);
    json_string(&json, "chosen", showing.reason);
    json_array(&json, "values");
    each_value(&showing);
    json_end(&json);
    json_end(&json);
}

static void show_text(struct showing showing)
{
    struct table table = TABLE_INIT("llll");
    showing.table = &table;
    showing.add = add_row;
    const char *overrides = showing.policy ? variable("WEIR_CONF") : NULL;
    char *file = must(utf8_plain(is_builtin(showing.file) ? "the built-in default" : showing.file, false));
    printf("Policy: %s (%s)\n", file, showing.reason);
    free(file);
    if (overrides)
        printf("Overrides: WEIR_CONF=%s\n", overrides);
    puts("Keys marked 'live' can change when a running program reads its policy again.\n");
    table_row(&table, "KEY", "VALUE", "LIVE", "FROM");
    each_value(&showing);
    table_print(&table, stdout);
}

static void show(struct showing showing, bool is_json)
{
    (is_json ? show_json : show_text)(showing);
    free(showing.reason);
}

static int show_process(const char *operand, unsigned timeout_ms, bool is_json)
{
    struct processes processes;
    int status = processes_find("show", 1, (char *const *)&operand, timeout_ms, &processes);
    const struct process *process = processes.count == 1 ? &processes.items[0] : NULL;
    if (processes.count > 1) {
        change_complain_of_several("show", operand, &processes);
        status = EXIT_TROUBLE;
    } else if (process && process->status != WEIR_OK) {
        processes_complain("show", &processes);
        status = process_exit(process);
    } else if (process) {
        struct showing showing = {.file = figure_text(process->figures, "policy"), .told = process->figures};
        showing.reason = format_text("in force in process %s, %s", process_name(process, &(struct text){{0}}), process->program);
        show(showing, is_json);
    }
    processes_free(&processes);
    return status;
}

static int show_names(void)
{
    char *names = must(policy_names());
    fputs(names, stdout);
    free(names);
    return EXIT_GOOD;
}

static int show_here(const char *operand, bool is_json)
{
    struct policy *policy;
    char *text;
    int status = source_load(operand, &policy, &text);
    if (status != EXIT_GOOD)
        return status;
    if (is_quota_refused()) {
        status = EXIT_FAILED;
    } else {
        struct showing showing = {.file = policy->file, .reason = format_text("%s", chosen_by(operand, policy)), .policy = policy};
        show(showing, is_json);
    }
    policy_free(policy);
    free(text);
    return status;
}

static int run(const struct command_call *call)
{
    const struct option_value *pid = &call->options[OPT_PID];
    bool is_json = call->options[OPT_JSON].given;
    if (call->options[OPT_LIST].given && (is_json || call->count > 0 || pid->given)) {
        complain("show: --list goes with nothing else; leave it or the rest out");
        return EXIT_TROUBLE;
    }
    if (call->options[OPT_LIST].given)
        return show_names();
    if (pid->given && call->count > 0) {
        complain("show: FILE and --pid exclude each other; give one of them");
        return EXIT_TROUBLE;
    }
    if (pid->given)
        return show_process(pid->text, processes_timeout(&call->options[OPT_TIMEOUT]), is_json);
    return show_here(call->count ? call->operands[0] : NULL, is_json);
}

const struct command command_show = {
    .name = "show",
    .summary = "print the policy in force, and where each value comes from",
    .operands = "[FILE]",
    .operands_max = 1,
    .details =
        "Prints every key of the policy with its value and the place that set it: a line of the file, WEIR_CONF, the default of the key,\n"
        "or of max_size the quota of the process, as WEIR_QUOTA. Without FILE it is the policy that a program would get: $WEIR_POLICY,\n"
        "$XDG_CONFIG_HOME/weir/policy.yaml, /etc/weir/policy.yaml, the built-in default; the first that exists. '-' is standard input. Needs no GPU.\n"
        "With --pid it is the one in force in that process, as 'weir ps' shows it, with all that 'weir set' and reloads changed.\n"
        "Exit status: 0 shown, 1 the policy is bad, or there is no such process, 2 it cannot be read, or the process does not answer.",
    .example = "  weir show\n"
               "  weir show --list\n"
               "  weir show --pid 4711\n"
               "  WEIR_CONF=pools.default.max_size=4GiB weir show policy.yaml\n",
    .options = options,
    .run = run,
};
