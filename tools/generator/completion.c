/* SPDX-License-Identifier: MIT */
/*
 * completion.c - `generate completion`: the table that the completions of all shells read, from the subcommands and the keys.
 *
 * A row is a line, its first word says what it has, and its columns are separated by tabs; one that is empty is a dash:
 *     group    its title; its subcommands follow
 *     command  name, operands as the usage line has them, words that the first operand may be, summary
 *     option   subcommand, name, letter, its argument ("cuda|sim", "FILE", in brackets where the option may stand without it), help
 *     key      a live key of the file or of each pool ("pools."), and the words that may be its value
 * The table stands within single quotes there, which bash, zsh and fish all understand alike.
 */
#include "tools/generator/generate.h"

#include <stdio.h>

static void put(const char *text)
{
    printf("\t%s", *text ? "" : "-");
    for (; *text; text++)
        printf(*text == '\'' ? "'\\''" : "%c", *text);
}

/* The words that may stand for the value of a key; one that takes numbers or names alone has none. */
static void put_values(const struct policy_key *key)
{
    static const struct {
        unsigned accepts;
        const char *word;
    } others[] = {{POLICY_ACCEPTS_NONE, "none"}, {POLICY_ACCEPTS_ALL, "all"}, {POLICY_ACCEPTS_NEVER, "never"}, {POLICY_ACCEPTS_AUTO, "auto"},
                  {POLICY_ACCEPTS_QUOTA, "quota"}};
    printf("\t%s", key->type == POLICY_TYPE_BOOL ? "true false " : key->type == POLICY_TYPE_SWITCH ? "on off " : "");
    for (size_t i = 0; key->words && key->words[i]; i++)
        printf("%s ", key->words[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (key->accepts & others[i].accepts)
            printf("%s ", others[i].word);
}

static void put_live_keys(enum policy_scope scope, const char *before)
{
    size_t count;
    const struct policy_key *keys = policy_keys(scope, &count);
    for (size_t i = 0; i < count; i++) {
        if (!keys[i].live)
            continue;
        printf("key\t%s%s", before, keys[i].name);
        put_values(&keys[i]);
        putchar('\n');
    }
}

static void put_option(const struct command *command, const struct command_option *option)
{
    const char letter[] = {option->letter, '\0'}, *argument = option->placeholder ? option->placeholder : "";
    char optional[64];
    snprintf(optional, sizeof optional, "[%s]", argument);
    printf("option\t%s\t%s", command->name, option->name);
    put(letter);
    put(option->kind == OPTION_MAYBE_SECONDS ? optional : argument);
    put(option->help);
    putchar('\n');
}

void generate_completion(void)
{
    const struct command_group *group = command_groups;
    for (const struct command *const *at = commands; *at; at++) {
        if (*at == group->first)
            printf("group\t%s\n", group++->title);
        printf("command\t%s", (*at)->name);
        put((*at)->operands);
        put((*at)->words ? (*at)->words : "");
        put((*at)->summary);
        putchar('\n');
        for (const struct command_option *option = (*at)->options; option->name; option++)
            put_option(*at, option);
    }
    put_live_keys(POLICY_SCOPE_FILE, "");
    put_live_keys(POLICY_SCOPE_POOL, "pools.");
}
