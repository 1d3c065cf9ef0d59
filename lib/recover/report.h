/* SPDX-License-Identifier: MIT */
/* report.h - the report on a request that found no memory: first what decided that, then what the pools of the device hold. */
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
    const struct weir__rung_report *rungs; /* WEIR_RUNG_COUNT of them */
    uint64_t left;    /* bytes of CUDA's pools that were idle behind the last trim, which had given back what it could */
    const char *note; /* of the neighbours rung; "" */
    const char *why;  /* why the ladder was not climbed to its end; NULL: it was */
};

/* Writes the report into the thread's last error and into the log, and counts the failure. Returns WEIR_OUT_OF_MEMORY, or
   WEIR_NO_HOST_MEMORY if an arena lacked host memory. */
weir_status weir__report(const struct weir__report *report);

#endif
