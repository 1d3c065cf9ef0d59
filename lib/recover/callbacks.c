/* SPDX-License-Identifier: MIT */
#include "lib/recover/callbacks.h"

#include <stdlib.h>

#include "lib/base/call.h"
#include "lib/base/error.h"
#include "lib/base/fork.h"

struct weir__callback {
    struct weir__callback *next;
    unsigned id;
    weir_oom_fn fn;
    void *data;
    unsigned running; /* calls in progress */
    bool removed;     /* weir_oom_remove() waits for the calls in progress; no new ones begin */
    uint64_t vain;    /* the number of the climb that marked it last as no help */
};

void weir__callbacks_init(struct weir__callbacks *callbacks)
{
    *callbacks = (struct weir__callbacks){ .first = NULL };
    pthread_cond_init(&callbacks->idle, NULL);
}

void weir__callbacks_destroy(struct weir__callbacks *callbacks)
{
    while (callbacks->first) {
        struct weir__callback *first = callbacks->first;
        callbacks->first = first->next;
        free(first);
    }
    pthread_cond_destroy(&callbacks->idle);
}

/* A call of a callback in progress. end_run() runs also if the callback throws or ends its thread. */
struct run {
    weir *w;
    struct weir__callback *callback;
};

static void end_run(struct run *run)
{
    weir__in_callback = NULL;
    pthread_mutex_lock(&run->w->leaf);
    run->callback->running--;
    pthread_cond_broadcast(&run->w->callbacks.idle);
    pthread_mutex_unlock(&run->w->leaf);
}

unsigned weir__callbacks_run(const struct weir__request *request, unsigned after, uint64_t climb, uint64_t needed, uint64_t *freed)
{
    weir *w = request->pool->w;
    pthread_mutex_lock(&w->leaf);
    struct weir__callback *callback = w->callbacks.first;
    while (callback && (callback->id <= after || callback->removed || callback->vain == climb))
        callback = callback->next;
    if (callback)
        callback->running++;
    pthread_mutex_unlock(&w->leaf);
    if (!callback)
        return 0;

    unsigned id = callback->id;
    struct run run __attribute__((cleanup(end_run), unused)) = { w, callback };
    weir__in_callback = request;
    *freed = callback->fn(callback->data, request->pool->device->index, needed);
    return id;
}

void weir__callbacks_give_up(weir *w, unsigned id, uint64_t climb)
{
    pthread_mutex_lock(&w->leaf);
    for (struct weir__callback *callback = w->callbacks.first; callback; callback = callback->next)
        if (callback->id == id)
            callback->vain = climb;
    pthread_mutex_unlock(&w->leaf);
}

weir_status weir_oom_add(weir *w, weir_oom_fn fn, void *data, weir_error *error, unsigned *id)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w || !fn || !id)
        return weir__fail(error, WEIR_INVALID, "weir_oom_add: w, fn and id must not be NULL");
    struct weir__callback *callback = malloc(sizeof *callback);
    if (!callback)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for an out-of-memory callback");
    *callback = (struct weir__callback){ .fn = fn, .data = data };

    pthread_mutex_lock(&w->leaf);
    callback->id = ++w->callbacks.last_id;
    struct weir__callback **last = &w->callbacks.first;
    while (*last)
        last = &(*last)->next;
    *last = callback;
    *id = callback->id;
    pthread_mutex_unlock(&w->leaf);
    return WEIR_OK;
}

weir_status weir_oom_remove(weir *w, unsigned id, weir_error *error)
{
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w)
        return weir__fail(error, WEIR_INVALID, "weir_oom_remove: w must not be NULL");
    WEIR__CALL;
    struct weir__callbacks *callbacks = &w->callbacks;
    pthread_mutex_lock(&w->leaf);
    struct weir__callback **link = &callbacks->first;
    while (*link && ((*link)->id != id || (*link)->removed))
        link = &(*link)->next;
    struct weir__callback *callback = *link;
    /* Do not wait within a callback: the callback to be removed may be the same one, or run on a thread that waits for this one. */
    bool is_busy = callback && callback->running && weir__call_is_nested();
    if (callback && !is_busy) {
        callback->removed = true;
        while (callback->running)
            pthread_cond_wait(&callbacks->idle, &w->leaf);
        /* The list may have changed during the wait. */
        for (link = &callbacks->first; *link != callback;)
            link = &(*link)->next;
        *link = callback->next;
    }
    pthread_mutex_unlock(&w->leaf);
    if (is_busy)
        return weir__fail(error, WEIR_BUSY, "the out-of-memory callback %u is running, and is asked to be removed from within a callback: "
                                            "remove it once that has returned", id);
    free(callback);
    if (!callback)
        return weir__fail(error, WEIR_NOT_FOUND, "there is no out-of-memory callback with the id %u", id);
    return WEIR_OK;
}
