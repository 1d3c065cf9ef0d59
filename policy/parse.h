/* SPDX-License-Identifier: MIT */
/*
 * parse.h - the steps of policy_parse() that have files of their own. One thread works on one parse.
 */
#ifndef WEIR_POLICY_PARSE_H
#define WEIR_POLICY_PARSE_H

#include "policy/tree.h"

/*
 * Assignments that came together, "pools.a.max_size=4GiB,…". Within one layer no key is set twice; a later layer has its way over earlier
 * ones. Every node and origin that comes from it has its `label` for a file name, and no other layer has the same pointer there.
 */
struct policy_layer {
    char label[sizeof(POLICY_OVERRIDES)];
    const char *text;
    bool is_used; /* without it the policy could be another one */
};
_Static_assert(sizeof(POLICY_SET) <= sizeof(POLICY_OVERRIDES), "labels have room for both");

/* Puts the assignments into the tree, in place of what the file and earlier layers say. */
void policy_apply_overrides(struct policy_tree *tree, struct policy_layer *layer);
/* Finds out, once all are applied, which layers are of use: later ones may have replaced all that one of them set. */
void policy_mark_used(const struct policy_node *node, struct policy_layer *layers, size_t count);

/* Reports what single values cannot show: keys that do not go together. Only for a policy whose values were read. */
void policy_check(const struct policy *policy, struct policy_report *report);

#endif
