/* SPDX-License-Identifier: MIT */
/* control.c - what a control socket answers to every question: figures, memory that is given, and a policy that changes. */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/weir_sleep.h"
#include "lib/base/service.h"
#include "lib/base/utf8.h"
#include "lib/pool/left.h"
#include "share/control/control_answer.h"
#include "tests/share/control_scene.h"
#include "tests/support/suite.h"

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

static void has(const char *json, const char *part)
{
    ck_assert_msg(strstr(json, part) != NULL, "'%s' is not in %s", part, json);
}

START_TEST(process_tells_who_it_is)
{
    char pid[64];
    const char *json = scene_figures();
    snprintf(pid, sizeof pid, "\"pid\": %d, \"program\": \"", (int)getpid());
    has(json, pid);
    has(json, "control\", \"age_ms\": ");
    has(json, "\"policy\": \"policy_text\", \"values\": [");
}
END_TEST

/* But for its age, which goes on. */
START_TEST(figures_are_the_document_of_the_statistics)
{
    static char expected[ANSWERS_MAX * WIRE_PIECE_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats;
    void *ptr = fixture_malloc(scene.stream, MIB(40));
    scene_leave_idle(MIB(100));
    ck_assert_int_eq(weir_stats_take(scene.w, &error, &stats), WEIR_OK);
    size_t len = weir_stats_json(stats, expected, sizeof expected);
    ck_assert(len > WIRE_SIZE_MAX && len < sizeof expected); /* more than one piece */
    weir_stats_free(stats);
    const char *json = scene_figures();
    ck_assert_str_eq(strstr(json, "\"labels\""), strstr(expected, "\"labels\""));
    ck_assert_int_eq(strncmp(json, expected, (size_t)(strstr(expected, "\"age_ms\"") - expected)), 0);
    has(json, "\"name\": \"other\"");
    ck_assert_uint_eq(scene_figure("memory_free"), GIB(1) - fixture_figures(scene.w, "main", 0).reserved);
    ck_assert_uint_eq(scene_figure("mallocs"), 2);
    ck_assert_int_eq(weir_stream_free(scene.stream, ptr), WEIR_OK);
}
END_TEST

/* However many bytes a character has, and wherever a piece ends. */
START_TEST(document_is_cut_where_characters_end)
{
    static const char *const characters[] = { "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x9f" };
    char name[64];
    for (unsigned tag = 0; tag < 60; tag++) {
        snprintf(name, sizeof name, "%.*s", (int)(tag % 4), "xxxx");
        while (strlen(name) < 56)
            strcat(name, characters[tag % 4]);
        snprintf(name + strlen(name), 4, "%u", tag);
        ck_assert_int_eq(weir_tag_push(scene.w, name), WEIR_OK);
        ck_assert_int_eq(weir_tag_pop(scene.w, NULL), WEIR_OK);
    }
    struct answers answers;
    ck_assert_int_eq(scene_ask((struct wire_message){ .type = WIRE_FIGURES }, &answers).status, WEIR_OK);
    for (size_t i = 0; i + 1 < answers.count; i++)
        for (const char *at = answers.items[i].u.piece.text; *at;) {
            size_t len = weir__utf8_len(at);
            ck_assert_uint_gt(len, 0);
            at += len;
        }
    has(scene_figures(), "\xf0\x9f\x90\x9f""59\", ");
}
END_TEST

START_TEST(figures_that_cannot_be_had_are_denied_with_the_reason)
{
    sim_fail("device_memory", 1, GPU_UNKNOWN);
    scene_expect_denial((struct wire_message){ .type = WIRE_FIGURES }, WEIR_CUDA_ERROR, "memory of device 0");
}
END_TEST

/* The one that is written from doc/protocol.md alone, and holds the process to it. */
START_TEST(client_in_python_understands_it)
{
    static const char *const questions[] = { "figures", "offer " GPU_0 };
    static const char *const answers[] = { "\"name\": \"other\"", "{\"bytes\": 100663296}" };
    scene_leave_idle(MIB(128));
    for (size_t i = 0; i < 2; i++) {
        char command[1024], line[65536] = "";
        snprintf(command, sizeof command, "PYTHONDONTWRITEBYTECODE=1 exec python3 '%s/tests/share/client.py' %s %s 2>&1",
                 getenv("top_srcdir"), scene_path(1), questions[i]);
        FILE *client = popen(command, "r");
        ck_assert_ptr_nonnull(client);
        ck_assert_ptr_nonnull(fgets(line, sizeof line, client));
        ck_assert_msg(strstr(line, answers[i]), "'%s' without '%s'", line, answers[i]);
        ck_assert_int_eq(pclose(client), 0);
    }
}
END_TEST

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

static struct wire_message trim(const char *pool, uint64_t keep)
{
    struct wire_message question = { .type = WIRE_TRIM, .u.trim = { .keep = keep, .deadline_ms = PATIENCE_MS } };
    snprintf(question.u.trim.pool, sizeof question.u.trim.pool, "%s", pool);
    return question;
}

START_TEST(offer_is_what_is_idle_above_what_is_kept)
{
    scene_leave_idle(MIB(128));
    ck_assert_uint_eq(scene_answer_to(scene_offer(GPU_0)).u.offered.bytes, MIB(96));
}
END_TEST

START_TEST(device_without_pools_and_unknown_one_are_not_used)
{
    scene_leave_idle(MIB(128));
    scene_expect_denial(scene_offer(GPU_1), WEIR_NOT_FOUND, "does not use that GPU");
    scene_expect_denial(scene_offer("GPU-unknown"), WEIR_NOT_FOUND, "does not use that GPU");
    scene_expect_denial(scene_give(MIB(64), GPU_1, PATIENCE_MS), WEIR_NOT_FOUND, "does not use that GPU");
}
END_TEST

START_TEST(neighbour_is_given_what_it_wants_and_counted)
{
    scene_leave_idle(MIB(128));
    struct wire_message gave = scene_answer_to(scene_give(MIB(64), GPU_0, PATIENCE_MS));
    ck_assert_int_eq(gave.type, WIRE_GAVE);
    ck_assert_uint_ge(gave.u.gave.bytes, MIB(64));
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).reserved, MIB(128) - gave.u.gave.bytes);
    ck_assert_uint_eq(scene_figure("asks_received"), 1);
    ck_assert_uint_eq(scene_figure("bytes_given"), gave.u.gave.bytes);
}
END_TEST

