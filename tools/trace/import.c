/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/trace/import.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef WEIR_PYTHON_DIR
#define WEIR_PYTHON_DIR "/usr/local/share/weir/python"
#endif

#define SAID_MAX 4096 /* bytes of what Python says */
#define QUIET_MS 3000 /* how long a user waits without a word */

/* Python on its own: neither the folder that it is called in nor variables of the user add to what it loads. The folder of a wheel has
   other packages too, and so comes last. */
static const char program[] = "import sys; place, folder = sys.argv[1:3]; del sys.argv[1:3]; sys.path.insert(int(place), folder); "
                              "from weir.trace.__main__ import main; sys.exit(main())";
#define FIRST "0"
#define LAST "99999"
#define REMEDY "logs of RMM and memory snapshots of torch become one by `python3 -m weir.trace import FILE -o FILE.weir`"

extern char **environ;

/* The folder that has the package: that of this installation, or, in a wheel, that of the package which the program itself lies in. */
static char *find_package(const char **place)
{
    *place = FIRST;
    if (variable("WEIR_PYTHON_DIR"))
        return absolute_path(variable("WEIR_PYTHON_DIR"));
    char *within = installed_path("", "trace/__main__.py");
    if (!*within) {
        free(within);
        return installed_path(WEIR_PYTHON_DIR, "share/weir/python");
    }
    /* …/weir/trace/__main__.py */
    for (int i = 0; i < 3; i++)
        *strrchr(within, '/') = '\0';
    *place = LAST;
    return within;
}

/* Python's status, as of waitpid(). Large logs take a while; and what is called python3 may be anything. */
static int wait_for(pid_t pid, const char *path)
{
    int how = -1, fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};
    if (fd >= 0 && poll(&end, 1, QUIET_MS) == 0)
        complain("%s: it is no trace, and python3 (process %d) still makes one of it", path, (int)pid);
    if (fd >= 0)
        close(fd);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    return how;
}

/* Runs Python on `input`. How it ended, as of waitpid(); -1: it cannot be run, and errno says why. */
static int run_python(int input, int output, int errors, const char *path)
{
    const char *place;
    char *folder = find_package(&place), *name = format_text("--name=%s", path);
    const char *const command[] = {"python3", "-I", "-c", program, place, folder, "import", "-", "-o", "-", "-q", name, NULL};
    posix_spawn_file_actions_t files;
    pid_t pid;
    int error = posix_spawn_file_actions_init(&files);
    if (!error) {
        error = posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
        error = error ? error : posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        error = error ? error : posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
        error = error ? error : posix_spawnp(&pid, command[0], &files, NULL, (char *const *)(uintptr_t)command, environ);
        posix_spawn_file_actions_destroy(&files);
    }
    free(folder);
    free(name);
    int how = error ? -1 : wait_for(pid, path);
    errno = error;
    return how;
}

/* The last line that Python said, without the names of the program and the file; "" if it said nothing. */
static const char *last_said(int errors, const char *path, char said[static SAID_MAX])
{
    ssize_t len = pread(errors, said, SAID_MAX - 1, 0);
    const char *last = "";
    said[len > 0 ? len : 0] = '\0';
    for (char *at = said, *line; (line = strsep(&at, "\n"));)
        last = *line ? line : last;
    last += strncmp(last, "weir.trace: ", 12) == 0 ? 12 : 0;
    size_t named = strlen(path);
    return strncmp(last, path, named) == 0 && strncmp(last + named, ": ", 2) == 0 ? last + named + 2 : last;
}

/* The trace that Python makes of the file; -1 after a complaint. */
static int import_file(int input, const char *path)
{
    int output = memfd_create("weir-import", MFD_CLOEXEC), errors = memfd_create("weir-import-errors", MFD_CLOEXEC);
    int how = output < 0 || errors < 0 ? -1 : run_python(input, output, errors, path);
    bool is_made = how >= 0 && WIFEXITED(how) && WEXITSTATUS(how) == 0;
    char room[SAID_MAX] = "";
    const char *said = room, *between = "; ";
    if (how < 0) {
        snprintf(room, sizeof room, "python3 cannot be run: %s", strerror(errno));
    } else if (WIFSIGNALED(how)) {
        snprintf(room, sizeof room, "python3 was ended by signal %d, %s", WTERMSIG(how), strsignal(WTERMSIG(how)));
    } else {
        said = last_said(errors, path, room);
        between = is_made ? ": " : ", which says: ";
    }
    if (errors >= 0)
        close(errors);
    if (is_made) {
        complain("%s: read as a trace that `python3 -m weir.trace import` makes of it%s%s", path, *said ? between : "", said);
        return output;
    }
    if (output >= 0)
        close(output);
    complain("%s: it is no trace: it does not begin with WEIR; " REMEDY "%s%s", path, *said ? between : "", said);
    return -1;
}

/* A trace is read more than once; so is no pipe, which Python reads. */
static bool may_be_imported(int fd, const struct trace *trace)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) ? trace->reader.is_foreign : S_ISFIFO(status.st_mode));
}

static bool open_any(struct trace *trace, int fd, const char *path)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    *trace = (struct trace){.reader.fd = -1};
    if (copy >= 0 && trace_open_fd(trace, copy, path))
        return true;
    if (copy < 0 || !may_be_imported(fd, trace)) {
        complain("%s: %s", path, copy < 0 ? strerror(errno) : trace->error);
        return false;
    }
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    int made = import_file(fd, path);
    trace_close(trace);
    if (made < 0 || trace_open_fd(trace, made, path))
        return made >= 0;
    complain("%s: %s", path, trace->error);
    return false;
}

bool import_open(struct trace *trace, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *trace = (struct trace){.reader.fd = -1};
    if (fd < 0) {
        complain("%s: it cannot be opened: %s", name, strerror(errno));
        return false;
    }
    bool is_open = open_any(trace, fd, name);
    if (!is_stdin)
        close(fd);
    if (is_open && trace->header.lacks)
        complain("%s: %s", name, trace->header.lacks);
    return is_open;
}
