/* SPDX-License-Identifier: MIT */
/*
 * treap.h - a balanced binary search tree (a treap) whose items embed their nodes, struct weir__branch. From left to right the items are
 * sorted by the `is_before` of the tree's kind; from the root down their ranks fall. Ranks are hashes, so the depth is a small multiple of
 * the logarithm of the number of items.
 *
 * The lock of the tree's owner guards the tree. The functions allocate nothing and cannot fail. Those that change a tree take its root and
 * return the new one. Pass the same constant kind in all calls for a tree, so that the compiler inlines the kind's functions.
 */
#ifndef WEIR_LIB_TREAP_H
#define WEIR_LIB_TREAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__branch {
    struct weir__branch *left, *right;
    uint32_t rank; /* at least the ranks of both children */
};

struct weir__treap_kind {
    bool (*is_before)(const struct weir__branch *one, const struct weir__branch *other); /* a total order: no two items are equal */
    /* For trees whose nodes hold a sum over their subtree; NULL otherwise. count() computes the sum of a node whose children have changed.
       count_come() and count_gone() update the sum of a node for one item that was added to, or removed from, the node's subtree. */
    void (*count)(struct weir__branch *node);
    void (*count_come)(struct weir__branch *node, const struct weir__branch *item);
    void (*count_gone)(struct weir__branch *node, const struct weir__branch *item);
};

/* Returns the rank for an item with that address: a hash, since ranks that grow with the addresses would make the tree a list. */
static inline uint32_t weir__treap_rank(uint64_t address)
{
    uint64_t mixed = (address >> 9) * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= mixed >> 32;
    return (uint32_t)((mixed * UINT64_C(0xD6E8FEB86659FD93)) >> 32);
}

static inline void weir__treap_count(struct weir__branch *node, const struct weir__treap_kind *kind)
{
    if (kind->count)
        kind->count(node);
}

/* Splits a tree into two: the items before `item`, which is not in the tree, and the items behind it. */
static inline void weir__treap_part(struct weir__branch *root, const struct weir__branch *item, struct weir__branch **before,
                                    struct weir__branch **behind, const struct weir__treap_kind *kind)
{
    if (!root) {
        *before = *behind = NULL;
    } else if (kind->is_before(root, item)) {
        weir__treap_part(root->right, item, &root->right, behind, kind);
        *before = root;
        weir__treap_count(root, kind);
    } else {
        weir__treap_part(root->left, item, before, &root->left, kind);
        *behind = root;
        weir__treap_count(root, kind);
    }
}

/* Joins two trees, of which each item of the first is before each item of the second. Returns the root. */
static inline struct weir__branch *weir__treap_unite(struct weir__branch *before, struct weir__branch *behind,
                                                     const struct weir__treap_kind *kind)
{
    if (!before || !behind)
        return before ? before : behind;
    struct weir__branch *root = before->rank >= behind->rank ? before : behind;
    if (root == before)
        before->right = weir__treap_unite(before->right, behind, kind);
    else
        behind->left = weir__treap_unite(before, behind->left, kind);
    weir__treap_count(root, kind);
    return root;
}

/* Adds an item, whose rank the caller has set. Returns the root. */
static inline struct weir__branch *weir__treap_add(struct weir__branch *root, struct weir__branch *item,
                                                   const struct weir__treap_kind *kind)
{
    if (!root || item->rank > root->rank) {
        weir__treap_part(root, item, &item->left, &item->right, kind);
        weir__treap_count(item, kind);
        return item;
    }
    if (kind->is_before(item, root))
        root->left = weir__treap_add(root->left, item, kind);
    else
        root->right = weir__treap_add(root->right, item, kind);
    if (kind->count_come)
        kind->count_come(root, item);
    return root;
}

/* Removes an item of the tree. Returns the root. */
static inline struct weir__branch *weir__treap_without(struct weir__branch *root, const struct weir__branch *item,
                                                       const struct weir__treap_kind *kind)
{
    if (root == item)
        return weir__treap_unite(root->left, root->right, kind);
    if (kind->is_before(item, root))
        root->left = weir__treap_without(root->left, item, kind);
    else
        root->right = weir__treap_without(root->right, item, kind);
    if (kind->count_gone)
        kind->count_gone(root, item);
    return root;
}

#endif
