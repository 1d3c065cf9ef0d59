/* SPDX-License-Identifier: MIT */
/* The struct that a policy becomes, and what can be asked of it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "tests/support/suite.h"
#include "tests/unit/policy_data.h"

#define GIB (UINT64_C(1) << 30)

/* The struct --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(defaults_are_those_of_the_key_table)
{
    struct policy *policy = data_parse("weir: 1\npools: {a: {}}\n", NULL);
    const struct policy_pool *pool = &policy->pools[0];
    ck_assert_uint_eq(policy->pool_count, 1);
    ck_assert_uint_eq(policy->stream_count, 0);
    ck_assert_uint_eq(policy->default_pool, 0);
    ck_assert_int_eq(policy->capture, POLICY_CAPTURE_CALLER);
    ck_assert_str_eq(policy->file, "test");
    ck_assert_str_eq(pool->name, "a");
    ck_assert(pool->devices.all);
    ck_assert_int_eq(pool->backing, POLICY_BACKING_NEW);
    ck_assert(!pool->current);
    ck_assert_int_eq(pool->location.kind, POLICY_LOCATION_DEVICE);
    ck_assert_int_eq(pool->release_threshold.kind, POLICY_SIZE_ALL);
    ck_assert_int_eq(pool->initial_size.kind, POLICY_SIZE_BYTES);
    ck_assert_uint_eq(pool->initial_size.value, 0);
    ck_assert_int_eq(pool->max_size.kind, POLICY_SIZE_NONE);
    ck_assert_uint_eq(pool->small_below, 1 << 20);
    ck_assert(pool->reuse_event_dependencies && pool->reuse_opportunistic && pool->reuse_internal_dependencies);
    ck_assert_int_eq(pool->reuse_pending_max.kind, POLICY_SIZE_ALL);
    ck_assert(!pool->peer_access.all);
    ck_assert_uint_eq(pool->peer_access.count, 0);
    ck_assert_uint_eq(pool->on_oom_steps.count, POLICY_STEP_COUNT);
    ck_assert_uint_eq(pool->on_oom_deadline, 1000000000);
    ck_assert_int_eq(pool->ipc, POLICY_IPC_NONE);
    ck_assert(pool->cache && pool->cache_capture_check);
    ck_assert_uint_eq(pool->cache_per_stream, 64 << 20);
    ck_assert_uint_eq(pool->cache_per_device, 512 << 20);
    ck_assert_uint_eq(pool->cache_largest, 1 << 20);
    ck_assert_uint_eq(pool->cache_idle, UINT64_C(10000000000));
    ck_assert(!policy->keeper);
    policy_free(policy);
}
END_TEST

START_TEST(every_key_reaches_its_member)
{
    struct policy *policy = data_parse("weir: 1\ncapture: relaxed\nkeeper: true\ndefaults: {pool: b}\npools:\n  a: {}\n  b:\n"
                                       "    devices: [2, GPU-01234567-89AB-cdef-0123-456789abcdef]\n    current: true\n"
                                       "    location: device\n    release_threshold: 25.5%\n    initial_size: 1GiB\n    max_size: 2GiB\n"
                                       "    small_below: 64KiB\n    reuse: {event_dependencies: false, internal_dependencies: false}\n"
                                       "    peer_access: all\n    on_oom: {steps: [wait, callbacks], deadline: 20ms}\n"
                                       "    cache: {per_stream: 3MiB, per_device: 5MiB, largest: 2MiB, idle: 4s, capture_check: false}\n"
                                       "  c: {location: host_numa:3, backing: new, reuse: {pending_max: 96MiB}}\n  d: {ipc: posix_fd}\n  e: {backing: default}\n"
                                       "streams: {s: {pool: c, private: true}}\n",
                                       NULL);
    const struct policy_pool *b = &policy->pools[1];
    ck_assert_int_eq(policy->capture, POLICY_CAPTURE_RELAXED);
    ck_assert_uint_eq(policy->default_pool, 1);
    ck_assert_uint_eq(b->devices.count, 2);
    ck_assert_int_eq(b->devices.items[0].index, 2);
    ck_assert_ptr_null(b->devices.items[0].uuid);
    ck_assert_int_eq(b->devices.items[1].index, -1);
    ck_assert_str_eq(b->devices.items[1].uuid, "GPU-01234567-89ab-cdef-0123-456789abcdef");
    ck_assert(b->current);
    ck_assert_int_eq(b->release_threshold.kind, POLICY_SIZE_PERCENT);
    ck_assert_uint_eq(b->release_threshold.value, 2550);
    ck_assert_uint_eq(b->initial_size.value, GIB);
    ck_assert_int_eq(b->max_size.kind, POLICY_SIZE_BYTES);
    ck_assert_uint_eq(b->max_size.value, 2 * GIB);
    ck_assert_uint_eq(b->small_below, 65536);
    ck_assert(!b->reuse_event_dependencies && b->reuse_opportunistic && !b->reuse_internal_dependencies);
    ck_assert(b->peer_access.all);
    ck_assert_uint_eq(b->on_oom_steps.count, 2);
    ck_assert_int_eq(b->on_oom_steps.items[0], POLICY_STEP_WAIT);
    ck_assert_int_eq(b->on_oom_steps.items[1], POLICY_STEP_CALLBACKS);
    ck_assert_uint_eq(b->on_oom_deadline, 20000000);
    ck_assert(b->cache && !b->cache_capture_check);
    ck_assert_uint_eq(b->cache_per_stream, 3 << 20);
    ck_assert_uint_eq(b->cache_per_device, 5 << 20);
    ck_assert_uint_eq(b->cache_largest, 2 << 20);
    ck_assert_uint_eq(b->cache_idle, UINT64_C(4000000000));
    ck_assert(policy->keeper);
    ck_assert_int_eq(policy->pools[2].location.kind, POLICY_LOCATION_HOST_NUMA);
    ck_assert_int_eq(policy->pools[2].location.node, 3);
    ck_assert_int_eq(policy->pools[2].reuse_pending_max.kind, POLICY_SIZE_BYTES);
    ck_assert_uint_eq(policy->pools[2].reuse_pending_max.value, 96 << 20);
    ck_assert_int_eq(policy->pools[3].ipc, POLICY_IPC_POSIX_FD);
    ck_assert_int_eq(policy->pools[4].backing, POLICY_BACKING_DEFAULT);
    ck_assert_uint_eq(policy->stream_count, 1);
    ck_assert_str_eq(policy->streams[0].name, "s");
    ck_assert_uint_eq(policy->streams[0].pool, 2);
    ck_assert(policy->streams[0].own_pool);
    policy_free(policy);
}
END_TEST

START_TEST(exportable_pool_has_no_threshold_no_twin_and_no_caches)
{
    struct policy *policy = data_parse("weir: 1\npools: {a: {ipc: posix_fd}}\n", NULL);
    ck_assert_int_eq(policy->pools[0].release_threshold.kind, POLICY_SIZE_NONE);
    ck_assert_uint_eq(policy->pools[0].small_below, 0);
    ck_assert(!policy->pools[0].cache);
    policy_free(policy);
}
END_TEST

START_TEST(stream_without_a_pool_has_the_default_pool)
{
    struct policy *policy = data_parse("weir: 1\nstreams: {s: {}}\npools: {a: {}, b: {}}\ndefaults: {pool: b}\n", NULL);
    ck_assert_uint_eq(policy->streams[0].pool, 1);
    policy_free(policy);
}
END_TEST

START_TEST(pools_and_streams_are_found_by_name)
{
    struct policy *policy = data_parse("weir: 1\npools: {a: {}, b: {}}\ndefaults: {pool: a}\nstreams: {s: {}, t: {}}\n", NULL);
    ck_assert_ptr_eq(policy_find_pool(policy, "b"), &policy->pools[1]);
    ck_assert_ptr_null(policy_find_pool(policy, "s"));
    ck_assert_ptr_eq(policy_find_stream(policy, "t"), &policy->streams[1]);
    ck_assert_ptr_null(policy_find_stream(policy, "a"));
    policy_free(policy);
}
END_TEST

START_TEST(freeing_no_policy_does_nothing)
{
    policy_free(NULL);
}
END_TEST

/* Limits ------------------------------------------------------------------------------------------------------------------------------- */

