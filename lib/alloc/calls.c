/* SPDX-License-Identifier: MIT */
/* calls.c - weir_stream_malloc() and weir_stream_free(): the kinds of the ordinary case, and the way of all others. */
#include "lib/alloc/fast.h"
#include "lib/alloc/free.h"
#include "lib/alloc/request.h"
#include "lib/base/call.h"

static void leave(weir_stream **entered)
{
    weir__stream_leave(*entered);
}

/* What a request needs that is not served in the ordinary way. */
static __attribute__((noinline)) weir_status malloc_slowly(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!s || !ptr)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_stream_malloc: s and ptr must not be NULL");
    if (weir__pool_keeps(s->pool, class) && weir__cache_serve(s, NULL, NULL, class, size, ptr) == WEIR__CACHE_DONE)
        return WEIR_OK;
    WEIR__CALL;
    if (!weir__stream_enter(s))
        return weir__stream_closed(weir__last_error_reset(), "weir_stream_malloc");
    weir_stream *entered __attribute__((cleanup(leave), unused)) = s;
    return weir__serve(s->pool, ptr, size, &(struct weir__raw){ .handle = s->handle, .is_open = true }, s);
}

/* What a free needs that does not enter the cache in the ordinary way. */
static __attribute__((noinline)) weir_status free_slowly(weir_stream *s, void *ptr)
{
    if (weir__is_forked())
        return weir__check_fork(weir__last_error_reset());
    if (!ptr)
        return WEIR_OK;
    if (!s)
        return weir__fail(weir__last_error_reset(), WEIR_INVALID, "weir_stream_free: s must not be NULL");
    return weir__free(s->w, ptr, s->handle, s);
}

/* The kinds of the ordinary case that are not inline, each without the instructions of the others. */
#define KIND(kind, check, way)                                                                                                          \
    static __attribute__((noinline)) weir_status malloc_##kind(weir_stream *s, void **ptr, size_t size, unsigned class)                 \
    {                                                                                                                                   \
        return weir__fast_serve(s, class, size, ptr, check, way, NULL) ? WEIR_OK : malloc_slowly(s, ptr, size, class);                  \
    }                                                                                                                                   \
    static __attribute__((noinline)) weir_status free_##kind(weir_stream *s, void *ptr)                                                 \
    {                                                                                                                                   \
        return weir__fast_keep(s, ptr, check, way, NULL) ? WEIR_OK : free_slowly(s, ptr);                                               \
    }

KIND(home_checked, true, WEIR__BIAS_HOME)
KIND(plain, false, WEIR__BIAS_PLAIN)
KIND(plain_checked, true, WEIR__BIAS_PLAIN)
KIND(any, false, WEIR__BIAS_ANY)
KIND(any_checked, true, WEIR__BIAS_ANY)

/* The kinds that leave something for the recorder. Whether a capture has to be asked for is looked up, as they are no race. */
#define NOTED_KIND(kind, way)                                                                                                           \
    static __attribute__((noinline)) weir_status malloc_noted_##kind(weir_stream *s, void **ptr, size_t size, unsigned class)           \
    {                                                                                                                                   \
        struct weir__noted noted;                                                                                                       \
        weir__noted_begin(&noted, s, true);                                                                                             \
        if (!weir__fast_serve(s, class, size, ptr, atomic_load_explicit(&s->pool->cache.capture_check, memory_order_relaxed), way,      \
                              &noted))                                                                                                  \
            return malloc_slowly(s, ptr, size, class);                                                                                  \
        weir__noted_end(&noted, s);                                                                                                     \
        return WEIR_OK;                                                                                                                 \
    }                                                                                                                                   \
    static __attribute__((noinline)) weir_status free_noted_##kind(weir_stream *s, void *ptr)                                           \
    {                                                                                                                                   \
        struct weir__noted noted;                                                                                                       \
        weir__noted_begin(&noted, s, false);                                                                                            \
        if (!weir__fast_keep(s, ptr, atomic_load_explicit(&s->pool->cache.capture_check, memory_order_relaxed), way, &noted))           \
            return free_slowly(s, ptr);                                                                                                 \
        weir__noted_end(&noted, s);                                                                                                     \
        return WEIR_OK;                                                                                                                 \
    }

NOTED_KIND(home, WEIR__BIAS_HOME)
NOTED_KIND(plain, WEIR__BIAS_PLAIN)
NOTED_KIND(any, WEIR__BIAS_ANY)

static weir_status malloc_noted(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    switch (weir__bias_way(&s->cache.lock)) {
    case WEIR__BIAS_HOME:
        return malloc_noted_home(s, ptr, size, class);
    case WEIR__BIAS_PLAIN:
        return malloc_noted_plain(s, ptr, size, class);
    default:
        return malloc_noted_any(s, ptr, size, class);
    }
}

static weir_status free_noted(weir_stream *s, void *ptr)
{
    switch (weir__bias_way(&s->cache.lock)) {
    case WEIR__BIAS_HOME:
        return free_noted_home(s, ptr);
    case WEIR__BIAS_PLAIN:
        return free_noted_plain(s, ptr);
    default:
        return free_noted_any(s, ptr);
    }
}

static __attribute__((noinline)) weir_status malloc_otherwise(weir_stream *s, void **ptr, size_t size, unsigned class)
{
    if (weir__is_forked() || !s || !ptr || !weir__pool_caches(s->pool, class))
        return malloc_slowly(s, ptr, size, class);
    bool check = !weir__fast_classes(s->pool, false);
    if (weir__noted_classes(s->pool))
        return malloc_noted(s, ptr, size, class);
    switch (weir__bias_way(&s->cache.lock)) {
    case WEIR__BIAS_HOME:
        return check ? malloc_home_checked(s, ptr, size, class) : malloc_slowly(s, ptr, size, class);
    case WEIR__BIAS_PLAIN:
        return check ? malloc_plain_checked(s, ptr, size, class) : malloc_plain(s, ptr, size, class);
    default:
        return check ? malloc_any_checked(s, ptr, size, class) : malloc_any(s, ptr, size, class);
    }
}

weir_status weir_stream_malloc(weir_stream *s, void **ptr, size_t size)
{
    unsigned class = weir__class_of(size);
    if (!weir__is_forked() && s && ptr && weir__fast_serve(s, class, size, ptr, false, WEIR__BIAS_HOME, NULL))
        return WEIR_OK;
    return malloc_otherwise(s, ptr, size, class);
}

static __attribute__((noinline)) weir_status free_otherwise(weir_stream *s, void *ptr)
{
    if (weir__is_forked() || !s || !ptr)
        return free_slowly(s, ptr);
    bool check = !weir__fast_classes(s->pool, false);
    if (weir__noted_classes(s->pool))
        return free_noted(s, ptr);
    switch (weir__bias_way(&s->cache.lock)) {
    case WEIR__BIAS_HOME:
        return check ? free_home_checked(s, ptr) : free_slowly(s, ptr);
    case WEIR__BIAS_PLAIN:
        return check ? free_plain_checked(s, ptr) : free_plain(s, ptr);
    default:
        return check ? free_any_checked(s, ptr) : free_any(s, ptr);
    }
}

weir_status weir_stream_free(weir_stream *s, void *ptr)
{
    /* NULL is in no table. */
    if (!weir__is_forked() && s && weir__fast_keep(s, ptr, false, WEIR__BIAS_HOME, NULL))
        return WEIR_OK;
    return free_otherwise(s, ptr);
}
