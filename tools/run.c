/* SPDX-License-Identifier: MIT */
/* run.c - `weir run`: runs a command in whose Python processes torch allocates from Weir. */
#include "policy/policy.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/source.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The Makefile has those of this installation; these are for who compiles the file alone. */
#ifndef WEIR_LIBDIR
#define WEIR_LIBDIR "/usr/local/lib"
#define WEIR_PYTHON_DIR "/usr/local/share/weir/python"
#endif

enum { OPT_POLICY, OPT_NO_PATCH };

static const struct command_option options[] = {
    [OPT_POLICY] =
        {.name = "policy", .letter = 'p', .kind = OPTION_TEXT, .placeholder = "POLICY", .help = "the policy, instead of the usual search"},
    [OPT_NO_PATCH] = {.name = "no-patch", .kind = OPTION_FLAG, .help = "leave torch.cuda.memory_stats() and its like as they are"},
    {0},
};

/* Whether the policy is good, every error being on stderr otherwise. Each process then reads it for itself. */
static int check_policy(const char *operand)
{
    struct policy *policy = NULL;
    char *text = NULL;
    if (operand && source_is_stream(operand)) {
        complain("run: --policy=%s: name a file, since each process of the command reads it", operand);
        return EXIT_TROUBLE;
    }
    int status = source_load(operand, &policy, &text);
    if (status != EXIT_GOOD)
        return status;
    policy_free(policy);
    free(text);
    const char *asked = operand ? operand : variable("WEIR_POLICY");
    char *file = NULL;
    status = asked ? source_path(asked, &file) : EXIT_GOOD;
    if (file)
        set_variable("WEIR_POLICY", absolute_path(file));
    free(file);
    return status;
}

/* What the variable names, else `otherwise`, which it takes; NULL, after a complaint: `below` that there is nothing to be read. */
static char *find_installed(const char *name, char *otherwise, const char *below, const char *what)
{
    char *path = absolute_path(variable(name) ? variable(name) : otherwise), *file = format_text("%s%s", path, below);
    free(otherwise);
    if (access(file, R_OK)) {
        complain("run: %s: %s; install Weir with its plug-in for PyTorch, or set %s to the %s", file, strerror(errno), name, what);
        free(path);
        path = NULL;
    }
    free(file);
    return path;
}

/* Has every Python process find the package, and run its sitecustomize.py at its start; and the package the library. */
static int set_python(void)
{
    const char *former = variable("PYTHONPATH");
    char *directory = find_installed("WEIR_PYTHON_DIR", installed_path(WEIR_PYTHON_DIR, "share/weir/python"), "/run/sitecustomize.py",
                                     "directory that has the Python package 'weir'");
    if (!directory)
        return EXIT_TROUBLE;
    set_variable("PYTHONPATH", format_text("%s/run:%s%s%s", directory, directory, former ? ":" : "", former ? former : ""));
    free(directory);
    char *library = find_installed("WEIR_TORCH_LIBRARY", installed_path(WEIR_LIBDIR "/libweir-torch.so", "lib/libweir-torch.so"), "",
                                   "path of libweir-torch.so");
    if (!library)
        return EXIT_TROUBLE;
    set_variable("WEIR_TORCH_LIBRARY", library);
    return EXIT_GOOD;
}

static int run(const struct command_call *call)
{
    int status = check_policy(call->options[OPT_POLICY].text);
    if (status == EXIT_GOOD)
        status = set_python();
    if (status != EXIT_GOOD)
        return status;
    set_variable("WEIR_TORCH_PATCH", format_text("%d", !call->options[OPT_NO_PATCH].given));
    /* main() ignores it for itself; the command expects what every command finds. */
    signal(SIGPIPE, SIG_DFL);
    execvp(call->operands[0], call->operands);
    status = errno == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
    complain("run: cannot run '%s': %s", call->operands[0], strerror(errno));
    return status;
}

const struct command command_run_program = {
    .name = "run",
    .summary = "run a command whose PyTorch allocates from a policy's pools",
    .operands = "COMMAND [ARGUMENT]...",
    .operands_min = 1,
    .operands_max = INT_MAX,
    .operands_end_options = true,
    .details =
        "Checks the policy, then runs COMMAND such that in each of its Python processes that imports torch, Weir is torch's allocator as\n"
        "after weir.torch.enable(patch=True). The program needs no change; processes that it starts are served as well, as those of\n"
        "torchrun are. Python options that ignore the environment or the site, -E, -I and -S, switch it off.\n"
        "Exit status: that of COMMAND; 1 the policy is bad, 2 it or Weir's own files cannot be read, or wrong usage, 126 COMMAND cannot\n"
        "be run, 127 there is none.",
    .example = "  weir run --policy=training.yaml -- python3 train.py --epochs 90\n"
               "  weir run -- torchrun --nproc-per-node=2 train.py\n",
    .options = options,
    .run = run,
};
