/* SPDX-License-Identifier: MIT */
#include "policy/report.h"
#include "tools/common/command.h"
#include "tools/common/terminal.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What getopt_long() returns for the options without a letter: their place in the table, above all letters. */
enum { CODE_HELP = 256, CODE_COLOR, CODE_FIRST };

#define NAME_MAX_LEN 64 /* longer words are never a misspelt name of ours */

bool command_is_gone(const char *command, const char *word)
{
    const struct command_gone *gone = commands_gone;
    size_t len = word ? strcspn(word, "=") : 0;
    for (; gone->command; gone++)
        if (strcmp(gone->command, command) == 0 && !gone->word == !word && (!word || (strncmp(gone->word, word, len) == 0 && !gone->word[len])))
            break;
    if (gone->command && word)
        complain("%s: there is no '%s' any more; write: %s", command, gone->word, gone->instead);
    else if (gone->command)
        complain("there is no subcommand '%s' any more; write: %s", command, gone->instead);
    return gone->command != NULL;
}

const struct command *command_find(const char *name)
{
    struct policy_guess guess = policy_guess_begin(name);
    for (const struct command *const *at = commands; *at; at++) {
        if (strcmp((*at)->name, name) == 0)
            return *at;
        policy_guess_try(&guess, (*at)->name);
    }
    if (command_is_gone(name, NULL))
        return NULL;
    if (guess.best)
        complain("there is no subcommand '%s'; did you mean '%s'?", name, guess.best);
    else
        complain("there is no subcommand '%s'; 'weir --help' lists them all", name);
    return NULL;
}

/* Whether the name is the beginning of several options; says which. */
static bool is_ambiguous(const struct command *command, const struct option *options, const char *name)
{
    char list[COMMAND_OPTIONS_MAX * NAME_MAX_LEN] = "";
    size_t len = 0, count = 0;
    const char *last = NULL;
    for (; options->name; options++) {
        if (strncmp(options->name, name, strlen(name)) != 0)
            continue;
        if (last)
            len += (size_t)snprintf(list + len, sizeof(list) - len, "%s--%s", count > 1 ? ", " : "", last);
        last = options->name;
        count++;
    }
    if (count > 1)
        complain("%s: option '--%s' could be %s or --%s: write more of it", command->name, name, list, last);
    return count > 1;
}

static int wrong_option(const struct command *command, const struct option *options, const char *word)
{
    char name[NAME_MAX_LEN] = "";
    if (strncmp(word, "--", 2) == 0)
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    if (command_is_gone(command->name, word) || (name[0] && is_ambiguous(command, options, name)))
        return EXIT_TROUBLE;
    struct policy_guess guess = policy_guess_begin(name);
    for (; options->name; options++)
        policy_guess_try(&guess, options->name);
    if (guess.best)
        complain("%s: unknown option '%s'; did you mean '--%s'?", command->name, word, guess.best);
    else
        complain("%s: unknown option '%s'; 'weir %s --help' lists them all", command->name, word, command->name);
    return EXIT_TROUBLE;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += *at == '|')
        if (len && strcspn(at, "|") == len && strncmp(at, text, len) == 0)
            return true;
    return false;
}

/* Reads an option's argument into its value; false after an error on stderr. */
static bool read_value(const struct command *command, const struct command_option *option, const char *text, struct option_value *value)
{
    value->given = true;
    value->text = text;
    if (option->kind == OPTION_FLAG || !text)
        return true;
    if (option->kind == OPTION_TEXTS) {
        *MUST_ADD(value->texts, value->text_count, value->text_room) = text;
        return true;
    }
    if (option->kind == OPTION_TEXT) {
        if (!strchr(option->placeholder, '|') || is_choice(option->placeholder, text))
            return true;
        complain("%s: --%s=%s: write one of %s", command->name, option->name, text, option->placeholder);
        return false;
    }
    char *end;
    errno = 0;
    if (option->kind == OPTION_COUNT) {
        value->count = strtoull(text, &end, 10);
        value->seconds = (double)value->count;
    } else {
        value->seconds = strtod(text, &end);
    }
    /* strtoull() takes blanks and signs, strtod() takes "inf" and "nan" as well. */
    if (text[0] < '0' || text[0] > '9' || *end || errno || !isfinite(value->seconds) || value->seconds < option->low ||
        value->seconds > option->high) {
        complain("%s: --%s=%s: write a %snumber from %.10g to %.10g", command->name, option->name, text,
                 option->kind == OPTION_COUNT ? "whole " : "", option->low, option->high);
        return false;
    }
    return true;
}

