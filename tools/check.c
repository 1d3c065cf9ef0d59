/* SPDX-License-Identifier: MIT */
/* check.c - `weir check`: whether policy files are right, and every error if not. */
#include "policy/policy.h"
#include "tools/common/command.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/source.h"
#include "tools/common/terminal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_JSON };

static const struct command_option options[] = {
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document with all files and errors"},
    {0},
};

static void report_good(const char *name, const struct policy *policy)
{
    printf("%s: ", name);
    style_text(stdout, STYLE_GOOD, "ok");
    printf(" (%zu pool%s, %zu stream%s)\n", policy->pool_count, weir__plural(policy->pool_count), policy->stream_count,
           weir__plural(policy->stream_count));
}

static void json_file(struct json *json, const char *name, enum policy_status status, const struct policy *policy, const char *unreadable,
                      const struct policy_errors *errors)
{
    json_object(json, NULL);
    json_string(json, "file", name);
    json_string(json, "status", status == POLICY_OK ? "ok" : status == POLICY_BAD ? "bad" : "unreadable");
    if (status == POLICY_OK) {
        json_uint(json, "pools", policy->pool_count);
        json_uint(json, "streams", policy->stream_count);
    }
    if (unreadable)
        json_string(json, "reason", unreadable);
    source_json_errors(json, errors);
    json_end(json);
}

/* Checks one file; json is NULL for a report in words. Returns its exit status. */
static int check_file(const char *operand, struct json *json)
{
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    char *path = NULL;
    enum policy_status status = policy_path(operand, &errors, &path);
    const char *name = source_name(path ? path : operand);
    const char *unreadable = NULL;
    char *text;
    size_t len;
    int error = status == POLICY_OK ? source_read(path, POLICY_FILE_MAX, &text, &len) : 0;
    if (error) {
        status = POLICY_UNREADABLE;
        unreadable = strerror(error);
    } else if (status == POLICY_OK) {
        /* Without $WEIR_CONF: what is asked is whether the file is right, wherever it will be used. */
        status = policy_parse(text, len, name, NULL, &errors, &policy);
        free(text);
    }
    if (json) {
        json_file(json, name, status, policy, unreadable, &errors);
    } else if (status == POLICY_OK) {
        report_good(name, policy);
    } else if (unreadable) {
        fprintf(stderr, "%s: cannot read the file: %s\n", name, unreadable);
    } else {
        source_print_errors(&errors);
    }
    policy_errors_clear(&errors);
    policy_free(policy);
    free(path);
    return source_exit(status);
}

static int run(const struct command_call *call)
{
    struct json json = JSON_INIT(stdout);
    bool as_json = call->options[OPT_JSON].given;
    int worst = EXIT_GOOD;
    if (as_json) {
        json_object(&json, NULL);
        json_array(&json, "files");
    }
    for (int i = 0; i < call->count; i++)
        worst = worse_exit(worst, check_file(call->operands[i], as_json ? &json : NULL));
    if (as_json) {
        json_end(&json);
        json_uint(&json, "status", (uint64_t)worst);
        json_end(&json);
    }
    return worst;
}

const struct command command_check = {
    .name = "check",
    .summary = "find every error in policy files",
    .operands = "FILE...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .details =
        "Checks each FILE ('-' is standard input) and prints every error as FILE:LINE:COLUMN: KEY: MESSAGE on standard error, and one\n"
        "line on standard output for each good file. Letters, digits and '-' alone are the name of an installed policy. Needs no GPU: what only a device can tell (does it exist, can it reach its peer)\n"
        "shows when the policy is opened, as in 'weir try'. WEIR_CONF is not applied: the file itself is checked.\n"
        "Exit status: 0 all files are good, 1 a policy is bad, 2 a file cannot be read (this wins over 1).",
    .example = "  weir check policy.yaml\n"
               "  weir check inference\n"
               "  weir check --json *.yaml | python3 -m json.tool\n",
    .options = options,
    .run = run,
};
