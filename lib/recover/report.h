/* SPDX-License-Identifier: MIT */
/* report.h - the report on a request that found no memory: first what decided the failure, then what memory the device's pools have. */
#ifndef WEIR_LIB_REPORT_H
#define WEIR_LIB_REPORT_H

#include "lib/alloc/request.h"

/* What one rung of the ladder did. */
struct weir__rung_report {
    bool ran;
    uint64_t gave; /* bytes that the rung made available, as far as Weir knows */
    uint64_t took; /* nanoseconds */
};

struct weir__report {
    const struct weir__request *request;
    const struct weir__rung_report *rungs; /* an array of WEIR_RUNG_COUNT elements */
    uint64_t left;                         /* idle bytes of CUDA's pools that the last trim could not give back */
    const char *note;                      /* the note of the neighbours rung, or "" */
    const char *why;                       /* why the ladder was not climbed to its end; NULL: it was */
};

/* Writes the report into the thread's last error and into the log, and counts the failure. Returns WEIR_OUT_OF_MEMORY, or
   WEIR_NO_HOST_MEMORY if an arena lacked host memory. */
weir_status weir__report(const struct weir__report *report);

#endif
