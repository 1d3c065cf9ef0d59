/* SPDX-License-Identifier: MIT */
/* tune.c - `weir tune`: searches the values of a policy for a recorded program, and writes the policy. */
#include "tools/common/command.h"
#include "tools/common/new_file.h"
#include "tools/common/format.h"
#include "tools/common/source.h"
#include "tools/common/terminal.h"
#include "tools/replay/policy.h"
#include "tools/replay/report.h"
#include "tools/trace/import.h"
#include "tools/tune/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_COSTS, OPT_FOR, OPT_JSON, OPT_MEMORY, OPT_OUTPUT, OPT_POLICY, OPT_VERIFY };

static const struct command_option options[] = {
    [OPT_COSTS] = {.name = "costs",
                   .kind = OPTION_TEXT,
                   .placeholder = "FILE",
                   .help = "what calls cost, as weir calibrate wrote it (default: the table of the recorded GPU)"},
    [OPT_FOR] = {.name = "for", .kind = OPTION_TEXT, .placeholder = "time|memory|balance", .help = "what to look for (default: balance)"},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_MEMORY] = {.name = "memory",
                    .letter = 'm',
                    .kind = OPTION_TEXT,
                    .placeholder = "SIZE",
                    .help = "what the largest pool may have, as in 40GiB"},
    [OPT_OUTPUT] = {.name = "output", .letter = 'o', .kind = OPTION_TEXT, .placeholder = "FILE", .help = "write the policy there"},
    [OPT_POLICY] = {.name = "policy",
                    .letter = 'p',
                    .kind = OPTION_TEXT,
                    .placeholder = "FILE",
                    .help = "begin with this policy (default: the one that was recorded)"},
    [OPT_VERIFY] = {.name = "verify",
                    .kind = OPTION_FLAG,
                    .help = "measure what was found and its rivals on the GPU of this machine, in the recorded time"},
    {0},
};

#define KEPT_ASIDE 3          /* a part of so many is not searched on */
#define KEPT_ASIDE_LEAST 1000 /* operations */

/* Input -------------------------------------------------------------------------------------------------------------------------------- */

static bool read_memory(const struct option_value *value, uint64_t *bytes)
{
    *bytes = 0;
    if (!value->given || (size_read(value->text, bytes) && *bytes >= 2 * POLICY_GROWTH_STEP))
        return true;
    complain("tune: --memory=%s: write bytes from 64MiB as in 40GiB", value->text);
    return false;
}

/* The policy to begin with: EXIT_GOOD, or after a complaint another exit status. */
static int read_base(struct tune *tune, const char *file)
{
    struct policy_errors errors = {0};
    if (file) {
        tune->base_text = replay_policy_read("tune", file);
        if (!tune->base_text)
            return EXIT_TROUBLE;
        tune->base_name = source_name(file);
    } else {
        tune->base_text = replay_policy_recorded(tune->script.trace);
        tune->base_name = tune->base_text ? "as recorded" : "built-in";
        if (!tune->base_text)
            tune->base_text = must(strdup(policy_builtin_text()));
    }
    enum policy_status status = policy_parse(tune->base_text, strlen(tune->base_text), tune->base_name, NULL, &errors, &tune->base);
    source_print_errors(&errors);
    policy_errors_clear(&errors);
    tune->text = replay_policy_by_index(tune->base_text, tune->script.trace);
    return source_exit(status);
}

