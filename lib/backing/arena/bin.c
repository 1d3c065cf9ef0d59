/* SPDX-License-Identifier: MIT */
#include "lib/backing/arena/bin.h"

/* Trees ------------------------------------------------------------------------------------------------------------------------------- */

static bool is_before(const struct weir__branch *one, const struct weir__branch *other)
{
    return weir__bin_extent(one)->address < weir__bin_extent(other)->address;
}

static void count_most(struct weir__branch *node)
{
    struct weir__extent *extent = weir__bin_extent(node);
    const struct weir__extent *left = weir__bin_extent(node->left), *right = weir__bin_extent(node->right);
    uint64_t most = extent->bytes;
    if (left && left->most > most)
        most = left->most;
    if (right && right->most > most)
        most = right->most;
    extent->most = most;
}

static void count_come(struct weir__branch *node, const struct weir__branch *item)
{
    struct weir__extent *extent = weir__bin_extent(node);
    uint64_t bytes = weir__bin_extent(item)->bytes;
    if (extent->most < bytes)
        extent->most = bytes;
}

static void count_gone(struct weir__branch *node, const struct weir__branch *item)
{
    if (weir__bin_extent(node)->most == weir__bin_extent(item)->bytes)
        count_most(node);
}

static const struct weir__treap_kind kind = {is_before, count_most, count_come, count_gone};

static bool has(const struct weir__branch *node, uint64_t bytes)
{
    return node && weir__bin_extent(node)->most >= bytes;
}

static struct weir__extent *lowest(const struct weir__branch *root, uint64_t bytes)
{
    if (!has(root, bytes))
        return NULL;
    for (;;) {
        if (has(root->left, bytes))
            root = root->left;
        else if (weir__bin_extent(root)->bytes >= bytes)
            return weir__bin_extent(root);
        else
            root = root->right;
    }
}

static bool visit(const struct weir__branch *root, bool (*use)(struct weir__extent *extent, void *data), void *data)
{
    return !root || (visit(root->left, use, data) && use(weir__bin_extent(root), data) && visit(root->right, use, data));
}

/* Bins -------------------------------------------------------------------------------------------------------------------------------- */

void weir__bin_add(struct weir__bins *bins, unsigned bin, struct weir__extent *extent)
{
    extent->branch.rank = weir__treap_rank(extent->address);
    bins->roots[bin] = weir__treap_add(bins->roots[bin], &extent->branch, &kind);
    bins->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

void weir__bin_remove(struct weir__bins *bins, unsigned bin, struct weir__extent *extent)
{
    bins->roots[bin] = weir__treap_without(bins->roots[bin], &extent->branch, &kind);
    if (!bins->roots[bin])
        bins->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

static struct weir__extent *lower(struct weir__extent *one, struct weir__extent *other)
{
    return !one || (other && other->address < one->address) ? other : one;
}

struct weir__extent *weir__bin_find(const struct weir__bins *bins, const struct weir__bins *more, unsigned bin, uint64_t bytes)
{
    uint64_t mask = ~UINT64_C(0) << bin % 64;
    for (size_t word = bin / 64; word < sizeof bins->filled / sizeof bins->filled[0]; word++, mask = ~UINT64_C(0)) {
        uint64_t filled = (bins->filled[word] | (more ? more->filled[word] : 0)) & mask;
        for (; filled; filled &= filled - 1) {
            size_t at = word * 64 + (size_t)__builtin_ctzll(filled);
            struct weir__extent *found = lowest(bins->roots[at], bytes);
            if (more)
                found = lower(found, lowest(more->roots[at], bytes));
            if (found)
                return found;
        }
    }
    return NULL;
}

bool weir__bin_visit(const struct weir__bins *bins, unsigned bin, bool (*use)(struct weir__extent *extent, void *data), void *data)
{
    for (; bin < WEIR__BINS; bin++)
        if (!visit(bins->roots[bin], use, data))
            return false;
    return true;
}
