/* SPDX-License-Identifier: MIT */
/* report.h - what is said of a request that found no memory: first what decides, then what the pools of the device hold. */
#ifndef WEIR_LIB_REPORT_H
#define WEIR_LIB_REPORT_H

#include "lib/alloc/request.h"

/* What one rung of the ladder did. */
struct weir__rung_report {
    bool ran;
    uint64_t gave; /* bytes that were not to be had before, as far as Weir knows them */
    uint64_t took; /* nanoseconds */
};

struct weir__report {
    const struct weir__request *request;
    const struct weir__rung_report *rungs; /* WEIR_RUNG_COUNT of them */
    uint64_t left;    /* bytes of CUDA's pools that were idle behind the last trim, which had given back what it could */
    const char *note; /* of the neighbours rung; "" */
    const char *why;  /* the ladder was not climbed to its end, and why; NULL: it was */
};

/* Writes it into the thread's last error and into the log, and counts the failure. Returns WEIR_OUT_OF_MEMORY, or
   WEIR_NO_HOST_MEMORY where that is what an arena lacked. */
weir_status weir__report(const struct weir__report *report);

#endif
