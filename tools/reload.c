/* SPDX-License-Identifier: MIT */
/* reload.c - `weir reload`: has a live process read its policy again. */
#include "tools/common/change.h"

static int run(const struct command_call *call)
{
    static const struct wire_message question = {.type = WIRE_RELOAD};
    return change_process("reload", call, &question, "has read its policy again");
}

const struct command command_reload = {
    .name = "reload",
    .summary = "have a live process read its policy again",
    .operands = "PID",
    .operands_min = 1,
    .operands_max = 1,
    .details =
        "Has process PID (as 'weir ps' shows it) read its policy again from the same file or text, and apply all differences, or none if\n"
        "a key differs that is not live, or the policy is bad. This undoes 'weir set'. Run 'weir check' first to find errors in the file.\n"
        "Exit status: 0 reloaded, 1 the process refuses, or there is none, 2 it does not answer, or wrong usage.",
    .example = "  weir reload 4711\n"
               "  weir check policy.yaml && weir reload 4711\n",
    .options = change_options,
    .run = run,
};
