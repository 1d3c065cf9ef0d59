/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/costs_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/user.h"
#include "lib/trace/costs.h"
#include "policy/policy.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/new_file.h"
#include "tools/common/source.h"

#ifndef WEIR_COSTS_DIR
#define WEIR_COSTS_DIR "/usr/local/share/weir/costs"
#endif
#define SUFFIX ".yaml"
#define ENTRIES_MAX 4096 /* of the cache that are looked at */

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

/* false: there is no such place, or its name is too long. */
static bool join(char path[static PATH_MAX], const char *directory, const char *name)
{
    return directory && directory[0] == '/' && snprintf(path, PATH_MAX, "%s/%s", directory, name) < PATH_MAX;
}

/* The folder above ours, the caller's to free(); NULL: there is none. What is not absolute is none, as the XDG base directory specification
   says. */
static char *find_cache(void)
{
    const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    if (cache && cache[0] == '/')
        return format_text("%s", cache);
    return home && home[0] == '/' ? format_text("%s/.cache", home) : NULL;
}

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

static int parse(const char *path, const char *text, size_t len, struct costs *costs)
{
    char why[PATH_MAX + 1024];
    if (costs_read(path, text, len, costs, why, sizeof why))
        return EXIT_GOOD;
    complain("%s", why);
    return EXIT_FAILED;
}

/* A file that somebody named: of whatever kind, and whose ever it is. */
static int read_named(const char *path, struct costs *costs)
{
    char *text;
    size_t len;
    int error = source_read(path, COSTS_TEXT_MAX, &text, &len);
    if (error) {
        complain("%s: %s", source_name(path), strerror(error));
        return EXIT_TROUBLE;
    }
    int status = parse(source_name(path), text, len, costs);
    free(text);
    return status;
}

/* Takes the descriptor. */
static int read_open(int fd, const char *path, struct costs *costs)
{
    struct stat status;
    char *text = must(malloc(COSTS_TEXT_MAX + 2));
    size_t len = 0;
    ssize_t got = -1;
    const char *why = NULL;
    if (fd < 0 || fstat(fd, &status) != 0)
        why = strerror(errno);
    else if (!S_ISREG(status.st_mode) || !weir__is_file_of(fd, &status, geteuid()))
        why = "it is no file of this user's";
    else
        while ((got = read(fd, text + len, COSTS_TEXT_MAX + 1 - len)) > 0)
            len += (size_t)got;
    if (!why && got < 0)
        why = strerror(errno);
    if (fd >= 0)
        close(fd);
    if (why)
        complain("%s: %s: move it away, or name a table", path, why);
    int result = why ? EXIT_TROUBLE : parse(path, text, len, costs);
    free(text);
    return result;
}

/* How near to what is asked for a measured table is; 0: of another kind of GPU. */
static int nearness(const struct costs *costs, const char *gpu, const char *driver, const char *uuid)
{
    if (strcmp(costs->gpu, gpu) != 0)
        return 0;
    return 1 + (driver && strcmp(costs->driver, driver) == 0) * 2 + (uuid && strcmp(costs->uuid, uuid) == 0);
}

static int look_at(int folder, const char *directory, const char *name, struct costs *found, char path[static PATH_MAX])
{
    if (!join(path, directory, name))
        return EXIT_GOOD;
    return read_open(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), path, found);
}

