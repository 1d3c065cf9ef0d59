/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the nodes of a YAML text, each with its place.
 *
 * Reads the part of YAML that a policy may use (one document; no aliases, anchors or tags; bounded depth) and reports everything else. It
 * knows nothing of keys and values. The nodes live in the arena of the parse; one thread owns both.
 */
#ifndef WEIR_POLICY_TREE_H
#define WEIR_POLICY_TREE_H

#include "policy/arena.h"
#include "policy/report.h"

enum policy_node_kind {
    POLICY_NODE_REFUSED, /* something is wrong with it, and reported */
    POLICY_NODE_SCALAR,
    POLICY_NODE_LIST,
    POLICY_NODE_MAPPING,
};

struct policy_node {
    enum policy_node_kind kind;
    struct policy_mark mark;
    struct policy_node *parent;
    struct policy_node *first, *last; /* items of a list, values of a mapping */
    struct policy_node *next;
    char *name; /* its key, if it is a value of a mapping */
    struct policy_mark name_mark;
    char *text; /* of a scalar */
    bool plain; /* a scalar without quotes */
};

struct policy_tree {
    struct policy_arena *arena;
    struct policy_report *report;
    struct policy_node *root; /* NULL: nothing could be read */
    bool cut;                 /* a syntax error ended the reading: the tree holds what stands before it */
};

/* Reads a whole file's text. */
void policy_tree_read(struct policy_tree *tree, const char *text, size_t len, const char *file);
/* Reads one value as it would stand in [ ]; every place in it is the mark of *node, which must have parent, name and marks set.
   False: it could not be read, and node->kind is POLICY_NODE_REFUSED. */
bool policy_tree_read_value(struct policy_tree *tree, const char *text, size_t len, struct policy_node *node);

void policy_node_append(struct policy_node *parent, struct policy_node *node);
void policy_node_remove(struct policy_node *parent, struct policy_node *node);
/* The value of a key, or NULL. */
struct policy_node *policy_node_find(const struct policy_node *mapping, const char *name);

/* "pools.a.devices": the names from the root to the node; items of a list have their list's path. Cut if it does not fit. */
#define POLICY_PATH_MAX 1280
void policy_node_path(const struct policy_node *node, char *path, size_t len);
/* Reports something of the node, at a place that need not be its own. Returns false. */
bool policy_node_report(struct policy_report *report, struct policy_mark mark, const struct policy_node *node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
