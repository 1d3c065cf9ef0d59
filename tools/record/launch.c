/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/record/launch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/record/name.h"

#define FILES_SHOWN 8
#define LEVEL "all" /* where none is asked for */

/* The environment -------------------------------------------------------------------------------------------------------------------- */

/* The file as a value in assignments: within quotes, where two stand for one. */
static char *quote(const char *name)
{
    char *out = must(malloc(2 * strlen(name) + 3)), *at = out;
    *at++ = '\'';
    for (; *name; name++) {
        if (*name == '\'')
            *at++ = '\'';
        *at++ = *name;
    }
    *at++ = '\'';
    *at = '\0';
    return out;
}

/* Whether the environment leaves the key to us. false after a complaint. */
static bool is_left(const char *former, const char *key, const char *remedy)
{
    if (!policy_sets(former, key))
        return true;
    complain("record: WEIR_CONF sets %s already: %s", key, remedy);
    return false;
}

/* Puts what is to be recorded on top of what the environment says of the policy. What it says of level and stacks holds, unless others are
   asked for. */
static bool set_assignments(const struct record_launch *launch)
{
    const char *former = variable("WEIR_CONF");
    former = former ? former : "";
    bool sets_level = launch->level || !policy_sets(former, "record.level");
    if (!is_left(former, "record.file", "take it out, or run the command without weir record") ||
        (launch->level && !is_left(former, "record.level", "take it out, or leave --level away")) ||
        (launch->has_stacks && !is_left(former, "record.stacks", "take it out, or leave --stacks away")))
        return false;
    char *file = quote(launch->name);
    const char *comma = former[strspn(former, " \t\n")] ? "," : "";
    set_variable("WEIR_CONF", format_text("%s%srecord.file=%s%s%s%s", former, comma, file, sets_level ? ",record.level=" : "",
                                          !sets_level ? "" : launch->level ? launch->level : LEVEL,
                                          launch->has_stacks ? ",record.stacks=true" : ""));
    free(file);
    return true;
}

/* The command ------------------------------------------------------------------------------------------------------------------------ */

/* Signals that somebody sends to this process and means for the command. Those of the terminal reach it without help. */
static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/* The signals that are waited for, which are blocked from here on. */
static void block_signals(sigset_t *waited, sigset_t *former)
{
    /* A child that nobody waits for has no exit status. */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(waited);
    sigaddset(waited, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(waited, passed_on[i]);
    sigprocmask(SIG_BLOCK, waited, former);
}

/* 0, or the errno with which the command cannot be run. */
static int spawn(char *const *command, const sigset_t *mask, pid_t *pid)
{
    posix_spawnattr_t attributes;
    sigset_t standard;
    /* main() ignores it for itself; the command expects what every command finds. */
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    if (posix_spawnattr_init(&attributes) != 0)
        must(NULL);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawnp(pid, command[0], NULL, &attributes, command, environ);
    posix_spawnattr_destroy(&attributes);
    return code;
}

/* Passes signals on until the command has ended; how, as of waitpid(). */
static int follow(pid_t pid, const sigset_t *waited)
{
    int how = 0;
    while (waitpid(pid, &how, WNOHANG) == 0) {
        siginfo_t got;
        int number = sigwaitinfo(waited, &got);
        if (number > 0 && number != SIGCHLD && got.si_code <= 0)
            kill(pid, number);
    }
    return how;
}

/* Ends as the command did, so that a shell sees the same; its core dump is enough. */
static int end_as(int how, const sigset_t *former)
{
    if (!WIFSIGNALED(how))
        return WEXITSTATUS(how);
    sigset_t one;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    signal(WTERMSIG(how), SIG_DFL);
    sigprocmask(SIG_SETMASK, former, NULL);
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(how));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(WTERMSIG(how));
    return 128 + WTERMSIG(how);
}

/* What came of it -------------------------------------------------------------------------------------------------------------------- */

static void say_files(const struct record_launch *launch, const struct record_files *before)
{
    struct record_files after = record_files_of(launch->name);
    size_t made = 0;
    for (size_t i = 0; i < after.count; i++) {
        struct stat found;
        if (record_files_have(before, after.paths[i]) || lstat(after.paths[i], &found) != 0 || !S_ISREG(found.st_mode))
            continue;
        if (++made <= FILES_SHOWN)
            complain("record: wrote %s, %s", after.paths[i], SIZE_TEXT((uint64_t)found.st_size));
    }
    if (made > FILES_SHOWN)
        complain("record: wrote %zu files more", made - FILES_SHOWN);
    if (made == 0)
        complain("record: %s opened no weir that could write %s: it does not use Weir (PyTorch: weir record -- weir run …), "
                 "was ended before, or its log says why not",
                 launch->command[0], launch->name);
    record_files_free(&after);
}

int record_launch(const struct record_launch *launch)
{
    sigset_t waited, former;
    pid_t pid;
    if (!set_assignments(launch))
        return EXIT_TROUBLE;
    struct record_files before = record_files_of(launch->name);
    block_signals(&waited, &former);
    int code = spawn(launch->command, &former, &pid);
    if (code != 0) {
        complain("record: cannot run '%s': %s", launch->command[0], strerror(code));
        record_files_free(&before);
        return code == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
    }
    int how = follow(pid, &waited);
    say_files(launch, &before);
    record_files_free(&before);
    return end_as(how, &former);
}