const char *command_option_word(char **argv, int at)
{
    const char *behind = argv[optind - 1];
    return optind > at && behind[0] == '-' && behind[1] ? behind : argv[optind];
}

/* The tables that getopt_long() wants, made from the descriptor. */
struct getopt_tables {
    struct option longs[COMMAND_OPTIONS_MAX + 3];
    char shorts[2 * COMMAND_OPTIONS_MAX + 5];
};

static void make_tables(const struct command *command, struct getopt_tables *tables)
{
    memset(tables, 0, sizeof(*tables));
    char *letter = tables->shorts;
    if (command->operands_end_options)
        *letter++ = '+';
    *letter++ = ':';
    *letter++ = 'h';
    size_t n = 0;
    for (; command->options[n].name; n++) {
        const struct command_option *option = &command->options[n];
        bool takes = option->kind != OPTION_FLAG;
        int argument = option->kind == OPTION_MAYBE_SECONDS ? optional_argument : takes ? required_argument : no_argument;
        tables->longs[n] = (struct option){option->name, argument, NULL, CODE_FIRST + (int)n};
        if (option->letter) {
            *letter++ = option->letter;
            if (takes)
                *letter++ = ':';
        }
    }
    tables->longs[n] = (struct option){"help", no_argument, NULL, CODE_HELP};
    tables->longs[n + 1] = (struct option){"color", required_argument, NULL, CODE_COLOR};
}

static int place_of(const struct command *command, int code)
{
    if (code >= CODE_FIRST)
        return code - CODE_FIRST;
    for (int i = 0; command->options[i].name; i++)
        if (command->options[i].letter == code)
            return i;
    return -1;
}

static bool wants_json(const struct command *command, const struct command_call *call)
{
    for (size_t i = 0; command->options[i].name; i++)
        if (strcmp(command->options[i].name, "json") == 0)
            return call->options[i].given;
    return false;
}

/* Parses what is left of argv. true: go on, with *call; else *status is that of the exit. */
static bool parse(const struct command *command, int argc, char **argv, const char *shorts, const struct option *longs,
                  struct command_call *call, int *status)
{
    *status = EXIT_TROUBLE;
    /* 0: getopt_long() forgets that main() stopped at the first word without dashes. Here options may stand behind operands. */
    optind = 0;
    for (;;) {
        int at = optind ? optind : 1;
        int code = getopt_long(argc, argv, shorts, longs, NULL);
        if (code == -1)
            break;
        const char *word = command_option_word(argv, at);
        if (code == ':') {
            complain("%s: option '%s' needs an argument; 'weir %s --help' shows which", command->name, word, command->name);
            return false;
        }
        if (code == '?') {
            *status = wrong_option(command, longs, word);
            return false;
        }
        if (code == CODE_HELP || code == 'h') {
            command_help_one(command);
            *status = EXIT_GOOD;
            return false;
        }
        if (code == CODE_COLOR) {
            if (!terminal_set_colour(optarg))
                return false;
            continue;
        }
        int place = place_of(command, code);
        if (!read_value(command, &command->options[place], optarg, &call->options[place]))
            return false;
    }
    call->count = argc - optind;
    call->operands = argv + optind;
    return true;
}

