/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/environment.h"
#include "policy/report.h"

#define SYSTEM_FILE "/etc/weir/policy.yaml"

static const char builtin_text[] = "# The policy that holds where no other is given: one pool on each device, which keeps what it got.\n"
                                   "weir: 1\n"
                                   "defaults: {pool: default}\n"
                                   "pools:\n"
                                   "  default:\n"
                                   "    devices: all\n"
                                   "    release_threshold: all\n"
                                   "    small_below: 1MiB\n";

const char *policy_builtin_text(void)
{
    return builtin_text;
}

/* Reading a file ----------------------------------------------------------------------------------------------------------------------- */

static enum policy_status unreadable(struct policy_report *report, const char *path, const char *what, const char *remedy)
{
    policy_report_add(report, (struct policy_mark){path, 0, 0}, "", "%s; %s", what, remedy);
    return report->no_memory ? POLICY_NO_MEMORY : POLICY_UNREADABLE;
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "is a directory" : S_ISFIFO(mode) ? "is a pipe" : "is not a regular file";
}

/* Reads up to len bytes. Returns how many there were, or -1 with errno. */
static ssize_t read_all(int fd, char *text, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ssize_t part = read(fd, text + got, len - got);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -1;
        if (part == 0)
            break;
        got += (size_t)part;
    }
    return (ssize_t)got;
}

static enum policy_status read_open(int fd, const char *path, struct policy_report *report, struct policy **policy)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return unreadable(report, path, strerror(errno), "name another file");
    if (!S_ISREG(stat.st_mode))
        return unreadable(report, path, kind_of(stat.st_mode), "name the policy file itself");
    if (stat.st_size > POLICY_FILE_MAX) {
        policy_report_add(report, (struct policy_mark){path, 0, 0}, "",
                          "is larger than %d bytes, which no policy needs; check that this is the right file", POLICY_FILE_MAX);
        return policy_report_status(report);
    }
    /* One byte more, so that a file which grew meanwhile is seen to be too large. */
    char *text = malloc(POLICY_FILE_MAX + 1);
    if (!text)
        return POLICY_NO_MEMORY;
    ssize_t len = read_all(fd, text, POLICY_FILE_MAX + 1);
    enum policy_status status = len < 0 ? unreadable(report, path, strerror(errno), "name another file")
                                        : policy_parse(text, (size_t)len, path, policy_environment("WEIR_CONF"), report->errors, policy);
    free(text);
    return status;
}

/* *missing: there is no such file, which nobody minds unless it was asked for. */
static enum policy_status read_file(const char *path, bool asked, struct policy_errors *errors, struct policy **policy, bool *missing)
{
    struct policy_report report;
    policy_report_begin(&report, errors);
    int fd;
    do {
        /* Without O_NONBLOCK, opening a pipe would wait for somebody to write into it. */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        *missing = !asked && (errno == ENOENT || errno == ENOTDIR);
        const char *remedy = errno == EMFILE || errno == ENFILE ? "close descriptors or raise ulimit -n" : "check the path and its permissions";
        return *missing ? POLICY_OK : unreadable(&report, path, strerror(errno), remedy);
    }
    *missing = false;
    enum policy_status status = read_open(fd, path, &report, policy);
    close(fd);
    return status;
}

/* The search --------------------------------------------------------------------------------------------------------------------------- */

/* The user's own file, for free(). *path is NULL if the environment names no home. False: no memory. */
static bool user_file(char **path)
{
    const char *config = policy_environment("XDG_CONFIG_HOME"), *home = policy_environment("HOME");
    const char *below = "/weir/policy.yaml";
    *path = NULL;
    if (!config || config[0] != '/') { /* relative ones are to be ignored, says the XDG specification */
        if (!home || home[0] != '/')
            return true;
        config = home;
        below = "/.config/weir/policy.yaml";
    }
    size_t len = strlen(config) + strlen(below) + 1;
    *path = malloc(len);
    if (*path)
        snprintf(*path, len, "%s%s", config, below);
    return *path;
}

static enum policy_status read_builtin(struct policy_errors *errors, struct policy **policy)
{
    return policy_parse(builtin_text, strlen(builtin_text), POLICY_BUILTIN, policy_environment("WEIR_CONF"), errors, policy);
}

enum policy_status policy_load_again(const char *file, struct policy_errors *errors, struct policy **policy)
{
    bool missing;
    return strcmp(file, POLICY_BUILTIN) == 0 ? read_builtin(errors, policy) : read_file(file, true, errors, policy, &missing);
}

enum policy_status policy_load(const char *argument, struct policy_errors *errors, struct policy **policy)
{
    bool missing;
    const char *asked = argument ? argument : policy_environment("WEIR_POLICY");
    enum policy_status status = POLICY_OK;
    char *path;
    if (asked && (argument || asked[0])) {
        status = policy_path(asked, errors, &path);
        if (status != POLICY_OK)
            return status;
        status = read_file(path, true, errors, policy, &missing);
        free(path);
        return status;
    }
    if (!user_file(&path))
        return POLICY_NO_MEMORY;
    missing = true;
    if (path)
        status = read_file(path, false, errors, policy, &missing);
    free(path);
    if (missing)
        status = read_file(SYSTEM_FILE, false, errors, policy, &missing);
    if (missing)
        status = read_builtin(errors, policy);
    return status;
}
