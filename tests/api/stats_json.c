/* SPDX-License-Identifier: MIT */
/* A snapshot as JSON: what the text has, whatever names it has, how it meets its room, and the quotas in it. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/open.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define POLICY "weir: 1\ndefaults: { pool: main }\npools:\n" \
               "  main: { small_below: 0, max_size: 256MiB, release_threshold: all, cache: off }\n"
#define ROOM 65536

static weir_stats *take(weir *w)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats = NULL;
    ck_assert_msg(weir_stats_take(w, &error, &stats) == WEIR_OK, "%s", error.text);
    return stats;
}

static const char *json_of(weir *w)
{
    static char json[ROOM];
    weir_stats *stats = take(w);
    size_t len = weir_stats_json(stats, json, sizeof json);
    ck_assert_uint_lt(len, sizeof json);
    ck_assert_uint_eq(len, strlen(json));
    weir_stats_free(stats);
    return json;
}

static void has(const char *json, const char *part)
{
    ck_assert_msg(strstr(json, part) != NULL, "'%s' is not in %s", part, json);
}

/* The text from the member on, which is there. */
static const char *from(const char *json, const char *member)
{
    has(json, member);
    return strstr(json, member);
}

START_TEST(snapshot_has_who_the_process_is_and_its_figures)
{
    char expected[ROOM];
    fixture_machine("devices=1");
    unsetenv("WEIR_QUOTA");
    weir *w = fixture_open(POLICY);
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *block;
    ck_assert_int_eq(weir_tag_push(w, "weights"), WEIR_OK);
    ck_assert_int_eq(weir_stream_malloc(s, &block, MIB(48)), WEIR_OK);
    snprintf(expected, sizeof expected,
             "\"devices\": [{\"index\": 0, \"uuid\": \"GPU-00000000-0000-0000-0000-000000000000\", \"memory\": 1073741824, \"memory_free\": 1006632960, "
             "\"obtainable\": 1006632960, \"quota\": 1073741824, \"quota_from\": null, \"recoveries\": 0, \"asks_sent\": 0, \"bytes_got\": 0, \"asks_received\": 0, \"bytes_given\": 0, "
             "\"rescues\": {\"flush\": 0, \"wait\": 0, \"trim\": 0, \"callbacks\": 0, \"neighbours\": 0}}], "
             "\"pools\": [{\"device\": 0, \"name\": \"main\", \"is_private\": false, \"is_exportable\": false, \"is_arena\": false, "
             "\"is_auto\": false, \"live\": 50331648, \"cached\": 0, \"slack\": 0, \"used\": 50331648, \"idle\": 16777216, "
             "\"reserved\": 67108864, \"live_high\": 50331648, \"reserved_high\": 67108864, \"max_size\": 268435456, "
             "\"release_threshold\": 18446744073709551615, \"keep\": 0, \"obtainable\": 201326592, \"leave_free\": 0, \"asleep\": 0, \"yielded\": 0, \"held_elsewhere\": 0, \"sleeps\": 0, \"wakes\": 0, \"align\": 512, \"live_blocks\": 1, \"graph_blocks\": 0, \"mallocs\": 1, "
             "\"frees\": 0, \"failures\": 0, \"cache_hits\": 0, \"kept_used\": 0, \"kept_used_ms\": 0, \"kept_unused\": 0, "
             "\"kept_unused_ms\": 0, \"given_missed\": 0, \"given_missed_ms\": 0}], "
             "\"tags\": [{\"name\": \"weights\", \"live\": 50331648, \"live_high\": 50331648, \"live_blocks\": 1}]}");
    ck_assert_str_eq(from(json_of(w), "\"devices\""), expected);
    snprintf(expected, sizeof expected, "{\"version\": \"%s\", \"pid\": %d, \"program\": \"%s\", \"age_ms\": ", weir_version(),
             (int)getpid(), program_invocation_short_name);
    ck_assert_ptr_eq(from(json_of(w), expected), json_of(w));
    has(json_of(w), ", \"labels\": {\"rank\": null, \"local_rank\": null, \"job\": null, \"pod\": null}, \"policy\": \"policy_text\", ");
    ck_assert_int_eq(weir_tag_pop(w, NULL), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(s, block), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(nothing_is_written_where_the_text_does_not_fit)
{
    fixture_machine("devices=1");
    weir *w = fixture_open(POLICY);
    weir_stats *stats = take(w);
    char json[ROOM], whole[ROOM];
    size_t len = weir_stats_json(stats, NULL, 0);
    ck_assert_uint_gt(len, 0);
    ck_assert_uint_eq(weir_stats_json(stats, whole, sizeof whole), len);
    for (size_t size = 0; size <= len; size++) {
        memset(json, '#', sizeof json);
        ck_assert_uint_eq(weir_stats_json(stats, json, size), len);
        for (size_t i = 0; i <= len; i++)
            ck_assert_int_eq(json[i], '#');
    }
    ck_assert_uint_eq(weir_stats_json(stats, json, len + 1), len);
    ck_assert_str_eq(json, whole);
    ck_assert_int_eq(json[len + 1], '#');
    ck_assert_uint_eq(weir_stats_json(NULL, json, sizeof json), 0);
    ck_assert_str_eq(json, whole);
    weir_stats_free(stats);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Any bytes may be the name of a tag. */
static const struct {
    const char *name, *json;
} names[] = {
    { "a\"b\\c", "\"a\\\"b\\\\c\"" },
    { "line\nfeed\ttab\033[31m\177", "\"line\\nfeed\\u0009tab\\u001b[31m\\u007f\"" },
    { "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\x9F", "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x90\x9F\"" },
    { "\xff", "\"\\ufffd\"" },
    { "cut \xE2\x82", "\"cut \\ufffd\\ufffd\"" },
    { "long \xC0\xAF", "\"long \\ufffd\\ufffd\"" },
    { "half \xED\xA0\x80", "\"half \\ufffd\\ufffd\\ufffd\"" },
    { "beyond \xF4\x90\x80\x80", "\"beyond \\ufffd\\ufffd\\ufffd\\ufffd\"" },
    { "</script>", "\"</script>\"" },
};
#define NAMES ((int)(sizeof names / sizeof names[0]))

START_TEST(names_are_escaped)
{
    char expected[256];
    fixture_machine("devices=1");
    weir *w = fixture_open(POLICY);
    ck_assert_int_eq(weir_tag_push(w, names[_i].name), WEIR_OK);
    snprintf(expected, sizeof expected, "\"tags\": [{\"name\": %s, \"live\": 0, ", names[_i].json);
    has(json_of(w), expected);
    ck_assert_int_eq(weir_tag_pop(w, names[_i].name), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(snapshot_outlives_its_weir_and_is_readable_in_a_forked_child)
{
    char before[ROOM], json[ROOM];
    int status;
    fixture_machine("devices=2");
    setenv("CUDA_DEVICE_MEMORY_LIMIT_1", "300m", 1);
    weir *w = fixture_open(POLICY);
    weir_stats *stats = take(w);
    size_t len = weir_stats_json(stats, before, sizeof before);
    weir_close(w);
    ck_assert_uint_eq(weir_stats_json(stats, json, sizeof json), len);
    ck_assert_str_eq(json, before);
    has(json, "\"quota\": 314572800, \"quota_from\": \"CUDA_DEVICE_MEMORY_LIMIT_1\"");
    pid_t child = fork();
    if (child == 0)
        _exit(weir_stats_json(stats, json, sizeof json) == len && strcmp(json, before) == 0 ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    weir_stats_free(stats);
    unsetenv("CUDA_DEVICE_MEMORY_LIMIT_1");
    fixture_expect_empty();
}
END_TEST

START_TEST(device_has_its_quota_and_where_it_comes_from)
{
    fixture_machine("devices=2");
    setenv("WEIR_QUOTA", "50%", 1);
    setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "1=256M", 1);
    weir *w = fixture_open(POLICY);
    weir_stats *stats = take(w);
    const weir_device_stats *first = weir_stats_device(stats, 0), *second = weir_stats_device(stats, 1);
    ck_assert_uint_eq(first->quota, MIB(512));
    ck_assert_str_eq(first->quota_from, "WEIR_QUOTA");
    ck_assert_uint_eq(second->quota, MIB(256));
    ck_assert_str_eq(second->quota_from, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    weir_stats_free(stats);
    unsetenv("WEIR_QUOTA");
    unsetenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

static const char *value_of(weir *w, const char *key)
{
    static char value[256];
    char member[128];
    snprintf(member, sizeof member, "{\"key\": \"%s\", ", key);
    snprintf(value, sizeof value, "%s", from(json_of(w), member) + strlen(member));
    ck_assert_ptr_nonnull(strchr(value, '}'));
    *strchr(value, '}') = '\0';
    return value;
}

START_TEST(values_are_those_in_force_whatever_changed_them)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine("devices=1");
    unsetenv("WEIR_QUOTA");
    weir *w = fixture_open(POLICY);
    const char file[] = "\"live\": true, \"file\": \"policy_text\", \"line\": 4, \"column\": ";
    ck_assert_ptr_eq(strstr(value_of(w, "pools.main.max_size"), "\"value\": \"256MiB\", "), value_of(w, "pools.main.max_size"));
    has(value_of(w, "pools.main.max_size"), file);
    ck_assert_str_eq(value_of(w, "pools.main.keep"), "\"value\": \"none\", \"live\": true, \"file\": null");
    ck_assert_int_eq(weir__policy_set(w, "pools.main.keep=16MiB", &error), WEIR_OK);
    ck_assert_str_eq(value_of(w, "pools.main.keep"),
                     "\"value\": \"16MiB\", \"live\": true, \"file\": \"weir set\", \"line\": 1, \"column\": 1");
    ck_assert_int_eq(weir__policy_set(w, "pools.main.keep=32MiB,pools.main.small_below=1MiB", &error), WEIR_BAD_POLICY);
    has(value_of(w, "pools.main.keep"), "\"value\": \"16MiB\"");
    ck_assert_int_eq(weir__policy_again(w, NULL), WEIR_OK);
    ck_assert_str_eq(value_of(w, "pools.main.keep"), "\"value\": \"none\", \"live\": true, \"file\": null");
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(quota_that_caps_a_pool_is_in_force)
{
    fixture_machine("devices=1");
    setenv("WEIR_QUOTA", "50%", 1);
    weir *w = fixture_open("weir: 1\ndefaults: { pool: main }\npools: { main: {}, own: { max_size: 64MiB } }\n");
    ck_assert_str_eq(value_of(w, "pools.main.max_size"), "\"value\": \"50%\", \"live\": true, \"file\": \"WEIR_QUOTA\"");
    has(value_of(w, "pools.own.max_size"), "\"value\": \"64MiB\"");
    unsetenv("WEIR_QUOTA");
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* A policy that changes while snapshots are taken: each has one of the two, whole. */
static atomic_bool is_over;

static void *take_snapshots(void *data)
{
    weir *w = data;
    weir_error error = WEIR_ERROR_INIT;
    char *json = malloc(ROOM);
    ck_assert_ptr_nonnull(json);
    while (!atomic_load(&is_over)) {
        weir_stats *stats;
        ck_assert_int_eq(weir_stats_take(w, &error, &stats), WEIR_OK);
        ck_assert_uint_lt(weir_stats_json(stats, json, ROOM), ROOM);
        bool is_first = strstr(json, "\"key\": \"pools.main.keep\", \"value\": \"1MiB\"");
        ck_assert(is_first == !strstr(json, "\"key\": \"pools.main.keep\", \"value\": \"2MiB\""));
        has(json, "\"tags\": []}");
        weir_stats_free(stats);
    }
    free(json);
    return NULL;
}

START_TEST(snapshots_have_whole_policies_while_these_change)
{
    pthread_t threads[2];
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine("devices=1");
    weir *w = fixture_open(POLICY);
    ck_assert_int_eq(weir__policy_set(w, "pools.main.keep=1MiB", &error), WEIR_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_snapshots, w), 0);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(weir__policy_set(w, i % 2 ? "pools.main.keep=1MiB" : "pools.main.keep=2MiB", &error), WEIR_OK);
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* What a request at its share of a quota is refused with. */
static void refuse(const char *quota, weir_error *error)
{
    void *block;
    weir_error_clear(error);
    if (quota)
        setenv("WEIR_QUOTA", quota, 1);
    weir *w = fixture_open("weir: 1\npools:\n  a: { max_size: quota, small_below: 0, on_oom: { deadline: 10ms } }\n");
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_stream_malloc(s, &block, MIB(1200)), WEIR_OUT_OF_MEMORY);
    weir_last_error(error);
    weir_close(w);
    unsetenv("WEIR_QUOTA");
    fixture_expect_empty();
}

START_TEST(report_says_which_quota_counts)
{
    weir_error error = WEIR_ERROR_INIT;
    fixture_machine("devices=1");
    refuse("50%", &error);
    has(error.text, "WEIR_QUOTA='50%': this process may have 512 MiB of it, and shares of the policy are of that");
    refuse("2GiB", &error);
    ck_assert_ptr_null(strstr(error.text, "WEIR_QUOTA"));
    refuse(NULL, &error);
    ck_assert_ptr_null(strstr(error.text, "WEIR_QUOTA"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats_json");
    TCase *json = suite_case(suite, "json", 0);
    suite_add(json, snapshot_has_who_the_process_is_and_its_figures, values_are_those_in_force_whatever_changed_them,
              quota_that_caps_a_pool_is_in_force, snapshots_have_whole_policies_while_these_change, nothing_is_written_where_the_text_does_not_fit,
              snapshot_outlives_its_weir_and_is_readable_in_a_forked_child, device_has_its_quota_and_where_it_comes_from,
              report_says_which_quota_counts);
    tcase_add_loop_test(json, names_are_escaped, 0, NAMES);
    return suite_run(suite);
}