/* The pools of the policy that served the most bytes in the trace, at most TUNE_POOLS_MAX. Returns how many. */
static size_t largest_pools(const struct tune *tune, const struct policy_pool *pools[static TUNE_POOLS_MAX])
{
    const struct script *script = &tune->script;
    size_t count = 0;
    uint64_t *bytes = must(calloc(tune->base->pool_count + 1, sizeof *bytes));
    for (size_t i = 0; i < script->count; i++) {
        const struct script_op *op = &script->ops[i];
        const char *name = op->what == SCRIPT_MALLOC ? script_pool_name(script->pools[op->pool]) : NULL;
        const struct policy_pool *pool = name ? policy_find_pool(tune->base, name) : NULL;
        if (op->what == SCRIPT_MALLOC)
            bytes[pool ? (size_t)(pool - tune->base->pools) : tune->base->default_pool] += op->size;
    }
    while (count < TUNE_POOLS_MAX) {
        size_t most = 0;
        for (size_t i = 0; i < tune->base->pool_count; i++)
            most = bytes[i] > bytes[most] ? i : most;
        if (!bytes[most])
            break;
        bytes[most] = 0;
        const struct policy_pool *pool = &tune->base->pools[most];
        /* What is shared or the host's has other purposes than speed. */
        if (pool->location.kind == POLICY_LOCATION_DEVICE && pool->ipc == POLICY_IPC_NONE && pool->backing != POLICY_BACKING_DEFAULT)
            pools[count++] = pool;
    }
    free(bytes);
    return count;
}

/* The search --------------------------------------------------------------------------------------------------------------------------- */

static size_t replays_done;

static void show_progress(size_t done, size_t count)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%zu replays, %zu of %zu of this round ", replays_done + done, done, count);
    if (done == count) {
        replays_done += done;
        if (isatty(STDERR_FILENO))
            fputs("\r\033[K", stderr);
    }
}

struct replay tune_chosen(const struct tune *tune)
{
    if (tune->division.chosen)
        return division_replay(tune->division.chosen, tune);
    struct replay replay = tune->base_replay;
    replay.assignments = tune->fixed[tune->count];
    return replay;
}

void tune_write(const struct tune *tune, FILE *out, const char *comment)
{
    const struct division *division = &tune->division;
    advice_write(out, tune->base, division->policy, tune->findings, tune->count + !!division->chosen, comment);
}

static void replay_one(struct replay replay, size_t from, size_t until, struct outcome *outcome)
{
    replay.from = from;
    replay.until = until;
    replay_run_all(&replay, outcome, 1, NULL);
}

/* By the policy that was recorded, whichever one the search begins with. */
static bool can_judge(const struct tune *tune)
{
    char *recorded = replay_policy_recorded(tune->script.trace);
    if (!recorded)
        return true;
    char *text = replay_policy_by_index(recorded, tune->script.trace);
    struct replay replay = tune->base_replay;
    struct outcome outcome;
    replay.policy = text;
    replay_one(replay, 0, 0, &outcome);
    free(text);
    free(recorded);
    const struct verdict verdict = report_judge(&tune->script, &outcome, tune->machine.apart);
    if (!verdict.can_judge)
        complain("tune: a replay cannot judge policies for this trace: %s. Costs: %s", verdict.why, machine_costs_text(&tune->machine));
    return verdict.can_judge;
}

/* The policy as it is, also on what was kept aside. */
static bool look_at_base(struct tune *tune)
{
    replay_one(tune->base_replay, 0, tune->split, &tune->in_force);
    replay_one(tune->base_replay, tune->split, 0, &tune->aside_in_force);
    if (!tune->in_force.is_done)
        complain("tune: the policy '%s' cannot be replayed: %s", tune->base_name, tune->in_force.why);
    return tune->in_force.is_done;
}

/* For the comparison; as it has neither a cap nor more than one pool, it is none where those matter. */
static void look_at_cuda(struct tune *tune)
{
    const struct policy_pool *pool = policy_find_pool(tune->base, tune->searches[0].pool);
    bool has_cap = tune->memory || pool->max_size.kind != POLICY_SIZE_NONE;
    bool is_alike = tune->count == 1 && tune->script.has_synchronises && !has_cap;
    const struct trial *trial = is_alike ? search_try(&tune->searches[0], &candidate_of_cuda) : NULL;
    tune->has_cuda = trial != NULL;
    if (trial)
        tune->cuda = *trial;
}

