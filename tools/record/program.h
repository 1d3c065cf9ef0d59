/* SPDX-License-Identifier: MIT */
/* program.h - which program a command is, and why the loader would not audit it. No state. */
#ifndef WEIR_RECORD_PROGRAM_H
#define WEIR_RECORD_PROGRAM_H

#include <stdbool.h>

/* Whether LD_AUDIT works in it, as far as its file tells; scripts are followed to their interpreter. false after a complaint. What cannot be
   found is left to who runs it. */
bool record_program_is_fit(const char *command);

#endif
