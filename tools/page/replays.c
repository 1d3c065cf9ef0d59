/* SPDX-License-Identifier: MIT */
/* replays.c - what the requests of a trace come to under other policies, for the page to lay over the recording. */
#include "tools/page/page.h"

#include <stdlib.h>

#include "tools/common/complain.h"
#include "tools/replay/machine.h"
#include "tools/replay/replay.h"
#include "tools/replay/unaware.h"

static void json_replay(struct json *json, const struct script *script, const char *name, const struct outcome *outcome)
{
    json_object(json, NULL);
    json_string(json, "policy", SHOWN(name));
    json_uint(json, "begin", script->begin);
    json_uint(json, "end", script->end);
    report_json_outcome(json, outcome);
    char *gain = unaware_gain(script, name, outcome);
    json_string(json, "gain", gain);
    free(gain);
    if (outcome->is_done) {
        json_uints(json, "reserved_line", outcome->reserved, OUTCOME_SLICES);
        json_uints(json, "live_line", outcome->live, OUTCOME_SLICES);
    }
    json_end(json);
}

int page_json_replays(struct json *json, struct trace *trace, const char *const *names, char *const *texts, size_t count)
{
    struct script script;
    struct machine machine;
    int status = script_make(&script, trace) ? machine_of(&script, NULL, &machine) : EXIT_TROUBLE;
    if (status == EXIT_GOOD) {
        const struct report report = replay_under(&script, &machine, names, texts, count);
        json_string(json, "replays_why_not", report.verdict.can_judge ? NULL : SHOWN(report.verdict.why));
        char *assumptions = unaware_assumptions(&script, "");
        json_string(json, "replays_assumptions", assumptions);
        free(assumptions);
        json_string(json, "replays_costs", SHOWN(machine_costs_text(&machine)));
        json_array(json, "replays");
        for (size_t i = 0; i < report.count; i++) {
            json_replay(json, &script, report.names[i], &report.outcomes[i]);
            if (!report.outcomes[i].is_done)
                complain("%s: the replay under the policy '%s' failed: %s", trace->path, report.names[i], report.outcomes[i].why);
        }
        json_end(json);
        status = replay_end(&report);
        machine_free(&machine);
    }
    script_free(&script);
    return status;
}
