/* SPDX-License-Identifier: MIT */
/* completion.c - `generate completion`: the tables of the bash completion, from the table of subcommands and that of keys. */
#include "tools/generator/generate.h"

#include <stdio.h>

#include "policy/keys.h"
#include "tools/common/command.h"

/* A word that may stand for a value. */
static void value(const char *word, bool *has_others)
{
    printf("%s%s", *has_others ? " " : "", word);
    *has_others = true;
}

/* All words that may stand for the value of a key; a key that takes numbers or names alone has none. */
static void key_values(const struct policy_key *key)
{
    static const struct {
        unsigned accepts;
        const char *word;
    } words[] = {{POLICY_ACCEPTS_NONE, "none"}, {POLICY_ACCEPTS_ALL, "all"}, {POLICY_ACCEPTS_NEVER, "never"}, {POLICY_ACCEPTS_AUTO, "auto"},
                 {POLICY_ACCEPTS_QUOTA, "quota"}};
    bool has_others = false;
    if (key->type == POLICY_TYPE_BOOL || key->type == POLICY_TYPE_SWITCH) {
        value(key->type == POLICY_TYPE_BOOL ? "true" : "on", &has_others);
        value(key->type == POLICY_TYPE_BOOL ? "false" : "off", &has_others);
    }
    for (size_t i = 0; key->words && key->words[i]; i++)
        value(key->words[i], &has_others);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (key->accepts & words[i].accepts)
            value(words[i].word, &has_others);
}

/* Each live key of the scope with the values that are words: [key]='word word'. */
static void live_keys(const char *table, enum policy_scope scope)
{
    size_t count;
    const struct policy_key *keys = policy_keys(scope, &count);
    printf("declare -gA %s=(\n", table);
    for (size_t i = 0; i < count; i++) {
        if (!keys[i].live)
            continue;
        printf("    [%s]='", keys[i].name);
        key_values(&keys[i]);
        puts("'");
    }
    puts(")");
}

/* What may stand as the argument of an option: its choices, or else the word that stands for it in the help. */
static void option_argument(const struct command_option *option)
{
    for (const char *at = option->placeholder; *at; at++)
        putchar(*at == '|' ? ' ' : *at);
}

static void command_options(const struct command *command)
{
    printf("    [%s]='", command->name);
    for (const struct command_option *option = command->options; option->name; option++) {
        if (option->letter)
            printf("-%c ", option->letter);
        printf("--%s%s ", option->name, option->kind == OPTION_FLAG || option->kind == OPTION_MAYBE_SECONDS ? "" : "=");
    }
    puts("--color= -h --help'");
}

static void command_arguments(const struct command *command)
{
    for (const struct command_option *option = command->options; option->name; option++) {
        if (option->kind == OPTION_FLAG || option->kind == OPTION_MAYBE_SECONDS)
            continue;
        printf("    [%s --%s]='", command->name, option->name);
        option_argument(option);
        puts("'");
        if (option->letter) {
            printf("    [%s -%c]='", command->name, option->letter);
            option_argument(option);
            puts("'");
        }
    }
    printf("    [%s --color]='auto never always'\n", command->name);
}

void generate_completion(void)
{
    puts("# shellcheck shell=bash\n"
         "# SPDX-License-Identifier: MIT\n"
         "# Completion of weir(1) for bash 4.2 and later. The tables are made from the subcommands and keys of the program.\n");
    puts("declare -gA _weir_options=(");
    for (const struct command *const *at = commands; *at; at++)
        command_options(*at);
    puts(")\ndeclare -gA _weir_arguments=(");
    for (const struct command *const *at = commands; *at; at++)
        command_arguments(*at);
    puts(")\ndeclare -gA _weir_operands=(");
    for (const struct command *const *at = commands; *at; at++)
        printf("    [%s]='%s'\n", (*at)->name, (*at)->operands);
    puts(")\ndeclare -gA _weir_words=(");
    for (const struct command *const *at = commands; *at; at++)
        if ((*at)->words)
            printf("    [%s]='%s'\n", (*at)->name, (*at)->words);
    puts(")");
    live_keys("_weir_live_keys", POLICY_SCOPE_FILE);
    live_keys("_weir_live_pool_keys", POLICY_SCOPE_POOL);
}
