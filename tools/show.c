/* SPDX-License-Identifier: MIT */
/* show.c - `weir show`: the policy in force, each key with its value and where that came from. */
#include "lib/pool/quota.h"
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

/* What each value goes through on its way out. */
struct showing {
    const struct policy *policy;
    struct table *table;
    struct json *json;
};

/* The pool whose max_size this is, without one of its own; else NULL. */
static const struct policy_pool *uncapped_pool(const struct policy *policy, const struct policy_value *value)
{
    static const char before[] = "pools.", behind[] = ".max_size";
    for (size_t i = 0; i < policy->pool_count && !value->file; i++) {
        const char *name = policy->pools[i].name;
        size_t len = strlen(name);
        if (strncmp(value->path, before, sizeof before - 1) == 0 && strncmp(value->path + sizeof before - 1, name, len) == 0 &&
            strcmp(value->path + sizeof before - 1 + len, behind) == 0)
            return &policy->pools[i];
    }
    return NULL;
}

/* The value as it is where a quota is set, which caps a pool without a max_size: what weir_open() makes of it. How much memory the device has,
   a share of which it may be, is not known here; `quota` is what the new value is of. */
static struct policy_value in_force(const struct policy *policy, const struct policy_value *value, struct weir__quota *quota)
{
    struct policy_value shown = *value;
    const struct policy_pool *pool = uncapped_pool(policy, value);
    if (!pool)
        return shown;
    int device = pool->devices.count && pool->devices.items[0].index > 0 ? pool->devices.items[0].index : 0;
    weir__quota_read(device, UINT64_MAX, quota);
    if (quota->counts >= 0 && weir__quota_cap(quota, pool)) {
        shown.text = quota->limits[quota->counts].value;
        shown.file = quota->limits[quota->counts].variable;
        shown.line = shown.column = 0;
    }
    return shown;
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

static void add_row(const struct policy_value *given, void *data)
{
    struct showing *showing = data;
    struct table *table = showing->table;
    struct weir__quota quota;
    const struct policy_value shown = in_force(showing->policy, given, &quota), *value = &shown;
    table_row(table, value->path, value->text, value->live ? "live" : "");
    if (!value->file)
        table_cell(table, "default");
    else if (value->line == 0 && is_variable(value->file))
        table_cell(table, "$%s", value->file);
    else if (value->line == 0 || is_builtin(value->file))
        table_cell(table, "%s", value->file);
    else if (strcmp(value->file, "WEIR_CONF") == 0)
        table_cell(table, "$WEIR_CONF, column %u", value->column);
    else
        table_cell(table, "%s:%u", value->file, value->line);
}

static void add_member(const struct policy_value *given, void *data)
{
    struct showing *showing = data;
    struct json *json = showing->json;
    struct weir__quota quota;
    const struct policy_value shown = in_force(showing->policy, given, &quota), *value = &shown;
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
    policy_each_value(policy, add_member, &(struct showing){.policy = policy, .json = &json});
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
    policy_each_value(policy, add_row, &(struct showing){.policy = policy, .table = &table});
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
    if (is_quota_refused()) {
        policy_free(policy);
        free(text);
        return EXIT_FAILED;
    }
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
        "Prints every key of the policy with its value and the place that set it: a line of the file, WEIR_CONF, the default of the key,\n"
        "or of max_size the quota of the process, as WEIR_QUOTA. Without FILE it is the policy that a program would get: $WEIR_POLICY,\n"
        "$XDG_CONFIG_HOME/weir/policy.yaml, /etc/weir/policy.yaml, the built-in default; the first that exists. '-' is standard input. Needs no GPU.\n"
        "Exit status: 0 shown, 1 the policy is bad, 2 it cannot be read.",
    .example = "  weir show\n"
               "  weir show --list\n"
               "  WEIR_CONF=pools.default.max_size=4GiB weir show policy.yaml\n",
    .options = options,
    .run = run,
};
