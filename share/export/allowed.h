/* SPDX-License-Identifier: MIT */
/*
 * allowed.h - whom a pool's share.allow lets in, as numbers.
 *
 * Names are looked up in the user database, which may be far away and slow: so that is done when the policy is read, by whoever reads it, and
 * not when somebody knocks. Owned by an export.
 */
#ifndef WEIR_SHARE_ALLOWED_H
#define WEIR_SHARE_ALLOWED_H

#include "policy/policy.h"
#include "share/wire/process.h"

struct share_allowed {
    size_t count;
    struct share_allowed_name {
        char *name;
        bool is_group, is_found;
        unsigned long id;
    } *names; /* users first */
};

/* Copies the names, none of which is known yet. false: no host memory, and there is nothing to free. */
bool share_allowed_copy(const struct policy_names *users, const struct policy_names *groups, struct share_allowed *allowed);
/* Looks the names up; numbers stand for themselves. known: what was found there is not looked up again; NULL: everything is. */
void share_allowed_find(struct share_allowed *allowed, const struct share_allowed *known);
void share_allowed_free(struct share_allowed *allowed);
/* The first name that the system does not know, or NULL. */
const char *share_allowed_unknown(const struct share_allowed *allowed);

/* Whether the process is let in: one of this process's own user, of root, of a user, or of a member of a group that is named, also by
   supplementary groups. */
bool share_allowed_has(const struct share_allowed *allowed, const struct share_process *process);

#endif
