/* SPDX-License-Identifier: MIT */
/* show.c - `weir show`: the policy in force, each key with its value and where that came from. */
#include "policy/policy.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/json.h"
#include "tools/common/source.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON, OPT_LIST };

static const struct command_option options[] = {
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_LIST] = {.name = "list", .kind = OPTION_FLAG, .help = "print the names of the installed policies, each on a line of its own"},
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

static void add_row(const struct policy_value *value, void *data)
{
    struct table *table = data;
    table_row(table, value->path, value->text, value->live ? "live" : "");
    if (!value->file)
        table_cell(table, "default");
    else if (value->line == 0 || is_builtin(value->file))
        table_cell(table, "%s", value->file);
    else if (strcmp(value->file, "WEIR_CONF") == 0)
        table_cell(table, "$WEIR_CONF, column %u", value->column);
    else
        table_cell(table, "%s:%u", value->file, value->line);
}

static void add_member(const struct policy_value *value, void *data)
{
    struct json *json = data;
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

static void show_json(const struct policy *policy, const char *reason)
{
    struct json json = JSON_INIT(stdout);
    json_object(&json, NULL);
    json_string(&json, "policy", policy->file);
    json_string(&json, "chosen", reason);
    json_array(&json, "values");
    policy_each_value(policy, add_member, &json);
    json_end(&json);
    json_end(&json);
}

static void show_text(const struct policy *policy, const char *reason)
{
    const char *overrides = variable("WEIR_CONF");
    printf("Policy: %s (%s)\n", is_builtin(policy->file) ? "the built-in default" : policy->file, reason);
    if (overrides)
        printf("Overrides: WEIR_CONF=%s\n", overrides);
    puts("Keys marked 'live' can change when a running program reads its policy again.\n");
    struct table table = TABLE_INIT("llll");
    table_row(&table, "KEY", "VALUE", "LIVE", "FROM");
    policy_each_value(policy, add_row, &table);
    table_print(&table, stdout);
}

static int show_names(void)
{
    char *names = must(policy_names());
    fputs(names, stdout);
    free(names);
    return EXIT_GOOD;
}

static int run(const struct command_call *call)
{
    if (call->options[OPT_LIST].given && (call->options[OPT_JSON].given || call->count > 0)) {
        complain("show: --list goes with nothing else; leave it or the rest out");
        return EXIT_TROUBLE;
    }
    if (call->options[OPT_LIST].given)
        return show_names();
    const char *operand = call->count ? call->operands[0] : NULL;
    struct policy *policy;
    char *text;
    int status = source_load(operand, &policy, &text);
    if (status != EXIT_GOOD)
        return status;
    const char *reason = chosen_by(operand, policy);
    if (call->options[OPT_JSON].given)
        show_json(policy, reason);
    else
        show_text(policy, reason);
    policy_free(policy);
    free(text);
    return EXIT_GOOD;
}

const struct command command_show = {
    .name = "show",
    .summary = "print the policy in force, and where each value comes from",
    .operands = "[FILE]",
    .operands_max = 1,
    .details =
        "Prints every key of the policy with its value and the place that set it: a line of the file, WEIR_CONF, or the default of the\n"
        "key. Without FILE it is the policy that a program would get: $WEIR_POLICY, $XDG_CONFIG_HOME/weir/policy.yaml,\n"
        "/etc/weir/policy.yaml, the built-in default; the first that exists. '-' is standard input. Needs no GPU.\n"
        "Exit status: 0 shown, 1 the policy is bad, 2 it cannot be read.",
    .example = "  weir show\n"
               "  weir show --list\n"
               "  WEIR_CONF=pools.default.max_size=4GiB weir show policy.yaml\n",
    .options = options,
    .run = run,
};
