/* SPDX-License-Identifier: MIT */
/*
 * origin.h - what a policy remembers of each key: where it was set, its path and its text. Made by the parse, immutable afterwards.
 *
 * Each object has one origin for each key of its scope, in the order of the key table, and behind them one for the object itself, whose
 * place is its name in the file.
 */
#ifndef WEIR_POLICY_ORIGIN_H
#define WEIR_POLICY_ORIGIN_H

#include "policy/arena.h"
#include "policy/keys.h"
#include "policy/tree.h"

struct policy_origin {
    struct policy_mark mark; /* file NULL: not set, the default holds */
    const char *path;
    const char *text; /* the effective value; NULL for keys that hold none, or are not written beside the others */
    bool refused;     /* what was set is no value, and reported: the default holds, but nothing follows from it */
};

/* A policy with the arena that holds its parts, among them the tree that it was read from, for policy_override(). */
struct policy_box {
    struct policy policy;
    struct policy_arena arena;
    struct policy_node *root; /* with the assignments of the environment, and those that were set later */
    bool is_builtin;
    const struct policy_pool **pools;     /* in the order of their names, once the policy is read, as are the */
    const struct policy_stream **streams;
};

/* One object of a scope, with its values and its origins. */
struct policy_object {
    enum policy_scope scope;
    void *values;
    struct policy_origin *origins;
};

/* Once all is read: policy_find_pool() and policy_find_stream() find by it. No memory: the arena says so. */
void policy_sort(struct policy_box *box);

/* Objects in the order in which they are shown: the file's own, the pools, the streams. False past the end. */
bool policy_object_at(const struct policy *policy, size_t index, struct policy_object *object);
/* The origin of one key of an object, or for "" that of the object itself. */
struct policy_origin *policy_origin_of(enum policy_scope scope, struct policy_origin *origins, const char *key);

#endif