static bool search_all(struct tune *tune)
{
    const struct policy_pool *pools[TUNE_POOLS_MAX];
    size_t count = largest_pools(tune, pools);
    if (!count) {
        complain("tune: the trace has no requests of a pool that can be searched: one of a device, and neither exported nor CUDA's own");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct search *search = &tune->searches[i];
        *search = (struct search){.base = tune->base_replay};
        search->fixed = tune->fixed[i];
        search->pool = pools[i]->name;
        search->max_size = i == 0 ? tune->memory : 0;
        search->may_be_arena = !pools[i]->current;
        search->base.until = tune->split;
        search->goal = tune->goal;
        search->progress = show_progress;
        const struct trial *best = search_run(search);
        if (!best) {
            complain("tune: nothing could be replayed for pool '%s': %s", pools[i]->name, search->why ? search->why : "no reason is known");
            return false;
        }
        tune->findings[i] = (struct finding){.search = search, .pool = search->pool, .best = *best, .written = best->candidate};
        tune->fixed[i + 1] = candidate_assignments(&best->candidate, search->pool, tune->fixed[i]);
        tune->count++;
    }
    return true;
}

/* Whether a part of the first pool is better off in one of its own. */
static void look_at_parts(struct tune *tune)
{
    division_find(&tune->division, tune, show_progress);
    const struct division_trial *chosen = tune->division.chosen;
    if (!chosen)
        return;
    tune->chosen = chosen->outcome;
    tune->findings[0].best = chosen->with;
    tune->findings[0].written = chosen->candidates[0];
    tune->findings[tune->count] = tune->findings[0];
    tune->findings[tune->count].pool = chosen->pool;
    tune->findings[tune->count].written = chosen->candidates[1];
    tune->findings[tune->count].why = tune->division.why;
}

