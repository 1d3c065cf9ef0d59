/* SPDX-License-Identifier: MIT */
/* Reading the policy again: what is live changes, anything else changes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static char file[64];

static void write_file(const char *path, const char *text)
{
    FILE *stream = fopen(path, "w");
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_ge(fputs(text, stream), 0);
    ck_assert_int_eq(fclose(stream), 0);
}

/* Reloads from a file with this text; `file` has its name afterwards. */
static weir_status reload(weir *w, const char *text, weir_error *error)
{
    snprintf(file, sizeof file, "/tmp/weir-reload-XXXXXX");
    int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    if (error)
        *error = (weir_error)WEIR_ERROR_INIT;
    weir_status status = weir_reload(w, file, error);
    unlink(file);
    return status;
}

static void reload_well(weir *w, const char *text)
{
    weir_error error;
    ck_assert_msg(reload(w, text, &error) == WEIR_OK, "%s", error.text);
}

/* A policy of one pool `a` with these keys. */
static const char *policy_with(const char *keys)
{
    static char text[512];
    snprintf(text, sizeof text, "weir: 1\npools:\n  a:\n    devices: [0]\n%s%s\n", keys[0] ? "    " : "", keys);
    return text;
}

/* All that can be seen of a pool, from Weir and from CUDA. */
struct view {
    weir_pool_stats figures;
    uint64_t attributes[2][4];
    enum gpu_access access[2];
};

static struct view look(weir *w)
{
    struct view view;
    memset(&view, 0, sizeof view); /* padding too, as views are compared as bytes */
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    memcpy(&view.figures, &figures, sizeof figures);
    gpu_pool handles[] = { weir_pool_handle(fixture_pool(w, "a", 0)), weir_pool_small_handle(fixture_pool(w, "a", 0)) };
    for (int i = 0; i < 2 && handles[i]; i++) {
        for (int attribute = 0; attribute < 4; attribute++)
            view.attributes[i][attribute] = fixture_attribute(handles[i], (enum gpu_pool_attribute)attribute);
        ck_assert_int_eq(fixture_gpu()->pool_get_access(handles[i], 1, &view.access[i]), GPU_SUCCESS);
    }
    return view;
}

static void expect_unchanged(weir *w, const struct view *before)
{
    struct view now = look(w);
    ck_assert_uint_eq(now.figures.release_threshold, before->figures.release_threshold);
    ck_assert_uint_eq(now.figures.max_size, before->figures.max_size);
    ck_assert_uint_eq(now.figures.reserved, before->figures.reserved);
    ck_assert_uint_eq(now.figures.live, before->figures.live);
    for (int i = 0; i < 2; i++) {
        for (int attribute = 0; attribute < 4; attribute++)
            ck_assert_msg(now.attributes[i][attribute] == before->attributes[i][attribute], "attribute %d of handle %d: %llu, was %llu",
                          attribute, i, (unsigned long long)now.attributes[i][attribute],
                          (unsigned long long)before->attributes[i][attribute]);
        ck_assert_int_eq(now.access[i], before->access[i]);
    }
}

/* Live keys ---------------------------------------------------------------------------------------------------------------------------- */

START_TEST(release_threshold_is_live)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("release_threshold: all"));
    reload_well(w, policy_with("release_threshold: 96MiB"));
    struct view view = look(w);
    ck_assert_uint_eq(view.figures.release_threshold, MIB(96));
    ck_assert_uint_eq(view.attributes[0][GPU_POOL_RELEASE_THRESHOLD] + view.attributes[1][GPU_POOL_RELEASE_THRESHOLD], MIB(96));
    weir_close(w);
}
END_TEST

static const struct {
    const char *key;
    enum gpu_pool_attribute attribute;
} reuse_keys[] = {
    { "reuse: { event_dependencies: false }", GPU_POOL_REUSE_EVENT_DEPENDENCIES },
    { "reuse: { opportunistic: false }", GPU_POOL_REUSE_OPPORTUNISTIC },
    { "reuse: { internal_dependencies: false }", GPU_POOL_REUSE_INTERNAL_DEPENDENCIES },
};

