/* SPDX-License-Identifier: MIT */
/* live.h - a live process that records: it is passed the descriptor of a file that is made here. */
#ifndef WEIR_RECORD_LIVE_H
#define WEIR_RECORD_LIVE_H

#include <stdbool.h>

struct record_live {
    const char *pid;  /* the operand, as `weir ps` shows it */
    const char *name; /* of the file, as record_name() has it */
    bool is_pool_level, has_stacks;
    double seconds; /* 0: until a signal */
    unsigned timeout_ms;
};

/* Has it record, and says on stdout what was written. Returns the exit status. */
int record_live(const struct record_live *live);

#endif
