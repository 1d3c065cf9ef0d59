/* SPDX-License-Identifier: MIT */
/*
 * report.h - collecting the errors of one parse, with the small helpers that make an error text useful.
 *
 * A report borrows the caller's list of errors and adds to it. Running out of memory is remembered and decides the status at the end;
 * nothing in between has to stop for it.
 */
#ifndef WEIR_POLICY_REPORT_H
#define WEIR_POLICY_REPORT_H

#include <stdarg.h>

#include "policy/policy.h"

/* What places in assignments have for a file name: those of the environment, and those that a process was given later. */
#define POLICY_OVERRIDES "WEIR_CONF"
#define POLICY_SET "weir set"

/* A place in a text: file is borrowed from whoever named it. Line and column count from 1, columns in characters. */
struct policy_mark {
    const char *file;
    unsigned line, column;
};

struct policy_report {
    struct policy_errors *errors;
    size_t before; /* errors that were in the list already */
    bool no_memory;
};

void policy_report_begin(struct policy_report *report, struct policy_errors *errors);
void policy_report_add(struct policy_report *report, struct policy_mark mark, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void policy_report_addv(struct policy_report *report, struct policy_mark mark, const char *path, const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));
/* Puts what was added into the order of places: those of the file first, then those of the overrides. */
void policy_report_sort(struct policy_report *report);
/* POLICY_NO_MEMORY, else POLICY_BAD if anything was added, else POLICY_OK. */
enum policy_status policy_report_status(const struct policy_report *report);

/* Text from a file, made fit for a line of output: control characters become '?', and what is longer than the buffer ends in "…". */
#define POLICY_QUOTE_MAX 72
struct policy_quote {
    char text[POLICY_QUOTE_MAX];
};
struct policy_quote policy_quote(const char *text);

/* "Did you mean": the name nearest to a word among those that were tried, if it is near enough to be a slip. */
struct policy_guess {
    const char *word;
    const char *best; /* NULL: nothing near */
    unsigned distance;
};
struct policy_guess policy_guess_begin(const char *word);
void policy_guess_try(struct policy_guess *guess, const char *name);
struct policy_question {
    char text[POLICY_QUOTE_MAX + sizeof "; did you mean ''?"];
};
/* "; did you mean 'name'?", or "". */
struct policy_question policy_guess_text(const struct policy_guess *guess);

#endif
