/* SPDX-License-Identifier: MIT */
/* replay.c - `weir replay`: does the requests of a trace again under other policies. */
#include "tools/replay/replay.h"
#include "tools/common/command.h"
#include "tools/common/source.h"
#include "tools/replay/machine.h"
#include "tools/replay/policy.h"
#include "tools/replay/run.h"
#include "tools/trace/import.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_COSTS, OPT_GPU, OPT_JSON, OPT_POLICY };

static const struct command_option options[] = {
    [OPT_COSTS] = {.name = "costs",
                   .kind = OPTION_TEXT,
                   .placeholder = "FILE",
                   .help = "what calls cost, as weir calibrate wrote it (default: the table of the recorded GPU)"},
    [OPT_GPU] = {.name = "gpu", .kind = OPTION_FLAG, .help = "on the GPU of this machine instead of a simulated one, in the recorded time"},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_POLICY] = {.name = "policy",
                    .letter = 'p',
                    .kind = OPTION_TEXTS,
                    .placeholder = "FILE",
                    .help = "replay under this policy as well; may be given several times"},
    {0},
};

#define RECORDED "as recorded"

/* The policies of one call. */
struct choice {
    const char **names;
    char **texts;
    size_t count;
};

/* EXIT_GOOD, or after a complaint another exit status. */
static int read_policies(const struct option_value *value, struct choice *choice)
{
    *choice = (struct choice){.names = value->texts, .count = value->text_count};
    choice->texts = must(calloc(choice->count + 1, sizeof *choice->texts));
    for (size_t i = 0; i < choice->count; i++) {
        int status = replay_policy_read_valid("replay", choice->names[i], &choice->texts[i]);
        if (status != EXIT_GOOD)
            return status;
    }
    return EXIT_GOOD;
}

struct report replay_under(const struct script *script, const struct machine *machine, const char *const *names, char *const *texts, size_t count)
{
    char *recorded = replay_policy_recorded(script->trace);
    size_t first = recorded || !count, all = count + first;
    const char **shown = must(calloc(all, sizeof *shown));
    char **policies = must(calloc(all, sizeof *policies));
    struct replay *replays = must(calloc(all, sizeof *replays));
    struct outcome *outcomes = must(calloc(all, sizeof *outcomes));
    for (size_t i = 0; i < all; i++) {
        bool is_own = i < first;
        shown[i] = !is_own ? names[i - first] : recorded ? RECORDED : "built-in";
        policies[i] = replay_policy_by_index(!is_own ? texts[i - first] : recorded ? recorded : policy_builtin_text(), script->trace);
        replays[i] = (struct replay){.script = script, .policy = policies[i], .machine = machine ? machine->settings : NULL,
                                     .pair_arena = machine ? machine->pair_arena : 0};
    }
    replay_run_all(replays, outcomes, all, NULL);
    const struct verdict verdict = report_judge(script, recorded ? &outcomes[0] : NULL, machine ? machine->apart : NULL);
    for (size_t i = 0; i < all; i++)
        free(policies[i]);
    free(policies);
    free(replays);
    free(recorded);
    return (struct report){script, shown, outcomes, all, verdict, machine};
}

int replay_end(const struct report *report)
{
    int status = EXIT_GOOD;
    for (size_t i = 0; i < report->count; i++)
        status = report->outcomes[i].is_done ? status : EXIT_FAILED;
    free((void *)(uintptr_t)report->names);
    free((void *)(uintptr_t)report->outcomes);
    return status;
}

static int replay_trace(struct trace *trace, const struct choice *choice, const struct command_call *call, struct json *json)
{
    bool is_real = call->options[OPT_GPU].given;
    struct script script;
    struct machine machine;
    int status = script_make(&script, trace) ? machine_of(&script, call->options[OPT_COSTS].text, &machine) : EXIT_TROUBLE;
    if (status != EXIT_GOOD) {
        script_free(&script);
        return status;
    }
    const struct report report = replay_under(&script, is_real ? NULL : &machine, choice->names, choice->texts, choice->count);
    if (json && !json_was_begun())
        json_array(json, NULL);
    if (json)
        report_json(json, &report);
    else
        report_print(&report);
    status = worse_exit(replay_end(&report), report.verdict.can_judge ? EXIT_GOOD : EXIT_FAILED);
    machine_free(&machine);
    script_free(&script);
    return status;
}

static int run(const struct command_call *call)
{
    struct json document = JSON_INIT(stdout), *json = call->options[OPT_JSON].given ? &document : NULL;
    struct choice choice;
    if (call->options[OPT_GPU].given && call->options[OPT_COSTS].given) {
        complain("replay: --gpu and --costs exclude each other: on a GPU calls cost what they cost");
        return EXIT_TROUBLE;
    }
    int status = read_policies(&call->options[OPT_POLICY], &choice);
    bool is_good = status == EXIT_GOOD;
    for (int i = 0; i < call->count && is_good; i++) {
        struct trace trace;
        bool is_open = import_open(&trace, call->operands[i]);
        status = worse_exit(status, is_open ? replay_trace(&trace, &choice, call, json) : EXIT_TROUBLE);
        trace_close(&trace);
    }
    if (json && json_was_begun())
        json_end(json);
    for (size_t i = 0; i < choice.count; i++)
        free(choice.texts[i]);
    free(choice.texts);
    return status;
}

const struct command command_replay = {
    .name = "replay",
    .summary = "do the requests of recorded traces again under other policies",
    .operands = "TRACE...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .details =
        "Does what the programs of the traces asked of Weir again, by the library's own code, on a simulated GPU whose clock goes by a "
        "table of costs (weir calibrate), and shows for each policy what the program would have waited and what memory it would have had.\n"
        "The policy that was recorded is always replayed first, and held beside the recording. Where its peak memory is more than 5 % off, "
        "or its slow calls are more than 15 % off, where events are lost, or the recording was cut, the replay cannot judge, and says why.\n"
        "Times are those of the program's threads: STALL all that its calls took, P50, P99 and WORST of single calls, SLOW what those above "
        "16 us took, which a recording has as well. PEAK and MEAN are bytes that pools reserved, AREA is bytes by seconds. The same trace "
        "gives the same figures, always, but with --gpu.\n"
        "Of a program that called CUDA by itself the default pool serves what it had of devices, and what frees waited is said to be none.\n"
        "Not replayed: graphs, requests of other processes, changes of the policy while it was recorded.\n"
        "Exit status: 0 replayed, 1 a replay failed or cannot judge, 2 a file cannot be read.",
    .example = "  weir record -o run.weir -- ./program\n"
               "  weir replay run.weir\n"
               "  weir replay --policy=small.yaml --policy=large.yaml run.weir\n",
    .options = options,
    .run = run,
};