/* Takes the nearest of the files whose names begin with the GPU's; of two alike the first by name. *best: 0 if there is none. */
static int choose(DIR *folder, const char *directory, const char *gpu, const char *driver, const char *uuid, struct costs *costs,
                  struct costs_origin *origin, int *best)
{
    char slug[NAME_MAX];
    weir__costs_slug(gpu, slug);
    size_t slug_len = strlen(slug), count = 0;
    for (const struct dirent *entry; count < ENTRIES_MAX && (entry = readdir(folder)); count++) {
        struct costs found;
        char path[PATH_MAX];
        size_t len = strlen(entry->d_name);
        if (strncmp(entry->d_name, slug, slug_len) != 0 || entry->d_name[slug_len] != '-' || len < sizeof SUFFIX ||
            strcmp(entry->d_name + len - (sizeof SUFFIX - 1), SUFFIX) != 0)
            continue;
        int status = look_at(dirfd(folder), directory, entry->d_name, &found, path);
        if (status != EXIT_GOOD)
            return status;
        int near = nearness(&found, gpu, driver, uuid);
        if (near < *best || !near || (near == *best && strcmp(path, origin->path) > 0))
            continue;
        *best = near;
        *costs = found;
        memcpy(origin->path, path, sizeof path);
    }
    return EXIT_GOOD;
}

static int find_in(const char *directory, const char *gpu, const char *driver, const char *uuid, struct costs *costs,
                   struct costs_origin *origin, int *best)
{
    int fd = weir__costs_open_folder(directory);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return EXIT_GOOD;
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        complain("%s: %s: only its user may write there; move it away, or name a table", directory, strerror(errno));
        if (fd >= 0)
            close(fd);
        return EXIT_TROUBLE;
    }
    int status = choose(folder, directory, gpu, driver, uuid, costs, origin, best);
    closedir(folder);
    return status;
}

static int find_cached(const char *gpu, const char *driver, const char *uuid, struct costs *costs, struct costs_origin *origin, int *best)
{
    char *above = find_cache();
    if (!above)
        return EXIT_GOOD;
    char *directory = format_text("%s/weir", above);
    int status = find_in(directory, gpu, driver, uuid, costs, origin, best);
    free(directory);
    free(above);
    return status;
}

/* Where the shipped ones are, the caller's to free(). */
static char *shipped_folder(void)
{
    const char *named = variable("WEIR_COSTS_DIR");
    return named ? format_text("%s", named) : installed_path(WEIR_COSTS_DIR, "share/weir/costs");
}

/* Whether one is shipped; then *status says whether it is good. */
static bool find_shipped(const char *gpu, struct costs *costs, struct costs_origin *origin, int *status)
{
    char slug[NAME_MAX], name[NAME_MAX + sizeof SUFFIX];
    char *directory = shipped_folder();
    weir__costs_slug(gpu, slug);
    snprintf(name, sizeof name, "%s" SUFFIX, slug);
    bool is_there = *slug && join(origin->path, directory, name) && access(origin->path, F_OK) == 0;
    free(directory);
    if (!is_there)
        return false;
    *status = read_named(origin->path, costs);
    return *status != EXIT_GOOD || strcmp(costs->gpu, gpu) == 0;
}

static int is_table(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len >= sizeof SUFFIX && strcmp(entry->d_name + len - (sizeof SUFFIX - 1), SUFFIX) == 0;
}

static void complain_of_unknown(const char *name, const char *directory)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_table, alphasort);
    char *names = format_text("%s", count > 0 ? "; there are" : "");
    for (int i = 0; i < count; i++) {
        char *more = format_text("%s%s %.*s", names, i ? "," : "", (int)(strlen(entries[i]->d_name) - (sizeof SUFFIX - 1)), entries[i]->d_name);
        free(names);
        free(entries[i]);
        names = more;
    }
    if (count >= 0)
        free(entries);
    complain("%s: no cost table in %s has this name%s; a file is named with its folder, as in ./%s", name, directory, names, name);
    free(names);
}

/* A shipped one by its name, as policies are named. */
static int read_by_name(const char *name, struct costs *costs)
{
    char *directory = shipped_folder(), *path = format_text("%s/%s" SUFFIX, directory, name);
    int status = EXIT_TROUBLE;
    if (access(path, F_OK) == 0)
        status = read_named(path, costs);
    else
        complain_of_unknown(name, directory);
    free(path);
    free(directory);
    return status;
}

static size_t alike(const char *a, const char *b)
{
    size_t len = 0;
    while (a[len] && a[len] == b[len])
        len++;
    return len;
}

