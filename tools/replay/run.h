/* SPDX-License-Identifier: MIT */
/* run.h - one replay: a script done again by the library's own code, on a simulated machine. */
#ifndef WEIR_REPLAY_RUN_H
#define WEIR_REPLAY_RUN_H

#include "tools/replay/outcome.h"
#include "tools/replay/script.h"

/* Requests of a pool that have one of their own, though no policy routes them there: those of one tag. */
struct replay_part {
    uint16_t tag;         /* 1 + its place among the labels of the script */
    const char *of, *own; /* the pool of the policy that they had; their own */
};

/* All borrowed. */
struct replay {
    const struct script *script;
    const char *policy;      /* YAML */
    const char *assignments; /* on top of it, as in $WEIR_CONF; NULL: none */
    const char *machine;     /* settings of the simulator; NULL: on the GPU, in its time */
    uint64_t pair_arena;     /* with a machine: what an arena's code takes for a request and its free, in which that machine's clock stands */
    size_t from, until;      /* of the script: figures count from the operation `from` on, and the replay ends before `until`. 0: its end */
    const struct replay_part *part; /* NULL: none */
};

/*
 * Does it in this process, which can do so once: the simulated machine is a process's own, and stays as the replay left it. The order of
 * calls is that of the trace, all of them on the calling thread. Each recorded thread has its own time, and falls behind it by what its
 * calls take longer.
 */
void replay_run(const struct replay *replay, struct outcome *outcome);

/*
 * Does `count` of them, each in a process of its own: several at a time on simulators, one on a GPU. done (may be NULL) is called after each one that ended, with their
 * number. An outcome says why its replay failed; a process that died is such a reason.
 */
void replay_run_all(const struct replay *replays, struct outcome *outcomes, size_t count, void (*done)(size_t number, size_t count));

#endif