START_TEST(neighbour_is_not_given_what_is_kept)
{
    scene_leave_idle(MIB(128));
    ck_assert_uint_eq(scene_answer_to(scene_give(GIB(100), GPU_0, PATIENCE_MS)).u.gave.bytes, MIB(96));
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).reserved, MIB(32));
}
END_TEST

START_TEST(neighbour_on_another_gpu_is_told_so)
{
    scene_expect_denial(scene_give(1, "GPU-unknown", 100), WEIR_NOT_FOUND, "does not use");
}
END_TEST

/* A machine that is too slow to ask too often has shown that as many are served as are allowed. */
START_TEST(who_asks_too_often_is_denied_until_later)
{
    struct answers answers;
    struct share_query query = { 0 };
    unsigned given = 0;
    uint64_t begun = weir__service_now();
    while (query.status == WEIR_OK && given < 3 * SHARE_GIVES_AT_ONCE) {
        query = scene_ask(scene_give(1, GPU_0, 0), &answers);
        given += query.status == WEIR_OK;
    }
    uint64_t took = weir__service_now() - begun;
    ck_assert_uint_ge(given, SHARE_GIVES_AT_ONCE);
    ck_assert_uint_le(given, SHARE_GIVES_AT_ONCE + 1 + took * SHARE_GIVES_A_SECOND / UINT64_C(1000000000));
    ck_assert_str_eq(query.text, query.status == WEIR_OK ? "" : "asked too often: ask again later");
    while ((query = scene_ask(scene_give(1, GPU_0, 0), &answers)).status == WEIR_BUSY)
        scene_nap();
    ck_assert_msg(query.status == WEIR_OK, "%s", query.text);
}
END_TEST

