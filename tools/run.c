/* SPDX-License-Identifier: MIT */
/* run.c - `weir run`: runs a command in whose Python processes torch allocates from Weir, and says if none of them came to that. */
#include "lib/base/number.h"
#include "lib/gpu/clock.h"
#include "policy/policy.h"
#include "share/control/reserve.h"
#include "share/open.h"
#include "share/wire/socket.h"
#include "tools/common/child.h"
#include "tools/common/command.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/common/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The Makefile has those of this installation; these are for who compiles the file alone. */
#ifndef WEIR_LIBDIR
#define WEIR_LIBDIR "/usr/local/lib"
#define WEIR_PYTHON_DIR "/usr/local/share/weir/python"
#endif

enum { OPT_POLICY, OPT_NO_PATCH, OPT_REQUIRE, OPT_GPU, OPT_RESERVE, OPT_WAIT, OPT_DEVICE };

/* That of a claim for which there was no room in time: EX_TEMPFAIL of sysexits.h, by which batch systems know what to try again. */
enum { EXIT_NO_ROOM = 75 };

static const struct command_option options[] = {
    [OPT_POLICY] =
        {.name = "policy", .letter = 'p', .kind = OPTION_TEXT, .placeholder = "POLICY", .help = "the policy, instead of the usual search"},
    [OPT_NO_PATCH] = {.name = "no-patch", .kind = OPTION_FLAG, .help = "leave torch.cuda.memory_stats() and its like as they are, even without the shim"},
    [OPT_REQUIRE] = {.name = "require", .kind = OPTION_FLAG, .help = "fail if no torch allocated from Weir"},
    [OPT_GPU] = {.name = "gpu", .kind = OPTION_TEXT, .placeholder = "cuda|sim", .help = "sim: for tests that run no kernel (default: cuda)"},
    [OPT_RESERVE] = {.name = "reserve", .kind = OPTION_TEXT, .placeholder = "SIZE", .help = "claim so much of the GPU for the command, before it starts"},
    [OPT_WAIT] = {.name = "wait", .kind = OPTION_TEXT, .placeholder = "TIME", .help = "how long to wait for room for the claim, as in 60s (default: not at all)"},
    [OPT_DEVICE] = {.name = "device", .kind = OPTION_COUNT, .placeholder = "NUMBER", .help = "which GPU the claim is for (default: 0)", .low = 0, .high = 63},
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

/* The simulator of a trial that somebody forgot about would end torch's first kernel with an illegal address. */
static int set_gpu(const char *asked)
{
    const char *gpu = variable("WEIR_GPU");
    if (!asked && gpu && strcmp(gpu, "sim") == 0) {
        complain("run: WEIR_GPU=sim is set: no kernel of torch reaches the memory of the simulator; unset WEIR_GPU");
        return EXIT_TROUBLE;
    }
    set_variable("WEIR_RUN_GPU", format_text("%s", asked ? asked : ""));
    return EXIT_GOOD;
}

/* The claim ------------------------------------------------------------------------------------------------------------------------------ */

/* What the claimer below answers, with the descriptor that keeps the claim. */
struct claimed {
    weir_status status;
    char text[sizeof((weir_error *)0)->text];
    uint64_t mark; /* by which the command's processes know the claim */
};

/*
 * Of the child of a fork: claims in the name of its parent, and hands the claim over. The parent itself must not use the GPU, as that would
 * take memory for as long as the command runs. The policy's pools are not made, as they might take some; the leave_free of those on the
 * device counts. Which device is `local` depends on the process of the command, so `local` pools count for every device.
 */
static _Noreturn void become_claimer(const struct command_call *call, uint64_t bytes, unsigned wait_ms, pid_t parent, int told)
{
    const char *slash = strrchr(call->operands[0], '/');
    int device = (int)call->options[OPT_DEVICE].count;
    weir *w = NULL;
    weir_reservation *r = NULL;
    weir_error error = WEIR_ERROR_INIT;
    weir_options open = {.size = sizeof open, .policy_text = "weir: 1\npools: { claimer: {} }\n", .gpu = call->options[OPT_GPU].text};
    struct policy *policy = NULL;
    char *text = NULL;
    uint64_t leave = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || source_load(call->options[OPT_POLICY].text, &policy, &text) != EXIT_GOOD)
        exit(EXIT_TROUBLE);
    unsetenv("WEIR_CONF"); /* its assignments are in the policy, and not for this text */
    struct claimed claimed = {.status = weir__open_on(&open, device, &error, &w)};
    for (size_t i = 0; i < policy->pool_count && w; i++) {
        const struct policy_pool *pool = &policy->pools[i];
        if (pool->devices.local || weir__device_is_in(&w->devices[device], &pool->devices))
            leave = weir__larger(leave, policy_size_bytes(pool->leave_free, w->devices[device].quota.bytes));
    }
    if (w)
        claimed.status = share_reserve(w, device, bytes, leave, wait_ms, slash ? slash + 1 : call->operands[0], parent, &error, &r);
    memcpy(claimed.text, error.text, sizeof claimed.text);
    claimed.mark = r ? r->claim.mark : 0;
    share_send(told, &claimed, sizeof claimed, r ? r->fd : -1);
    exit(EXIT_GOOD); /* and nothing is closed, as that would end the claim */
}

