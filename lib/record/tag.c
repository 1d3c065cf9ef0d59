/* SPDX-License-Identifier: MIT */
#include "lib/record/tag.h"

#include <stdlib.h>
#include <string.h>

/* The tags that this thread has pushed, the newest last. Of each recorder the newest tag is in force. */
static __thread struct weir__pushed_tag pushed[WEIR__TAG_DEPTH];
static __thread unsigned pushed_count;

void weir__tags_init(struct weir__tags *tags, pthread_mutex_t *lock)
{
    tags->lock = lock;
    weir__table_init(&tags->names);
}

void weir__tags_destroy(struct weir__tags *tags)
{
    for (unsigned i = 1; i <= atomic_load(&tags->count); i++)
        free(atomic_load(&tags->tags[i]));
    free(tags->tags);
    weir__table_destroy(&tags->names);
}

struct weir__tag *weir__tags_get(const struct weir__tags *tags, unsigned number)
{
    return number && number <= atomic_load_explicit(&tags->count, memory_order_acquire)
               ? atomic_load_explicit(&tags->tags[number], memory_order_relaxed)
               : NULL;
}

/* Returns the number of the tag to which the link belongs, or 0 if the tag has another name. */
static unsigned number_if(const struct weir__link *link, const char *name)
{
    const struct weir__tag *tag = WEIR__ITEM(link, const struct weir__tag, named);
    return strcmp(tag->name, name) == 0 ? tag->number : 0;
}

/* Returns the number of the tag with that name, or 0. The caller holds the lock. */
static unsigned look(const struct weir__tags *tags, const char *name, uint64_t hash)
{
    unsigned number = 0;
    for (const struct weir__link *link = weir__table_first(&tags->names, hash); link && !number; link = weir__table_next(link))
        number = number_if(link, name);
    return number;
}

/* Adds a tag and returns its number, or 0 if there are too many tags or host memory runs out. The caller holds the lock. The array of tags
   is allocated with the first tag, since most programs use none. */
static unsigned add(struct weir__tags *tags, const char *name, uint64_t hash)
{
    unsigned count = atomic_load(&tags->count);
    if (!tags->tags)
        tags->tags = calloc(WEIR__TAGS_MAX + 1, sizeof *tags->tags);
    struct weir__tag *tag = tags->tags && count < WEIR__TAGS_MAX ? calloc(1, sizeof *tag) : NULL;
    if (!tag)
        return 0;
    memcpy(tag->name, name, strlen(name) + 1);
    tag->number = count + 1;
    atomic_store(&tags->tags[count + 1], tag);
    atomic_store_explicit(&tags->count, count + 1, memory_order_release);
    weir__table_add(&tags->names, &tag->named, hash, hash);
    return count + 1;
}

unsigned weir__tags_find(struct weir__tags *tags, const char *name)
{
    uint64_t hash = weir__hash_name(name);
    struct weir__link *link;
    weir__table_look(&tags->names, hash, hash, &link);
    unsigned number = link ? number_if(link, name) : 0;
    if (number)
        return number;
    pthread_mutex_lock(tags->lock);
    number = look(tags, name, hash);
    if (!number)
        number = add(tags, name, hash);
    pthread_mutex_unlock(tags->lock);
    return number;
}

void weir__tag_count(const struct weir__tags *tags, unsigned number, int64_t bytes)
{
    struct weir__tag *tag = weir__tags_get(tags, number);
    if (!tag)
        return;
    int64_t live = atomic_fetch_add_explicit(&tag->live, bytes, memory_order_relaxed) + bytes;
    atomic_fetch_add_explicit(&tag->blocks, bytes < 0 ? -1 : 1, memory_order_relaxed);
    int64_t high = atomic_load_explicit(&tag->live_high, memory_order_relaxed);
    while (live > high &&
           !atomic_compare_exchange_weak_explicit(&tag->live_high, &high, live, memory_order_relaxed, memory_order_relaxed))
        continue;
}

bool weir__tag_push(uint64_t recorder, unsigned number)
{
    if (pushed_count == WEIR__TAG_DEPTH)
        return false;
    pushed[pushed_count++] = (struct weir__pushed_tag){recorder, number};
    return true;
}

/* Returns the index in `pushed` of the newest tag of that recorder, or WEIR__TAG_DEPTH if there is none. */
static unsigned find_pushed(uint64_t recorder)
{
    for (unsigned i = pushed_count; i--;)
        if (pushed[i].recorder == recorder)
            return i;
    return WEIR__TAG_DEPTH;
}

unsigned weir__tag_current(uint64_t recorder)
{
    unsigned at = find_pushed(recorder);
    return at == WEIR__TAG_DEPTH ? 0 : pushed[at].number;
}

void weir__tag_pop(uint64_t recorder)
{
    unsigned at = find_pushed(recorder);
    if (at == WEIR__TAG_DEPTH)
        return;
    pushed_count--;
    memmove(&pushed[at], &pushed[at + 1], (pushed_count - at) * sizeof *pushed);
}

void weir__tags_take(struct weir__tag_stack *stack)
{
    stack->count = pushed_count;
    memcpy(stack->pushed, pushed, sizeof pushed);
}

void weir__tags_use(const struct weir__tag_stack *stack)
{
    pushed_count = stack ? stack->count : 0;
    if (stack)
        memcpy(pushed, stack->pushed, sizeof pushed);
}

void weir__tags_drop(bool (*is_there)(uint64_t recorder))
{
    unsigned kept = 0;
    for (unsigned i = 0; i < pushed_count; i++)
        if (is_there(pushed[i].recorder))
            pushed[kept++] = pushed[i];
    pushed_count = kept;
}
