/* SPDX-License-Identifier: MIT */
/* doctor.c - `weir doctor`: what of this machine matters to Weir, what it means, and what to do. */
#include "tools/doctor/doctor.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/format.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/json.h"
#include "tools/common/terminal.h"
#include "tools/common/processes.h"
#include "tools/common/utf8.h"

/* The Makefile has those of this installation. */
#ifndef WEIR_LIBDIR
#define WEIR_LIBDIR "/usr/local/lib"
#define WEIR_PYTHON_DIR "/usr/local/share/weir/python"
#endif

#define TEXT_MAX 1024 /* of what is printed as a line; what is longer is cut */

enum { OPT_GPU, OPT_JSON, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_GPU] = {"gpu", 0, OPTION_TEXT, "cuda|sim", "look at GPUs or at the simulator (default: $WEIR_GPU, else cuda)", 0, 0},
    [OPT_JSON] = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON document"},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

FILE *doctor_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

void doctor_add(struct doctor *doctor, enum doctor_state state, const char *topic, const char *about, const char *remedy,
                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *MUST_ADD(doctor->findings, doctor->count, doctor->room) = (struct doctor_finding){
        .state = state,
        .topic = topic,
        .about = about ? must(strdup(about)) : NULL,
        .text = make_text(format, arguments),
        .remedy = remedy ? must(strdup(remedy)) : NULL,
    };
    va_end(arguments);
}

static void forget(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        free(doctor->findings[i].about);
        free(doctor->findings[i].text);
        free(doctor->findings[i].remedy);
    }
    for (int i = 0; i < doctor->device_count; i++)
        free(doctor->devices[i].peers);
    free(doctor->findings);
    free(doctor->devices);
    free(doctor->driver);
    free(doctor->toolkit);
}

static size_t count_of(const struct doctor *doctor, enum doctor_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < doctor->count; i++)
        count += doctor->findings[i].state == state;
    return count;
}

/* In words ------------------------------------------------------------------------------------------------------------------------------- */

/* What stands there is of the environment or of files. */
static char *clean(const char *text)
{
    char *part = must(strndup(text, TEXT_MAX)), *plain = must(utf8_plain(part, false));
    free(part);
    return plain;
}

static void print_finding(const struct doctor_finding *finding)
{
    static const char *const states[] = {[DOCTOR_GOOD] = "good", [DOCTOR_NOTE] = "note", [DOCTOR_BAD] = "BAD"};
    char *about = finding->about ? clean(finding->about) : NULL, *text = clean(finding->text);
    char *line = format_text("%s%s%s: %s", finding->topic, about ? " " : "", about ? about : "", text);
    paragraph_print_item(states[finding->state], 4, line);
    free(line);
    if (finding->remedy) {
        char *remedy = clean(finding->remedy), *todo = format_text("To do: %s", remedy);
        paragraph_print_item("", 4, todo);
        free(todo);
        free(remedy);
    }
    free(text);
    free(about);
}

/* Whether programs in Python are likely to want Weir here: its plug-in is installed, or the environment has a Python of its own. */
static bool has_python(void)
{
    char *plugin = installed_path(WEIR_LIBDIR "/libweir-torch.so", "lib/libweir-torch.so");
    bool is_there = access(plugin, R_OK) == 0;
    free(plugin);
    return is_there || variable("WEIR_TORCH_LIBRARY") || variable("VIRTUAL_ENV") || variable("CONDA_PREFIX") || variable("PYTHONPATH");
}

/* What looks at it. Python finds a wheel's package by itself, and one that `make install` put beside the library only where it is told. */
static void print_python(void)
{
    char *folder = installed_path(WEIR_PYTHON_DIR, "share/weir/python"), *module = format_text("%s/weir/doctor.py", folder);
    printf("PyTorch and CuPy are looked at by: ");
    if (access(module, R_OK) == 0)
        printf("PYTHONPATH=%s%s ", folder, variable("PYTHONPATH") ? ":$PYTHONPATH" : "");
    puts("python3 -m weir.doctor");
    free(module);
    free(folder);
}

static void print_words(const struct doctor *doctor)
{
    size_t bad = count_of(doctor, DOCTOR_BAD);
    for (size_t i = 0; i < doctor->count; i++)
        print_finding(&doctor->findings[i]);
    doctor_print_devices(doctor);
    if (bad)
        printf("\n%zu thing%s to repair.\n", bad, weir__plural(bad));
    else
        puts("\nNothing to repair.");
    if (has_python())
        print_python();
}

/* As JSON -------------------------------------------------------------------------------------------------------------------------------- */

static void print_json(const struct doctor *doctor, int status)
{
    static const char *const states[] = {[DOCTOR_GOOD] = "good", [DOCTOR_NOTE] = "note", [DOCTOR_BAD] = "bad"};
    struct json json = JSON_INIT(stdout);
    json_object(&json, NULL);
    json_array(&json, "findings");
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];
        json_object(&json, NULL);
        json_string(&json, "topic", finding->topic);
        json_string(&json, "about", finding->about);
        json_string(&json, "state", states[finding->state]);
        json_string(&json, "text", finding->text);
        json_string(&json, "remedy", finding->remedy);
        json_end(&json);
    }
    json_end(&json);
    doctor_json_devices(doctor, &json);
    json_uint(&json, "repair", count_of(doctor, DOCTOR_BAD));
    json_uint(&json, "status", (uint64_t)status);
    json_end(&json);
}

/* The command ---------------------------------------------------------------------------------------------------------------------------- */

static int run(const struct command_call *call)
{
    struct doctor doctor = {.timeout_ms = processes_timeout(&call->options[OPT_TIMEOUT])};
    doctor_look_at_gpu(&doctor, call->options[OPT_GPU].given ? call->options[OPT_GPU].text : variable("WEIR_GPU"));
    doctor_look_at_place(&doctor);
    doctor_look_at_policy(&doctor);
    doctor_look_at_sockets(&doctor);
    int status = count_of(&doctor, DOCTOR_BAD) ? EXIT_FAILED : EXIT_GOOD;
    if (call->options[OPT_JSON].given)
        print_json(&doctor, status);
    else
        print_words(&doctor);
    forget(&doctor);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "show what each GPU supports and what matters to Weir here, and say what to repair",
    .operands = "",
    .details =
        "Looks at the driver and the devices, at the rank and the limits of a process that is started from here and which limit counts,\n"
        "at MPS, the policy, and the sockets of live processes and of exports and whose they are.\n"
        "Each finding is good, a note (good to know) or BAD, with what to do about it. Behind the findings stand, for each device, the\n"
        "features that the device, its driver and the toolkit of this build support together, what is missing for the others, and which\n"
        "devices can reach each other's memory. PyTorch, CuPy and Weir's plug-in are looked at by python -m weir.doctor.\n"
        "No program is started, and nothing is changed, but that sockets which killed processes left in this user's own directory are\n"
        "removed.\n"
        "Exit status: 0 there is nothing to repair, 1 there is.",
    .example = "  weir doctor\n"
               "  WEIR_SIM=devices=2 weir doctor --gpu=sim\n"
               "  WEIR_QUOTA=4GiB weir doctor --gpu=sim --json\n",
    .options = options,
    .run = run,
};
