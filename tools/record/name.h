/* SPDX-License-Identifier: MIT */
/* name.h - names of traces, in which %p stands for a process, %r for its rank and %% for a percent sign. No state. */
#ifndef WEIR_RECORD_NAME_H
#define WEIR_RECORD_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define RECORD_NAME "weir-%p.weir" /* where none is given */

/* The name as it may stand in a policy: an absolute path. The caller's to free(); NULL after a complaint: it cannot be one. */
char *record_name(const char *operand);

/* The path of that process's trace; rank NULL: that of no process. The caller's to free(). */
char *record_path(const char *name, int pid, const char *rank);
bool record_has_pid(const char *name);
bool record_has_rank(const char *name);

/* Whether a trace may be made there: nothing has that name, and its folder is there. false after a complaint. */
bool record_is_free(const char *path);

/* Says which line makes a page of the trace that was written there, and that there are more traces. */
void record_say_page(const char *path, bool has_more);

/* The files that processes may have made of a name, to be given to record_files_free(). */
struct record_files {
    size_t count;
    char **paths;
};
struct record_files record_files_of(const char *name);
bool record_files_have(const struct record_files *files, const char *path);
void record_files_free(struct record_files *files);

#endif
