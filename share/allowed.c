/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/allowed.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names ---------------------------------------------------------------------------------------------------------------------------------- */

/* Whether the name is a number, as ids may be written. */
static bool is_number(const char *name, unsigned long *id)
{
    if (!name[0] || name[strspn(name, "0123456789")])
        return false;
    errno = 0;
    *id = strtoul(name, NULL, 10);
    return errno == 0;
}

/* A buffer for an entry of the user database, enlarged for as long as the system finds it too small. */
static bool look_up(const char *name, bool is_group, unsigned long *id)
{
    bool found = false;
    int code = ERANGE;
    for (size_t size = 1024; code == ERANGE && size <= 1 << 20; size *= 4) {
        char *buffer = malloc(size);
        struct passwd user, *user_found = NULL;
        struct group group, *group_found = NULL;
        if (!buffer)
            return false;
        code = is_group ? getgrnam_r(name, &group, buffer, size, &group_found) : getpwnam_r(name, &user, buffer, size, &user_found);
        if (code == 0 && (user_found || group_found)) {
            *id = is_group ? group.gr_gid : user.pw_uid;
            found = true;
        }
        free(buffer);
    }
    return found;
}

static bool is_known(const struct share_allowed_name *known, size_t count, const char *name, unsigned long *id)
{
    for (size_t i = 0; i < count; i++)
        if (known[i].is_found && strcmp(known[i].name, name) == 0) {
            *id = known[i].id;
            return true;
        }
    return false;
}

/* The names of one list. *count: how many there are, also if host memory ends half-way. */
static bool find_names(const struct policy_names *names, bool is_group, const struct share_allowed_name *known, size_t known_count,
                       struct share_allowed_name **found, size_t *count)
{
    if (names->count && !(*found = calloc(names->count, sizeof **found)))
        return false;
    for (; *count < names->count; ++*count) {
        struct share_allowed_name *one = &(*found)[*count];
        if (!(one->name = strdup(names->items[*count])))
            return false;
        one->is_found = is_number(one->name, &one->id) || is_known(known, known_count, one->name, &one->id) ||
                        look_up(one->name, is_group, &one->id);
    }
    return true;
}

bool share_allowed_find(const struct policy_names *users, const struct policy_names *groups, const struct share_allowed *known,
                        struct share_allowed *allowed)
{
    static const struct share_allowed nobody;
    struct share_allowed found = { 0 };
    known = known ? known : &nobody;
    if (find_names(users, false, known->users, known->user_count, &found.users, &found.user_count) &&
        find_names(groups, true, known->groups, known->group_count, &found.groups, &found.group_count)) {
        *allowed = found;
        return true;
    }
    share_allowed_free(&found);
    return false;
}

static void free_names(struct share_allowed_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i].name);
    free(names);
}

void share_allowed_free(struct share_allowed *allowed)
{
    free_names(allowed->users, allowed->user_count);
    free_names(allowed->groups, allowed->group_count);
    *allowed = (struct share_allowed){ 0 };
}

static const char *find_unknown(const struct share_allowed_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!names[i].is_found)
            return names[i].name;
    return NULL;
}

const char *share_allowed_unknown(const struct share_allowed *allowed)
{
    const char *user = find_unknown(allowed->users, allowed->user_count);
    return user ? user : find_unknown(allowed->groups, allowed->group_count);
}

/* Who is let in -------------------------------------------------------------------------------------------------------------------------- */

static bool has_id(const struct share_allowed_name *names, size_t count, unsigned long id)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].is_found && names[i].id == id)
            return true;
    return false;
}

bool share_allowed_has(const struct share_allowed *allowed, const struct share_process *process)
{
    bool has = process->uid == geteuid() || process->uid == 0 || has_id(allowed->users, allowed->user_count, process->uid) ||
               has_id(allowed->groups, allowed->group_count, process->gid);
    for (size_t i = 0; i < process->group_count && !has; i++)
        has = has_id(allowed->groups, allowed->group_count, process->groups[i]);
    return has;
}
