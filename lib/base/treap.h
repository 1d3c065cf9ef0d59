/* SPDX-License-Identifier: MIT */
/*
 * treap.h - a balanced tree of items that have their branches in themselves: from left to right in an order that its user gives, by rank
 * from the root down. Ranks are hashes, so the depth is a small multiple of the logarithm of the count, whatever the items are.
 *
 * Guarded by a lock of its owner. Nothing needs host memory, so nothing can fail. Each user names the same kind in all calls, a constant:
 * then its functions become part of the code of the tree.
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
    bool (*is_before)(const struct weir__branch *one, const struct weir__branch *other); /* of two items one always is */
    /* Where nodes know something of all that is below them, else NULL: the branches of the node are others now, or one item came or went
       somewhere below it. */
    void (*count)(struct weir__branch *node);
    void (*count_come)(struct weir__branch *node, const struct weir__branch *item);
    void (*count_gone)(struct weir__branch *node, const struct weir__branch *item);
};

/* Addresses are multiples of much, and the ranks must not follow them, or trees become lists. */
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

/* Parts a tree into what is before and behind an item that is not in it. */
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
