/* SPDX-License-Identifier: MIT */
/* try.c - `weir try`: whether a policy serves a real workload, and recovers when memory runs out. */
#include "tools/try/try.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/source.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPT_SECONDS, OPT_THREADS, OPT_SEED, OPT_GPU, OPT_JSON };

static const struct command_option options[] = {
    [OPT_SECONDS] = {"seconds", 's', OPTION_SECONDS, "SECONDS", "how long the workload runs (default 5)", 0.01, 86400},
    [OPT_THREADS] = {"threads", 't', OPTION_COUNT, "NUMBER", "how many threads drive it (default 4)", 1, 64},
    [OPT_SEED] = {"seed", 0, OPTION_COUNT, "NUMBER", "start of the random sizes and choices (default 1)", 0, 4294967295.0},
    [OPT_GPU] = {"gpu", 0, OPTION_TEXT, "cuda|sim", "run on CUDA or the simulator (default: $WEIR_GPU, else cuda)", 0, 0},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print the report as one JSON document"},
    {0},
};

void try_fail(struct try_run *run, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *MUST_ADD(run->reasons, run->reason_count, run->reason_room) = make_text(format, args);
    va_end(args);
}

/* Opens the policy; says on stderr why not. Returns an exit status. */
static int open_weir(struct try_run *run, const char *operand, const char *text, const char *gpu_name)
{
    weir_options how = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    const char *why;
    how.policy_file = text ? NULL : operand;
    how.policy_text = text;
    how.gpu = gpu_name;
    run->gpu = gpu_find(gpu_name ? gpu_name : variable("WEIR_GPU"), &why);
    if (!run->gpu) {
        complain("%s", why);
        return EXIT_FAILED;
    }
    weir_status status = weir_open(&how, &error, &run->weir);
    if (status == WEIR_OK)
        return EXIT_GOOD;
    complain("%s", error.text);
    return status == WEIR_UNREADABLE ? EXIT_TROUBLE : EXIT_FAILED;
}

weir_stats *try_stats(struct try_run *run)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats = NULL;
    if (weir_stats_take(run->weir, &error, &stats) != WEIR_OK)
        try_fail(run, "no statistics: %s", error.text);
    return stats;
}

/* When everything was given back: nothing may be live. */
static void check_leaks(struct try_run *run)
{
    weir_stats *stats = try_stats(run);
    for (size_t i = 0; stats && i < weir_stats_pool_count(stats); i++) {
        const weir_pool_stats *pool = weir_stats_pool(stats, i);
        run->leaked_blocks += pool->live_blocks;
        run->leaked_bytes += pool->live;
    }
    weir_stats_free(stats);
    if (run->leaked_blocks || run->leaked_bytes)
        try_fail(run, "%s block%s (%s) leaked: live after everything was freed", COUNT_TEXT(run->leaked_blocks),
                 weir__plural(run->leaked_blocks), SIZE_TEXT(run->leaked_bytes));
}

static void play(struct try_run *run)
{
    if (try_open(run)) {
        try_work(run);
        if (run->reason_count == 0)
            try_recover(run);
        check_leaks(run);
    }
    if (run->as_json)
        try_report_json(run);
    else
        try_report(run);
    try_close(run);
}

static void free_run(struct try_run *run)
{
    for (size_t i = 0; i < run->step_count; i++)
        free(run->steps[i].report);
    free(run->steps);
    for (size_t i = 0; i < run->reason_count; i++)
        free(run->reasons[i]);
    free(run->reasons);
    policy_free(run->policy);
}

static int run_try(const struct command_call *call)
{
    struct try_run run = {0};
    const struct option_value *given = call->options;
    const char *operand = call->count ? call->operands[0] : NULL;
    char *text;
    run.seconds = given[OPT_SECONDS].given ? given[OPT_SECONDS].seconds : 5;
    run.threads = given[OPT_THREADS].given ? (unsigned)given[OPT_THREADS].count : 4;
    run.seed = given[OPT_SEED].given ? given[OPT_SEED].count : 1;
    run.as_json = given[OPT_JSON].given;
    int status = source_load(operand, &run.policy, &text);
    if (status != EXIT_GOOD)
        return status;
    status = open_weir(&run, operand, text, given[OPT_GPU].text);
    if (status == EXIT_GOOD) {
        play(&run);
        if (run.reason_count)
            status = EXIT_FAILED;
    }
    free_run(&run);
    free(text);
    return status;
}

const struct command command_try = {
    .name = "try",
    .summary = "drive a real workload through a policy's pools, and run out of memory",
    .operands = "[POLICY]",
    .operands_max = 1,
    .details =
        "Opens the policy (without POLICY the one that 'weir show' shows) and tries it out on the GPU. Threads allocate, fill, check and\n"
        "free blocks of mixed sizes on several streams of each pool. Then memory runs out on purpose: most of each pool is freed behind\n"
        "a running kernel while as much is asked for on another stream, and on each device a callback frees a reserve. The report\n"
        "says what was served and what rescued the rest.\n"
        "It fills the GPU's memory for a moment: not for a GPU on which others work.\n"
        "Exit status: 0 everything was served, verified and recovered; 1 something was not, or the policy does not open; 2 wrong usage.",
    .example = "  weir try --seconds=2 policy.yaml\n"
               "  weir try inference\n"
               "  WEIR_SIM=devices=2,memory=8GiB weir try --gpu=sim\n",
    .options = options,
    .run = run_try,
};
