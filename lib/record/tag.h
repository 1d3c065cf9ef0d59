/* SPDX-License-Identifier: MIT */
/*
 * tag.h - names that a thread gives to what it allocates, and what the blocks of each name come to.
 *
 * The names and figures are a recorder's, and live as long as it does; which of them are in force is each thread's own. `lock` is a leaf
 * and guards the list and the table; figures are atomic.
 */
#ifndef WEIR_LIB_TAG_H
#define WEIR_LIB_TAG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/spin.h"
#include "lib/base/table.h"

#define WEIR__TAGS_MAX 4095     /* of a recorder: 12 bits */
#define WEIR__TAG_DEPTH 32      /* of a thread, over all recorders */
#define WEIR__TAG_NAME_MAX 63   /* bytes */

struct weir__tag {
    struct weir__link named; /* in `names` */
    unsigned number;
    char name[WEIR__TAG_NAME_MAX + 1];
    _Atomic int64_t live, blocks; /* that users have; below 0 for a moment, where another thread's free is counted first */
    _Atomic int64_t live_high;
};

struct weir__tags {
    atomic_bool are_used;               /* some thread has pushed one */
    _Atomic unsigned count;
    struct weir__tag *_Atomic *tags;    /* WEIR__TAGS_MAX of them, from number 1 */
    struct weir__table names;           /* of the same tags, by name */
    weir__spin lock;
};

void weir__tags_init(struct weir__tags *tags);
void weir__tags_destroy(struct weir__tags *tags);

/* The number of that name, which is made if it is new. 0: there are too many, or no host memory. */
unsigned weir__tags_find(struct weir__tags *tags, const char *name);
/* NULL: there is none of that number. */
struct weir__tag *weir__tags_get(const struct weir__tags *tags, unsigned number);

/* A user got, or freed, a block of so many bytes. */
void weir__tag_count(const struct weir__tags *tags, unsigned number, int64_t bytes);

/* The thread's tags, of which the last one that was pushed for a recorder is in force there. false: there is no room for another. */
bool weir__tag_push(uint64_t recorder, unsigned number);
/* The tag that is in force; 0: none. */
unsigned weir__tag_current(uint64_t recorder);
/* Takes the one in force off again. */
void weir__tag_pop(uint64_t recorder);
/* All of the thread's tags, to be copied and put in force in another thread of the process, in the place of that one's; NULL: none. */
struct weir__tag_stack {
    unsigned count;
    struct weir__pushed_tag {
        uint64_t recorder;
        unsigned number;
    } pushed[WEIR__TAG_DEPTH];
};
void weir__tags_take(struct weir__tag_stack *stack);
void weir__tags_use(const struct weir__tag_stack *stack);

/* Takes off those of recorders that are no more, which nobody can pop. */
void weir__tags_drop(bool (*is_there)(uint64_t recorder));

#endif
