/* SPDX-License-Identifier: MIT */
/*
 * treap.h - a balanced tree of items that embed their branches. From left to right the items are in the order that the user of the tree
 * gives, from the root down in that of their ranks. Ranks are hashes, so the depth is a small multiple of the logarithm of the count.
 *
 * The owner's lock guards a tree. Nothing needs host memory, so nothing can fail. A user passes the same constant kind in all calls, so
 * that the compiler inlines the functions of that kind.
 */
#ifndef WEIR_LIB_TREAP_H
#define WEIR_LIB_TREAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__branch {
    struct weir__branch *left, *right;
    uint32_t rank; /* not below those of both branches */
};

struct weir__treap_kind {
    bool (*is_before)(const struct weir__branch *one, const struct weir__branch *other); /* exactly one of two items is before the other */
    /* For nodes that hold a sum over all items below them, else NULL: the node has other branches now, or one item came, or went, somewhere
       below the node. */
    void (*count)(struct weir__branch *node);
    void (*count_come)(struct weir__branch *node, const struct weir__branch *item);
    void (*count_gone)(struct weir__branch *node, const struct weir__branch *item);
};

/* Mixes an address into a rank: if ranks grew as addresses do, trees would become lists. */
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

/* Divides a tree into two: the items before, and those behind, an item that is not in the tree. */
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

/* One tree of two, of which all of the first is before the second. */
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

/* The tree with an item that has its rank. */
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

/* The tree without an item that is in it. */
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
