/* SPDX-License-Identifier: MIT */
/* change.h - how `weir set` and `weir reload` change one live process. */
#ifndef WEIR_CHANGE_H
#define WEIR_CHANGE_H

#include "share/wire/wire.h"
#include "tools/common/command.h"
#include "tools/common/processes.h"

/* The options of both, in this order. */
enum { CHANGE_JSON, CHANGE_TIMEOUT };
extern const struct command_option change_options[];

/* Says which weirs the operand may mean: all of the list. */
void change_complain_of_several(const char *subcommand, const char *operand, const struct processes *processes);

/* Finds the one weir that the first operand means, sends it the question and prints what became of it; `done` says what was done. Returns
   the exit status: EXIT_FAILED too if the process denies it. */
int change_process(const char *subcommand, const struct command_call *call, const struct wire_message *question, const char *done);

#endif
