/* SPDX-License-Identifier: MIT */
/* any.h - a command that need not know of Weir: whether the loader lets it be recorded, what it finds in its environment, and what that cost. */
#ifndef WEIR_RECORD_ANY_H
#define WEIR_RECORD_ANY_H

#include <stdbool.h>

#include "audit/report.h"

/* Between begin and end. */
struct record_any {
    char *path; /* of the report */
    struct audit_report *report;
    uint64_t began, began_ticks;
};

/* Whether the command can be recorded; false after a complaint, and nothing runs. Then the environment has what the loader is to read, and
   record_any_end() is to be called. name: of the traces, as record_name() has it. */
bool record_any_begin(struct record_any *any, const char *command, const char *name, bool has_stacks);
/* The environment is set, but the command does not run. */
void record_any_drop(struct record_any *any);
/* Says what was seen, and what that cost. has_files: traces were written. */
void record_any_end(struct record_any *any, const char *command, bool has_files);

#endif