START_TEST(operator_trims_one_pool_to_the_byte)
{
    scene_leave_idle(MIB(128));
    ck_assert_uint_eq(scene_answer_to(trim("main", MIB(64))).u.gave.bytes, MIB(64));
    ck_assert_uint_eq(scene_answer_to(trim("other", 0)).u.gave.bytes, 0);
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).reserved, MIB(64));
}
END_TEST

START_TEST(operator_trims_every_pool_to_what_the_policy_keeps)
{
    scene_leave_idle(MIB(128));
    ck_assert_uint_eq(scene_answer_to(trim("", WIRE_POLICY_KEEP)).u.gave.bytes, MIB(96));
    ck_assert_uint_eq(scene_answer_to(trim("", 0)).u.gave.bytes, MIB(32));
}
END_TEST

START_TEST(operator_may_trim_as_often_as_he_likes)
{
    for (unsigned i = 0; i < 2 * SHARE_GIVES_AT_ONCE; i++)
        scene_answer_to(trim("", 0));
    ck_assert_uint_eq(scene_figure("asks_received"), 0);
}
END_TEST

static int refuse_sleep(void *data, weir_pool *pool, weir_sleep_moment moment, char *why, size_t len)
{
    (void)data, (void)pool;
    snprintf(why, len, "a batch is under way");
    return moment == WEIR_SLEEP_BEFORE;
}

START_TEST(operator_is_told_what_went_where_another_pool_refuses)
{
    struct wire_message question = { .type = WIRE_SLEEP, .u.sleep = { .deadline_ms = PATIENCE_MS } };
    void *blocks[2];
    unsigned id;
    weir_stream_close(scene.stream);
    weir_close(scene.w);
    scene.w = fixture_open("weir: 1\ncontrol: true\ndefaults: { pool: a }\npools:\n  a: { devices: [0], backing: arena, cache: off }\n"
                           "  b: { devices: [0], backing: arena, cache: off }\n");
    scene.stream = fixture_stream(scene.w, 0, NULL);
    for (int i = 0; i < 2; i++) {
        weir_pool *pool = fixture_pool(scene.w, i ? "b" : "a", 0);
        ck_assert_int_eq(weir_pool_malloc(pool, &blocks[i], MIB(64), weir_stream_handle(scene.stream)), WEIR_OK);
        ck_assert_int_eq(weir_pool_yield(pool, 0, NULL), WEIR_OK);
    }
    for (int i = 0; i < 2; i++) { /* whichever comes first */
        weir_pool *pool = fixture_pool(scene.w, i ? "b" : "a", 0);
        ck_assert_int_eq(weir_sleep_hook_add(pool, refuse_sleep, NULL, NULL, &id), WEIR_OK);
        scene_expect_denial(question, WEIR_BUSY, "64 MiB went; a hook of pool");
        scene_expect_denial(question, WEIR_BUSY, "a batch is under way");
        ck_assert_int_eq(weir_sleep_hook_remove(pool, id, NULL), WEIR_OK);
        for (int other = 0; other < 2; other++) {
            ck_assert_int_eq(weir_pool_wake(fixture_pool(scene.w, other ? "b" : "a", 0), 0, NULL, NULL), WEIR_OK);
            ck_assert_int_eq(weir_pool_yield(fixture_pool(scene.w, other ? "b" : "a", 0), 0, NULL), WEIR_OK);
        }
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weir_stream_free(scene.stream, blocks[i]), WEIR_OK);
}
END_TEST

START_TEST(unknown_pool_is_told_with_those_that_there_are)
{
    scene_expect_denial(trim("mian", 0), WEIR_NOT_FOUND, "there is no pool 'mian'; there is main, other");
}
END_TEST

#define PENDING UINT64_C(10000000000)

/* A give that waits for a kernel. Time stands still on the simulator, so that it waits until it is too late. */
static void *leave_pending(void)
{
    void *ptr = fixture_malloc(scene.stream, MIB(128));
    ck_assert_int_eq(fixture_gpu()->delay((gpu_stream)weir_stream_handle(scene.stream), PENDING), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(scene.stream, ptr), WEIR_OK);
    return ptr;
}

