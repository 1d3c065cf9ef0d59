/* SPDX-License-Identifier: MIT */
/* generate.h - what `generate` prints on stdout, from the tables of keys and of subcommands. */
#ifndef WEIR_GENERATE_H
#define WEIR_GENERATE_H

#include <stdbool.h>

#include "policy/keys.h"
#include "tools/common/command.h"

/* The JSON schema that editors use. */
void generate_schema(void);
/* The KEYS section of weir-policy(5). */
void generate_man(void);
/* The same keys as doc/policy.md. */
void generate_markdown(void);
/* The table that the completions of the shells read. */
void generate_completion(void);

#endif