START_TEST(reuse_keys_are_live)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with(""));
    reload_well(w, policy_with(reuse_keys[_i].key));
    struct view view = look(w);
    for (int i = 0; i < 2; i++)
        for (int attribute = GPU_POOL_REUSE_EVENT_DEPENDENCIES; attribute <= GPU_POOL_REUSE_INTERNAL_DEPENDENCIES; attribute++)
            ck_assert_uint_eq(view.attributes[i][attribute], attribute != (int)reuse_keys[_i].attribute);
    reload_well(w, policy_with(""));
    ck_assert_uint_eq(look(w).attributes[0][reuse_keys[_i].attribute], 1);
    weir_close(w);
}
END_TEST

START_TEST(peer_access_is_live)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with(""));
    reload_well(w, policy_with("peer_access: [1]"));
    struct view view = look(w);
    ck_assert_int_eq(view.access[0], GPU_ACCESS_READ_WRITE);
    ck_assert_int_eq(view.access[1], GPU_ACCESS_READ_WRITE);
    reload_well(w, policy_with("peer_access: none"));
    view = look(w);
    ck_assert_int_eq(view.access[0], GPU_ACCESS_NONE);
    ck_assert_int_eq(view.access[1], GPU_ACCESS_NONE);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

static weir_status try_malloc(weir_stream *s, size_t size)
{
    void *ptr = NULL;
    weir_status status = weir_stream_malloc(s, &ptr, size);
    if (status == WEIR_OK)
        ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    return status;
}

START_TEST(max_size_can_be_lowered_and_raised_to_what_it_was)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("max_size: 256MiB"));
    weir_stream *s = fixture_stream(w, 0, NULL);
    reload_well(w, policy_with("max_size: 64MiB"));
    ck_assert_uint_eq(look(w).figures.max_size, MIB(64));
    ck_assert_int_eq(try_malloc(s, MIB(128)), WEIR_OUT_OF_MEMORY);
    reload_well(w, policy_with("max_size: 256MiB"));
    ck_assert_int_eq(try_malloc(s, MIB(128)), WEIR_OK);
    weir_close(w);
}
END_TEST

/* Without a twin the cap is the driver's. */
static const char *const raised[] = { "max_size: 257MiB\n    small_below: 0", "max_size: none\n    small_below: 0",
                                      "max_size: 50%\n    small_below: 0" };

START_TEST(max_size_that_the_driver_enforces_cannot_be_raised_above_what_it_was)
{
    weir_error error;
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("max_size: 256MiB\n    small_below: 0"));
    struct view before = look(w);
    ck_assert_int_eq(reload(w, policy_with(raised[_i]), &error), WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "pools.a.max_size"));
    ck_assert_str_eq(error.file, file);
    ck_assert_uint_eq(error.line, 5);
    ck_assert_uint_eq(error.column, 15);
    expect_unchanged(w, &before);
    weir_close(w);
}
END_TEST

/* With a twin, and by a driver that knows no cap, it is Weir's. */
static const char *const without_driver_cap[] = { "devices=2", "devices=2,driver=12.0" };

START_TEST(max_size_that_weir_enforces_can_be_raised_and_dropped)
{
    fixture_machine(without_driver_cap[_i]);
    weir *w = fixture_open(policy_with("max_size: 64MiB"));
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(try_malloc(s, MIB(128)), WEIR_OUT_OF_MEMORY);
    reload_well(w, policy_with("max_size: 128MiB"));
    ck_assert_int_eq(try_malloc(s, MIB(128)), WEIR_OK);
    reload_well(w, policy_with("max_size: none"));
    ck_assert_int_eq(try_malloc(s, MIB(512)), WEIR_OK);
    weir_close(w);
}
END_TEST

START_TEST(max_size_can_be_set_on_a_pool_that_had_none)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with(""));
    weir_stream *s = fixture_stream(w, 0, NULL);
    reload_well(w, policy_with("max_size: 64MiB"));
    ck_assert_int_eq(try_malloc(s, MIB(65)), WEIR_OUT_OF_MEMORY);
    reload_well(w, policy_with("max_size: 256MiB"));
    ck_assert_int_eq(try_malloc(s, MIB(65)), WEIR_OK);
    weir_close(w);
}
END_TEST

/* Private pools that were made under a lower cap than the first pool of their entry. The driver enforces it where there is no twin. */
static const char *const first_caps[] = { "128MiB, small_below: 0", "none, small_below: 0", "128MiB", "128MiB, backing: arena" };
static const char *const lower_caps[] = { "64MiB, small_below: 0", "64MiB, small_below: 0", "64MiB", "64MiB, backing: arena" };

