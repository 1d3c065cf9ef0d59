/* SPDX-License-Identifier: MIT */
/*
 * log.h - lines for the application's log function and for $WEIR_LOG, none of them over and over.
 *
 * Lines are of one kind if they come from one place of the code and are about the same object, such as a pool. A kind is logged at most
 * once a second, by the clock of the waist: a program that lives at its cap would otherwise log a report for each refusal. The next line of
 * the kind says how many were left out; weir_close() says it of those behind the last line, with the latest of them.
 *
 * $WEIR_LOG, as in "warning:/var/log/weir.log", has lines written as well, to standard error or to the end of a file, whatever the program
 * does with them: each line by one write(2), so that those of several processes do not mix.
 *
 * `lock` guards the table and is a leaf. The application's function is called without it.
 */
#ifndef WEIR_LIB_LOG_H
#define WEIR_LIB_LOG_H

#include <stdbool.h>

#include "lib/base/spin.h"
#include "include/weir.h"

#define WEIR__LOG_KINDS 32 /* where there are more, the kind that was logged least recently is forgotten */

struct weir__log {
    weir_log_fn say; /* NULL: silent. Fixed after open, as are the next three */
    void *data;
    int fd;              /* of $WEIR_LOG; -1: none */
    weir_log_level most; /* the least urgent level that is written there */
    weir__spin lock;
    struct weir__log_kind {
        const char *format; /* NULL: free */
        const void *about;
        weir_log_level level;
        bool was_said;
        uint64_t said;    /* when a line of this kind was last logged */
        uint64_t silent;  /* how many lines were left out since then */
        char latest[256]; /* the latest of these, as many whole sentences as fit */
    } kinds[WEIR__LOG_KINDS];
};

void weir__log_init(struct weir__log *log, weir_log_fn say, void *data);
/* Opens what $WEIR_LOG names. WEIR_INVALID: that is no level and no file that can be written. */
weir_status weir__log_open(struct weir__log *log, weir_error *error);
void weir__log_close(struct weir__log *log);

/* Whether a log function or $WEIR_LOG gets what is logged. */
bool weir__log_is_heard(const struct weir__log *log);

/* Logs, for each kind, how many lines were left out, and the latest of them. */
void weir__log_rest(struct weir__log *log);

/* Log one line, with "; " in place of line ends within the text. about: the object of the line. Call them with no lock held. */
__attribute__((format(printf, 3, 4))) void weir__log(weir *w, weir_log_level level, const char *format, ...);
__attribute__((format(printf, 4, 5))) void weir__log_about(weir *w, const void *about, weir_log_level level, const char *format, ...);

/* An `about` for lines of which only those with the same text are of one kind. */
const void *weir__log_words(const char *text);

#endif
