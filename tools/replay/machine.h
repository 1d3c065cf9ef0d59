/* SPDX-License-Identifier: MIT */
/* machine.h - the simulated machine that stands for the recorded one: its devices and memory, and what calls cost there. */
#ifndef WEIR_REPLAY_MACHINE_H
#define WEIR_REPLAY_MACHINE_H

#include "tools/common/costs_find.h"
#include "tools/common/json.h"
#include "tools/replay/script.h"

struct machine {
    char *settings; /* of the simulator */
    uint64_t memory; /* bytes of each device; 0: the trace does not tell, and there is plenty */
    uint64_t pair_arena; /* ns that an arena's own code takes for a block and its free */
    struct costs_origin costs;
    double growth; /* by how much longer than by the table growing took when it was recorded; 1: not known, or the table was named */
    char *costs_text; /* which table it is */
    char *apart;      /* why what calls took cannot be compared with the recording; NULL: it can */
};

/* costs: a table by name; NULL: the trace's own, else that of the GPU which the trace names, else the shipped one whose name is most like that
   GPU's. EXIT_GOOD; else, after a complaint, EXIT_FAILED or EXIT_TROUBLE. */
int machine_of(const struct script *script, const char *costs, struct machine *machine);
void machine_free(struct machine *machine);

/* Which table it is, or that there is none. Lives as long as the machine. */
const char *machine_costs_text(const struct machine *machine);
/* Members "costs", the file, "costs_origin" and "growth_factor". NULL: a GPU, which needs no table. */
void machine_costs_json(struct json *json, const struct machine *machine);

#endif