START_TEST(max_size_can_be_raised_to_what_it_was_beside_private_pools_made_meanwhile)
{
    static const char format[] = "weir: 1\npools: { a: { max_size: %s } }\nstreams: { infer: { private: true } }\n";
    char first[256], lower[256];
    snprintf(first, sizeof first, format, first_caps[_i]);
    snprintf(lower, sizeof lower, format, lower_caps[_i]);
    fixture_machine(NULL);
    weir *w = fixture_open(first);
    reload_well(w, lower);
    weir_stream *s = fixture_stream(w, 0, "infer"), *parked = fixture_stream(w, 0, "infer");
    weir_stream_close(parked);
    ck_assert_int_eq(try_malloc(s, MIB(65)), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(try_malloc(s, MIB(64)), WEIR_OK);
    reload_well(w, first);
    ck_assert_int_eq(try_malloc(s, MIB(65)), WEIR_OK);
    reload_well(w, lower);
    ck_assert_int_eq(try_malloc(s, MIB(65)), WEIR_OUT_OF_MEMORY);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(max_size_below_what_is_live_harms_no_block_and_stops_new_ones)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with(""));
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(128));
    reload_well(w, policy_with("max_size: 64MiB"));
    ck_assert_int_eq(try_malloc(s, MIB(1)), WEIR_OUT_OF_MEMORY);
    ck_assert_uint_eq(look(w).figures.live, MIB(128));
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_int_eq(try_malloc(s, MIB(1)), WEIR_OK);
    ck_assert_uint_le(look(w).figures.reserved, MIB(64));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* CUDA makes no stream wait for another one's free. */
#define ALONE "reuse: { internal_dependencies: false }\n    "

/* A request that, in an ALONE pool, only the wait rung can serve: the memory is behind a kernel of 20 ms on another stream. */
static weir_status need_a_rescue(weir *w)
{
    weir_stream *busy = fixture_stream(w, 0, NULL), *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(busy, MIB(768));
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(busy), 20000000), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(busy, ptr), WEIR_OK);
    weir_status status = try_malloc(s, MIB(700));
    weir_stream_close(busy);
    weir_stream_close(s);
    return status;
}

