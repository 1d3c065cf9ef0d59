/* SPDX-License-Identifier: MIT */
/* completion_zsh.c - `generate zsh`: the tables of the zsh completion, from the table of subcommands. */
#include "tools/generator/generate.h"

#include <stdio.h>
#include <string.h>

/* Text within single quotes, in which `special` characters have a backslash for _arguments or _describe. */
static void text(const char *from, const char *special)
{
    for (; *from; from++) {
        if (strchr(special, *from))
            putchar('\\');
        printf(*from == '\'' ? "'\\''" : "%c", *from);
    }
}

/* ":KIND: ACTION": with the blank the action gets no options of compadd's. One of several words, or what completion.zsh finds for the word that stands for it in the help. */
static void value(const char *kind, size_t len)
{
    if (!memchr(kind, '|', len)) {
        printf(":%.*s: _weir_value %.*s", (int)len, kind, (int)len, kind);
        return;
    }
    printf(":word:(");
    generate_words(kind, len);
    putchar(')');
}

static void option_spec(const struct command_option *option, const char *name, const char *end)
{
    printf("        '%s%s[", name, end);
    text(option->help, "[]\\:");
    putchar(']');
    if (option->kind == OPTION_MAYBE_SECONDS)
        putchar(':');
    if (option->kind != OPTION_FLAG)
        value(option->placeholder, strlen(option->placeholder));
    puts("'");
}

static void command_options(const struct command *command)
{
    char name[64];
    for (const struct command_option *option = command->options; option->name; option++) {
        snprintf(name, sizeof name, "--%s", option->name);
        option_spec(option, name, option->kind == OPTION_FLAG ? "" : option->kind == OPTION_MAYBE_SECONDS ? "=-" : "=");
        snprintf(name, sizeof name, "-%c", option->letter);
        if (option->letter)
            option_spec(option, name, option->kind == OPTION_FLAG ? "" : "+");
    }
}

/* The operands as the usage line has them: "PID [SOCKET]...". */
static void command_operands(const struct command *command)
{
    unsigned number = 1;
    if (command->operands_end_options) {
        printf("        '(-)1:command: _weir_value \"%.*s\"'\n        '*::argument:_normal'\n", (int)strcspn(command->operands, " "),
               command->operands);
        return;
    }
    if (command->words) {
        printf("        '1:view: _weir_view %s'\n        '*:file: _weir_value FILE'\n", command->words);
        return;
    }
    for (const char *at = command->operands; *at;) {
        size_t len = strcspn(at, " "), begin = strspn(at, "["), kind = strcspn(at + begin, " ].");
        const char *name = strncmp(at + begin, "FILE", kind) == 0 ? "POLICY" : at + begin;
        size_t name_len = name == at + begin ? kind : strlen("POLICY");
        if (len >= 3 && strncmp(at + len - 3, "...", 3) == 0)
            printf("        '*");
        else
            printf("        '%u", number);
        value(name, name_len);
        puts("'");
        number++;
        at += len + strspn(at + len, " ");
    }
}

/* What describes them, group by group. */
static void command_list(void)
{
    unsigned begin = 1, end = 0;
    puts("\n# _weir_describe: offers them, each group below its title.\n_weir_describe() {\n    local -a group");
    for (const struct command_group *group = command_groups; group->title; group++, begin = end + 1) {
        for (end = begin; commands[end] && commands[end] != group[1].first; end++)
            continue;
        printf("    group=($_weir_subcommands[%u,%u])\n    _describe -t %s-commands '", begin, end, group->first->name);
        text(group->title, "");
        puts("' group");
    }
    puts("}");
}

void generate_zsh(void)
{
    puts("#compdef weir\n"
         "# SPDX-License-Identifier: MIT\n"
         "# Completion of weir(1) for zsh 5. The tables are made from the subcommands of the program.\n\n"
         "typeset -ga _weir_subcommands=(");
    for (const struct command *const *at = commands; *at; at++) {
        printf("    '%s:", (*at)->name);
        text((*at)->summary, "\\:");
        puts("'");
    }
    puts(")");
    command_list();
    puts("\n# _weir_specs SUBCOMMAND: what _arguments wants of it.\n_weir_specs() {\n    case $1 in");
    for (const struct command *const *at = commands; *at; at++) {
        printf("    %s) specs=(\n", (*at)->name);
        command_options(*at);
        puts("        '--color=[colours]:when:(auto never always)'\n        '(-)'{-h,--help}'[help]'");
        command_operands(*at);
        puts("    ) ;;");
    }
    printf("    esac\n}\n\ntypeset -ga _weir_live_keys=(");
    generate_assignments(POLICY_SCOPE_FILE);
    printf(")\ntypeset -ga _weir_live_pool_keys=(");
    generate_assignments(POLICY_SCOPE_POOL);
    puts(")");
}
