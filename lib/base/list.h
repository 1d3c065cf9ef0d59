/* SPDX-License-Identifier: MIT */
/* list.h - singly linked lists whose links are a member of the items. The lists are short, and their owner's lock guards them. */
#ifndef WEIR_LIST_H
#define WEIR_LIST_H

#include <stdbool.h>

/* Removes `item` from the list whose first item is `first` and whose links are the member `next`. The value is whether the item was on the
   list. */
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

/* Appends `item` to such a list. */
#define WEIR__APPEND(first, item, next)                                                                                                    \
    do {                                                                                                                                   \
        __typeof__(&(first)) end_ = &(first);                                                                                              \
        while (*end_)                                                                                                                      \
            end_ = &(*end_)->next;                                                                                                         \
        (item)->next = NULL;                                                                                                               \
        *end_ = (item);                                                                                                                    \
    } while (0)

#endif