static bool look_at_chosen(struct tune *tune)
{
    replay_one(tune_chosen(tune), 0, tune->split, &tune->chosen);
    if (!tune->chosen.is_done) {
        complain("tune: the policy that was found cannot be replayed again: %s", tune->chosen.why);
        return false;
    }
    tune->one = tune->findings[0].best;
    tune->undivided = tune->chosen;
    look_at_parts(tune);
    replay_one(tune_chosen(tune), tune->split, 0, &tune->aside_chosen);
    return true;
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static int write_policy(const struct tune *tune, const char *path, const char *comment)
{
    struct new_file file;
    if (!path) {
        puts("");
        tune_write(tune, stdout, comment);
        return EXIT_GOOD;
    }
    if (!new_file_begin(&file, "tune", path, NEW_FILE_NOWHERE, 0644))
        return EXIT_TROUBLE;
    tune_write(tune, file.out, comment);
    return new_file_end(&file, true);
}

/* Keeps the last part of a long trace aside. */
static void split(struct tune *tune)
{
    const struct script *script = &tune->script;
    tune->split = script->count - script->count / KEPT_ASIDE;
    if (script->count - tune->split < KEPT_ASIDE_LEAST)
        tune->split = script->count;
    for (size_t i = 0; i < tune->split; i++)
        tune->searched += script->ops[i].what == SCRIPT_MALLOC;
}

static int answer(const struct tune *tune, const struct verification *verification, const struct command_call *call)
{
    int status = EXIT_GOOD;
    char *summary = show_summary(tune, verification);
    if (call->options[OPT_JSON].given) {
        show_json(tune, verification, summary);
    } else {
        puts(summary);
        show_fronts(tune);
        if (verification)
            verify_print(verification);
    }
    if (!call->options[OPT_JSON].given || call->options[OPT_OUTPUT].given)
        status = write_policy(tune, call->options[OPT_OUTPUT].text, summary);
    free(summary);
    return status;
}

static int tune_trace(struct tune *tune, const struct command_call *call)
{
    const char *file = call->options[OPT_POLICY].text, *goal = call->options[OPT_FOR].text;
    tune->goal = GOAL_BALANCE;
    for (enum goal i = GOAL_TIME; goal && i <= GOAL_BALANCE; i++)
        tune->goal = strcmp(tune_goals[i], goal) == 0 ? i : tune->goal;
    int status = machine_of(&tune->script, call->options[OPT_COSTS].text, &tune->machine);
    if (status == EXIT_GOOD)
        status = read_base(tune, file);
    if (status != EXIT_GOOD)
        return status;
    tune->base_replay = (struct replay){.script = &tune->script, .policy = tune->text, .machine = tune->machine.settings,
                                        .pair_arena = tune->machine.pair_arena};
    if (tune->machine.costs.kind == COSTS_BUILT_IN) {
        complain("tune: there is no cost table, and calls of the driver are not free: make one with 'weir calibrate', or name one with --costs");
        return EXIT_FAILED;
    }
    if (!tune->script.has_caches) {
        complain("tune: the trace has level 'pool', which does not tell what caches served; record with --level=all");
        return EXIT_FAILED;
    }
    split(tune);
    bool is_verified = call->options[OPT_VERIFY].given;
    if (!can_judge(tune) || (is_verified && !verify_can(tune)) || !look_at_base(tune) || !search_all(tune) || !look_at_chosen(tune))
        return EXIT_FAILED;
    look_at_cuda(tune);
    struct verification verification = {.count = 0};
    if (is_verified)
        verify_run(tune, &verification);
    status = answer(tune, is_verified ? &verification : NULL, call);
    if (is_verified && !verification.is_measured)
        status = worse_exit(status, EXIT_FAILED);
    verify_free(&verification);
    return status;
}

static int run(const struct command_call *call)
{
    struct tune tune = {.count = 0};
    struct trace trace;
    int status = EXIT_TROUBLE;
    const char *output = call->options[OPT_OUTPUT].text;
    if (!read_memory(&call->options[OPT_MEMORY], &tune.memory))
        return EXIT_TROUBLE;
    /* Before the search, which takes minutes. */
    if (output && !new_file_can_be_made("tune", output, NEW_FILE_NOWHERE))
        return EXIT_TROUBLE;
    if (import_open(&trace, call->operands[0]) && script_make(&tune.script, &trace))
        status = tune_trace(&tune, call);
    for (size_t i = 0; i < TUNE_POOLS_MAX; i++) {
        search_free(&tune.searches[i]);
        free(tune.fixed[i + 1]);
    }
    division_free(&tune.division);
    policy_free(tune.base);
    free(tune.base_text);
    free(tune.text);
    machine_free(&tune.machine);
    script_free(&tune.script);
    trace_close(&trace);
    return status;
}

const struct command command_tune = {
    .name = "tune",
    .summary = "find the values of a policy for a recorded program",
    .operands = "TRACE",
    .operands_min = 1,
    .operands_max = 1,
    .details =
        "Replays the trace (weir replay) under many policies and prints the one that is best for it, as YAML with the reason of each "
        "value.\n"
        "Searched are release_threshold, backing, the bounds of caches, small_below and initial_size of the pools that served the most "
        "bytes, three at most, one after the other. Shown is what no other policy beats in peak memory and stall time.\n"
        "Then the parts of the largest pool, streams of a name and tags, whose blocks live much longer or shorter than the rest are tried "
        "in a second pool with the same settings. Where that is better by 1 % at least, the policy has it. No policy routes tags: the "
        "program has to ask for such a pool itself.\n"
        "--for=time takes the least stalls, --for=memory the least memory; --for=balance weighs stalls of 1 % of the run like 10 % of the "
        "least peak memory. With --memory the largest pool gets that max_size, or a smaller one that serves it better.\n"
        "Growth to initial_size is at weir_open(), and no stall.\n"
        "The last third of a long trace is kept aside, and the policy that was found is tried on it. The same trace gives the same "
        "answer.\n"
        "With --verify the chosen policy, the next best one and the one in force are replayed on the GPU as by weir replay --gpu, three "
        "times each in turn, and what was measured stands beside what was predicted.\n"
        "A trace for which replays cannot judge is refused. Exit status: 0 found, 1 refused, not measured, or the policy to begin with is "
        "bad, 2 a file cannot be read or written.",
    .example = "  weir record -o run.weir -- ./program\n"
               "  weir tune run.weir -o policy.yaml\n"
               "  weir tune --verify run.weir\n"
               "  weir tune --for=memory --memory=40GiB run.weir\n",
    .options = options,
    .run = run,
};
