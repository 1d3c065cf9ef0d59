/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/record/program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/common/complain.h"
#include "tools/common/environment.h"

#define SCRIPTS_MAX 4 /* interpreters of interpreters, as the kernel has it */
#define HEAD 4096     /* bytes of a file that are looked at */

/* As execvp() finds it. */
static bool find(const char *command, char path[static PATH_MAX])
{
    const char *folders = variable("PATH"), *end;
    struct stat status;
    if (strchr(command, '/'))
        return snprintf(path, PATH_MAX, "%s", command) < PATH_MAX;
    for (const char *folder = folders ? folders : "/bin:/usr/bin"; folder; folder = *end ? end + 1 : NULL) {
        end = strchrnul(folder, ':');
        const int len = snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - folder), folder, end > folder ? "/" : "", command);
        if (len < PATH_MAX && stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static bool refuse(const char *path, const char *why)
{
    complain("record: --any: %s %s", path, why);
    return false;
}

/* What the kernel takes for the loader, "" where there is none. false: its headers lead nowhere. */
static bool read_loader(int fd, const ElfW(Ehdr) *header, char loader[static PATH_MAX])
{
    ElfW(Phdr) segment;
    loader[0] = '\0';
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (pread(fd, &segment, sizeof segment, (off_t)(header->e_phoff + i * sizeof segment)) != (ssize_t)sizeof segment)
            return false;
        if (segment.p_type != PT_INTERP)
            continue;
        const size_t len = segment.p_filesz < PATH_MAX ? segment.p_filesz : PATH_MAX - 1;
        const ssize_t got = pread(fd, loader, len, (off_t)segment.p_offset);
        loader[got > 0 ? got : 0] = '\0';
    }
    return true;
}

static bool is_loader(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld64.", 5) == 0 || strncmp(name, "ld.so", 5) == 0;
}

static bool is_fit_elf(int fd, const char *path, const ElfW(Ehdr) *header)
{
    char loader[PATH_MAX];
    ElfW(Ehdr) own = {.e_machine = EM_NONE};
    const int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const bool is_read = self >= 0 && read(self, &own, sizeof own) == (ssize_t)sizeof own;
    if (self >= 0)
        close(self);
    if (is_read && (header->e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || header->e_machine != own.e_machine))
        return refuse(path, "is built for another kind of processor than this command: what it loads cannot be watched");
    if (!read_loader(fd, header, loader))
        return true;
    if (strstr(loader, "ld-musl"))
        return refuse(path, "runs on musl, whose loader has no LD_AUDIT: run it on a system with glibc, or build it for one");
    if (!loader[0] && !is_loader(path))
        return refuse(path, "is linked fully statically, so no loader runs that could watch it: link it dynamically "
                            "(CUDA's runtime may stay static)");
    if (loader[0] && !is_loader(loader))
        return refuse(path, "has a loader of its own, which is not that of glibc and may have no LD_AUDIT");
    return true;
}

/* Programs with the rights of others: the loader takes no LD_AUDIT from their caller. */
static bool has_rights(int fd, const struct stat *status)
{
    const bool is_other = (status->st_mode & S_ISUID && status->st_uid != geteuid()) ||
                          ((status->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status->st_gid != getegid());
    return is_other || (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

/* The interpreter of a script, behind env the program that it names. false: there is none. */
static bool read_interpreter(char *head, char path[static PATH_MAX])
{
    char *rest, *interpreter;
    head[strcspn(head, "\n")] = '\0';
    interpreter = strtok_r(head + 2, " \t", &rest);
    if (!interpreter)
        return false;
    const char *slash = strrchr(interpreter, '/');
    if (strcmp(slash ? slash + 1 : interpreter, "env") == 0) {
        do
            interpreter = strtok_r(NULL, " \t", &rest);
        while (interpreter && (interpreter[0] == '-' || strchr(interpreter, '=')));
    }
    return interpreter && find(interpreter, path);
}

bool record_program_is_fit(const char *command)
{
    char path[PATH_MAX], next[PATH_MAX];
    bool is_found = find(command, path), is_fit = true;
    for (unsigned depth = 0; is_found && is_fit && depth <= SCRIPTS_MAX; depth++) {
        union {
            ElfW(Ehdr) elf;
            char text[HEAD + 1];
        } head = {.text = ""};
        struct stat status;
        const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        is_found = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
        const ssize_t len = is_found ? read(fd, head.text, HEAD) : 0;
        if (is_found && has_rights(fd, &status))
            is_fit = refuse(path, "runs with the rights of another user or group, or with more than yours: its loader takes no LD_AUDIT; "
                                  "run it as that user");
        else if (len >= (ssize_t)sizeof head.elf && memcmp(head.text, ELFMAG, SELFMAG) == 0)
            is_fit = is_fit_elf(fd, path, &head.elf);
        if (fd >= 0)
            close(fd);
        is_found = len > 2 && memcmp(head.text, "#!", 2) == 0 && read_interpreter(head.text, next);
        memcpy(path, next, sizeof path);
    }
    return is_fit;
}
