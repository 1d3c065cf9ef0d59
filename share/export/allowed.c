/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/allowed.h"

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

static void find_names(struct share_allowed_name *names, size_t count, bool is_group, const struct share_allowed_name *known, size_t known_count)
{
    for (size_t i = 0; i < count; i++)
        names[i].is_found = is_number(names[i].name, &names[i].id) || is_known(known, known_count, names[i].name, &names[i].id) ||
                            look_up(names[i].name, is_group, &names[i].id);
}

void share_allowed_find(struct share_allowed *allowed, const struct share_allowed *known)
{
    static const struct share_allowed nobody;
    known = known ? known : &nobody;
    find_names(allowed->users, allowed->user_count, false, known->users, known->user_count);
    find_names(allowed->groups, allowed->group_count, true, known->groups, known->group_count);
}

/* *count: how many there are, also if host memory ends half-way. */
static bool copy_names(const struct policy_names *names, struct share_allowed_name **copies, size_t *count)
{
    if (names->count && !(*copies = calloc(names->count, sizeof **copies)))
        return false;
    for (; *count < names->count; ++*count)
        if (!((*copies)[*count].name = strdup(names->items[*count])))
            return false;
    return true;
}

bool share_allowed_copy(const struct policy_names *users, const struct policy_names *groups, struct share_allowed *allowed)
{
    *allowed = (struct share_allowed){ 0 };
    bool is_whole = copy_names(users, &allowed->users, &allowed->user_count) && copy_names(groups, &allowed->groups, &allowed->group_count);
    if (!is_whole)
        share_allowed_free(allowed);
    return is_whole;
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
