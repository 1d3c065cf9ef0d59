/* SPDX-License-Identifier: MIT */
/* list.h - single lists through a member of their items. They are short, and guarded by their owner's lock. */
#ifndef WEIR_SHARE_LIST_H
#define WEIR_SHARE_LIST_H

/* Takes the item off the list that begins at `first`, on which it is, and which goes on by the member `next`. */
#define SHARE_UNLINK(first, item, next) \
    do { \
        __typeof__(&(first)) link_ = &(first); \
        while (*link_ != (item)) \
            link_ = &(*link_)->next; \
        *link_ = (item)->next; \
    } while (0)

#endif
