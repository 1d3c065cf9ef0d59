/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/record/name.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/keys.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"

/* What `code` stands for behind a percent sign; NULL: nothing. */
typedef const char *meaning_fn(char code, const void *data);

/* The name with the meaning of each letter in its place; NULL: a letter has none. is_pattern: for glob(), what is special there is
   quoted. */
static char *expand(const char *name, meaning_fn *meaning, const void *data, bool is_pattern)
{
    char *out = must(strdup(""));
    for (; *name; name++) {
        char plain[] = {'\\', *name, '\0'};
        const char *piece = is_pattern && strchr("\\*?[", *name) ? plain : plain + 1;
        if (*name == '%') {
            piece = name[1] == '%' ? "%" : meaning(name[1], data);
            name++;
        }
        char *longer = piece ? format_text("%s%s", out, piece) : NULL;
        free(out);
        if (!longer)
            return NULL;
        out = longer;
    }
    return out;
}

static const char *any(char code, const void *data)
{
    (void)data;
    return code == 'p' || code == 'r' ? "[0-9]*" : NULL;
}

struct known {
    char pid[16];
    char rank[24];
};

static const char *known(char code, const void *data)
{
    const struct known *of = data;
    return code == 'p' ? of->pid : code == 'r' ? of->rank : NULL;
}

/* Percent signs of the folder stand for themselves. */
static char *escape(const char *folder)
{
    char *out = must(malloc(2 * strlen(folder) + 1)), *at = out;
    for (; *folder; folder++) {
        if (*folder == '%')
            *at++ = '%';
        *at++ = *folder;
    }
    *at = '\0';
    return out;
}

static bool is_good(const char *operand, const char *name)
{
    char *pattern = expand(name, any, NULL, true);
    bool has_meaning = pattern, has_control = false;
    free(pattern);
    for (const char *at = name; *at; at++)
        has_control = has_control || iscntrl((unsigned char)*at);
    if (!has_meaning)
        complain("record: --output=%s: behind a %% only p (process), r (rank) and %% can stand", operand);
    else if (has_control)
        complain("record: --output=%s: its path has a control character, which a policy cannot have: choose another file", operand);
    else if (strlen(name) > POLICY_FILE_NAME_MAX)
        complain("record: --output=%s: its path has more than %d bytes: choose another file", operand, POLICY_FILE_NAME_MAX);
    else
        return true;
    return false;
}

char *record_name(const char *operand)
{
    char *here = operand[0] == '/' ? NULL : getcwd(NULL, 0);
    if (operand[0] != '/' && !here) {
        complain("record: the current folder cannot be found: %s; name a file by its whole path", strerror(errno));
        return NULL;
    }
    char *folder = here ? escape(here) : NULL;
    char *name = folder ? format_text("%s/%s", folder, operand) : must(strdup(operand));
    free(folder);
    free(here);
    if (is_good(operand, name))
        return name;
    free(name);
    return NULL;
}

char *record_path(const char *name, int pid, const char *rank)
{
    struct known of;
    /* As the library reads it: what is no number is 0. */
    snprintf(of.rank, sizeof of.rank, "%lu", rank ? strtoul(rank, NULL, 10) : 0);
    snprintf(of.pid, sizeof of.pid, "%d", pid);
    return must(expand(name, known, &of, false));
}

static bool has(const char *name, char code)
{
    for (; *name; name++)
        if (*name == '%' && *++name == code)
            return true;
    return false;
}

bool record_has_pid(const char *name)
{
    return has(name, 'p');
}

bool record_has_rank(const char *name)
{
    return has(name, 'r');
}

bool record_is_free(const char *path)
{
    struct stat found;
    if (lstat(path, &found) == 0)
        complain("record: %s exists, and existing files are never overwritten: move it away, or name another one with --output", path);
    else if (errno != ENOENT)
        complain("record: %s: %s", path, strerror(errno));
    else
        return true;
    return false;
}

/* Files ------------------------------------------------------------------------------------------------------------------------------- */

struct record_files record_files_of(const char *name)
{
    struct record_files files = {0};
    char *pattern = must(expand(name, any, NULL, true));
    glob_t found;
    int failed = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (failed == GLOB_NOSPACE)
        must(NULL);
    if (!failed) {
        files.paths = must(calloc(found.gl_pathc, sizeof *files.paths));
        for (; files.count < found.gl_pathc; files.count++)
            files.paths[files.count] = must(strdup(found.gl_pathv[files.count]));
        globfree(&found);
    }
    free(pattern);
    return files;
}

bool record_files_have(const struct record_files *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->paths[i], path) == 0)
            return true;
    return false;
}

void record_files_free(struct record_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct record_files){0};
}

void record_say_page(const char *path, bool has_more)
{
    static const char ending[] = ".weir";
    size_t len = strlen(path), end = sizeof ending - 1;
    bool has_ending = len > end && strcmp(path + len - end, ending) == 0;
    complain("record: look at it with 'weir trace page -o %.*s.html %s%s'", (int)(has_ending ? len - end : len), path, path,
             has_more ? " …" : "");
}
