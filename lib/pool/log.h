/* SPDX-License-Identifier: MIT */
/*
 * log.h - what the library has to say, through the log function of the application, and not over and over.
 *
 * Lines are of one kind if they come from one place of the code and are about the same thing, as a pool. A kind is logged at most once a
 * second, by the clock of the waist: a program that lives at its cap would otherwise log a report for each refusal. The next line that is
 * logged says how many were not; of those behind the last, weir_close() does, with the latest of them.
 *
 * $WEIR_LOG, as in "warning:/var/log/weir.log", has them written as well, to standard error or behind a file, whatever the program does with
 * them: each at once and by one write(2), so that lines of several processes do not mix.
 *
 * `lock` guards the table and is a leaf. The application's function is called without it.
 */
#ifndef WEIR_LIB_LOG_H
#define WEIR_LIB_LOG_H

#include <stdbool.h>

#include "lib/base/spin.h"
#include "include/weir.h"

#define WEIR__LOG_KINDS 32 /* more at a time, and the one that was quiet for longest is forgotten */

struct weir__log {
    weir_log_fn say; /* NULL: silent. Fixed after open, as are the next three */
    void *data;
    int fd;              /* of $WEIR_LOG; -1: none */
    weir_log_level most; /* what is written there */
    weir__spin lock;
    struct weir__log_kind {
        const char *format; /* NULL: free */
        const void *about;
        weir_log_level level;
        bool was_said;
        uint64_t said;    /* when a line of it was last logged */
        uint64_t silent;  /* lines since then */
        char latest[256]; /* of those: as many whole sentences as fit */
    } kinds[WEIR__LOG_KINDS];
};

void weir__log_init(struct weir__log *log, weir_log_fn say, void *data);
/* Does what $WEIR_LOG says. WEIR_INVALID: it says nothing that can be done. */
weir_status weir__log_open(struct weir__log *log, weir_error *error);
void weir__log_close(struct weir__log *log);

/* Whether anybody hears what is logged. */
bool weir__log_is_heard(const struct weir__log *log);

/* Says what was not said so far, of each kind. */
void weir__log_rest(struct weir__log *log);

/* One line; what ends a line in the text becomes "; ". Call it with no lock held. */
__attribute__((format(printf, 3, 4))) void weir__log(weir *w, weir_log_level level, const char *format, ...);
__attribute__((format(printf, 4, 5))) void weir__log_about(weir *w, const void *about, weir_log_level level, const char *format, ...);

/* What a line is about of which only those with the same words are alike. */
const void *weir__log_words(const char *text);

#endif