START_TEST(steps_of_the_ladder_are_live)
{
    fixture_machine("devices=2,memory=1GiB");
    weir *w = fixture_open(policy_with(ALONE));
    ck_assert_int_eq(need_a_rescue(w), WEIR_OK);
    reload_well(w, policy_with(ALONE "on_oom: { steps: [] }"));
    ck_assert_int_eq(need_a_rescue(w), WEIR_OUT_OF_MEMORY);
    reload_well(w, policy_with(ALONE "on_oom: { steps: [wait] }"));
    ck_assert_int_eq(need_a_rescue(w), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(deadline_of_the_ladder_is_live)
{
    fixture_machine("devices=2,memory=1GiB");
    weir *w = fixture_open(policy_with(ALONE "on_oom: { deadline: 5ms }"));
    ck_assert_int_eq(need_a_rescue(w), WEIR_OUT_OF_MEMORY);
    reload_well(w, policy_with(ALONE "on_oom: { deadline: 50ms }"));
    ck_assert_int_eq(need_a_rescue(w), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(private_pools_follow_and_later_ones_are_made_by_the_new_policy)
{
    static const char before[] = "weir: 1\npools: { a: {} }\nstreams: { infer: { private: true } }\n";
    static const char after[] = "weir: 1\npools: { a: { release_threshold: none, max_size: 64MiB } }\n"
                                "streams: { infer: { private: true } }\n";
    fixture_machine("devices=2");
    weir *w = fixture_open(before);
    weir_stream *s = fixture_stream(w, 0, "infer");
    gpu_pool handle = weir_pool_handle(weir_stream_pool(s));
    ck_assert_uint_eq(fixture_attribute(handle, GPU_POOL_RELEASE_THRESHOLD), UINT64_MAX);
    reload_well(w, after);
    ck_assert_ptr_eq(weir_pool_handle(weir_stream_pool(s)), handle);
    ck_assert_uint_eq(fixture_attribute(handle, GPU_POOL_RELEASE_THRESHOLD), 0);
    ck_assert_int_eq(try_malloc(s, MIB(65)), WEIR_OUT_OF_MEMORY);
    weir_stream *later = fixture_stream(w, 0, "infer");
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(weir_stream_pool(later)), GPU_POOL_RELEASE_THRESHOLD), 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(blocks_and_handles_outlive_a_reload)
{
    unsigned char data = 0;
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with(""));
    weir_stream *s = fixture_stream(w, 0, NULL);
    unsigned char *ptr = fixture_malloc(s, 1000);
    gpu_pool handle = weir_pool_handle(fixture_pool(w, "a", 0));
    ck_assert_int_eq(fixture_gpu()->set_async(ptr, 3, 1000, weir_stream_handle(s)), GPU_SUCCESS);
    reload_well(w, policy_with("release_threshold: none"));
    ck_assert_ptr_eq(weir_pool_handle(fixture_pool(w, "a", 0)), handle);
    ck_assert_int_eq(fixture_gpu()->copy_async(&data, ptr, 1, weir_stream_handle(s)), GPU_SUCCESS);
    fixture_synchronize(s);
    ck_assert_int_eq(data, 3);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
}
END_TEST

START_TEST(threshold_set_at_run_time_ends_with_a_reload)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("release_threshold: 64MiB"));
    ck_assert_int_eq(weir_pool_set_release_threshold(fixture_pool(w, "a", 0), MIB(320), NULL), WEIR_OK);
    reload_well(w, policy_with("release_threshold: 64MiB"));
    ck_assert_uint_eq(look(w).figures.release_threshold, MIB(64));
    weir_close(w);
}
END_TEST

/* Reload without a file: what was opened, again ------------------------------------------------------------------------------------------ */

static void reload_opened(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(weir_reload(w, NULL, &error) == WEIR_OK, "%s", error.text);
}

START_TEST(without_a_file_the_text_that_was_opened_holds_again)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("release_threshold: 64MiB\n    max_size: 512MiB"));
    reload_well(w, policy_with("release_threshold: 32MiB"));
    setenv("WEIR_POLICY", "/nonexistent/policy.yaml", 1);
    reload_opened(w);
    unsetenv("WEIR_POLICY");
    ck_assert_uint_eq(look(w).figures.release_threshold, MIB(64));
    ck_assert_uint_eq(look(w).figures.max_size, MIB(512));
    weir_close(w);
}
END_TEST

START_TEST(without_a_file_that_which_was_opened_is_read_wherever_the_process_stands)
{
    char directory[] = "/tmp/weir-reload-XXXXXX", path[64];
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    fixture_machine("devices=2");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/p.yaml", directory);
    write_file(path, policy_with("release_threshold: 64MiB"));
    ck_assert_int_eq(chdir(directory), 0);
    setenv("WEIR_POLICY", "./p.yaml", 1);
    options.gpu = "sim";
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    unsetenv("WEIR_POLICY");
    ck_assert_int_eq(chdir("/"), 0);
    write_file(path, policy_with("release_threshold: 32MiB"));
    reload_opened(w);
    ck_assert_uint_eq(look(w).figures.release_threshold, MIB(32));
    weir_close(w);
    unlink(path);
    rmdir(directory);
}
END_TEST

START_TEST(without_a_file_the_built_in_policy_holds_again_with_what_the_environment_sets_now)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    weir *w;
    fixture_machine("devices=1");
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    options.gpu = "sim";
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    setenv("WEIR_CONF", "pools.default.keep=32MiB", 1);
    reload_opened(w);
    unsetenv("WEIR_CONF");
    ck_assert_uint_eq(fixture_figures(w, "default", 0).keep, MIB(32));
    weir_close(w);
}
END_TEST

/* Refusals ----------------------------------------------------------------------------------------------------------------------------- */

#define BASE "weir: 1\ndefaults: { pool: a }\npools:\n  a:\n    devices: [0]\n    release_threshold: 64MiB\n  b: {}\n" \
             "streams:\n  decode: { pool: a }\n"