/* Claims; the descriptor is one of this process then, which the command inherits. Returns an exit status, after a complaint if it is bad. */
static int make_claim(const struct command_call *call, uint64_t bytes, unsigned wait_ms)
{
    struct claimed claimed;
    int ends[2], fd = -1;
    size_t len = 0;
    pid_t self = getpid(), child = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 ? fork() : -1;
    if (child == 0)
        become_claimer(call, bytes, wait_ms, self, ends[1]);
    if (child < 0) {
        complain("run: --reserve: no process can be started that claims: %s", strerror(errno));
        return EXIT_TROUBLE;
    }
    close(ends[1]);
    while (poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, -1) < 0 && errno == EINTR)
        ;
    bool is_told = share_receive(ends[0], &claimed, sizeof claimed, &len, &fd) == SHARE_DONE && len == sizeof claimed;
    close(ends[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    /* Where standard streams are closed, it must not become one of them: what the command prints would get into the file of claims. */
    int kept = is_told && claimed.status == WEIR_OK ? fcntl(fd, F_DUPFD, STDERR_FILENO + 1) : -1;
    int code = errno;
    if (fd >= 0)
        close(fd);
    if (kept >= 0) {
        const char *others = variable("WEIR_RESERVATION");
        set_variable("WEIR_RESERVATION", format_text("%s%s%016" PRIx64, others ? others : "", others ? "," : "", claimed.mark));
        return EXIT_GOOD;
    }
    complain("run: --reserve: %s", !is_told ? "the process that was to claim has died" : claimed.status ? claimed.text : strerror(code));
    return is_told && claimed.status == WEIR_TIMEOUT ? EXIT_NO_ROOM : EXIT_TROUBLE;
}

static int reserve(const struct command_call *call)
{
    const struct option_value *size = &call->options[OPT_RESERVE], *wait = &call->options[OPT_WAIT], *device = &call->options[OPT_DEVICE];
    uint64_t bytes, time = 0;
    if (!size->given && !wait->given && !device->given)
        return EXIT_GOOD;
    if (!size->given)
        complain("run: --%s is for a claim: give --reserve=SIZE as well", wait->given ? "wait" : "device");
    else if (!size_read(size->text, &bytes))
        complain("run: --reserve=%s: write bytes, or a number with a unit, as in 20GiB", size->text);
    else if (wait->given && (!time_read(wait->text, &time) || time / GPU_MILLISECOND > INT_MAX))
        complain("run: --wait=%s: write seconds, or a number with a unit, as in 60s or 5m, and at most 24 days", wait->text);
    else
        return make_claim(call, bytes, (unsigned)(time / GPU_MILLISECOND));
    return EXIT_TROUBLE;
}

/* How far the command came -------------------------------------------------------------------------------------------------------------- */

/*
 * A file of two bytes, of which Python processes set the first (sitecustomize.py) and those whose torch allocates from Weir the second.
 * They are there from the start, so that a disk that fills up meanwhile does not matter. NULL, after a complaint, if it cannot be made.
 */
static char *make_reached(void)
{
    char *directory = absolute_path(variable("TMPDIR") ? variable("TMPDIR") : "/tmp");
    char *path = format_text("%s/weir-run.XXXXXX", directory);
    int file = mkstemp(path);
    /* Whatever the umask is. */
    bool is_made = file >= 0 && fchmod(file, 0600) == 0 && write(file, "--", 2) == 2;
    int code = errno;
    if (file >= 0)
        close(file);
    free(directory);
    if (is_made)
        return path;
    if (file >= 0)
        unlink(path);
    complain("run: %s: %s: it cannot be known whether a torch allocates from Weir; set TMPDIR to a directory that can be written to", path,
             strerror(code));
    free(path);
    return NULL;
}

/* What is set in it. It is set in the file of a `weir run` around this one, too. */
static void read_reached(const char *path, const char *outer, bool *python, bool *torch)
{
    char set[2] = "--";
    int file = open(path, O_RDONLY | O_CLOEXEC), around = outer ? open(outer, O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    bool is_read = file >= 0 && read(file, set, 2) == 2;
    *torch = is_read && set[1] == 'T';
    *python = is_read && (set[0] == 'P' || *torch);
    if (around >= 0 && ((*python && pwrite(around, "P", 1, 0) < 0) || (*torch && pwrite(around, "T", 1, 1) < 0)))
        complain("run: %s: %s", outer, strerror(errno));
    if (around >= 0)
        close(around);
    if (file >= 0)
        close(file);
}

/* Whether a torch allocated from Weir; says so if none did, unless a `weir run` around this one will. */
static bool has_reached(const char *command, const char *path, const char *outer)
{
    bool python, torch;
    read_reached(path, outer, &python, &torch);
    if (outer)
        return torch;
    if (!python)
        complain("run: nothing of %s allocated from Weir: no Python process loaded Weir. A cleared environment and Python's "
                 "options -E, -I and -S keep Weir out", command);
    else if (!torch)
        complain("run: nothing of %s allocated from Weir: Python ran, and imported no torch that is built with CUDA and could use Weir", command);
    return torch;
}

/* Runs the command to its end. Without the path nothing is known of how far it came. */
static int run_command(const struct command_call *call, const char *path, const char *outer)
{
    struct child child;
    int how = 0, status = child_start(&child, "run", call->operands);
    bool has_failed = false;
    if (status == 0) {
        how = child_follow(&child);
        has_failed = path && !has_reached(call->operands[0], path, outer) && call->options[OPT_REQUIRE].given;
    }
    if (path)
        unlink(path);
    if (status == 0)
        status = child_end_as(&child, how);
    return status == EXIT_GOOD && has_failed ? EXIT_TROUBLE : status;
}

static int run(const struct command_call *call)
{
    int status = check_policy(call->options[OPT_POLICY].text);
    if (status == EXIT_GOOD)
        status = set_gpu(call->options[OPT_GPU].text);
    if (status == EXIT_GOOD)
        status = set_python();
    if (status == EXIT_GOOD)
        status = reserve(call);
    char *path = status == EXIT_GOOD ? make_reached() : NULL;
    if (!path && (status != EXIT_GOOD || call->options[OPT_REQUIRE].given))
        return status == EXIT_GOOD ? EXIT_TROUBLE : status;
    char *outer = variable("WEIR_RUN_REACHED") ? format_text("%s", variable("WEIR_RUN_REACHED")) : NULL;
    set_variable("WEIR_TORCH_PATCH", format_text("%d", !call->options[OPT_NO_PATCH].given));
    if (path)
        set_variable("WEIR_RUN_REACHED", format_text("%s", path));
    status = run_command(call, path, outer);
    free(path);
    free(outer);
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
        "after weir.torch.enable(patch=True). The program needs no change, and processes that it starts, such as those of torchrun, use Weir\n"
        "as well. Python's options -E, -I and -S ignore the environment or the site and so keep Weir out; a line at the end says so.\n"
        "With --reserve, COMMAND starts once SIZE fits beside what others claim of the GPU and the leave_free of the policy, and that much is\n"
        "free: neighbours are asked for memory that they do not use. The claim lasts as long as COMMAND, or a process that inherits it, and in it\n"
        "torch.cuda.mem_get_info() tells of the claim. Nothing is allocated. 'weir ps' shows claims.\n"
        "Exit status: that of COMMAND; 1 the policy is bad, 2 it or Weir's own files cannot be read, no torch allocated from Weir with\n"
        "--require, nothing can be claimed, or wrong usage, 75 there was no room for the claim in time, 126 COMMAND cannot be run, 127 there\n"
        "is none.",
    .example = "  weir run --policy=training.yaml -- python3 train.py --epochs 90\n"
               "  weir run -- torchrun --nproc-per-node=2 train.py\n"
               "  weir run --reserve=20GiB --wait=60s -- vllm serve MODEL\n",
    .options = options,
    .run = run,
};
