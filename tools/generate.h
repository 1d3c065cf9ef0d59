/* SPDX-License-Identifier: MIT */
/* generate.h - what tools/generate prints beside what generate.c itself does. Programs of the build, not installed. */
#ifndef WEIR_GENERATE_H
#define WEIR_GENERATE_H

/* On stdout: the tables that come before config/completion.bash in the completion that is installed. */
void generate_completion(void);

#endif
