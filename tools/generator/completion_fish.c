/* SPDX-License-Identifier: MIT */
/* completion_fish.c - `generate fish`: the tables of the fish completion, from the table of subcommands. */
#include "tools/generator/generate.h"

#include <stdio.h>
#include <string.h>

/* A word in single quotes. */
static void quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

/* What may stand as the argument: one of its choices, or what completion.fish finds for the word that stands for it in the help. */
static void option_argument(const struct command_option *option)
{
    printf(" -x -a '(_weir_values %s", strchr(option->placeholder, '|') ? "WORDS" : option->placeholder);
    if (strchr(option->placeholder, '|')) {
        putchar(' ');
        generate_words(option->placeholder, strlen(option->placeholder));
    }
    printf(")'");
}

static void command_completions(const struct command *command)
{
    printf("complete -c weir -n _weir_is_first -a %s -d ", command->name);
    quoted(command->summary);
    printf("\ncomplete -c weir -n '_weir_is_in help; and _weir_is_operand 1' -a %s\n", command->name);
    for (const struct command_option *option = command->options; option->name; option++) {
        printf("complete -c weir -n '_weir_takes_options %s' -l %s", command->name, option->name);
        if (option->letter)
            printf(" -s %c", option->letter);
        if (generate_takes_word(option))
            option_argument(option);
        printf(" -d ");
        quoted(option->help);
        putchar('\n');
    }
    if (*command->operands && strcmp(command->name, "help") != 0) {
        printf("complete -c weir -n '_weir_is_in %s' -a '(_weir_operand ", command->name);
        if (command->words)
            printf("WORDS ");
        for (const char *at = command->operands; *at; at++)
            if (!strchr("[]", *at))
                printf(*at == '|' ? "\\|" : "%c", *at);
        printf(")'\n");
    }
    if (command->words)
        printf("complete -c weir -n '_weir_is_in %s; and _weir_is_operand 1' -a '%s'\n", command->name, command->words + strspn(command->words, " "));
}

/* The options whose argument may be a word of its own. */
static void command_arguments(const struct command *command)
{
    for (const struct command_option *option = command->options; option->name; option++) {
        if (!generate_takes_word(option))
            continue;
        printf(" '%s --%s'", command->name, option->name);
        if (option->letter)
            printf(" '%s -%c'", command->name, option->letter);
    }
}

void generate_fish(void)
{
    puts("# SPDX-License-Identifier: MIT\n"
         "# Completion of weir(1) for fish 3 and later. The tables are made from the subcommands of the program.\n"
         "complete -c weir -f\n"
         "complete -c weir -n _weir_is_first -l version -d 'the version'\n"
         "complete -c weir -n '_weir_takes_options' -s h -l help -d 'help'\n"
         "complete -c weir -n '_weir_takes_options' -l color -x -a 'auto never always' -d 'colours'");
    for (const struct command *const *at = commands; *at; at++)
        command_completions(*at);
    printf("set -g _weir_arguments");
    for (const struct command *const *at = commands; *at; at++)
        command_arguments(*at);
    printf("\nset -g _weir_live_keys");
    generate_assignments(POLICY_SCOPE_FILE);
    printf("\nset -g _weir_live_pool_keys");
    generate_assignments(POLICY_SCOPE_POOL);
    putchar('\n');
}
