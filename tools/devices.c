/* SPDX-License-Identifier: MIT */
/* devices.c - `weir devices`: what each device supports, and why it does not support the rest. */
#include "lib/gpu/gpu.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/json.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_GPU, OPT_JSON };

static const struct command_option options[] = {
    [OPT_GPU] = {"gpu", 0, OPTION_TEXT, "cuda|sim", "ask CUDA or the simulator (default: $WEIR_GPU, else cuda)", 0, 0},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    {0},
};

/* Everything that is asked of one device. */
struct device {
    struct gpu_device_info info;
    uint64_t memory_free, memory_total;
    bool supports[GPU_FEATURE_COUNT];
    char why_not[GPU_FEATURE_COUNT][256];
    bool *peers; /* whether that device's kernels can reach this one's memory; NULL: its place in the list of all */
};

struct machine {
    const struct gpu *gpu;
    int driver, toolkit;
    int count;
    struct device *devices;
};

static void free_machine(struct machine *machine)
{
    for (int i = 0; i < machine->count; i++)
        free(machine->devices[i].peers);
    free(machine->devices);
}

static int read_device(const struct machine *machine, int index, struct device *device)
{
    const struct gpu *gpu = machine->gpu;
    int code = gpu->device_info(index, &device->info);
    if (code == GPU_SUCCESS)
        code = gpu->device_memory(index, &device->memory_free, &device->memory_total);
    device->peers = must(calloc((size_t)machine->count, sizeof(bool)));
    for (int peer = 0; code == GPU_SUCCESS && peer < machine->count; peer++)
        if (peer != index)
            code = gpu->can_access_peer(index, peer, &device->peers[peer]);
    for (int i = 0; i < GPU_FEATURE_COUNT; i++)
        device->supports[i] = gpu->supports(index, (enum gpu_feature)i, device->why_not[i], sizeof(device->why_not[i]));
    return code;
}

/* Fills the machine; on failure says why on stderr and returns false. */
static bool read_machine(const char *name, struct machine *machine)
{
    const char *why;
    machine->gpu = gpu_find(name, &why);
    if (!machine->gpu) {
        complain("%s", why);
        return false;
    }
    const struct gpu *gpu = machine->gpu;
    int count = 0;
    int code = gpu->device_count(&count);
    if (code != GPU_SUCCESS || count == 0) {
        if (code == GPU_SUCCESS)
            code = GPU_NO_DEVICE;
        complain("no usable GPU: %s (%s). %s", gpu->code_text(code), gpu->code_name(code),
                 strcmp(gpu->name, "sim") == 0 ? "WEIR_SIM says which devices the simulator has"
                                               : "To go on without one, use the simulator: WEIR_GPU=sim weir devices");
        return false;
    }
    code = gpu->versions(&machine->driver, &machine->toolkit);
    if (code != GPU_SUCCESS) {
        complain("cannot read the versions of driver and toolkit: %s (%s)", gpu->code_text(code), gpu->code_name(code));
        return false;
    }
    machine->devices = must(calloc((size_t)count, sizeof(struct device)));
    machine->count = count;
    for (int i = 0; i < count; i++) {
        code = read_device(machine, i, &machine->devices[i]);
        if (code != GPU_SUCCESS) {
            complain("cannot read device %d: %s (%s)", i, gpu->code_text(code), gpu->code_name(code));
            return false;
        }
    }
    return true;
}

/* CUDA writes 12.2 as 12020. */
static const char *version_text(struct text *text, int version)
{
    snprintf(text->chars, sizeof(text->chars), "%d.%d", version / 1000, version % 1000 / 10);
    return text->chars;
}

static void print_device(int index, const struct device *device)
{
    char heading[320];
    snprintf(heading, sizeof(heading), "\nDevice %d: %s%s", index, device->info.name, device->info.mig ? " (MIG)" : "");
    style_line(stdout, STYLE_STRONG, heading);
    printf("  %s\n", device->info.uuid);
    printf("  %s of memory, %s free\n", SIZE_TEXT(device->memory_total), SIZE_TEXT(device->memory_free));
    int width = 0;
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        int len = (int)strlen(gpu_feature_name((enum gpu_feature)i));
        width = len > width ? len : width;
    }
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        printf("  %-*s  ", width, gpu_feature_name((enum gpu_feature)i));
        style_text(stdout, device->supports[i] ? STYLE_GOOD : STYLE_BAD, device->supports[i] ? "yes" : "no");
        printf("%s%s\n", device->supports[i] ? "" : ": ", device->supports[i] ? "" : device->why_not[i]);
    }
}