int command_run(const struct command *command, int argc, char **argv)
{
    struct getopt_tables tables;
    struct command_call call = {0};
    int parsed;
    make_tables(command, &tables);
    opterr = 0;
    if (!parse(command, argc, argv, tables.shorts, tables.longs, &call, &parsed))
        return parsed;
    bool has_dashes = call.operands > argv + 1 && strcmp(call.operands[-1], "--") == 0;
    if (command->ends_no_options && call.count > 0 && !has_dashes && command->ends_no_options(call.operands[0])) {
        char *first = call.operands[0];
        /* What is behind it is parsed as if it were the name of the subcommand; without the '+' operands end nothing. */
        if (!parse(command, call.count, call.operands, tables.shorts + 1, tables.longs, &call, &parsed))
            return parsed;
        *--call.operands = first;
        call.count++;
        call.is_apart = true;
    }
    if (call.count < command->operands_min || call.count > command->operands_max) {
        if (call.count > command->operands_max)
            complain("%s: one argument too many: '%s'", command->name, call.operands[command->operands_max]);
        else
            complain("%s: it needs %s", command->name, command->operands);
        fprintf(stderr, "Usage: weir %s [OPTION]...%s%s\n", command->name, *command->operands ? " " : "", command->operands);
        return EXIT_TROUBLE;
    }
    if (wants_json(command, &call))
        complaints_begin();
    int status = command->run(&call);
    complaints_end(status);
    for (size_t i = 0; command->options[i].name; i++)
        free(call.options[i].texts);
    return status;
}

static void print_option(char letter, const char *name, const char *placeholder, bool is_optional, const char *help)
{
    char text[64];
    char before[8] = "    ";
    if (letter)
        snprintf(before, sizeof(before), "-%c, ", letter);
    snprintf(text, sizeof(text), "%s--%s%s%s%s", before, name, is_optional ? "[=" : placeholder ? "=" : "", placeholder ? placeholder : "",
             is_optional ? "]" : "");
    paragraph_print_item(text, 33, help);
}

void command_help_one(const struct command *command)
{
    printf("Usage: weir %s [OPTION]...%s%s\n\n", command->name, *command->operands ? " " : "", command->operands);
    paragraph_print(command->details);
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Options");
    for (const struct command_option *option = command->options; option->name; option++)
        print_option(option->letter, option->name, option->placeholder, option->kind == OPTION_MAYBE_SECONDS, option->help);
    print_option(0, "color", "auto|never|always", false, "colours: only on a terminal (auto), or as told");
    print_option('h', "help", NULL, false, "this text");
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Example");
    printf("%s", command->example);
}

void command_help_all(void)
{
    static const char *const examples[][2] = {
        {"weir try", "try the policy in force on the GPU"},
        {"WEIR_GPU=sim weir try", "the same on the simulator, without a GPU"},
        {"weir check policy.yaml", "find every error in a file"},
        {"weir ps", "see the live processes and what their pools hold"},
        {"weir leases", "see who holds what of shared pools"},
        {"weir help try", "all about one subcommand"},
    };
    puts("Usage: weir SUBCOMMAND [OPTION]... [ARGUMENT]...\n"
         "       weir --version\n");
    paragraph_print("GPU memory pools from a policy file: checks policies, shows what devices can do, tries a policy out, runs PyTorch on its "
                    "pools, shows live processes and changes them, and shows who holds what of pools that processes share.");
    const struct command_group *group = command_groups;
    for (const struct command *const *at = commands; *at; at++) {
        if (*at == group->first) {
            putchar('\n');
            style_line(stdout, STYLE_STRONG, group++->title);
        }
        paragraph_print_item((*at)->name, 10, (*at)->summary);
    }
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Examples");
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
        paragraph_print_item(examples[i][0], 24, examples[i][1]);
    putchar('\n');
    paragraph_print("Environment: WEIR_POLICY names the policy file, WEIR_CONF overrides keys, WEIR_GPU is cuda or sim, WEIR_SIM sets up the "
                    "simulator, XDG_RUNTIME_DIR has the sockets of processes and shared pools, WEIR_CONTROL_DIR those of processes for "
                    "containers, NO_COLOR turns colours off. More in weir(1) and weir-policy(5).");
}
