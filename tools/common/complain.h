/* SPDX-License-Identifier: MIT */
/*
 * complain.h - what a subcommand says where it cannot do what was asked: on stderr, or, where it was to print a JSON document and has none,
 * in one that has only that. Main thread only.
 */
#ifndef WEIR_COMPLAIN_H
#define WEIR_COMPLAIN_H

#include "policy/policy.h"
#include "tools/common/json.h"
#include "trace/memory.h"

#include <stdarg.h>

/* Exit statuses of every subcommand; worse ones are greater. */
enum {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,  /* the answer is no: a bad policy, no GPU, a step that failed */
    EXIT_TROUBLE = 2, /* no answer: wrong usage, a file that cannot be read, output that cannot be written */
};

static inline int worse_exit(int one, int other)
{
    return one > other ? one : other;
}

/* "weir: " and the message on stderr, with a newline. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The error of a policy on stderr, with a newline. */
void complain_of_policy(const struct policy_error *error);

/* An object with the members of an error. One that is about no policy, whose file is NULL, has a message alone. */
void complaint_json(struct json *json, const struct policy_error *error);

/* Keeps all complaints until complaints_end(), for a subcommand that was called with --json. */
void complaints_begin(void);

/* Prints them as a JSON document if the subcommand failed with that exit status before it began one of its own, else on stderr. */
void complaints_end(int status);

/* vsprintf() into a new string, the caller's to free(). */
char *make_text(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

#endif
