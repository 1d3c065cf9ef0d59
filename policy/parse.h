/* SPDX-License-Identifier: MIT */
/*
 * parse.h - the steps of policy_parse() that have files of their own. One thread works on one parse.
 */
#ifndef WEIR_POLICY_PARSE_H
#define WEIR_POLICY_PARSE_H

#include "policy/tree.h"

/*
 * Puts assignments, "pools.a.max_size=4GiB,…", into the tree, in place of what stands there. No key is set twice. Every node that comes
 * from them has `label` for a file name, a pointer that no node has yet.
 */
void policy_apply_overrides(struct policy_tree *tree, const char *label, const char *text);

/* Reports what single values cannot show: keys that do not go together. Only for a policy whose values were read. */
void policy_check(const struct policy *policy, struct policy_report *report);

#endif
