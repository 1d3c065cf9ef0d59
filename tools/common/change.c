/* SPDX-License-Identifier: MIT */
#include "tools/common/change.h"
#include "tools/common/environment.h"
#include "tools/common/json.h"
#include "tools/common/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command_option change_options[] = {
    [CHANGE_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [CHANGE_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

void change_complain_of_several(const char *subcommand, const char *operand, const struct processes *processes)
{
    char *names = must(strdup(""));
    for (size_t i = 0; i < processes->count; i++) {
        const struct process *process = &processes->items[i];
        /* In different PID namespaces even these may be the same. */
        char *more = format_text("%s\n  %d.%u%s, or %s: %s", names, process->pid, process->number, process->is_elsewhere ? "*" : "",
                                 process->socket,
                                 process->status == WEIR_OK ? figure_text(process->figures, "policy") : "it does not answer");
        free(names);
        names = more;
    }
    complain("%s: process %s has several weirs: name one of%s", subcommand, operand, names);
    free(names);
}

int change_process(const char *subcommand, const struct command_call *call, const struct wire_message *question, const char *done)
{
    unsigned timeout_ms = processes_timeout(&call->options[CHANGE_TIMEOUT]);
    bool is_json = call->options[CHANGE_JSON].given;
    struct processes processes;
    int status = processes_find(subcommand, 1, call->operands, timeout_ms, &processes);
    if (processes.count > 1) {
        change_complain_of_several(subcommand, call->operands[0], &processes);
        status = EXIT_TROUBLE;
    } else if (processes.count == 1) {
        processes_send(&processes, question, timeout_ms);
        processes_complain(subcommand, &processes);
        status = process_exit(&processes.items[0]);
    }
    const struct process *one = processes.count == 1 ? &processes.items[0] : NULL;
    if (is_json && one)
        processes_json(&processes, NULL, NULL, status, false);
    else if (one && status == EXIT_GOOD)
        printf("process %s (%s): %s\n", process_name(one, &(struct text){{0}}), one->program, done);
    processes_free(&processes);
    return status;
}
