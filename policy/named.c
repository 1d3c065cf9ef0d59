/* SPDX-License-Identifier: MIT */
/* named.c - policies by the names of those that were installed: "inference" is inference.yaml in their folder. */
#include "config.h"

#include "policy/policy.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "policy/environment.h"
#include "policy/report.h"

/* The Makefile has those of this installation; these are for who compiles the file alone. */
#ifndef WEIR_POLICY_DIR
#define WEIR_POLICY_DIR "/usr/local/share/weir"
#define WEIR_BINDIR "/usr/local/bin"
#define WEIR_LIBDIR "/usr/local/lib"
#endif
#define SUFFIX ".yaml"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define NAME_BYTES "-0123456789" LETTERS
#define LISTED_MAX 1024 /* bytes of the names that an error has */
#define NAMES_MAX 16384 /* of those that are listed */

bool policy_is_name(const char *text)
{
    size_t len = strspn(text, NAME_BYTES);
    return len > 0 && !text[len] && text[0] != '-';
}

/* The folder ----------------------------------------------------------------------------------------------------------------------------- */

/* The file that has this code, as the loader names it: "" is the program itself. */
static int find_self(struct dl_phdr_info *info, size_t size, void *data)
{
    uintptr_t here = (uintptr_t)&find_self;
    char *file = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || here - (info->dlpi_addr + part->p_vaddr) >= part->p_memsz)
            continue;
        snprintf(file, PATH_MAX, "%s", info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe");
        return 1;
    }
    return 0;
}

/* Whether there are Weir's policies at that place, whose real path is then in folder. */
static bool is_folder(const char *self, const char *below, char folder[static PATH_MAX])
{
    char path[PATH_MAX], probe[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", self, below) >= PATH_MAX || !realpath(path, folder))
        return false;
    return snprintf(probe, sizeof probe, "%s/default" SUFFIX, folder) < PATH_MAX && access(probe, F_OK) == 0;
}

/*
 * Where the policies are that were installed: where $WEIR_POLICY_DIR says; for a library or a command in the folder that it was configured
 * for, the folder that was configured; else, as in a wheel or where a prefix was moved to, that beside it. A set-user-ID program has the
 * configured one alone, as it may have been linked to from anywhere.
 */
static void find_folder(char folder[static PATH_MAX])
{
    const char *named = policy_environment("WEIR_POLICY_DIR");
    char file[PATH_MAX] = "", self[PATH_MAX];
    if (named && named[0] == '/' && snprintf(folder, PATH_MAX, "%s", named) < PATH_MAX)
        return;
    if (!getauxval(AT_SECURE) && dl_iterate_phdr(find_self, file) && realpath(file, self)) {
        *strrchr(self, '/') = 0;
        bool is_program = strcmp(file, "/proc/self/exe") == 0;
        /* A library may lie in a folder of its architecture, as lib/x86_64-linux-gnu. */
        if (strcmp(self, WEIR_BINDIR) != 0 && strcmp(self, WEIR_LIBDIR) != 0 &&
            (is_folder(self, "../share/weir", folder) || (!is_program && is_folder(self, "../../share/weir", folder))))
            return;
    }
    snprintf(folder, PATH_MAX, "%s", WEIR_POLICY_DIR);
}

/* The name ------------------------------------------------------------------------------------------------------------------------------- */

static int is_policy(const struct dirent *entry)
{
    size_t len = strspn(entry->d_name, NAME_BYTES);
    return len > 0 && entry->d_name[0] != '-' && strcmp(entry->d_name + len, SUFFIX) == 0;
}

/* "default, inference, training": what there is, as far as it fits, with that between and behind; "" for nothing. */
static void list(const char *folder, const char *between, const char *behind, size_t size, char *text)
{
    struct dirent **entries;
    size_t len = 0;
    text[0] = 0;
    int count = scandir(folder, &entries, is_policy, alphasort);
    for (int i = 0; i < count; i++) {
        size_t name_len = strlen(entries[i]->d_name) - strlen(SUFFIX);
        if (len + name_len + strlen(between) + strlen(behind) < size)
            len += (size_t)snprintf(text + len, size - len, "%s%.*s%s", len ? between : "", (int)name_len, entries[i]->d_name, behind);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

char *policy_names(void)
{
    char folder[PATH_MAX], names[NAMES_MAX];
    find_folder(folder);
    list(folder, "", "\n", sizeof names, names);
    return strdup(names);
}

enum policy_status policy_path(const char *asked, struct policy_errors *errors, char **path)
{
    char folder[PATH_MAX], names[LISTED_MAX];
    struct policy_report report;
    char *found;
    if (!policy_is_name(asked)) {
        *path = strdup(asked);
        return *path ? POLICY_OK : POLICY_NO_MEMORY;
    }
    const char *named = policy_environment("WEIR_POLICY_DIR");
    if (named && named[0] && named[0] != '/') {
        policy_report_begin(&report, errors);
        policy_report_add(&report, (struct policy_mark){asked, 0, 0}, "",
                          "WEIR_POLICY_DIR is '%s', which is no absolute path; set it to the folder that has the policies, or unset it",
                          policy_quote(named).text);
        return report.no_memory ? POLICY_NO_MEMORY : POLICY_UNREADABLE;
    }
    find_folder(folder);
    if (asprintf(&found, "%s/%s" SUFFIX, folder, asked) < 0)
        return POLICY_NO_MEMORY;
    if (access(found, F_OK) == 0) {
        *path = found;
        return POLICY_OK;
    }
    free(found);
    list(folder, ", ", "", sizeof names, names);
    policy_report_begin(&report, errors);
    struct policy_mark mark = {asked, 0, 0};
    if (names[0])
        policy_report_add(&report, mark, "", "no policy in %s has this name; there are %s; a file is named with its folder, as in ./%s", folder,
                          names, policy_quote(asked).text);
    else
        policy_report_add(&report, mark, "",
                          "no policy is installed in %s; set WEIR_POLICY_DIR to the folder that has them, or name a file with its folder, "
                          "as in ./%s",
                          folder, policy_quote(asked).text);
    return report.no_memory ? POLICY_NO_MEMORY : POLICY_UNREADABLE;
}