/* Policies that differ from BASE in one key that is not live, and in the live threshold, which must not be applied either. */
static const struct {
    const char *policy, *path;
} fixed[] = {
    { "weir: 1\ndefaults: { pool: b }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: {} }\nstreams: { decode: { pool: a } }\n",
      "defaults.pool" },
    { "weir: 1\ncapture: relaxed\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n", "capture" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0, 1], release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n",
      "pools.a.devices" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], backing: default, release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n", "pools.a.backing" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], current: true, release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n", "pools.a.current" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], location: host, release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n", "pools.a.location" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], initial_size: 32MiB, release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n", "pools.a.initial_size" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], small_below: 0, release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a } }\n", "pools.a.small_below" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: { ipc: posix_fd } }\n"
      "streams: { decode: { pool: a } }\n", "pools.b.ipc" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: {} }\nstreams: { decode: { pool: b } }\n",
      "streams.decode.pool" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: {} }\n"
      "streams: { decode: { pool: a, private: true } }\n", "streams.decode.private" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: {}, c: {} }\n"
      "streams: { decode: { pool: a } }\n", "pools.c" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB } }\n"
      "streams: { decode: { pool: a } }\n", "pools" },
    { "weir: 1\ndefaults: { pool: a }\npools: { a: { devices: [0], release_threshold: 96MiB }, b: {} }\n", "streams" },
};

START_TEST(key_that_is_not_live_refuses_all_and_is_named)
{
    weir_error error;
    fixture_machine("devices=2");
    weir *w = fixture_open(BASE);
    struct view before = look(w);
    ck_assert_int_eq(reload(w, fixed[_i].policy, &error), WEIR_BAD_POLICY);
    ck_assert_int_eq(error.status, WEIR_BAD_POLICY);
    ck_assert_str_eq(error.file, file);
    ck_assert_msg(strstr(error.text, fixed[_i].path) != NULL, "%s is not in: %s", fixed[_i].path, error.text);
    expect_unchanged(w, &before);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(same_policy_is_no_change)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(BASE);
    struct view before = look(w);
    reload_well(w, BASE);
    expect_unchanged(w, &before);
    weir_close(w);
}
END_TEST

START_TEST(bad_file_is_refused_at_its_place)
{
    weir_error error;
    fixture_machine("devices=2");
    weir *w = fixture_open(BASE);
    struct view before = look(w);
    ck_assert_int_eq(reload(w, "weir: 1\npools:\n  a: { release_treshold: 96MiB }\n", &error), WEIR_BAD_POLICY);
    ck_assert_str_eq(error.file, file);
    ck_assert_uint_eq(error.line, 3);
    ck_assert_uint_eq(error.column, 8);
    expect_unchanged(w, &before);
    weir_close(w);
}
END_TEST

START_TEST(file_that_is_not_there_is_unreadable)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine("devices=2");
    weir *w = fixture_open(BASE);
    ck_assert_int_eq(weir_reload(w, "/nonexistent/policy.yaml", &error), WEIR_UNREADABLE);
    ck_assert_str_eq(error.file, "/nonexistent/policy.yaml");
    weir_close(w);
}
END_TEST

START_TEST(peer_that_cannot_be_reached_refuses_the_reload)
{
    weir_error error;
    fixture_machine("devices=2,peers=none");
    weir *w = fixture_open(policy_with("release_threshold: 64MiB"));
    struct view before = look(w);
    ck_assert_int_eq(reload(w, policy_with("release_threshold: 96MiB\n    peer_access: [1]"), &error), WEIR_BAD_POLICY);
    ck_assert_uint_eq(error.line, 6);
    expect_unchanged(w, &before);
    weir_close(w);
}
END_TEST

/* Each call that applies a reload failing once: everything must be as before, and the next reload must succeed. */
static const char *const appliers[] = { "pool_set", "pool_set_access", "pool_get_access", "can_access_peer" };

START_TEST(reload_that_fails_half_way_leaves_everything_as_it_was)
{
    char after[512];
    weir_error error;
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("release_threshold: 64MiB\n    max_size: 1GiB"));
    weir_stream *s = fixture_stream(w, 0, NULL);
    fixture_malloc(s, 1000); /* so that the twin has a share of the threshold */
    snprintf(after, sizeof after, "%s",
             policy_with("release_threshold: 128MiB\n    max_size: 512MiB\n    peer_access: [1]\n"
                         "    reuse: { event_dependencies: false, opportunistic: false, internal_dependencies: false }"));
    struct view before = look(w);
    unsigned nth = 1;
    for (;; nth++) {
        sim_fail(appliers[_i], nth, GPU_UNKNOWN);
        weir_status status = reload(w, after, &error);
        sim_fail(appliers[_i], 0, 0);
        if (status == WEIR_OK)
            break;
        ck_assert_int_eq(status, WEIR_CUDA_ERROR);
        ck_assert_int_eq(error.cuda_code, GPU_UNKNOWN);
        expect_unchanged(w, &before);
    }
    ck_assert_uint_gt(nth, 1);
    struct view now = look(w);
    ck_assert_uint_eq(now.figures.release_threshold, MIB(128));
    ck_assert_uint_eq(now.figures.max_size, MIB(512));
    ck_assert_int_eq(now.access[1], GPU_ACCESS_READ_WRITE);
    weir_close(w);
}
END_TEST