static size_t events(void)
{
    struct sim_census census;
    sim_census(&census);
    return census.events;
}

START_TEST(others_are_answered_while_memory_is_given)
{
    struct wire_message question = scene_give(MIB(96), GPU_0, PATIENCE_MS);
    leave_pending();
    int fd = scene_connect();
    say(fd, &question);
    while (scene_figure("asks_received") == 0)
        scene_nap();
    scene_expect_no_harm();
    sim_advance(PENDING);
    ck_assert_uint_eq(hear_a(WIRE_GAVE, fd).u.gave.bytes, MIB(96));
    close(fd);
}
END_TEST

START_TEST(several_are_given_to_at_once)
{
    struct wire_message question = scene_give(MIB(32), GPU_0, PATIENCE_MS);
    int fds[4];
    leave_pending();
    for (unsigned i = 0; i < 4; i++)
        say(fds[i] = scene_connect(), &question);
    while (scene_figure("asks_received") < 4)
        scene_nap();
    sim_advance(PENDING);
    uint64_t given = 0;
    for (unsigned i = 0; i < 4; i++) {
        given += hear_a(WIRE_GAVE, fds[i]).u.gave.bytes;
        close(fds[i]);
    }
    ck_assert_uint_eq(given, MIB(96));
}
END_TEST

START_TEST(second_give_on_one_connection_is_denied_and_other_questions_are_not)
{
    struct wire_message first = scene_give(MIB(32), GPU_0, PATIENCE_MS), second = first, third = scene_offer(GPU_0), message;
    leave_pending();
    second.request = 2;
    third.request = 3;
    int fd = scene_connect();
    say(fd, &first);
    say(fd, &second);
    say(fd, &third);
    message = hear_a(WIRE_DENIED, fd);
    ck_assert_uint_eq(message.request, 2);
    ck_assert_uint_eq(message.u.refused.status, WEIR_BUSY);
    ck_assert_uint_eq(hear_a(WIRE_OFFERED, fd).request, 3);
    sim_advance(PENDING);
    ck_assert_uint_eq(hear_a(WIRE_GAVE, fd).request, 1);
    close(fd);
}
END_TEST

START_TEST(what_is_pending_is_waited_for_until_the_deadline)
{
    leave_pending();
    ck_assert_uint_eq(scene_answer_to(scene_give(MIB(32), GPU_0, 20)).u.gave.bytes, 0);
}
END_TEST

START_TEST(give_ends_with_its_connection)
{
    struct wire_message question = scene_give(MIB(32), GPU_0, 600000);
    size_t before;
    leave_pending();
    before = events();
    int fds = suite_count_fds(), fd = scene_connect();
    say(fd, &question);
    while (events() <= before)
        scene_nap();
    close(fd);
    ck_assert_int_eq(suite_await_fds(fds), fds);
    scene_expect_no_harm();
}
END_TEST

START_TEST(weir_closes_during_a_give)
{
    struct wire_message question = scene_give(MIB(32), GPU_0, 600000), message;
    leave_pending();
    int fd = scene_connect();
    say(fd, &question);
    while (scene_figure("asks_received") == 0)
        scene_nap();
    weir_close(scene.w);
    scene.w = NULL;
    ck_assert(!hear(fd, &message));
    close(fd);
}
END_TEST

/* The policy --------------------------------------------------------------------------------------------------------------------------- */

static struct wire_message set(const char *text)
{
    struct wire_message question = { .type = WIRE_SET };
    snprintf(question.u.set.text, sizeof question.u.set.text, "%s", text);
    return question;
}

START_TEST(live_key_is_set)
{
    ck_assert_int_eq(scene_answer_to(set("pools.main.keep=64MiB")).type, WIRE_READY);
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).keep, MIB(64));
    has(scene_figures(), "{\"key\": \"pools.main.keep\", \"value\": \"64MiB\", \"live\": true, \"file\": \"weir set\", ");
}
END_TEST

START_TEST(keeper_is_set_on_and_off)
{
    scene_answer_to(set("keeper=true"));
    ck_assert(weir__keeper_is_on(scene.w));
    scene_answer_to(set("keeper=false"));
    ck_assert(!weir__keeper_is_on(scene.w));
    scene_expect_no_harm();
}
END_TEST

