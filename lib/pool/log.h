/* SPDX-License-Identifier: MIT */
/*
 * log.h - writes lines to the application's log function and to the file that $WEIR_LOG names, without repeating the same line again and
 * again.
 *
 * Lines are of one kind if they come from one place of the code and are about the same object, such as a pool. A kind is logged at most
 * once a second, by the clock of gpu->now(): a program that stays at its cap would otherwise log a report for each refused request. Further
 * lines of the kind are left out, and the next line that is logged says how many. For lines still left out, weir_close() logs the latest of
 * each kind, with the number of the others.
 *
 * With $WEIR_LOG, as in "warning:/var/log/weir.log", lines are also written to standard error or appended to a file, whatever the program's
 * log function does. Each line is one write(2), so that lines of several processes do not mix.
 *
 * The weir's lock `leaf` guards the table of kinds. The application's function is called without that lock.
 */
#ifndef WEIR_LIB_LOG_H
#define WEIR_LIB_LOG_H

#include <stdbool.h>

#include "include/weir.h"

#define WEIR__LOG_KINDS 32 /* kinds in the table; a further kind replaces the one that was logged least recently */

struct weir__log {
    weir_log_fn say; /* The application's function; NULL: none. Fixed after open, as are the next three members. */
    void *data;
    int fd;              /* of $WEIR_LOG; -1: none */
    weir_log_level most; /* the least urgent level that is written there */
    struct weir__log_kind {
        const char *format; /* the text of the lines before formatting, which names their place in the code; NULL: the entry is free */
        /* the object of the lines */
        const void *about;
        weir_log_level level;
        bool was_said;
        uint64_t said;    /* when a line of this kind was last logged */
        uint64_t silent;  /* how many lines were left out since `said` */
        char latest[256]; /* the latest of the lines left out, as many whole sentences as fit */
    } kinds[WEIR__LOG_KINDS];
};

void weir__log_init(struct weir__log *log, weir_log_fn say, void *data);
/* Opens the file, or standard error, that $WEIR_LOG names. Returns WEIR_INVALID, and sets the error, if the value has no level or what it
   names cannot be written. */
weir_status weir__log_open(struct weir__log *log, weir_error *error);
void weir__log_close(struct weir__log *log);

/* Returns whether anybody receives log lines: a log function or the file of $WEIR_LOG. */
bool weir__log_is_heard(const struct weir__log *log);

/* Logs, for each kind, how many lines were left out, and the latest of them. */
void weir__log_rest(weir *w);

/* Each logs one line; line ends within the text become "; ". about: the object of the line. Call them with no lock held. */
__attribute__((format(printf, 3, 4))) void weir__log(weir *w, weir_log_level level, const char *format, ...);
__attribute__((format(printf, 4, 5))) void weir__log_about(weir *w, const void *about, weir_log_level level, const char *format, ...);

/* Returns an `about` made from a text, so that only lines with the same text are of one kind. */
const void *weir__log_words(const char *text);

#endif
