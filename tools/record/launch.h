/* SPDX-License-Identifier: MIT */
/* launch.h - a command that records: what it finds in its environment, and what becomes of it. */
#ifndef WEIR_RECORD_LAUNCH_H
#define WEIR_RECORD_LAUNCH_H

#include <stdbool.h>

struct record_launch {
    const char *name;  /* of the files, as record_name() has it */
    const char *level; /* NULL: none was asked for */
    bool has_stacks;
    bool is_any; /* also processes that do not use Weir */
    char *const *command; /* ended by NULL */
};

/* Runs the command, and says on stderr which files came of it. Returns its exit status, or ends by the signal that ended it. */
int record_launch(const struct record_launch *launch);

#endif
