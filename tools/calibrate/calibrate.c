/* SPDX-License-Identifier: MIT */
/* calibrate.c - `weir calibrate`: measures what calls cost on this GPU, shows it, and keeps it for replays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/calibrate/measure.h"
#include "tools/common/command.h"
#include "tools/common/costs_find.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/new_file.h"
#include "tools/common/table.h"

enum { OPT_COSTS, OPT_DEVICE, OPT_GPU, OPT_JSON, OPT_OUTPUT, OPT_SHOW };

static const struct command_option options[] = {
    [OPT_COSTS] = { "costs", 0, OPTION_TEXT, "FILE", "measure nothing, and show this table", 0, 0 },
    [OPT_DEVICE] = { "device", 0, OPTION_COUNT, "N", "the number of the device (default: 0)", 0, 1023 },
    [OPT_GPU] = { "gpu", 0, OPTION_TEXT, "cuda|sim", "measure a GPU or the simulator (default: $WEIR_GPU, else cuda)", 0, 0 },
    [OPT_JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print one JSON document" },
    [OPT_OUTPUT] = { "output", 'o', OPTION_TEXT, "FILE", "keep the table there, not in the cache", 0, 0 },
    [OPT_SHOW] = { .name = "show", .kind = OPTION_FLAG, .help = "measure nothing, and show the table that a replay takes for this GPU" },
    { 0 },
};

/* What is printed. */
struct answer {
    struct costs costs;
    struct costs_origin origin;
    bool is_kept; /* now, in origin.path */
};

/* Printing ----------------------------------------------------------------------------------------------------------------------------- */

static void print_costs(const struct costs *costs)
{
    struct table table = TABLE_INIT("lrll");
    table_row(&table, "COST", "TIME", "", "OF");
    for (int i = 0; i < COST_COUNT; i++) {
        char text[GPU_COST_TEXT_SIZE];
        table_row(&table, cost_rows[i].key, gpu_cost_format(costs->values[i], text), costs->is_measured[i] ? "" : "not measured", cost_rows[i].what);
    }
    table_print(&table, stdout);
}

static void print_text(const struct answer *answer)
{
    const struct costs *costs = &answer->costs;
    if (!*costs->gpu)
        puts("No GPU: the costs of the simulator.\n");
    else
        printf("%s%s%s%s%s\n\n", costs->gpu, *costs->driver ? ", driver " : "", costs->driver, *costs->uuid ? ", " : "", costs->uuid);
    print_costs(costs);
    if (*answer->origin.path)
        printf("\n%s %s\n", answer->is_kept ? "Kept in" : "From", answer->origin.path);
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static void print_json(const struct answer *answer)
{
    struct json json = JSON_INIT(stdout);
    const struct costs *costs = &answer->costs;
    json_object(&json, NULL);
    json_string(&json, "gpu", or_null(costs->gpu));
    json_string(&json, "driver", or_null(costs->driver));
    json_string(&json, "uuid", or_null(costs->uuid));
    json_string(&json, "origin", costs_origin_word(&answer->origin));
    json_string(&json, "file", or_null(answer->origin.path));
    json_array(&json, "costs");
    for (int i = 0; i < COST_COUNT; i++) {
        json_in_line(&json);
        json_object(&json, NULL);
        json_string(&json, "cost", cost_rows[i].key);
        json_uint(&json, "ns", costs->values[i].call);
        json_uint(&json, "ns_per_gib", costs->values[i].gib);
        json_bool(&json, "measured", costs->is_measured[i]);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
}

/* The command -------------------------------------------------------------------------------------------------------------------------- */

static const struct gpu *find_gpu(const struct command_call *call, int device)
{
    const char *why;
    const struct gpu *gpu = gpu_find(call->options[OPT_GPU].given ? call->options[OPT_GPU].text : variable("WEIR_GPU"), &why);
    int count = 0, code = gpu ? gpu->device_count(&count) : GPU_SUCCESS;
    if (!gpu) {
        complain("%s", why);
        return NULL;
    }
    if (code == GPU_SUCCESS && device < count)
        return gpu;
    if (code == GPU_SUCCESS && count > 0)
        complain("--device=%d: there are only %d: weir doctor shows them", device, count);
    else
        complain("no usable GPU: %s (%s). %s", gpu->code_text(code ? code : GPU_NO_DEVICE), gpu->code_name(code ? code : GPU_NO_DEVICE),
                 gpu->remedy());
    return NULL;
}

static int show_in_force(const struct gpu *gpu, int device, struct answer *answer)
{
    struct costs own;
    if (!measure_describe(gpu, device, &own))
        return EXIT_FAILED;
    return costs_find(NULL, own.gpu, own.driver, own.uuid, &answer->costs, &answer->origin);
}

static int measure_and_keep(const struct gpu *gpu, int device, const char *file, struct answer *answer)
{
    if (!measure_all(gpu, device, &answer->costs))
        return EXIT_FAILED;
    answer->origin.kind = file ? COSTS_NAMED : COSTS_CACHED;
    answer->is_kept = true;
    return costs_save(&answer->costs, file, answer->origin.path);
}

static int answer_call(const struct command_call *call, struct answer *answer)
{
    const struct option_value *given = call->options;
    const char *file = given[OPT_OUTPUT].given ? given[OPT_OUTPUT].text : NULL;
    bool is_shown = given[OPT_SHOW].given || given[OPT_COSTS].given;
    int device = given[OPT_DEVICE].given ? (int)given[OPT_DEVICE].count : 0;
    if (is_shown && file) {
        complain("--output: nothing is measured with --show or --costs: leave one of them out");
        return EXIT_TROUBLE;
    }
    if (given[OPT_COSTS].given)
        return costs_find(given[OPT_COSTS].text, "", NULL, NULL, &answer->costs, &answer->origin);
    if (file && !new_file_can_be_made("calibrate", file, NEW_FILE_REPLACE))
        return EXIT_TROUBLE;
    const struct gpu *gpu = find_gpu(call, device);
    if (!gpu)
        return EXIT_FAILED;
    return is_shown ? show_in_force(gpu, device, answer) : measure_and_keep(gpu, device, file, answer);
}

static int run(const struct command_call *call)
{
    struct answer *answer = must(calloc(1, sizeof *answer));
    int status = answer_call(call, answer);
    if (status == EXIT_GOOD && call->options[OPT_JSON].given)
        print_json(answer);
    else if (status == EXIT_GOOD)
        print_text(answer);
    free(answer);
    return status;
}

const struct command command_calibrate = {
    .name = "calibrate",
    .summary = "measure what calls cost on this GPU",
    .operands = "",
    .details = "Measures what growing a pool, a trim, a block from a pool, pages, events and synchronises cost the calling thread on one GPU\n"
               "that nothing else uses, in less than a minute, and prints it: whole nanoseconds of a call, or for each GiB. The table is kept\n"
               "in $XDG_CACHE_HOME/weir, else ~/.cache/weir, for those who replay traces of such a GPU.\n"
               "Exit status: 0 measured or shown, 1 there is no usable GPU, a call failed or a table is bad, 2 a table could not be read or\n"
               "kept.",
    .example = "  weir calibrate\n"
               "  weir calibrate --show\n"
               "  weir calibrate --device=1 --output=h200.yaml\n",
    .options = options,
    .run = run,
};