static char large[POLICY_FILE_MAX + 2];

static enum policy_status parse_large(size_t len, struct policy_errors *errors)
{
    struct policy *policy = NULL;
    enum policy_status status = policy_parse(large, len, "large", NULL, errors, &policy);
    policy_free(policy);
    return status;
}

static void fill_large(const char *begin)
{
    memset(large, '#', sizeof(large));
    memcpy(large, begin, strlen(begin));
}

START_TEST(text_of_a_mebibyte_is_read)
{
    struct policy_errors errors = {0};
    fill_large("weir: 1\npools: {a: {}}\n");
    ck_assert_int_eq(parse_large(POLICY_FILE_MAX, &errors), POLICY_OK);
}
END_TEST

START_TEST(text_of_more_than_a_mebibyte_is_refused_as_a_whole)
{
    struct policy_errors errors = {0};
    char text[256];
    fill_large("weir: 1\npools: {a: {}}\n");
    ck_assert_int_eq(parse_large(POLICY_FILE_MAX + 1, &errors), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_uint_eq(errors.items[0].line, 0);
    policy_error_format(&errors.items[0], text, sizeof(text));
    ck_assert_str_eq(text, "large: is larger than 1048576 bytes, which no policy needs; check that this is the right file");
    policy_errors_clear(&errors);
}
END_TEST

/* As many entries as asked for, under pools or streams. */
static enum policy_status parse_many(size_t pools, size_t streams, struct policy_errors *errors)
{
    size_t len = (size_t)snprintf(large, sizeof(large), "weir: 1\ndefaults: {pool: p0}\npools:\n");
    for (size_t i = 0; i < pools; i++)
        len += (size_t)snprintf(large + len, sizeof(large) - len, "  p%zu: {}\n", i);
    len += (size_t)snprintf(large + len, sizeof(large) - len, "streams:\n");
    for (size_t i = 0; i < streams; i++)
        len += (size_t)snprintf(large + len, sizeof(large) - len, "  s%zu: {}\n", i);
    return parse_large(len, errors);
}

START_TEST(as_many_pools_and_streams_as_allowed_are_read)
{
    struct policy_errors errors = {0};
    ck_assert_int_eq(parse_many(POLICY_POOLS_MAX, POLICY_STREAMS_MAX, &errors), POLICY_OK);
}
END_TEST

START_TEST(more_pools_than_allowed_are_refused)
{
    struct policy_errors errors = {0};
    ck_assert_int_eq(parse_many(POLICY_POOLS_MAX + 1, 1, &errors), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_str_eq(errors.items[0].path, "pools");
    ck_assert_str_eq(errors.items[0].message, "holds 1025 pools; write at most 1024");
    policy_errors_clear(&errors);
}
END_TEST

START_TEST(more_streams_than_allowed_are_refused)
{
    struct policy_errors errors = {0};
    ck_assert_int_eq(parse_many(1, POLICY_STREAMS_MAX + 1, &errors), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_str_eq(errors.items[0].message, "holds 4097 streams; write at most 4096");
    policy_errors_clear(&errors);
}
END_TEST

START_TEST(more_devices_than_allowed_are_refused)
{
    struct policy_errors errors = {0};
    size_t len = (size_t)snprintf(large, sizeof(large), "weir: 1\npools: {a: {devices: [");
    for (int i = 0; i < 1025; i++)
        len += (size_t)snprintf(large + len, sizeof(large) - len, "%d,", i % 1024);
    len += (size_t)snprintf(large + len, sizeof(large) - len, "]}}\n");
    ck_assert_int_eq(parse_large(len, &errors), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 1);
    ck_assert_str_eq(errors.items[0].message, "lists more than 1024 devices; write all");
    policy_errors_clear(&errors);
}
END_TEST

START_TEST(a_thousand_errors_are_all_reported)
{
    struct policy_errors errors = {0};
    size_t len = (size_t)snprintf(large, sizeof(large), "weir: 1\npools: {a: {}}\n");
    for (int i = 0; i < 1000; i++)
        len += (size_t)snprintf(large + len, sizeof(large) - len, "unknown_key_%d: 1\n", i);
    ck_assert_int_eq(parse_large(len, &errors), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 1000);
    for (unsigned i = 0; i < 1000; i++)
        ck_assert_uint_eq(errors.items[i].line, i + 3);
    policy_errors_clear(&errors);
}
END_TEST

START_TEST(long_and_strange_texts_are_cut_in_errors)
{
    struct policy_errors errors = {0};
    size_t len = (size_t)snprintf(large, sizeof(large), "weir: 1\npools: {a: {}}\ncapture: \"\\e[31m");
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(large + len, sizeof(large) - len, "\xc3\xa4");
    len += (size_t)snprintf(large + len, sizeof(large) - len, "\"\n");
    ck_assert_int_eq(parse_large(len, &errors), POLICY_BAD);
    const char *message = errors.items[0].message;
    ck_assert_ptr_eq(strstr(message, "'?[31m\xc3\xa4\xc3\xa4"), message);
    ck_assert_ptr_nonnull(strstr(message, "\xc3\xa4\xe2\x80\xa6' is not known"));
    ck_assert_uint_lt(strlen(message), 200);
    policy_errors_clear(&errors);
}
END_TEST

START_TEST(errors_are_added_to_those_already_there)
{
    struct policy_errors errors = {0};
    fill_large("weir: 1\n# ");
    ck_assert_int_eq(parse_large(8, &errors), POLICY_BAD);
    ck_assert_int_eq(parse_large(8, &errors), POLICY_BAD);
    ck_assert_uint_eq(errors.count, 2);
    policy_errors_clear(&errors);
    ck_assert_uint_eq(errors.count, 0);
    ck_assert_ptr_null(errors.items);
}
END_TEST

/* Sizes -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(sizes_become_bytes_of_a_device)
{
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_BYTES, 12345}, GIB), 12345);
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_PERCENT, 2500}, GIB), GIB / 4);
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_PERCENT, 1}, 20000), 2);
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_NONE, 0}, GIB), 0);
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_ALL, 0}, GIB), UINT64_MAX);
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_QUOTA, 0}, GIB), GIB);
}
END_TEST

START_TEST(percent_of_the_largest_memory_does_not_overflow)
{
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_PERCENT, 10000}, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(policy_size_bytes((struct policy_size){POLICY_SIZE_PERCENT, 5000}, UINT64_MAX), UINT64_MAX / 2);
}
END_TEST

START_TEST(steps_have_names)
{
    ck_assert_str_eq(policy_step_name(POLICY_STEP_FLUSH), "flush");
    ck_assert_str_eq(policy_step_name(POLICY_STEP_WAIT), "wait");
    ck_assert_str_eq(policy_step_name(POLICY_STEP_TRIM), "trim");
    ck_assert_str_eq(policy_step_name(POLICY_STEP_CALLBACKS), "callbacks");
    ck_assert_str_eq(policy_step_name(POLICY_STEP_COUNT), "unknown");
}
END_TEST

/* Places ------------------------------------------------------------------------------------------------------------------------------- */

static const char placed[] =
    "weir: 1\npools:\n  a:\n    peer_access: [1]\n    reuse: {opportunistic: false}\nstreams:\n  s: {private: true}\n";

static void check_place(struct policy_place place, const char *file, unsigned line, unsigned column, const char *path)
{
    ck_assert_str_eq(place.file, file);
    ck_assert_uint_eq(place.line, line);
    ck_assert_uint_eq(place.column, column);
    ck_assert_str_eq(place.path, path);
}

START_TEST(key_has_the_place_of_its_value)
{
    struct policy *policy = data_parse(placed, "pools.a.max_size=1GiB");
    const struct policy_pool *pool = &policy->pools[0];
    check_place(policy_pool_place(policy, pool, "peer_access"), "test", 4, 18, "pools.a.peer_access");
    check_place(policy_pool_place(policy, pool, "reuse.opportunistic"), "test", 5, 28, "pools.a.reuse.opportunistic");
    check_place(policy_pool_place(policy, pool, "max_size"), "WEIR_CONF", 1, 1, "pools.a.max_size");
    check_place(policy_stream_place(policy, &policy->streams[0], "private"), "test", 7, 16, "streams.s.private");
    policy_free(policy);
}
END_TEST

START_TEST(key_that_is_not_set_has_the_place_of_its_object)
{
    struct policy *policy = data_parse(placed, NULL);
    check_place(policy_pool_place(policy, &policy->pools[0], "ipc"), "test", 3, 3, "pools.a.ipc");
    check_place(policy_stream_place(policy, &policy->streams[0], "pool"), "test", 7, 3, "streams.s.pool");
    check_place(policy_pool_place(policy, &policy->pools[0], "no such key"), "test", 3, 3, "pools.a");
    policy_free(policy);
}
END_TEST

START_TEST(builtin_policy_has_no_lines)
{
    const char *text = policy_builtin_text();
    struct policy_errors errors = {0};
    struct policy *policy = NULL;
    ck_assert_int_eq(policy_parse(text, strlen(text), "built-in", NULL, &errors, &policy), POLICY_OK);
    check_place(policy_pool_place(policy, &policy->pools[0], "release_threshold"), "built-in", 0, 0, "pools.default.release_threshold");
    check_place(policy_pool_place(policy, &policy->pools[0], "max_size"), "built-in", 0, 0, "pools.default.max_size");
    policy_free(policy);
}
END_TEST

START_TEST(error_without_a_path_is_formatted_without_one)
{
    char text[128];
    struct policy_error error = {(char[]){"f"}, 3, 4, (char[]){""}, (char[]){"words"}};
    ck_assert_int_eq(policy_error_format(&error, text, sizeof(text)), 12);
    ck_assert_str_eq(text, "f:3:4: words");
    error.path = (char[]){"a.b"};
    error.line = 0;
    policy_error_format(&error, text, sizeof(text));
    ck_assert_str_eq(text, "f: a.b: words");
}
END_TEST

/* Showing ------------------------------------------------------------------------------------------------------------------------------ */

struct listing {
    char paths[4096];
    size_t live;
};

static void list_value(const struct policy_value *value, void *data)
{
    struct listing *listing = data;
    strcat(strcat(listing->paths, value->path), " ");
    listing->live += value->live;
}

START_TEST(values_are_shown_in_the_order_of_the_key_table)
{
    struct policy *policy = data_parse("weir: 1\nstreams: {s: {}}\npools: {p: {}}\n", NULL);
    struct listing listing = {0};
    policy_each_value(policy, list_value, &listing);
    ck_assert_str_eq(listing.paths, "weir defaults.pool capture keeper exact_peaks control record.level record.ring record.stacks "
                                     "pools.p.devices pools.p.backing pools.p.current "
                                    "pools.p.location pools.p.release_threshold pools.p.initial_size pools.p.max_size pools.p.leave_free pools.p.align pools.p.small_below "
                                    "pools.p.reuse.event_dependencies pools.p.reuse.opportunistic pools.p.reuse.internal_dependencies "
                                    "pools.p.reuse.pending_max pools.p.peer_access pools.p.on_oom.steps pools.p.on_oom.deadline pools.p.cache.per_stream "
                                    "pools.p.cache.per_device pools.p.cache.largest pools.p.cache.idle pools.p.cache.capture_check "
                                    "pools.p.ipc pools.p.keep pools.p.sleep.contents pools.p.sleep.retain pools.p.sleep.on_wake streams.s.pool streams.s.private ");
    ck_assert_uint_eq(listing.live, 22);
    policy_free(policy);
}
END_TEST

static void check_default(const struct policy_value *value, void *data)
{
    (void)data;
    const char *name = value->path + strcspn(value->path, ".") + 3; /* "pools.p." */
    const struct policy_key *key = strncmp(value->path, "pools.", 6) == 0     ? policy_key_find(POLICY_SCOPE_POOL, name)
                                   : strncmp(value->path, "streams.", 8) == 0 ? policy_key_find(POLICY_SCOPE_STREAM, name)
                                                                              : policy_key_find(POLICY_SCOPE_FILE, value->path);
    ck_assert_ptr_nonnull(key);
    if (key->initial)
        ck_assert_str_eq(value->text, key->initial);
}

START_TEST(defaults_are_shown_as_the_table_writes_them)
{
    struct policy *policy = data_parse("weir: 1\nstreams: {s: {}}\npools: {p: {}}\n", NULL);
    policy_each_value(policy, check_default, NULL);
    policy_free(policy);
}
END_TEST

START_TEST(every_key_of_the_table_is_documented)
{
    for (unsigned scope = 0; scope < POLICY_SCOPE_COUNT; scope++) {
        size_t count;
        const struct policy_key *keys = policy_keys(scope, &count);
        for (size_t i = 0; i < count; i++) {
            ck_assert_msg(keys[i].help && strlen(keys[i].help) > 10, "%s has no help", keys[i].name);
            ck_assert_msg(keys[i].write != NULL, "%s does not say what to write", keys[i].name);
            ck_assert_msg(!keys[i].initial != !keys[i].otherwise, "%s has no default, or two", keys[i].name);
        }
    }
}
END_TEST

/* Comparing ---------------------------------------------------------------------------------------------------------------------------- */

static const char base[] = "weir: 1\ndefaults: {pool: a}\npools:\n  a: {}\n  b: {}\nstreams:\n  s: {}\n";

/* Compares base with a text, and writes all errors down, a line each. */
static enum policy_status compare(const char *text, char *lines, size_t len)
{
    struct policy *before = data_parse(base, NULL), *after = data_parse(text, NULL);
    struct policy_errors errors = {0};
    enum policy_status status = policy_compare(before, after, &errors);
    lines[0] = '\0';
    for (size_t i = 0; i < errors.count; i++) {
        size_t used = strlen(lines);
        policy_error_format(&errors.items[i], lines + used, len - used);
        used = strlen(lines);
        snprintf(lines + used, len - used, "\n");
    }
    policy_errors_clear(&errors);
    policy_free(before);
    policy_free(after);
    return status;
}

START_TEST(live_keys_may_differ)
{
    char lines[4096];
    enum policy_status status =
        compare("weir: 1\ndefaults: {pool: a}\nkeeper: true\nstreams: {s: {}}\npools:\n  b: {cache: off, keep: 1GiB, leave_free: 5%, reuse: {pending_max: 12.5%}}\n"
                "  a: {release_threshold: 1GiB, max_size: 2GiB, peer_access: [1], on_oom: {steps: [], deadline: 1ms},\n"
                "      reuse: {event_dependencies: false, opportunistic: false, internal_dependencies: false},\n"
                "      cache: {per_stream: 2MiB, per_device: 4MiB, largest: 512KiB, idle: 1m, capture_check: false}}\n",
                lines, sizeof(lines));
    ck_assert_str_eq(lines, "");
    ck_assert_int_eq(status, POLICY_OK);
}
END_TEST

START_TEST(same_value_written_otherwise_is_no_difference)
{
    char lines[4096];
    ck_assert_int_eq(
        compare("weir: 1\ndefaults: {pool: a}\npools:\n  a: {small_below: 1024KiB, devices: all, location: 'device'}\n  b: {}\n"
                "streams: {s: {pool: a}}\n",
                lines, sizeof(lines)),
        POLICY_OK);
}
END_TEST

START_TEST(other_keys_may_not_differ)
{
    char lines[4096];
    enum policy_status status =
        compare("weir: 1\ndefaults: {pool: b}\ncapture: relaxed\npools:\n  a: {current: true}\n  b: {devices: [0]}\n"
                "streams:\n  s: {pool: a, private: true}\n",
                lines, sizeof(lines));
    ck_assert_int_eq(status, POLICY_BAD);
    ck_assert_str_eq(
        lines, "test:2:18: defaults.pool: cannot change while the policy is open: it was a and is now b; write a again, or open the "
               "policy anew\n"
               "test:3:10: capture: cannot change while the policy is open: it was caller and is now relaxed; write caller again, or "
               "open the policy anew\n"
               "test:5:16: pools.a.current: cannot change while the policy is open: it was false and is now true; write false again, or "
               "open the policy anew\n"
               "test:6:16: pools.b.devices: cannot change while the policy is open: it was all and is now [0]; write all again, or open "
               "the policy anew\n"
               "test:8:25: streams.s.private: cannot change while the policy is open: it was false and is now true; write false again, "
               "or open the policy anew\n");
}
END_TEST

START_TEST(pools_and_streams_may_not_come)
{
    char lines[4096];
    enum policy_status status =
        compare("weir: 1\ndefaults: {pool: a}\npools:\n  a: {}\n  b: {}\n  c: {}\nstreams:\n  s: {}\n  t: {}\n", lines, sizeof(lines));
    ck_assert_int_eq(status, POLICY_BAD);
    ck_assert_str_eq(lines,
                     "test:6:3: pools.c: is new, but pools and streams cannot come while the policy is open; remove it, or open the "
                     "policy anew\n"
                     "test:9:3: streams.t: is new, but pools and streams cannot come while the policy is open; remove it, or open the "
                     "policy anew\n");
}
END_TEST

START_TEST(pools_and_streams_may_not_go)
{
    char lines[4096];
    ck_assert_int_eq(compare("weir: 1\npools:\n  a: {}\n", lines, sizeof(lines)), POLICY_BAD);
    ck_assert_str_eq(lines,
                     "test: streams.s: is gone, but pools and streams cannot go while the policy is open; write it again, or open the "
                     "policy anew\n"
                     "test:3:3: pools.b: is gone, but pools and streams cannot go while the policy is open; write it again, or open "
                     "the policy anew\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy values");
    TCase *values = suite_case(suite, "struct", 0);
    suite_add(values, defaults_are_those_of_the_key_table, every_key_reaches_its_member,
              exportable_pool_has_no_threshold_no_twin_and_no_caches, stream_without_a_pool_has_the_default_pool,
              pools_and_streams_are_found_by_name, freeing_no_policy_does_nothing);
    TCase *limits = suite_case(suite, "limits", 120);
    suite_add(limits, text_of_a_mebibyte_is_read, text_of_more_than_a_mebibyte_is_refused_as_a_whole,
              as_many_pools_and_streams_as_allowed_are_read, more_pools_than_allowed_are_refused, more_streams_than_allowed_are_refused,
              more_devices_than_allowed_are_refused, a_thousand_errors_are_all_reported, long_and_strange_texts_are_cut_in_errors,
              errors_are_added_to_those_already_there);
    TCase *sizes = suite_case(suite, "sizes", 0);
    suite_add(sizes, sizes_become_bytes_of_a_device, percent_of_the_largest_memory_does_not_overflow, steps_have_names);
    TCase *places = suite_case(suite, "places", 0);
    suite_add(places, key_has_the_place_of_its_value, key_that_is_not_set_has_the_place_of_its_object, builtin_policy_has_no_lines,
              error_without_a_path_is_formatted_without_one);
    TCase *show = suite_case(suite, "show", 0);
    suite_add(show, values_are_shown_in_the_order_of_the_key_table, defaults_are_shown_as_the_table_writes_them,
              every_key_of_the_table_is_documented);
    TCase *comparison = suite_case(suite, "compare", 0);
    suite_add(comparison, live_keys_may_differ, same_value_written_otherwise_is_no_difference, other_keys_may_not_differ,
              pools_and_streams_may_not_come, pools_and_streams_may_not_go);
    return suite_run(suite);
}
