/* SPDX-License-Identifier: MIT */
/* completion.c - `generate completion`: the tables of the bash completion, from the table of subcommands and that of keys. */
#include "tools/generator/generate.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX 24

/* All words that may stand for the value of a key; a key that takes numbers or names alone has none. Returns how many. */
static size_t key_words(const struct policy_key *key, const char *words[static WORDS_MAX])
{
    static const struct {
        unsigned accepts;
        const char *word;
    } others[] = {{POLICY_ACCEPTS_NONE, "none"}, {POLICY_ACCEPTS_ALL, "all"}, {POLICY_ACCEPTS_NEVER, "never"}, {POLICY_ACCEPTS_AUTO, "auto"},
                  {POLICY_ACCEPTS_QUOTA, "quota"}};
    size_t count = 0;
    if (key->type == POLICY_TYPE_BOOL || key->type == POLICY_TYPE_SWITCH) {
        words[count++] = key->type == POLICY_TYPE_BOOL ? "true" : "on";
        words[count++] = key->type == POLICY_TYPE_BOOL ? "false" : "off";
    }
    for (size_t i = 0; key->words && key->words[i] && count < WORDS_MAX; i++)
        words[count++] = key->words[i];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && count < WORDS_MAX; i++)
        if (key->accepts & others[i].accepts)
            words[count++] = others[i].word;
    return count;
}

static void key_values(const struct policy_key *key)
{
    const char *words[WORDS_MAX];
    size_t count = key_words(key, words);
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", words[i]);
}

void generate_assignments(enum policy_scope scope)
{
    size_t count;
    const struct policy_key *keys = policy_keys(scope, &count);
    for (size_t i = 0; i < count; i++) {
        const char *words[WORDS_MAX];
        size_t word_count = keys[i].live ? key_words(&keys[i], words) : 0;
        if (keys[i].live)
            printf(" '%s='", keys[i].name);
        for (size_t word = 0; word < word_count; word++)
            printf(" '%s=%s'", keys[i].name, words[word]);
    }
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

bool generate_takes_word(const struct command_option *option)
{
    return option->kind != OPTION_FLAG && option->kind != OPTION_MAYBE_SECONDS;
}

void generate_words(const char *choices, size_t len)
{
    for (size_t i = 0; i < len; i++)
        putchar(choices[i] == '|' ? ' ' : choices[i]);
}

/* What may stand as the argument of an option, behind its long or short form: its choices, or the word that stands for it in the help. */
static void option_argument(const struct command *command, const char *form, const struct command_option *option)
{
    printf("    [%s %s]='", command->name, form);
    generate_words(option->placeholder, strlen(option->placeholder));
    puts("'");
}

static void command_options(const struct command *command)
{
    printf("    [%s]='", command->name);
    for (const struct command_option *option = command->options; option->name; option++) {
        if (option->letter)
            printf("-%c ", option->letter);
        printf("--%s%s ", option->name, generate_takes_word(option) ? "=" : "");
    }
    puts("--color= -h --help'");
}

static void command_arguments(const struct command *command)
{
    for (const struct command_option *option = command->options; option->name; option++) {
        char form[64];
        if (!generate_takes_word(option))
            continue;
        snprintf(form, sizeof form, "--%s", option->name);
        option_argument(command, form, option);
        snprintf(form, sizeof form, "-%c", option->letter);
        if (option->letter)
            option_argument(command, form, option);
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
