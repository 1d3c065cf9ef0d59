/* SPDX-License-Identifier: MIT */
/* replays.c - what the requests of a trace come to under other policies, for the page to lay over the recording. */
#include "tools/page/page.h"

#include <stdlib.h>

#include "policy/policy.h"
#include "tools/common/complain.h"
#include "tools/replay/policy.h"
#include "tools/replay/report.h"
#include "tools/replay/run.h"

static void json_replay(struct json *json, const struct script *script, const char *name, const struct outcome *outcome)
{
    json_object(json, NULL);
    json_string(json, "policy", SHOWN(name));
    json_uint(json, "begin", script->begin);
    json_uint(json, "end", script->end);
    report_json_outcome(json, outcome);
    if (outcome->is_done) {
        json_uints(json, "reserved_line", outcome->reserved, OUTCOME_SLICES);
        json_uints(json, "live_line", outcome->live, OUTCOME_SLICES);
    }
    json_end(json);
}

static int replay(struct json *json, const struct script *script, const struct machine *machine, const char *const *names,
                  char *const *texts, size_t count)
{
    char *recorded = replay_policy_recorded(script->trace);
    size_t first = recorded != NULL, all = count + first;
    struct replay *replays = must(calloc(all, sizeof replays[0]));
    struct outcome *outcomes = must(calloc(all, sizeof outcomes[0]));
    char **policies = must(calloc(all, sizeof policies[0]));
    int status = EXIT_GOOD;
    for (size_t i = 0; i < all; i++) {
        policies[i] = replay_policy_by_index(i < first ? recorded : texts[i - first], script->trace);
        replays[i] =
            (struct replay){.script = script, .policy = policies[i], .machine = machine->settings, .pair_arena = machine->pair_arena};
    }
    replay_run_all(replays, outcomes, all, NULL);
    const struct verdict verdict = report_judge(script, recorded ? &outcomes[0] : NULL, machine->apart);
    json_string(json, "replays_why_not", verdict.can_judge ? NULL : SHOWN(verdict.why));
    json_string(json, "replays_costs", SHOWN(machine_costs_text(machine)));
    json_array(json, "replays");
    for (size_t i = 0; i < all; i++) {
        const char *name = i < first ? "as recorded" : names[i - first];
        json_replay(json, script, name, &outcomes[i]);
        if (!outcomes[i].is_done) {
            complain("%s: the replay under the policy '%s' failed: %s", script->trace->path, name, outcomes[i].why);
            status = EXIT_FAILED;
        }
        free(policies[i]);
    }
    json_end(json);
    free(policies);
    free(outcomes);
    free(replays);
    free(recorded);
    return status;
}

int page_json_replays(struct json *json, struct trace *trace, const char *const *names, char *const *texts, size_t count)
{
    struct script script;
    struct machine machine;
    int status = script_make(&script, trace) ? machine_of(&script, NULL, &machine) : EXIT_TROUBLE;
    if (status == EXIT_GOOD) {
        status = replay(json, &script, &machine, names, texts, count);
        machine_free(&machine);
    }
    script_free(&script);
    return status;
}
