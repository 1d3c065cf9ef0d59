/* SPDX-License-Identifier: MIT */
/*
 * command.h - what a subcommand of `weir` is: one descriptor, from which the command line is parsed and its help is written.
 *
 * The whole command is one process with one main thread; only `weir try` starts others, and they never come here.
 */
#ifndef WEIR_COMMAND_H
#define WEIR_COMMAND_H

#include "tools/common/complain.h"

#include <stdbool.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_TEXTS,         /* a text that may be given several times */
    OPTION_COUNT,         /* a whole number */
    OPTION_SECONDS,       /* a decimal number */
    OPTION_MAYBE_SECONDS, /* the same, where the option may stand without it; it comes behind a '=' alone */
};

struct command_option {
    const char *name; /* without the dashes; NULL ends a list */
    char letter;      /* the short form, or 0 */
    enum option_kind kind;
    const char *placeholder; /* "SECONDS"; of a text that is one of some: "cuda|sim"; NULL for a flag */
    const char *help;
    double low, high; /* of a number, both inclusive */
};

/* What the command line said of one option. */
struct option_value {
    bool given;
    const char *text; /* borrowed from argv; of several the last */
    const char **texts; /* of OPTION_TEXTS: all of them, in their order */
    size_t text_count, text_room;
    uint64_t count;
    double seconds;
};

#define COMMAND_OPTIONS_MAX 12

/* One call of a subcommand. */
struct command_call {
    struct option_value options[COMMAND_OPTIONS_MAX]; /* in the order of the descriptor */
    int count;                                        /* of operands */
    char **operands;
    bool is_apart; /* the first operand ended no options: ends_no_options() */
};

struct command {
    const char *name;
    const char *summary;  /* one line */
    const char *operands; /* "FILE..." as the usage line shows it, or "" */
    const char *words; /* that the first operand may be, with blanks between them; NULL: none */
    int operands_min, operands_max;
    bool operands_end_options; /* what stands behind the first operand belongs to it, dashes or not; */
    bool (*ends_no_options)(const char *operand); /* unless it is of this kind, with no -- before it; NULL: none is */
    const char *details; /* whole sentences, in paragraphs (paragraph.h) */
    const char *example; /* one or more lines to copy */
    const struct command_option *options;
    int (*run)(const struct command_call *call); /* returns an exit status */
};

extern const struct command command_check, command_show, command_doctor, command_try, command_leases, command_evict, command_trace,
    command_replay, command_tune;
extern const struct command command_record, command_calibrate, command_help;
extern const struct command command_run_program, command_ps, command_top, command_trim, command_sleep, command_wake, command_set, command_reload, command_metrics;

/* All subcommands in the order of the help, ended by NULL. */
extern const struct command *const commands[];

/* The table in parts, each with what a person is about to do. The manual page has them too, headed by the first words of their titles. */
struct command_group {
    const char *title;
    const struct command *first; /* up to that of the next group */
};
extern const struct command_group command_groups[]; /* ended by a NULL title */

/* What former releases had, and what does the same now. */
struct command_gone {
    const char *command, *word; /* word: an option with its dashes, or a first operand; NULL for the whole subcommand */
    const char *instead;        /* what to write: a command and an example of its arguments */
};
extern const struct command_gone commands_gone[]; /* ended by a NULL command */
/* Whether former releases had this word, or without one (NULL) this subcommand; then says on stderr what replaces it. */
bool command_is_gone(const char *command, const char *word);

/* The subcommand of that name. NULL, after saying on stderr what replaces it or which name is the nearest, if there is none. */
const struct command *command_find(const char *name);

/* Parses argv (argv[0]: the name of the subcommand) and runs it. Returns the exit status. */
int command_run(const struct command *command, int argc, char **argv);

/* The word that getopt_long() has just read an option in, where optind was `at` before. It is not always the one before optind: that stays on
   a cluster of letters until the last one was read, and operands may stand before it. */
const char *command_option_word(char **argv, int at);

/* Prints the help of one subcommand, or of the whole command, on stdout. */
void command_help_one(const struct command *command);
void command_help_all(void);

#endif
