/* SPDX-License-Identifier: MIT */
/* report.h - what replays of one trace came to, for people and as JSON; and whether they can be believed. */
#ifndef WEIR_REPLAY_REPORT_H
#define WEIR_REPLAY_REPORT_H

#include "tools/common/json.h"
#include "tools/replay/machine.h"
#include "tools/replay/outcome.h"
#include "tools/replay/script.h"

/* How far the replay of the recorded policy may be off, in parts of what was recorded. */
#define REPORT_MEMORY_ERROR 0.05
#define REPORT_STALL_ERROR 0.15
#define REPORT_STALL_FREE UINT64_C(1000000) /* ns: a difference in stall time of so little is none */

/* How the replay of the recorded policy compares with the recording. */
struct verdict {
    bool can_judge;
    double memory_error, stall_error; /* parts; negative: not known. The second is of calls that took long */
    char why[512];                    /* it cannot; or what is not known */
};

/* outcome: of the recorded policy; NULL: the trace does not tell which that was. apart: why times cannot be compared; NULL: they can. */
struct verdict report_judge(const struct script *script, const struct outcome *outcome, const char *apart);

/* The same as if the trace were complete; and in what way it is not, NULL: it is. */
struct verdict report_compare(const struct script *script, const struct outcome *outcome, const char *apart);
const char *report_incomplete(const struct script *script);

/* One row for each policy. */
struct report {
    const struct script *script;
    const char *const *names;
    const struct outcome *outcomes;
    size_t count;
    struct verdict verdict;
    const struct machine *machine; /* NULL: replayed on the GPU */
};

void report_print(const struct report *report);
void report_json(struct json *json, const struct report *report);
/* Members of an object that is open: what a replay came to. */
void report_json_outcome(struct json *json, const struct outcome *outcome);

#endif
