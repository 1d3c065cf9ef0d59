/* SPDX-License-Identifier: MIT */
#include "tools/replay/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/source.h"
#include "tools/trace/view.h"

#define MEMORY_LEAST (UINT64_C(32) << 20)
#define MEMORY_MOST (UINT64_C(1) << 40)
#define PLENTY_LEAST (UINT64_C(8) << 30)
#define PLENTY 8 /* times what was live, where the trace does not tell what there was: no fragments take so much */
#define RECORDED_KEY "gpu.0.costs"
#define COST_MOST UINT64_C(100000000) /* ns, of a call or a GiB, that are believed of a table in a trace */

/* The simulator has one size for all of them: that of the largest, as one that is refused for want of memory says so. */
static uint64_t memory_of(const struct script *script)
{
    uint64_t most = 0;
    for (unsigned device = 0; device < script_devices(script); device++) {
        char *key = format_text("gpu.%u.memory", device);
        const char *text = trace_value(script->trace, key);
        uint64_t bytes = text ? strtoull(text, NULL, 10) : 0;
        most = bytes > most ? bytes : most;
        free(key);
    }
    return most > MEMORY_MOST ? MEMORY_MOST : most && most < MEMORY_LEAST ? MEMORY_LEAST : most;
}

static uint64_t plenty_of(const struct script *script)
{
    uint64_t live = script->recorded.peak_live, bytes = live < MEMORY_MOST / PLENTY ? live * PLENTY : MEMORY_MOST;
    return bytes < PLENTY_LEAST ? PLENTY_LEAST : bytes;
}

/* The table that the trace has. It may be a stranger's, so costs that no machine has are refused: the clock could come to its end. */
static bool find_recorded(const struct script *script, struct costs *costs)
{
    const char *text = trace_value(script->trace, RECORDED_KEY);
    char why[1024], shown[SHOWN_LEN];
    bool is_good = text && costs_read(RECORDED_KEY, text, strlen(text), costs, why, sizeof why);
    for (int i = 0; i < COST_COUNT && is_good; i++)
        if (costs->values[i].call > COST_MOST || costs->values[i].gib > COST_MOST) {
            snprintf(why, sizeof why, RECORDED_KEY ": %s: more than 100 ms", cost_rows[i].key);
            is_good = false;
        }
    if (text && !is_good) {
        view_shown(shown, why);
        complain("%s: the trace's own cost table is left aside: %s", source_name(script->trace->path), shown);
    }
    return is_good;
}

static const char *or_nothing(const char *text)
{
    return text ? text : "";
}

static int find_costs(const struct script *script, const char *file, struct costs *costs, struct machine *machine)
{
    const char *gpu = or_nothing(trace_value(script->trace, "gpu.0.name"));
    if (file || !find_recorded(script, costs))
        return costs_find(file, gpu, NULL, trace_value(script->trace, "gpu.0.uuid"), costs, &machine->costs);
    machine->costs = (struct costs_origin){.kind = COSTS_RECORDED};
    machine->costs_text = format_text("the trace's own, as measured on %s", SHOWN(costs->gpu));
    return EXIT_GOOD;
}

int machine_of(const struct script *script, const char *file, struct machine *machine)
{
    struct costs costs;
    *machine = (struct machine){.memory = memory_of(script)};
    int status = find_costs(script, file, &costs, machine);
    if (status != EXIT_GOOD)
        return status;
    char *settings = costs_to_sim(&costs);
    machine->settings = format_text("devices=%u,peers=all,memory=%" PRIu64 "%s%s", script_devices(script),
                                    machine->memory ? machine->memory : plenty_of(script), *settings ? "," : "", settings);
    free(settings);
    return EXIT_GOOD;
}

void machine_free(struct machine *machine)
{
    free(machine->settings);
    free(machine->costs_text);
}

const char *machine_costs_text(const struct machine *machine)
{
    if (machine->costs_text)
        return machine->costs_text;
    return machine->costs.kind == COSTS_BUILT_IN ? "no cost table of this GPU was found, so calls cost what they cost on the simulator"
                                                 : machine->costs.path;
}

void machine_costs_json(struct json *json, const struct machine *machine)
{
    static const char *const words[] = {
        [COSTS_NAMED] = "named",     [COSTS_RECORDED] = "recorded", [COSTS_CACHED] = "measured",
        [COSTS_SHIPPED] = "shipped", [COSTS_BUILT_IN] = "built-in",
    };
    json_string(json, "costs", machine && *machine->costs.path ? machine->costs.path : NULL);
    json_string(json, "costs_origin", machine ? words[machine->costs.kind] : NULL);
}
