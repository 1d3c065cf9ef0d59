/* SPDX-License-Identifier: MIT */
#include "policy/policy.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/origin.h"
#include "policy/report.h"

/* Finding ------------------------------------------------------------------------------------------------------------------------------ */

bool policy_name_is_valid(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > POLICY_NAME_MAX || isdigit((unsigned char)name[0]) || name[0] == '-')
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

/* What qsort() and bsearch() compare: pointers to structs that begin with their names. */
static int by_name(const void *a, const void *b)
{
    const char *const *const *first = a, *const *const *second = b;
    return strcmp(**first, **second);
}

_Static_assert(offsetof(struct policy_pool, name) == 0 && offsetof(struct policy_stream, name) == 0, "by_name() takes it from there");

void policy_sort(struct policy_box *box)
{
    const struct policy *policy = &box->policy;
    box->pools = policy_arena_alloc(&box->arena, policy->pool_count, sizeof *box->pools);
    box->streams = policy_arena_alloc(&box->arena, policy->stream_count, sizeof *box->streams);
    if (!box->pools || !box->streams)
        return;
    for (size_t i = 0; i < policy->pool_count; i++)
        box->pools[i] = &policy->pools[i];
    for (size_t i = 0; i < policy->stream_count; i++)
        box->streams[i] = &policy->streams[i];
    qsort(box->pools, policy->pool_count, sizeof *box->pools, by_name);
    qsort(box->streams, policy->stream_count, sizeof *box->streams, by_name);
}

/* The pointer to the struct of that name, among so many. */
static const void *find(const void *all, size_t count, const char *name)
{
    const char *const *key = &name;
    const void *const *found = count ? bsearch(&key, all, count, sizeof(void *), by_name) : NULL;
    return found ? *found : NULL;
}

const struct policy_pool *policy_find_pool(const struct policy *policy, const char *name)
{
    return find(((const struct policy_box *)policy)->pools, policy->pool_count, name); /* policy is its first member */
}

const struct policy_stream *policy_find_stream(const struct policy *policy, const char *name)
{
    return find(((const struct policy_box *)policy)->streams, policy->stream_count, name);
}

bool policy_object_at(const struct policy *policy, size_t index, struct policy_object *object)
{
    if (index == 0) {
        *object = (struct policy_object){POLICY_SCOPE_FILE, (void *)policy, policy->origins};
    } else if (index <= policy->pool_count) {
        struct policy_pool *pool = &policy->pools[index - 1];
        *object = (struct policy_object){POLICY_SCOPE_POOL, pool, pool->origins};
    } else if (index <= policy->pool_count + policy->stream_count) {
        struct policy_stream *stream = &policy->streams[index - 1 - policy->pool_count];
        *object = (struct policy_object){POLICY_SCOPE_STREAM, stream, stream->origins};
    } else {
        return false;
    }
    return true;
}

struct policy_origin *policy_origin_of(enum policy_scope scope, struct policy_origin *origins, const char *key)
{
    size_t count;
    const struct policy_key *keys = policy_keys(scope, &count), *found = policy_key_find(scope, key);
    return found ? origins + (found - keys) : origins + count;
}

/* A key that was not set has the place of its object, which is where one would write it. */
static struct policy_mark mark_of(const struct policy *policy, enum policy_scope scope, struct policy_origin *origins, const char *key)
{
    struct policy_mark mark = policy_origin_of(scope, origins, key)->mark;
    if (!mark.file)
        mark = policy_origin_of(scope, origins, "")->mark;
    if (!mark.file)
        mark.file = policy->file;
    return mark;
}

static struct policy_place place_of(const struct policy *policy, enum policy_scope scope, struct policy_origin *origins, const char *key)
{
    struct policy_mark mark = mark_of(policy, scope, origins, key);
    return (struct policy_place){mark.file, mark.line, mark.column, policy_origin_of(scope, origins, key)->path};
}

bool policy_pool_sets(const struct policy_pool *pool, const char *key)
{
    return policy_origin_of(POLICY_SCOPE_POOL, pool->origins, key)->mark.file;
}

struct policy_place policy_pool_place(const struct policy *policy, const struct policy_pool *pool, const char *key)
{
    return place_of(policy, POLICY_SCOPE_POOL, pool->origins, key);
}

