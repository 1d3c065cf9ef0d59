/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/format.h"
#include "share/safe.h"

#define RUNTIME_BASE "/run/user"
#define TEMPORARY_BASE "/tmp"
#define TEMPORARY_PREFIX "weir-"
#define SOCKET_NAME_MAX (sizeof "/4194304.9999" - 1) /* of PID.N: pids have 22 bits */

/* One directory of control sockets, and the one above it, which belongs to Weir as well. */
struct place {
    char parent[SHARE_PATH_SIZE], path[SHARE_PATH_SIZE];
};

/* Places ------------------------------------------------------------------------------------------------------------------------------- */

/* false: too long for a socket to lie there. */
static bool make_place(const char *base, const char *name, struct place *place)
{
    int parent = snprintf(place->parent, sizeof place->parent, "%s/%s", base, name);
    if (parent < 0 || (size_t)parent + sizeof "/control" - 1 + SOCKET_NAME_MAX >= sizeof place->path)
        return false;
    memcpy(place->path, place->parent, (size_t)parent);
    memcpy(place->path + parent, "/control", sizeof "/control");
    return true;
}

/* The place beside it, for sockets of exports. */
static struct place beside(const struct place *place)
{
    struct place other = *place;
    memcpy(strrchr(other.path, '/'), "/share", sizeof "/share");
    return other;
}

/* What a user's directory in /run/user or /tmp is called: these names are short. */
static void runtime_place(uid_t uid, struct place *place)
{
    char base[sizeof RUNTIME_BASE + 16];
    snprintf(base, sizeof base, RUNTIME_BASE "/%u", (unsigned)uid);
    make_place(base, "weir", place);
}

static void temporary_place(uid_t uid, struct place *place)
{
    char name[sizeof TEMPORARY_PREFIX + 16];
    snprintf(name, sizeof name, TEMPORARY_PREFIX "%u", (unsigned)uid);
    make_place(TEMPORARY_BASE, name, place);
}

/* $WEIR_CONTROL_DIR, which stands for all other places; NULL: it is not set. */
static const char *only_place(void)
{
    const char *base = secure_getenv("WEIR_CONTROL_DIR");
    return base && base[0] == '/' ? base : NULL;
}

/* What decides where they lie, for error texts. */
static const char *variable(void)
{
    return only_place() ? "WEIR_CONTROL_DIR" : "XDG_RUNTIME_DIR";
}

/* This process's. false: too long. */
static bool own_place(struct place *place)
{
    const char *only = only_place(), *runtime = share_runtime_directory();
    if (only)
        return make_place(only, "weir", place);
    if (runtime)
        return make_place(runtime, "weir", place);
    temporary_place(geteuid(), place);
    return true;
}

static bool is_safe_place(const struct place *place, uid_t uid)
{
    char problem[SHARE_PROBLEM_SIZE];
    return share_is_safe(place->parent, uid, variable(), problem) && share_is_safe(place->path, uid, variable(), problem);
}

static weir_status make_directory(const char *directory, weir_error *error)
{
    char problem[SHARE_PROBLEM_SIZE], remedy[128];
    int code = mkdir(directory, 0700) == 0 ? 0 : errno;
    snprintf(remedy, sizeof remedy, "set %s to a directory of this user, or unset it", variable());
    if (code != 0 && code != EEXIST)
        return weir__fail(error, WEIR_INVALID, "the directory %s for control sockets cannot be made: %s", directory, WEIR__WHY(code, remedy));
    if (share_is_safe(directory, geteuid(), variable(), problem))
        return WEIR_OK;
    return weir__fail(error, WEIR_REFUSED, "control sockets cannot lie in %s, which %s", directory, problem);
}

weir_status share_control_directory(weir_error *error, char path[SHARE_PATH_SIZE])
{
    struct place place;
    if (!own_place(&place))
        return weir__fail(error, WEIR_INVALID, "%s is too long for sockets to lie there: use a directory of at most %zu bytes", variable(),
                          SHARE_PATH_SIZE - 1 - SOCKET_NAME_MAX - (sizeof "/weir/control" - 1));
    weir_status status = make_directory(place.parent, error);
    if (status == WEIR_OK)
        status = make_directory(place.path, error);
    if (status == WEIR_OK)
        memcpy(path, place.path, sizeof place.path);
    return status;
}

/* Listing ------------------------------------------------------------------------------------------------------------------------------ */

struct listing {
    bool sweep, of_exports; /* those of exports lie beside control sockets */
    struct stat first; /* the directory that was listed first, which others may be other names of; st_nlink 0: there is none */
    char (*paths)[SHARE_PATH_SIZE];
    size_t count, room;
};

static bool ends_in_lock(const char *name, size_t len)
{
    const size_t suffix = sizeof SHARE_LOCK_SUFFIX - 1;
    return len > suffix && strcmp(name + len - suffix, SHARE_LOCK_SUFFIX) == 0;
}

/* Each listener, alive or killed, has a lock file. */
static void sweep_directory(const char *directory, DIR *stream)
{
    for (const struct dirent *entry; (entry = readdir(stream));) {
        char path[SHARE_PATH_SIZE];
        size_t len = strlen(entry->d_name);
        if (!ends_in_lock(entry->d_name, len))
            continue;
        int written = snprintf(path, sizeof path, "%s/%.*s", directory, (int)(len - (sizeof SHARE_LOCK_SUFFIX - 1)), entry->d_name);
        if (written > 0 && (size_t)written < sizeof path)
            share_socket_sweep(path);
    }
    rewinddir(stream);
}

