/* SPDX-License-Identifier: MIT */
/*
 * python.c - `weir doctor`: PyTorch, and what of Weir is there for it. Python is not started: torch is looked for where a python3 of this
 * environment would, and its version is read from its file.
 */
#include "config.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/environment.h"
#include "tools/common/processes.h"
#include "tools/doctor/doctor.h"

#ifndef WEIR_LIBDIR
#define WEIR_LIBDIR "/usr/local/lib"
#endif

#define TORCHES_MAX 16
#define VERSION_LEN 64
#define VERSION_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+-_"
#define FILE_MAX 8192

struct torches {
    size_t count;
    char *folders[TORCHES_MAX]; /* of the package, links followed */
};

/* The text behind `name` and an equals sign, in quotes, at the beginning of a line: a version, or "". */
static void read_assignment(const char *text, const char *name, char version[VERSION_LEN])
{
    *version = '\0';
    for (const char *line = text; line && *version == '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        size_t end = strcspn(line, "\n"), open = strcspn(line, "'\"");
        if (open >= end)
            return;
        size_t len = strspn(line + open + 1, VERSION_LETTERS);
        if (len < VERSION_LEN && line[open + 1 + len] == line[open])
            snprintf(version, VERSION_LEN, "%.*s", (int)len, line + open + 1);
    }
}