struct policy_place policy_stream_place(const struct policy *policy, const struct policy_stream *stream, const char *key)
{
    return place_of(policy, POLICY_SCOPE_STREAM, stream->origins, key);
}

/* Sizes -------------------------------------------------------------------------------------------------------------------------------- */

uint64_t policy_pool_least(const struct policy_pool *pool)
{
    return pool->small_below ? 2 * POLICY_GROWTH_STEP : POLICY_GROWTH_STEP;
}

uint64_t policy_size_bytes(struct policy_size size, uint64_t quota)
{
    switch (size.kind) {
    case POLICY_SIZE_BYTES:
        return size.value;
    case POLICY_SIZE_PERCENT:
        return (uint64_t)((unsigned __int128)quota * size.value / 10000);
    case POLICY_SIZE_QUOTA:
        return quota;
    case POLICY_SIZE_ALL:
    case POLICY_SIZE_AUTO:
        return UINT64_MAX;
    default:
        return 0;
    }
}

/* Showing ------------------------------------------------------------------------------------------------------------------------------ */

void policy_each_value(const struct policy *policy, policy_value_fn fn, void *data)
{
    struct policy_object object;
    for (size_t at = 0; policy_object_at(policy, at, &object); at++) {
        size_t count;
        const struct policy_key *keys = policy_keys(object.scope, &count);
        for (size_t i = 0; i < count; i++) {
            const struct policy_origin *origin = &object.origins[i];
            if (!origin->text)
                continue;
            const struct policy_value value = {
                .path = origin->path,
                .text = origin->text,
                .file = origin->mark.file,
                .line = origin->mark.line,
                .column = origin->mark.column,
                .live = keys[i].live,
            };
            fn(&value, data);
        }
    }
}

/* Comparing ---------------------------------------------------------------------------------------------------------------------------- */

/* "pools.a", or "" of the file. */
static const char *path_of(const struct policy_object *object)
{
    size_t count;
    policy_keys(object->scope, &count);
    return object->origins[count].path;
}

/* The same object in another policy: the file's own, or the pool or stream of that name. False if it has none. */
static bool find_same(const struct policy *policy, const struct policy_object *object, struct policy_object *same)
{
    for (size_t at = 0; policy_object_at(policy, at, same); at++)
        if (same->scope == object->scope && strcmp(path_of(same), path_of(object)) == 0)
            return true;
    return false;
}

static void compare_keys(const struct policy_object *before, const struct policy_object *after, const struct policy *policy,
                         struct policy_report *report)
{
    size_t count;
    const struct policy_key *keys = policy_keys(after->scope, &count);
    for (size_t i = 0; i < count; i++) {
        const char *was = before->origins[i].text, *is = after->origins[i].text;
        if (keys[i].live || was == is || (was && is && strcmp(was, is) == 0))
            continue;
        /* A key with a default that comes or goes does so because another key changed, which is reported. */
        if ((!was || !is) && keys[i].initial)
            continue;
        policy_report_add(report, mark_of(policy, after->scope, after->origins, keys[i].name), after->origins[i].path,
                          "cannot change while the policy is open: it was %s and is now %s; %s%s again, or open the policy anew",
                          policy_quote(was ? was : "not set").text, policy_quote(is ? is : "not set").text, was ? "write " : "leave it out",
                          was ? policy_quote(was).text : "");
    }
}

enum policy_status policy_compare(const struct policy *before, const struct policy *after, struct policy_errors *errors)
{
    struct policy_report report;
    policy_report_begin(&report, errors);
    struct policy_object object, same;
    for (size_t at = 0; policy_object_at(after, at, &object); at++) {
        if (find_same(before, &object, &same))
            compare_keys(&same, &object, after, &report);
        else
            policy_report_add(&report, mark_of(after, object.scope, object.origins, ""), path_of(&object),
                              "is new, but pools and streams cannot come while the policy is open; remove it, or open the policy anew");
    }
    for (size_t at = 0; policy_object_at(before, at, &object); at++) {
        if (find_same(after, &object, &same))
            continue;
        const char *key = object.scope == POLICY_SCOPE_POOL ? "pools" : "streams";
        policy_report_add(&report, mark_of(after, POLICY_SCOPE_FILE, after->origins, key), path_of(&object),
                          "is gone, but pools and streams cannot go while the policy is open; write it again, or open the policy anew");
    }
    policy_report_sort(&report);
    return policy_report_status(&report);
}