START_TEST(wrong_assignment_is_denied_and_changes_nothing)
{
    scene_expect_denial(set("pools.main.keep=much"), WEIR_BAD_POLICY, "keep");
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).keep, MIB(32));
    has(scene_figures(), "{\"key\": \"pools.main.keep\", \"value\": \"32MiB\", \"live\": true, \"file\": \"policy_text\", ");
}
END_TEST

#define UMLAUT_10 "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"

/* Each assignment is an error of its own, with a name that is none; they are moved along until a character lies across the limit. */
START_TEST(long_refusal_is_cut_where_a_character_ends)
{
    static const char names[] = UMLAUT_10 UMLAUT_10 "=1," UMLAUT_10 UMLAUT_10 "=1," UMLAUT_10 UMLAUT_10 "=1";
    bool was_shorter = false;
    for (int pad = 1; pad < 40; pad++) {
        char text[WIRE_TEXT_SIZE];
        struct answers answers;
        snprintf(text, sizeof text, "%0*d=1,%s", pad, 0, names);
        struct share_query query = scene_ask(set(text), &answers);
        ck_assert_int_eq(query.status, WEIR_BAD_POLICY);
        size_t len = strlen(query.text);
        was_shorter = was_shorter || len == WIRE_TEXT_SIZE - 2;
        ck_assert_uint_ge(len, WIRE_TEXT_SIZE - 2);
        ck_assert_msg(query.text[len - 1] != (char)0xc3, "'%s'", query.text);
    }
    ck_assert(was_shorter);
}
END_TEST

START_TEST(policy_of_a_text_is_read_again)
{
    ck_assert_int_eq(weir_pool_set_release_threshold(fixture_pool(scene.w, "main", 0), MIB(64), NULL), WEIR_OK);
    ck_assert_int_eq(scene_answer_to((struct wire_message){ .type = WIRE_RELOAD }).type, WIRE_READY);
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).release_threshold, UINT64_MAX);
}
END_TEST

START_TEST(policy_of_a_file_is_read_again)
{
    char path[128];
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir_stream_close(scene.stream);
    weir_close(scene.w);
    snprintf(path, sizeof path, "%s/policy.yaml", scene.runtime);
    for (int round = 0; round < 2; round++) {
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fprintf(file, "weir: 1\ncontrol: true\npools: { main: { keep: %dMiB } }\n", 32 + round);
        fclose(file);
        options.policy_file = path;
        options.gpu = "sim";
        if (round == 0)
            ck_assert_msg(weir_open(&options, &error, &scene.w) == WEIR_OK, "%s", error.text);
        else
            ck_assert_int_eq(scene_answer_to((struct wire_message){ .type = WIRE_RELOAD }).type, WIRE_READY);
        ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).keep, MIB(32 + round));
    }
}
END_TEST

/* Without a socket ------------------------------------------------------------------------------------------------------------------- */

static char said[4096];

static void note_line(void *data, weir_log_level level, const char *line)
{
    (void)data;
    if (level == WEIR_LOG_WARNING)
        snprintf(said, sizeof said, "%s", line);
}

static void lead_nowhere(void)
{
    setenv("WEIR_CONTROL_DIR", "/proc/self/nowhere", 1);
}

static void lead_to_a_file(void)
{
    setenv("WEIR_CONTROL_DIR", "/dev/null", 1);
}

static void lead_too_far(void)
{
    char path[256];
    snprintf(path, sizeof path, "/tmp/%0200d", 0);
    setenv("WEIR_CONTROL_DIR", path, 1);
}

static void let_others_write(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/weir", scene.runtime);
    ck_assert_int_eq(chmod(path, 0777), 0);
}

static struct rlimit files;

