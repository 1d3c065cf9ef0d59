/* SPDX-License-Identifier: MIT */
#include "tools/replay/machine.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"

#define MEMORY_LEAST (UINT64_C(32) << 20)
#define MEMORY_MOST (UINT64_C(1) << 40)
#define PLENTY_LEAST (UINT64_C(8) << 30)
#define PLENTY 8 /* times what was live, where the trace does not tell what there was: no fragments take so much */

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

int machine_of(const struct script *script, const char *file, struct machine *machine)
{
    const char *gpu = trace_value(script->trace, "gpu.0.name");
    struct costs costs;
    *machine = (struct machine){.memory = memory_of(script)};
    int status = costs_find(file, gpu ? gpu : "", NULL, trace_value(script->trace, "gpu.0.uuid"), &costs, &machine->costs);
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
}

const char *machine_costs_text(const struct machine *machine)
{
    return machine->costs.kind == COSTS_BUILT_IN ? "no cost table of this GPU was found, so calls cost what they cost on the simulator"
                                                 : machine->costs.path;
}