static bool read_text(const char *path, char text[FILE_MAX])
{
    FILE *file = doctor_open(path);
    size_t len = file ? fread(text, 1, FILE_MAX - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = '\0';
    return len > 0;
}

static size_t matches_of(const char *pattern)
{
    glob_t found;
    size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static char *library_path(void)
{
    const char *named = variable("WEIR_TORCH_LIBRARY");
    return named ? absolute_path(named) : installed_path(WEIR_LIBDIR "/libweir-torch.so", "lib/libweir-torch.so");
}

/* Shims are made for one torch and one release of Weir, or come with a wheel of Weir's. */
static bool has_shim(const char *version, const char *release, const char *packages)
{
    const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    char *made = cache  ? format_text("%s/weir/torch-%s-*-weir-%s/weir_torch_shim.*.so", cache, version, release)
                 : home ? format_text("%s/.cache/weir/torch-%s-*-weir-%s/weir_torch_shim.*.so", home, version, release)
                        : format_text("%s", "");
    char *brought = format_text("%s/weir/torch/shims/torch-%s-*.so", packages, version);
    /* A wheel may lie elsewhere than torch: in an environment that sees another one's. */
    char *library = library_path(), *end = strrchr(library, '/');
    if (end)
        *end = '\0';
    char *ours = format_text("%s/../torch/shims/torch-%s-*.so", library, version);
    bool is_there = matches_of(made) || matches_of(brought) || matches_of(ours);
    free(made);
    free(brought);
    free(library);
    free(ours);
    return is_there;
}

static void look_at_torch(struct doctor *doctor, const char *folder)
{
    char text[FILE_MAX], version[VERSION_LEN], cuda[VERSION_LEN];
    char *path = format_text("%s/version.py", folder), *packages = format_text("%s/..", folder);
    bool is_read = read_text(path, text);
    read_assignment(text, "__version__", version);
    read_assignment(text, "cuda", cuda);
    if (!is_read || !*version)
        doctor_add(doctor, DOCTOR_BAD, "torch", folder, "install PyTorch anew", "has no version that could be read in version.py");
    else if (!*cuda)
        doctor_add(doctor, DOCTOR_NOTE, "torch", folder, "install a PyTorch for CUDA, if it is to use a GPU",
                   "%s is built without CUDA, so there is nothing for Weir to allocate", version);
    else if (has_shim(version, PACKAGE_VERSION, packages))
        doctor_add(doctor, DOCTOR_GOOD, "torch", folder, NULL, "%s for CUDA %s, and a shim of this release of Weir for it", version, cuda);
    else
        doctor_add(doctor, DOCTOR_NOTE, "torch", folder, "weir run -- python3 -m weir.torch build",
                   "%s for CUDA %s, with no shim of this release of Weir: torch works on Weir all the same, but for what doc/pytorch.md lists",
                   version, cuda);
    free(packages);
    free(path);
}

/* Finding it ----------------------------------------------------------------------------------------------------------------------------- */

static void add_torch(struct torches *torches, const char *packages)
{
    char *path = format_text("%s/torch/version.py", packages), *folder = format_text("%s/torch", packages);
    char *real = access(path, R_OK) == 0 ? realpath(folder, NULL) : NULL;
    for (size_t i = 0; real && i < torches->count; i++)
        if (strcmp(torches->folders[i], real) == 0) {
            free(real);
            real = NULL;
        }
    if (real && torches->count < TORCHES_MAX)
        torches->folders[torches->count++] = real;
    else
        free(real);
    free(folder);
    free(path);
}

static void add_matches(struct torches *torches, const char *prefix, const char *below)
{
    char *pattern = format_text("%s%s", prefix, below);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add_torch(torches, found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
}

static void add_prefix(struct torches *torches, const char *prefix)
{
    add_matches(torches, prefix, "/lib/python3*/site-packages");
    add_matches(torches, prefix, "/lib/python3*/dist-packages");
    add_matches(torches, prefix, "/lib/python3/dist-packages");
    add_matches(torches, prefix, "/local/lib/python3*/dist-packages");
}

/* Calls `use` with each part of a list with colons. */
static void each_part(struct torches *torches, const char *list, void (*use)(struct torches *torches, const char *part))
{
    char *copy = list ? must(strdup(list)) : NULL, *rest = copy;
    for (char *part; rest && (part = strsep(&rest, ":"));)
        if (*part)
            use(torches, part);
    free(copy);
}

/* A directory of $PATH that has a python3, which a link may lead elsewhere. */
static void add_program(struct torches *torches, const char *directory)
{
    char *program = format_text("%s/python3", directory), *real = NULL;
    if (access(program, X_OK) == 0) {
        char *prefix = format_text("%s/..", directory);
        add_prefix(torches, prefix);
        free(prefix);
        real = realpath(program, NULL);
    }
    char *slash = real ? strrchr(real, '/') : NULL;
    if (slash) {
        *slash = '\0';
        char *prefix = format_text("%s/..", real);
        add_prefix(torches, prefix);
        free(prefix);
    }
    free(real);
    free(program);
}

static void find_torches(struct torches *torches)
{
    const char *home = variable("HOME"), *environment = variable("VIRTUAL_ENV"), *conda = variable("CONDA_PREFIX");
    *torches = (struct torches){0};
    each_part(torches, variable("PYTHONPATH"), add_torch);
    if (environment)
        add_prefix(torches, environment);
    if (conda)
        add_prefix(torches, conda);
    each_part(torches, variable("PATH"), add_program);
    if (home)
        add_matches(torches, home, "/.local/lib/python3*/site-packages");
}

static void look_at_library(struct doctor *doctor)
{
    const char *named = variable("WEIR_TORCH_LIBRARY");
    char *path = library_path();
    if (access(path, R_OK) == 0)
        doctor_add(doctor, DOCTOR_GOOD, "plug-in", path, NULL, "torch can allocate from Weir by weir run and weir.torch.enable()");
    else
        doctor_add(doctor, named ? DOCTOR_BAD : DOCTOR_NOTE, "plug-in", path,
                   named ? "correct or unset WEIR_TORCH_LIBRARY" : "install Weir with its plug-in for PyTorch, if torch is to use it",
                   "there is no such file, so torch cannot allocate from Weir by this command");
    free(path);
}

void doctor_look_at_python(struct doctor *doctor)
{
    struct torches torches;
    find_torches(&torches);
    look_at_library(doctor);
    for (size_t i = 0; i < torches.count; i++) {
        look_at_torch(doctor, torches.folders[i]);
        free(torches.folders[i]);
    }
    if (torches.count == 0)
        doctor_add(doctor, DOCTOR_NOTE, "torch", NULL, NULL, "no PyTorch was found for a python3 of this environment");
}