static void take_all_descriptors(void)
{
    int next = dup(0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    struct rlimit none = { .rlim_cur = (rlim_t)next, .rlim_max = files.rlim_max };
    close(next);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

/* Why there can be none, and a word of what is logged. */
static const struct {
    void (*arrange)(void);
    const char *word;
} wants[] = {
    { lead_nowhere, "/proc/self/nowhere" },
    { lead_to_a_file, "/dev/null" },
    { lead_too_far, "too long" },
    { let_others_write, "others" },
    { take_all_descriptors, "open files" },
};

START_TEST(weir_that_cannot_have_a_control_socket_serves_memory_and_says_why)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    void *ptr;
    options.policy_text = scene_policy;
    options.gpu = "sim";
    options.log = note_line;
    files.rlim_cur = 0;
    said[0] = '\0';
    wants[_i].arrange();
    weir_status status = weir_open(&options, &error, &w);
    if (files.rlim_cur)
        setrlimit(RLIMIT_NOFILE, &files);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(1), 0, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    ck_assert_msg(strstr(said, wants[_i].word) && strstr(said, "nobody can see") && strstr(said, "set WEIR_CONTROL_DIR"), "%s", said);
}
END_TEST

/* Its place --------------------------------------------------------------------------------------------------------------------------- */

/* As the end of a login removes the user's directory. */
START_TEST(socket_that_was_removed_is_made_anew)
{
    char command[PATH_MAX];
    struct answers answers;
    struct share_query query;
    snprintf(command, sizeof command, "rm -rf %s/weir 2>/dev/null", scene.runtime);
    for (int times = 0; times < 3; times++) {
        int status = system(command); /* it may be there again before its directory can be removed */
        ck_assert(WIFEXITED(status));
        while ((query = scene_ask((struct wire_message){ .type = WIRE_FIGURES }, &answers)).status == WEIR_GONE)
            scene_nap();
        ck_assert_msg(query.status == WEIR_OK, "%s", query.text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control");
    TCase *figures = suite_case(suite, "figures", 60);
    tcase_add_checked_fixture(figures, scene_open, scene_close);
    suite_add(figures, process_tells_who_it_is, figures_are_the_document_of_the_statistics, document_is_cut_where_characters_end,
              figures_that_cannot_be_had_are_denied_with_the_reason);
    if (!getenv("top_srcdir") || system("python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null") != 0)
        printf("# client_in_python_understands_it: not tried: needs python3 of 3.9 or later, and make check\n");
    else
        suite_add(figures, client_in_python_understands_it);
    TCase *memory = suite_case(suite, "memory", 60);
    tcase_add_checked_fixture(memory, scene_open, scene_close);
    TCase *place = suite_case(suite, "place", 60);
    tcase_add_checked_fixture(place, scene_open, scene_close);
    suite_add(place, socket_that_was_removed_is_made_anew);
    suite_add(memory, offer_is_what_is_idle_above_what_is_kept, device_without_pools_and_unknown_one_are_not_used,
              neighbour_is_given_what_it_wants_and_counted, neighbour_is_not_given_what_is_kept, neighbour_on_another_gpu_is_told_so,
              who_asks_too_often_is_denied_until_later, operator_trims_one_pool_to_the_byte,
              operator_trims_every_pool_to_what_the_policy_keeps, operator_may_trim_as_often_as_he_likes,
              operator_is_told_what_went_where_another_pool_refuses,
              unknown_pool_is_told_with_those_that_there_are, others_are_answered_while_memory_is_given, several_are_given_to_at_once,
              second_give_on_one_connection_is_denied_and_other_questions_are_not, what_is_pending_is_waited_for_until_the_deadline,
              give_ends_with_its_connection, weir_closes_during_a_give);
    TCase *changes = suite_case(suite, "policy", 60);
    tcase_add_checked_fixture(changes, scene_open, scene_close);
    suite_add(changes, live_key_is_set, keeper_is_set_on_and_off, wrong_assignment_is_denied_and_changes_nothing,
              long_refusal_is_cut_where_a_character_ends, policy_of_a_text_is_read_again, policy_of_a_file_is_read_again);
    TCase *without = suite_case(suite, "without a socket", 60);
    tcase_add_checked_fixture(without, scene_open, scene_close);
    tcase_add_loop_test(without, weir_that_cannot_have_a_control_socket_serves_memory_and_says_why, 0, (int)(sizeof wants / sizeof *wants));
    return suite_run(suite);
}
