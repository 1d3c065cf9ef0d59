/* SPDX-License-Identifier: MIT */
/* set.c - `weir set` and `weir reload`: change live keys of the policy of a live process, or have it read its policy again. */
#include "tools/common/change.h"

#include <limits.h>
#include <stdio.h>

/* Joins the assignments as $WEIR_CONF has them. false, after a complaint: they do not fit into one message. */
static bool join(const struct command_call *call, char text[WIRE_TEXT_SIZE])
{
    size_t len = 0;
    for (int i = 1; i < call->count; i++) {
        int added = snprintf(text + len, WIRE_TEXT_SIZE - len, "%s%s", i > 1 ? "," : "", call->operands[i]);
        len += added < 0 ? WIRE_TEXT_SIZE : (size_t)added;
        if (len >= WIRE_TEXT_SIZE) {
            complain(
                "set: all assignments together are longer than %d characters: set some of them first, or write them into the policy and "
                "use 'weir reload'",
                WIRE_TEXT_SIZE - 1);
            return false;
        }
    }
    if (!text[0]) {
        complain("set: an empty text is no assignment: write KEY=VALUE, as in pools.main.keep=1GiB");
        return false;
    }
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            complain("set: an assignment has a control character: write KEY=VALUE, as in pools.main.keep=1GiB");
            return false;
        }
    return true;
}

static int run(const struct command_call *call)
{
    struct wire_message question = {.type = WIRE_SET};
    if (!join(call, question.u.set.text))
        return EXIT_TROUBLE;
    return change_process("set", call, &question, question.u.set.text);
}

const struct command command_set = {
    .name = "set",
    .summary = "change live keys of the policy of a live process",
    .operands = "PID KEY=VALUE...",
    .operands_min = 2,
    .operands_max = INT_MAX,
    .details =
        "Changes live keys in the policy of process PID (as 'weir ps' shows it), all of them or none. 'weir show' marks the live keys.\n"
        "Values are written as in a policy, and hold until they are set again, or the process reads its policy again.\n"
        "Exit status: 0 set, 1 the process refuses, or there is none, 2 it does not answer, or wrong usage.",
    .example = "  weir set 4711 pools.main.release_threshold=1GiB\n"
               "  weir set 4711 pools.main.keep=512MiB keeper=true\n",
    .options = change_options,
    .run = run,
};

static int run_reload(const struct command_call *call)
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
    .run = run_reload,
};
