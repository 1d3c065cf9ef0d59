/* SPDX-License-Identifier: MIT */
/*
 * allowed.h - the users and groups that share.allow of a pool lets connect, as numbers.
 *
 * Names are looked up in the user database, which may be remote and slow. So this is done by the thread that reads the policy, not when a
 * process connects. Owned by an export.
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
    } *names; /* users first, then groups */
};

/* Copies the names without looking them up. Returns false, with nothing to free, if host memory runs out. */
bool share_allowed_copy(const struct policy_names *users, const struct policy_names *groups, struct share_allowed *allowed);
/* Looks up the ids of the names; a name that is a number is itself the id. An id found in `known` is not looked up again; `known` may be
   NULL. */
void share_allowed_find(struct share_allowed *allowed, const struct share_allowed *known);
void share_allowed_free(struct share_allowed *allowed);
/* The first name without an id, because the system does not know it; NULL if all have one. */
const char *share_allowed_unknown(const struct share_allowed *allowed);

/* Whether the process may connect: its user is this process's own, root, or in the list, or one of its groups, supplementary ones too,
   is in the list. */
bool share_allowed_has(const struct share_allowed *allowed, const struct share_process *process);

#endif
