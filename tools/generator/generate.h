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
/* The tables of the bash completion. */
void generate_completion(void);
/* The tables of the zsh and of the fish completion. */
void generate_zsh(void);
void generate_fish(void);
/* Whether the option has an argument that may be a word of its own. */
bool generate_takes_word(const struct command_option *option);
/* "cuda|sim" as "cuda sim". */
void generate_words(const char *choices, size_t len);
/* Live keys of the scope as words of a shell: 'keeper=' 'keeper=true'. */
void generate_assignments(enum policy_scope scope);

#endif