int costs_find_nearest(const char *gpu, struct costs *costs, struct costs_origin *origin)
{
    char slug[NAME_MAX], *directory = shipped_folder();
    struct dirent **entries;
    int count = scandir(directory, &entries, is_table, alphasort), best = 0, status = EXIT_GOOD;
    weir__costs_slug(gpu, slug);
    for (int i = 1; i < count; i++)
        best = alike(entries[i]->d_name, slug) > alike(entries[best]->d_name, slug) ? i : best;
    if (count > 0 && join(origin->path, directory, entries[best]->d_name)) {
        origin->kind = COSTS_SHIPPED;
        status = read_named(origin->path, costs);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    if (count >= 0)
        free(entries);
    free(directory);
    return status;
}

const char *costs_origin_word(const struct costs_origin *origin)
{
    static const char *const words[] = {
        [COSTS_NAMED] = "named", [COSTS_RECORDED] = "recorded", [COSTS_CACHED] = "measured", [COSTS_SHIPPED] = "shipped", [COSTS_BUILT_IN] = "built-in",
    };
    return words[origin->kind];
}

int costs_find(const char *file, const char *gpu, const char *driver, const char *uuid, struct costs *costs, struct costs_origin *origin)
{
    int status = EXIT_GOOD, best = 0;
    *origin = (struct costs_origin){ .kind = file ? COSTS_NAMED : COSTS_CACHED };
    if (file) {
        snprintf(origin->path, sizeof origin->path, "%s", file);
        return policy_is_name(file) ? read_by_name(file, costs) : read_named(file, costs);
    }
    status = find_cached(gpu, driver, uuid, costs, origin, &best);
    if (status != EXIT_GOOD || best)
        return status;
    origin->kind = COSTS_SHIPPED;
    if (find_shipped(gpu, costs, origin, &status))
        return status;
    *origin = (struct costs_origin){ .kind = COSTS_BUILT_IN };
    costs_init(costs);
    return EXIT_GOOD;
}

/* Writing ------------------------------------------------------------------------------------------------------------------------------ */

static bool make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 ? chmod(path, 0700) == 0 : errno == EEXIST; /* whatever the umask is */
}

static int place_in(const char *directory, const struct costs *costs, char path[static PATH_MAX])
{
    char name[NAME_MAX];
    int fd = make_folder(directory) ? weir__costs_open_folder(directory) : -1;
    if (fd < 0) {
        complain("%s: %s: set XDG_CACHE_HOME to a folder of your own, or name a file by --output", directory, strerror(errno));
        return EXIT_TROUBLE;
    }
    close(fd);
    weir__costs_name(costs->gpu, costs->driver, costs->uuid, name);
    if (join(path, directory, name))
        return EXIT_GOOD;
    complain("%s: the name is too long: name a file by --output", directory);
    return EXIT_TROUBLE;
}

/* The path in the cache, whose folders are made. */
static int place_in_cache(const struct costs *costs, char path[static PATH_MAX])
{
    char *above = find_cache();
    if (!above) {
        complain("there is no place for the cost table: set XDG_CACHE_HOME or HOME, or name a file by --output");
        return EXIT_TROUBLE;
    }
    make_folder(above); /* what is wrong with it shows at the next */
    char *directory = format_text("%s/weir", above);
    int status = place_in(directory, costs, path);
    free(directory);
    free(above);
    return status;
}

int costs_save(const struct costs *costs, const char *file, char path[static PATH_MAX])
{
    if (file)
        snprintf(path, PATH_MAX, "%s", file);
    int status = file ? EXIT_GOOD : place_in_cache(costs, path);
    if (status != EXIT_GOOD)
        return status;
    struct new_file out;
    if (!new_file_begin(&out, "calibrate", path, NEW_FILE_REPLACE, 0600))
        return EXIT_TROUBLE;
    char *text = costs_write(costs);
    fputs(text, out.out);
    free(text);
    return new_file_end(&out, true);
}
