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
#define LEARN_LEAST 4 /* growths that were recorded: fewer are chance */
#define FACTOR_LEAST 0.25
#define FACTOR_MOST 8
#define FACTOR_SAME 0.05 /* so little either way is none */
#define PLENTY 8 /* times what was live, where the trace does not tell what there was: no fragments take so much */
#define RECORDED_KEY "gpu.0.costs"
#define COST_MOST UINT64_C(100000000) /* ns, of a call or a GiB, that are believed of a table in a trace */
#define SIMULATED "simulated GPU " /* as the simulator's devices are called */

/* The simulator has one size for all of them: that of the largest, as one that is refused for want of memory says so. */
static uint64_t memory_of(const struct script *script)
{
    uint64_t most = 0;
    for (unsigned device = 0; device < script_devices(script); device++) {
        uint64_t bytes = trace_memory(script->trace, device);
        most = bytes > most ? bytes : most;
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
        utf8_shown(shown, why);
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
    if (!file && find_recorded(script, costs)) {
        machine->costs = (struct costs_origin){.kind = COSTS_RECORDED};
        return EXIT_GOOD;
    }
    int status = costs_find(file, gpu, NULL, trace_value(script->trace, "gpu.0.uuid"), costs, &machine->costs);
    bool is_found = status != EXIT_GOOD || machine->costs.kind != COSTS_BUILT_IN;
    return is_found ? status : costs_find_nearest(gpu, costs, &machine->costs);
}

/* The simulator's calls cost what its settings say, and a table that is named may be of any GPU. A table that was found for a GPU, even if it is
   of one like it, is to agree with the recording: else it cannot be relied on. */
static char *find_apart(const char *gpu, const struct costs *costs, const struct machine *machine)
{
    bool is_chosen = machine->costs.kind == COSTS_NAMED || strncmp(gpu, SIMULATED, strlen(SIMULATED)) == 0;
    if (machine->costs.kind == COSTS_BUILT_IN || machine->costs.kind == COSTS_RECORDED || !*gpu || strcmp(gpu, costs->gpu) == 0 || !is_chosen)
        return NULL;
    return format_text("it was made on %s, and calls cost what they do on %s", SHOWN(gpu), *costs->gpu ? SHOWN(costs->gpu) : "another GPU");
}

/* Learning ------------------------------------------------------------------------------------------------------------------------------- */

static double time_of(const struct gpu_cost *cost, const struct script_growth *growth)
{
    return (double)cost->call * (double)growth->count + (double)cost->gib * (double)growth->bytes / (double)(UINT64_C(1) << 30);
}

static struct gpu_cost sum(struct gpu_cost a, struct gpu_cost b)
{
    return (struct gpu_cost){.call = a.call + b.call, .gib = a.gib + b.gib};
}

static void scale(struct gpu_cost *cost, double factor)
{
    cost->call = (uint64_t)((double)cost->call * factor + 0.5);
    cost->gib = (uint64_t)((double)cost->gib * factor + 0.5);
}

/* Of a pool, with the request that makes it grow. */
static struct gpu_cost cost_of_growth(const struct costs *costs)
{
    const struct gpu_cost *values = costs->values;
    return sum(sum(values[COST_grow], values[COST_grow_each]), values[COST_malloc_async]);
}

/* How much longer growing took beside the kernels and the other threads of this program than alone, as the table has it. */
static double learn_factor(const struct costs *costs, const struct script_recorded *recorded)
{
    const struct gpu_cost *values = costs->values;
    struct gpu_cost pool = cost_of_growth(costs);
    struct gpu_cost page = sum(sum(values[COST_page_create], values[COST_page_map]), values[COST_page_set_access]);
    double expected = time_of(&pool, &recorded->pools) + time_of(&page, &recorded->arenas);
    double factor = expected > 0 ? (double)(recorded->pools.time + recorded->arenas.time) / expected : 1;
    bool is_enough = recorded->pools.count + recorded->arenas.count >= LEARN_LEAST;
    bool is_same = factor > 1 - FACTOR_SAME && factor < 1 + FACTOR_SAME;
    return !is_enough || is_same ? 1 : factor < FACTOR_LEAST ? FACTOR_LEAST : factor > FACTOR_MOST ? FACTOR_MOST : factor;
}

/* Scales what growing costs to what it cost in the recording. Returns by how much. */
static double learn_growth(const struct script_recorded *recorded, struct costs *costs)
{
    static const enum cost_id grown[] = {COST_grow, COST_grow_each, COST_page_create, COST_page_map, COST_page_set_access};
    double factor = learn_factor(costs, recorded);
    for (size_t i = 0; i < sizeof grown / sizeof grown[0]; i++)
        scale(&costs->values[grown[i]], factor);
    return factor;
}

/* The first growth of a CUDA pool takes what it took, also where it was not the first of its process. */
static void learn_first(const struct script_recorded *recorded, struct costs *costs)
{
    struct gpu_cost pool = cost_of_growth(costs);
    double usual = time_of(&pool, &recorded->first) + (double)costs->values[COST_first].call;
    double more = (double)recorded->first.time - usual;
    if (!recorded->first.count)
        return;
    costs->values[COST_first_of_all] = (struct gpu_cost){.call = more < 0 ? 0 : more < COST_MOST ? (uint64_t)more : COST_MOST};
    costs->is_measured[COST_first_of_all] = true;
}

static char *describe(const struct machine *machine, const char *gpu, const char *recorded)
{
    bool is_nearest = machine->costs.kind == COSTS_SHIPPED && strcmp(gpu, recorded) != 0;
    char *learned = machine->growth == 1 ? format_text("%s", "")
                                         : format_text("; growing takes %.2f times as long as in it, as it did in the recording", machine->growth);
    char *text = machine->costs.kind == COSTS_BUILT_IN ?
                     format_text("no cost table of this GPU was found (weir calibrate makes one), so calls cost what they cost on the simulator") :
                 machine->costs.kind == COSTS_RECORDED ? format_text("the trace's own, as measured on %s%s", SHOWN(gpu), learned) :
                 is_nearest ? format_text("%s, the nearest of the shipped tables, as there is none of %s (weir calibrate makes one)%s",
                                          machine->costs.path, *recorded ? SHOWN(recorded) : "the recorded GPU, which has no name", learned) :
                                                         format_text("%s%s", machine->costs.path, learned);
    free(learned);
    return text;
}

int machine_of(const struct script *script, const char *file, struct machine *machine)
{
    struct costs costs;
    *machine = (struct machine){.memory = memory_of(script)};
    int status = find_costs(script, file, &costs, machine);
    if (status != EXIT_GOOD)
        return status;
    bool is_built_in = machine->costs.kind == COSTS_BUILT_IN, is_named = machine->costs.kind == COSTS_NAMED;
    const char *gpu = or_nothing(trace_value(script->trace, "gpu.0.name"));
    machine->apart = find_apart(gpu, &costs, machine);
    machine->growth = is_built_in || is_named || machine->apart ? 1 : learn_growth(&script->recorded, &costs);
    if (!is_built_in)
        learn_first(&script->recorded, &costs);
    machine->pair_arena = costs.values[COST_pair_arena].call;
    machine->costs_text = describe(machine, costs.gpu, gpu);
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
    free(machine->apart);
}

const char *machine_costs_text(const struct machine *machine)
{
    return machine->costs_text;
}

void machine_costs_json(struct json *json, const struct machine *machine)
{
    json_string(json, "costs", machine && *machine->costs.path ? machine->costs.path : NULL);
    json_string(json, "costs_origin", machine ? costs_origin_word(&machine->costs) : NULL);
    json_number(json, "growth_factor", machine ? machine->growth : 1, 4);
}
