/* SPDX-License-Identifier: MIT */
/* marks.c - weir_mark(), weir_tag_push() and weir_tag_pop(): marks say in a trace where the program is, tags say what its blocks are
   for. */
#include <string.h>

#include "lib/base/call.h"
#include "lib/pool/recorded.h"
#include "lib/pool/settings.h"

/* Checks the arguments. Errors go into the thread's own record (weir_last_error()), since these functions have no parameter for one. */
static weir_status check(const weir *w, const char *function, const char *name)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!w || !name)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "%s: w and name must not be NULL", function);
    return WEIR_OK;
}

weir_status weir_mark(weir *w, const char *name)
{
    WEIR__CALL;
    weir_status status = check(w, "weir_mark", name);
    if (status != WEIR_OK || !weir__records(&w->recorder, WEIR__LEVEL_POOL))
        return status;
    weir__record_mark(&w->recorder, name);
    weir__record_pools(w);
    return WEIR_OK;
}

/* Makes requests and frees that a cache serves count for their tags. Until a program uses the first tag, they are not noted. */
static void begin_tags(weir *w)
{
    pthread_mutex_lock(&w->config);
    atomic_store(&w->recorder.tags.are_used, true);
    weir__settings_note_all(w);
    atomic_store(&w->are_tags_noted, true);
    pthread_mutex_unlock(&w->config);
}

/* Pushes a tag. If the thread's stack of tags is full, first removes tags of weirs that were closed before the tags were popped. */
static bool push(uint64_t recorder, unsigned number)
{
    if (weir__tag_push(recorder, number))
        return true;
    weir__tags_drop(weir__recorder_is_there);
    return weir__tag_push(recorder, number);
}

weir_status weir_tag_push(weir *w, const char *name)
{
    weir_status status = check(w, "weir_tag_push", name);
    if (status != WEIR_OK)
        return status;
    size_t len = strnlen(name, WEIR__TAG_NAME_MAX + 1);
    if (len == 0 || len > WEIR__TAG_NAME_MAX)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_tag_push: the name of a tag has 1 to %d bytes", WEIR__TAG_NAME_MAX);
    unsigned number = weir__tags_find(&w->recorder.tags, name);
    if (!number)
        return weir__fail(weir__last_error_reset(), WEIR_NO_HOST_MEMORY,
                          "weir_tag_push: no host memory for the tag '%s', or there are %d names already: use fewer", name, WEIR__TAGS_MAX);
    if (!atomic_load(&w->are_tags_noted))
        begin_tags(w);
    if (!push(w->recorder.id, number))
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_tag_push: this thread has %d tags already: pop some of them",
                          WEIR__TAG_DEPTH);
    return WEIR_OK;
}

weir_status weir_tag_pop(weir *w, const char *name)
{
    weir_status status = check(w, "weir_tag_pop", name ? name : "");
    if (status != WEIR_OK)
        return status;
    const struct weir__tag *tag = weir__tags_get(&w->recorder.tags, weir__tag_current(w->recorder.id));
    if (!tag)
        return weir__fail(weir__last_error_reset(), WEIR_NOT_FOUND, "weir_tag_pop: this thread has no tag of this weir");
    if (name && strcmp(name, tag->name) != 0)
        return weir__fail(weir__last_error_reset(), WEIR_NOT_FOUND, "weir_tag_pop: '%s' is in force, not '%.*s': pop the last one first",
                          tag->name, WEIR__TAG_NAME_MAX, name);
    weir__tag_pop(w->recorder.id);
    return WEIR_OK;
}
