/* SPDX-License-Identifier: MIT */
/*
 * tag.h - tags: names that the program gives to blocks, and the bytes and blocks that each tag has. A thread pushes a tag, and from then
 * until the thread pops the tag again, the tag is in force: all blocks that the thread allocates get it.
 *
 * Tags and their figures belong to a recorder and exist as long as the recorder does. The stack of pushed tags is thread-local. The recorder's
 * lock guards the array of tags and the table of names; the figures are atomic.
 */
#ifndef WEIR_LIB_TAG_H
#define WEIR_LIB_TAG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/table.h"

#define WEIR__TAGS_MAX 4095     /* tags of a recorder; their numbers fit into 12 bits */
#define WEIR__TAG_DEPTH 32      /* tags that a thread can have pushed, of all recorders together */
#define WEIR__TAG_NAME_MAX 63   /* bytes */

struct weir__tag {
    struct weir__link named; /* in the table `names` */
    unsigned number;
    char name[WEIR__TAG_NAME_MAX + 1];
    _Atomic int64_t live, blocks; /* live bytes and blocks; negative for a moment if a block's free is counted before its request */
    _Atomic int64_t live_high;    /* the highest value of `live` so far */
};

struct weir__tags {
    atomic_bool are_used;               /* some thread has pushed a tag */
    _Atomic unsigned count;
    struct weir__tag *_Atomic *tags;    /* tags[number], with numbers from 1 to WEIR__TAGS_MAX */
    struct weir__table names;           /* the same tags by name */
    pthread_mutex_t *lock;              /* the recorder's */
};

void weir__tags_init(struct weir__tags *tags, pthread_mutex_t *lock);
void weir__tags_destroy(struct weir__tags *tags);

/* Finds or adds the tag with that name. Returns its number, or 0 if there are too many tags or host memory runs out. */
unsigned weir__tags_find(struct weir__tags *tags, const char *name);
/* Returns the tag with that number, or NULL. */
struct weir__tag *weir__tags_get(const struct weir__tags *tags, unsigned number);

/* Counts a block with that tag: `bytes` is its size if the program got the block, or minus its size if the program freed it. */
void weir__tag_count(const struct weir__tags *tags, unsigned number, int64_t bytes);

/* Pushes a tag of the recorder for the calling thread: the tag is in force now. Returns false if WEIR__TAG_DEPTH tags are pushed
   already. */
bool weir__tag_push(uint64_t recorder, unsigned number);
/* Returns the number of the recorder's tag that is in force, or 0. */
unsigned weir__tag_current(uint64_t recorder);
/* Pops the recorder's tag that is in force. */
void weir__tag_pop(uint64_t recorder);
/* A copy of all tags that a thread has pushed. weir__tags_take() makes it; in another thread of the process weir__tags_use() replaces that
   thread's tags by the copy, or by none if `stack` is NULL. */
struct weir__tag_stack {
    unsigned count;
    struct weir__pushed_tag {
        uint64_t recorder;
        unsigned number;
    } pushed[WEIR__TAG_DEPTH];
};
void weir__tags_take(struct weir__tag_stack *stack);
void weir__tags_use(const struct weir__tag_stack *stack);

/* Removes the calling thread's tags of recorders that do not exist any more, since nothing can pop them. */
void weir__tags_drop(bool (*is_there)(uint64_t recorder));

#endif
