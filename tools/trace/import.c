/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/trace/import.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef WEIR_PYTHON_DIR
#define WEIR_PYTHON_DIR "/usr/local/share/weir/python"
#endif

#define SAID_MAX 4096 /* bytes of what Python says */

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

/* Runs Python on `input`. How it ended, as of waitpid(); -1: there is none. */
static int run_python(int input, int output, int errors, const char *path)
{
    const char *place;
    char *folder = find_package(&place), *name = format_text("--name=%s", path);
    const char *const command[] = {"python3", "-I", "-c", program, place, folder, "import", "-", "-o", "-", "-q", name, NULL};
    posix_spawn_file_actions_t files;
    pid_t pid;
    int how = -1;
    if (posix_spawn_file_actions_init(&files) == 0) {
        if (posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO) == 0 &&
            posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO) == 0 &&
            posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO) == 0 &&
            posix_spawnp(&pid, command[0], &files, NULL, (char *const *)(uintptr_t)command, environ) == 0)
            while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
                ;
        posix_spawn_file_actions_destroy(&files);
    }
    free(folder);
    free(name);
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
    const char *said = errors >= 0 ? last_said(errors, path, room) : room;
    if (errors >= 0)
        close(errors);
    if (is_made) {
        complain("%s: read as a trace that `python3 -m weir.trace import` makes of it%s%s", path, *said ? ": " : "", said);
        return output;
    }
    if (output >= 0)
        close(output);
    complain("%s: it is no trace: it does not begin with WEIR; " REMEDY "%s%s", path, *said ? ", which says: " : "", said);
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
