/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/allowed.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/user.h"

/* Names ---------------------------------------------------------------------------------------------------------------------------------- */

/* Whether the name is a decimal number, which then is the id. */
static bool is_number(const char *name, unsigned long *id)
{
    if (!name[0] || name[strspn(name, "0123456789")])
        return false;
    errno = 0;
    *id = strtoul(name, NULL, 10);
    return errno == 0;
}

/* Looks a name up in the user database. The buffer for the entry is enlarged until it is large enough. Returns false if there is no such
   name. */
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

static bool is_known(const struct share_allowed *known, struct share_allowed_name *name)
{
    for (size_t i = 0; known && i < known->count; i++)
        if (known->names[i].is_found && known->names[i].is_group == name->is_group && strcmp(known->names[i].name, name->name) == 0) {
            name->id = known->names[i].id;
            return true;
        }
    return false;
}

void share_allowed_find(struct share_allowed *allowed, const struct share_allowed *known)
{
    for (size_t i = 0; i < allowed->count; i++) {
        struct share_allowed_name *name = &allowed->names[i];
        name->is_found = is_number(name->name, &name->id) || is_known(known, name) || look_up(name->name, name->is_group, &name->id);
    }
}

/* Appends copies of the names, for which allowed->names has room. Returns false if host memory runs out. */
static bool copy_names(const struct policy_names *names, bool is_group, struct share_allowed *allowed)
{
    for (size_t i = 0; i < names->count; i++) {
        char *name = strdup(names->items[i]);
        if (!name)
            return false;
        allowed->names[allowed->count++] = (struct share_allowed_name){ .name = name, .is_group = is_group };
    }
    return true;
}

bool share_allowed_copy(const struct policy_names *users, const struct policy_names *groups, struct share_allowed *allowed)
{
    size_t count = users->count + groups->count;
    *allowed = (struct share_allowed){ 0 };
    if (count && !(allowed->names = calloc(count, sizeof *allowed->names)))
        return false;
    bool is_whole = copy_names(users, false, allowed) && copy_names(groups, true, allowed);
    if (!is_whole)
        share_allowed_free(allowed);
    return is_whole;
}

void share_allowed_free(struct share_allowed *allowed)
{
    for (size_t i = 0; i < allowed->count; i++)
        free(allowed->names[i].name);
    free(allowed->names);
    *allowed = (struct share_allowed){ 0 };
}

const char *share_allowed_unknown(const struct share_allowed *allowed)
{
    for (size_t i = 0; i < allowed->count; i++)
        if (!allowed->names[i].is_found)
            return allowed->names[i].name;
    return NULL;
}

/* Checking a process ------------------------------------------------------------------------------------------------------------------- */

static bool has_id(const struct share_allowed *allowed, bool is_group, unsigned long id)
{
    for (size_t i = 0; i < allowed->count; i++)
        if (allowed->names[i].is_found && allowed->names[i].is_group == is_group &&
            (is_group ? weir__is_group((gid_t)id, (gid_t)allowed->names[i].id) : weir__is_user((uid_t)id, (uid_t)allowed->names[i].id)))
            return true;
    return false;
}

bool share_allowed_has(const struct share_allowed *allowed, const struct share_process *process)
{
    bool has = weir__is_self_or_root(process->uid) || has_id(allowed, false, process->uid) || has_id(allowed, true, process->gid);
    for (size_t i = 0; i < process->group_count && !has; i++)
        has = has_id(allowed, true, process->groups[i]);
    return has;
}