static void print_peers(const struct machine *machine)
{
    putchar('\n');
    style_line(stdout, STYLE_STRONG, "Peers");
    puts("  Whether kernels on the device above can use memory of the device at the left, if a policy's peer_access grants it.\n");
    char *alignment = must(calloc((size_t)machine->count + 2, 1));
    memset(alignment, 'l', (size_t)machine->count + 1);
    struct table table = TABLE_INIT(alignment);
    table_cell(&table, "MEMORY OF");
    for (int i = 0; i < machine->count; i++)
        table_cell(&table, "%d", i);
    for (int i = 0; i < machine->count; i++) {
        table_cell(&table, "%d", i);
        for (int peer = 0; peer < machine->count; peer++)
            table_cell(&table, "%s", i == peer ? "-" : machine->devices[i].peers[peer] ? "yes" : "no");
    }
    table_print(&table, stdout);
    free(alignment);
}

static void print_text(const struct machine *machine)
{
    struct text driver, toolkit;
    if (strcmp(machine->gpu->name, "sim") == 0)
        printf("The simulator (WEIR_GPU=sim), as if with");
    else
        printf("CUDA with");
    printf(" driver %s and toolkit %s: %d device%s.\n", version_text(&driver, machine->driver), version_text(&toolkit, machine->toolkit),
           machine->count, weir__plural((uint64_t)machine->count));
    for (int i = 0; i < machine->count; i++)
        print_device(i, &machine->devices[i]);
    if (machine->count > 1)
        print_peers(machine);
}

static void json_device(struct json *json, const struct machine *machine, int index)
{
    const struct device *device = &machine->devices[index];
    json_object(json, NULL);
    json_uint(json, "device", (uint64_t)index);
    json_string(json, "name", device->info.name);
    json_string(json, "uuid", device->info.uuid);
    json_bool(json, "mig", device->info.mig);
    json_uint(json, "memory", device->memory_total);
    json_uint(json, "memory_free", device->memory_free);
    json_array(json, "features");
    for (int i = 0; i < GPU_FEATURE_COUNT; i++) {
        json_object(json, NULL);
        json_string(json, "feature", gpu_feature_name((enum gpu_feature)i));
        json_bool(json, "supported", device->supports[i]);
        json_string(json, "why_not", device->supports[i] ? NULL : device->why_not[i]);
        json_end(json);
    }
    json_end(json);
    json_array(json, "reachable_from");
    for (int peer = 0; peer < machine->count; peer++)
        if (device->peers[peer])
            json_uint(json, NULL, (uint64_t)peer);
    json_end(json);
    json_end(json);
}

static void print_json(const struct machine *machine)
{
    struct json json = JSON_INIT(stdout);
    struct text driver, toolkit;
    json_object(&json, NULL);
    json_string(&json, "gpu", machine->gpu->name);
    json_string(&json, "driver", version_text(&driver, machine->driver));
    json_string(&json, "toolkit", version_text(&toolkit, machine->toolkit));
    json_array(&json, "devices");
    for (int i = 0; i < machine->count; i++)
        json_device(&json, machine, i);
    json_end(&json);
    json_end(&json);
}

static int run(const struct command_call *call)
{
    struct machine machine = {0};
    const char *name = call->options[OPT_GPU].given ? call->options[OPT_GPU].text : variable("WEIR_GPU");
    bool good = read_machine(name, &machine);
    if (good && call->options[OPT_JSON].given)
        print_json(&machine);
    else if (good)
        print_text(&machine);
    free_machine(&machine);
    return good ? EXIT_GOOD : EXIT_FAILED;
}

const struct command command_devices = {
    .name = "devices",
    .summary = "show what each GPU supports, and why not the rest",
    .operands = "",
    .details = "Prints each device's memory, which features of memory pools the device, its driver and the toolkit of this build support\n"
               "together (and what is missing for the others), and which devices can reach each other's memory.\n"
               "Exit status: 0 shown, 1 there is no usable GPU.",
    .example = "  weir devices\n"
               "  WEIR_SIM=devices=2 weir devices --gpu=sim\n",
    .options = options,
    .run = run,
};