static bool has_room(struct listing *listing)
{
    if (listing->count < listing->room)
        return true;
    size_t room = listing->room ? 2 * listing->room : 16;
    char (*larger)[SHARE_PATH_SIZE] = realloc(listing->paths, room * sizeof *larger);
    if (!larger)
        return false;
    listing->paths = larger;
    listing->room = room;
    return true;
}

/* "FIRST.SECOND" of a path, as its process's id and the number of the weir in it; what is named otherwise comes last. */
static void numbers_of(const char *path, unsigned long numbers[2])
{
    char *end;
    const char *name = strrchr(path, '/') + 1;
    numbers[0] = strtoul(name, &end, 10);
    numbers[1] = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
}

static int by_process(const void *a, const void *b)
{
    unsigned long first[2], second[2];
    numbers_of(a, first);
    numbers_of(b, second);
    for (int i = 0; i < 2; i++)
        if (first[i] != second[i])
            return first[i] < second[i] ? -1 : 1;
    return strcmp(a, b);
}

/* Opens it to be listed; NULL: it is not there, not safe, or listed already. */
static DIR *open_place(struct listing *listing, const struct place *place, uid_t uid)
{
    struct stat info;
    DIR *stream = is_safe_place(place, uid) ? opendir(place->path) : NULL;
    if (!stream)
        return NULL;
    bool is_known = fstat(dirfd(stream), &info) == 0;
    if (is_known && listing->first.st_nlink && listing->first.st_dev == info.st_dev && listing->first.st_ino == info.st_ino) {
        closedir(stream);
        return NULL;
    }
    if (is_known && !listing->first.st_nlink)
        listing->first = info;
    return stream;
}

static void add_place(struct listing *listing, const struct place *control, uid_t uid)
{
    struct place place = listing->of_exports ? beside(control) : *control;
    size_t first = listing->count;
    DIR *stream = open_place(listing, &place, uid);
    if (!stream)
        return;
    if (listing->sweep && uid == geteuid())
        sweep_directory(place.path, stream);
    for (const struct dirent *entry; (entry = readdir(stream)) && has_room(listing);) {
        char *path = listing->paths[listing->count];
        struct stat info;
        int len = snprintf(path, SHARE_PATH_SIZE, "%s/%s", place.path, entry->d_name);
        if (len > 0 && (size_t)len < SHARE_PATH_SIZE && lstat(path, &info) == 0 && S_ISSOCK(info.st_mode))
            listing->count++;
    }
    closedir(stream);
    if (listing->count > first)
        qsort(listing->paths + first, listing->count - first, sizeof listing->paths[0], by_process);
}

/* Both places of a user. */
static void add_user(struct listing *listing, uid_t uid)
{
    struct place place;
    runtime_place(uid, &place);
    add_place(listing, &place, uid);
    temporary_place(uid, &place);
    add_place(listing, &place, uid);
}

/* Whether the name is that prefix and a user's number, as it is written here: not 01. */
static bool is_of_user(const char *name, const char *prefix, uid_t *uid)
{
    char again[32];
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0)
        return false;
    unsigned long number = strtoul(name + len, NULL, 10);
    snprintf(again, sizeof again, "%lu", number);
    *uid = (uid_t)number;
    return number < UINT32_MAX && strcmp(again, name + len) == 0;
}

/* The other users who have something in this base. */
static void add_others(struct listing *listing, const char *base, const char *prefix, void (*place_of)(uid_t uid, struct place *place))
{
    DIR *stream = opendir(base);
    uid_t uid;
    if (!stream)
        return;
    for (const struct dirent *entry; (entry = readdir(stream));) {
        struct place place;
        if (!is_of_user(entry->d_name, prefix, &uid) || uid == geteuid())
            continue;
        place_of(uid, &place);
        add_place(listing, &place, uid);
    }
    closedir(stream);
}

static void hand_over(struct listing *listing, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    if (!listing->count) {
        free(listing->paths);
        listing->paths = NULL;
    }
    *paths = listing->paths;
    *count = listing->count;
}

void share_control_sockets(bool sweep, char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    struct listing listing = { .sweep = sweep };
    struct place own;
    if (own_place(&own))
        add_place(&listing, &own, geteuid());
    if (!only_place())
        add_user(&listing, geteuid());
    if (!only_place() && geteuid() == 0) {
        add_others(&listing, RUNTIME_BASE, "", runtime_place);
        add_others(&listing, TEMPORARY_BASE, TEMPORARY_PREFIX, temporary_place);
    }
    hand_over(&listing, paths, count);
}

void share_export_sockets(char (**paths)[SHARE_PATH_SIZE], size_t *count)
{
    struct listing listing = { .of_exports = true };
    const char *runtime = share_runtime_directory();
    struct place place;
    bool fits = true;
    if (runtime)
        fits = make_place(runtime, "weir", &place);
    else
        runtime_place(geteuid(), &place);
    if (fits)
        add_place(&listing, &place, geteuid());
    if (geteuid() == 0)
        add_others(&listing, RUNTIME_BASE, "", runtime_place);
    hand_over(&listing, paths, count);
}
