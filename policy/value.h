/* SPDX-License-Identifier: MIT */
/*
 * value.h - one value of one key: from a node into the policy, and back into text. Pure; the thread that parses uses it.
 */
#ifndef WEIR_POLICY_VALUE_H
#define WEIR_POLICY_VALUE_H

#include "policy/keys.h"
#include "policy/tree.h"

/* What reading a value needs beside its node. */
struct policy_reading {
    struct policy_arena *arena; /* of the policy: what is stored lives there */
    struct policy_report *report;
    const struct policy *policy; /* its pools have names already */
    bool cut;                    /* the file's end is missing, so that a pool may be named behind it */
};

/* Reports at the node's value, and is false. */
#define policy_fail(reading, node, ...) policy_node_report((reading)->report, (node)->mark, (node), __VA_ARGS__)

/* Reads the node as the key's type. *value is set only if it is right; otherwise the error is reported. */
bool policy_value_read(const struct policy_reading *reading, const struct policy_key *key, const struct policy_node *node, void *value);
/* Sets the key's default, if it has one of its own. */
void policy_value_default(const struct policy_reading *reading, const struct policy_key *key, void *value);
/* The value as one would write it, always the same text for the same value. Lives in the arena; NULL: no memory, or a key that
   has no value. */
const char *policy_value_text(const struct policy_reading *reading, const struct policy_key *key, const void *value);
/* Whether the node stands for nothing: empty, ~ or null. */
bool policy_node_is_null(const struct policy_node *node);
bool policy_device_equal(const struct policy_device *a, const struct policy_device *b);

#endif
