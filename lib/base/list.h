/* SPDX-License-Identifier: MIT */
/* list.h - single lists through a member of their items. They are short, and guarded by their owner's lock. */
#ifndef WEIR_LIST_H
#define WEIR_LIST_H

#include <stdbool.h>

/* Takes the item off the list that begins at `first` and goes on by the member `next`. Says whether it was on it. */
#define WEIR__UNLINK(first, item, next)                                                                                                    \
    ({                                                                                                                                     \
        __typeof__(&(first)) link_ = &(first);                                                                                             \
        while (*link_ && *link_ != (item))                                                                                                 \
            link_ = &(*link_)->next;                                                                                                       \
        bool is_listed_ = *link_;                                                                                                          \
        if (is_listed_)                                                                                                                    \
            *link_ = (item)->next;                                                                                                         \
        is_listed_;                                                                                                                        \
    })

/* Puts the item behind all others of such a list. */
#define WEIR__APPEND(first, item, next)                                                                                                    \
    do {                                                                                                                                   \
        __typeof__(&(first)) end_ = &(first);                                                                                              \
        while (*end_)                                                                                                                      \
            end_ = &(*end_)->next;                                                                                                         \
        (item)->next = NULL;                                                                                                               \
        *end_ = (item);                                                                                                                    \
    } while (0)

#endif