START_TEST(reload_that_fails_keeps_the_threshold_set_at_run_time)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(policy_with("release_threshold: 64MiB"));
    ck_assert_int_eq(weir_pool_set_release_threshold(fixture_pool(w, "a", 0), MIB(320), NULL), WEIR_OK);
    struct view before = look(w);
    sim_fail("pool_set_access", 1, GPU_UNKNOWN);
    ck_assert_int_eq(reload(w, policy_with("release_threshold: 96MiB\n    peer_access: [1]"), NULL), WEIR_CUDA_ERROR);
    expect_unchanged(w, &before);
    weir_close(w);
}
END_TEST

START_TEST(reload_that_fails_on_the_second_pool_takes_the_first_one_back)
{
    fixture_machine("devices=2");
    weir *w = fixture_open(BASE);
    struct view before = look(w);
    sim_fail("pool_set_access", 1, GPU_UNKNOWN);
    ck_assert_int_eq(reload(w, "weir: 1\ndefaults: { pool: a }\npools:\n  a: { devices: [0], release_threshold: 96MiB }\n"
                               "  b: { peer_access: all }\nstreams: { decode: { pool: a } }\n", NULL),
                     WEIR_CUDA_ERROR);
    expect_unchanged(w, &before);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

static void add_refusals(Suite *suite)
{
    TCase *tcase = suite_case(suite, "refused", 0);
    tcase_add_loop_test(tcase, key_that_is_not_live_refuses_all_and_is_named, 0, COUNT(fixed));
    suite_add(tcase, same_policy_is_no_change, bad_file_is_refused_at_its_place, file_that_is_not_there_is_unreadable,
              peer_that_cannot_be_reached_refuses_the_reload);
    tcase_add_loop_test(tcase, reload_that_fails_half_way_leaves_everything_as_it_was, 0, COUNT(appliers));
    suite_add(tcase, reload_that_fails_keeps_the_threshold_set_at_run_time, reload_that_fails_on_the_second_pool_takes_the_first_one_back);
}

int main(void)
{
    Suite *suite = suite_create("reload");
    TCase *tcase = suite_case(suite, "live", 0);
    suite_add(tcase, release_threshold_is_live);
    tcase_add_loop_test(tcase, reuse_keys_are_live, 0, COUNT(reuse_keys));
    suite_add(tcase, peer_access_is_live, max_size_can_be_lowered_and_raised_to_what_it_was);
    tcase_add_loop_test(tcase, max_size_that_the_driver_enforces_cannot_be_raised_above_what_it_was, 0, COUNT(raised));
    tcase_add_loop_test(tcase, max_size_that_weir_enforces_can_be_raised_and_dropped, 0, COUNT(without_driver_cap));
    tcase_add_loop_test(tcase, max_size_can_be_raised_to_what_it_was_beside_private_pools_made_meanwhile, 0, COUNT(first_caps));
    suite_add(tcase, max_size_can_be_set_on_a_pool_that_had_none, max_size_below_what_is_live_harms_no_block_and_stops_new_ones,
              steps_of_the_ladder_are_live, deadline_of_the_ladder_is_live, private_pools_follow_and_later_ones_are_made_by_the_new_policy,
              blocks_and_handles_outlive_a_reload, threshold_set_at_run_time_ends_with_a_reload, without_a_file_the_text_that_was_opened_holds_again,
              without_a_file_that_which_was_opened_is_read_wherever_the_process_stands,
              without_a_file_the_built_in_policy_holds_again_with_what_the_environment_sets_now);
    add_refusals(suite);
    return suite_run(suite);
}
