/* SPDX-License-Identifier: MIT */
#include "lib/pool/arena/bin.h"

/* Trees ------------------------------------------------------------------------------------------------------------------------------- */

/* Addresses are multiples of much, and the ranks must not follow them, or trees become lists. */
static uint32_t rank_of(uint64_t address)
{
    uint64_t mixed = (address >> 9) * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= mixed >> 32;
    return (uint32_t)((mixed * UINT64_C(0xD6E8FEB86659FD93)) >> 32);
}

static void count_most(struct weir__extent *node)
{
    uint64_t most = node->bytes;
    if (node->left && node->left->most > most)
        most = node->left->most;
    if (node->right && node->right->most > most)
        most = node->right->most;
    node->most = most;
}

/* Parts a tree into what lies below and above an address that no node of it has. */
static void part(struct weir__extent *root, uint64_t address, struct weir__extent **below, struct weir__extent **above)
{
    if (!root) {
        *below = *above = NULL;
    } else if (root->address < address) {
        part(root->right, address, &root->right, above);
        *below = root;
        count_most(root);
    } else {
        part(root->left, address, below, &root->left);
        *above = root;
        count_most(root);
    }
}

/* One tree of two, of which the first has the lower addresses. */
static struct weir__extent *unite(struct weir__extent *below, struct weir__extent *above)
{
    if (!below || !above)
        return below ? below : above;
    struct weir__extent *root = below->rank >= above->rank ? below : above;
    if (root == below)
        below->right = unite(below->right, above);
    else
        above->left = unite(below, above->left);
    count_most(root);
    return root;
}

static struct weir__extent *add(struct weir__extent *root, struct weir__extent *extent)
{
    if (!root || extent->rank > root->rank) {
        part(root, extent->address, &extent->left, &extent->right);
        count_most(extent);
        return extent;
    }
    if (extent->address < root->address)
        root->left = add(root->left, extent);
    else
        root->right = add(root->right, extent);
    if (root->most < extent->bytes)
        root->most = extent->bytes;
    return root;
}

static struct weir__extent *without(struct weir__extent *root, const struct weir__extent *extent)
{
    if (root == extent)
        return unite(root->left, root->right);
    if (extent->address < root->address)
        root->left = without(root->left, extent);
    else
        root->right = without(root->right, extent);
    if (root->most == extent->bytes)
        count_most(root);
    return root;
}

static struct weir__extent *lowest(struct weir__extent *root, uint64_t bytes)
{
    if (!root || root->most < bytes)
        return NULL;
    for (;;) {
        if (root->left && root->left->most >= bytes)
            root = root->left;
        else if (root->bytes >= bytes)
            return root;
        else
            root = root->right;
    }
}

static bool visit(struct weir__extent *root, bool (*use)(struct weir__extent *extent, void *data), void *data)
{
    return !root || (visit(root->left, use, data) && use(root, data) && visit(root->right, use, data));
}

/* Bins -------------------------------------------------------------------------------------------------------------------------------- */

void weir__bin_add(struct weir__bins *bins, unsigned bin, struct weir__extent *extent)
{
    extent->rank = rank_of(extent->address);
    bins->roots[bin] = add(bins->roots[bin], extent);
    bins->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

void weir__bin_remove(struct weir__bins *bins, unsigned bin, struct weir__extent *extent)
{
    bins->roots[bin] = without(bins->roots[bin], extent);
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
