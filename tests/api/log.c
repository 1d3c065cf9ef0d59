/* SPDX-License-Identifier: MIT */
/* What the application's log function gets: news once, and not the same over and over. On the simulator's virtual clock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/pool/weir_internal.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define MILLISECOND UINT64_C(1000000)
#define LINES 64

static const char policy[] = "weir: 1\ndefaults: { pool: a }\n"
                             "pools: { a: { max_size: 64MiB, small_below: 0 }, b: { max_size: 64MiB, small_below: 0 } }\n";

static struct {
    pthread_mutex_t lock;
    unsigned count;
    char lines[LINES][4096];
} heard = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void hear(void *data, weir_log_level level, const char *line)
{
    (void)data;
    (void)level;
    pthread_mutex_lock(&heard.lock);
    ck_assert_uint_lt(heard.count, LINES);
    snprintf(heard.lines[heard.count++], sizeof heard.lines[0], "%s", line);
    pthread_mutex_unlock(&heard.lock);
}

static weir *open_logged(void)
{
    weir_options options = { .size = sizeof options, .policy_text = policy, .gpu = "sim", .log = hear };
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    fixture_machine(NULL);
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(heard.count, 0);
    return w;
}

/* So many requests that the pool's cap refuses. */
static void refuse(weir *w, const char *name, unsigned count)
{
    void *ptr;
    weir_pool *pool = fixture_pool(w, name, 0);
    for (unsigned i = 0; i < count; i++)
        ck_assert_int_eq(weir_pool_malloc(pool, &ptr, MIB(96), NULL), WEIR_OUT_OF_MEMORY);
}

static bool says(unsigned line, const char *words)
{
    ck_assert_uint_lt(line, heard.count);
    return strstr(heard.lines[line], words);
}

START_TEST(thousand_refusals_in_a_second_are_one_line)
{
    weir *w = open_logged();
    refuse(w, "a", 1000);
    ck_assert_uint_eq(heard.count, 1);
    ck_assert_msg(says(0, "no 96 MiB for pool 'a' on device 0") && !says(0, "like it"), "%s", heard.lines[0]);
    weir_close(w);
}
END_TEST

START_TEST(next_line_says_how_many_were_not_logged)
{
    weir *w = open_logged();
    refuse(w, "a", 10);
    fixture_gpu()->pause(999 * MILLISECOND);
    refuse(w, "a", 1);
    ck_assert_uint_eq(heard.count, 1);
    fixture_gpu()->pause(MILLISECOND);
    refuse(w, "a", 1);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert_msg(says(1, "no 96 MiB for pool 'a'") && says(1, " (and 10 more like it before)"), "%s", heard.lines[1]);
    fixture_gpu()->pause(1000 * MILLISECOND);
    refuse(w, "a", 1);
    ck_assert_uint_eq(heard.count, 3);
    ck_assert(!says(2, "like it"));
    weir_close(w);
    ck_assert_uint_eq(heard.count, 3);
}
END_TEST

START_TEST(what_was_not_logged_is_said_at_close)
{
    weir *w = open_logged();
    refuse(w, "a", 100);
    weir_close(w);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert_msg(says(1, "no 96 MiB for pool 'a'") && says(1, " (and 98 more like it before)"), "%s", heard.lines[1]);
}
END_TEST

START_TEST(one_line_that_was_not_logged_is_said_as_it_was)
{
    weir *w = open_logged();
    refuse(w, "a", 2);
    weir_close(w);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert(says(1, "no 96 MiB for pool 'a'") && !says(1, "like it"));
}
END_TEST

START_TEST(pools_are_logged_apart)
{
    weir *w = open_logged();
    refuse(w, "a", 5);
    refuse(w, "b", 5);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert(says(0, "for pool 'a'") && says(1, "for pool 'b'"));
    weir_close(w);
    ck_assert_uint_eq(heard.count, 4);
}
END_TEST

START_TEST(refusal_that_is_not_logged_has_its_whole_report_all_the_same)
{
    weir_error error;
    weir *w = open_logged();
    refuse(w, "a", 7);
    weir_last_error(&error);
    ck_assert_int_eq(error.status, WEIR_OUT_OF_MEMORY);
    ck_assert_msg(strstr(error.text, "\n  pool 'a': live"), "%s", error.text);
    weir_close(w);
}
END_TEST

START_TEST(other_kinds_are_bounded_too)
{
    weir *w = open_logged();
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (unsigned i = 0; i < 20; i++) {
        void *ptr = fixture_malloc(s, MIB(4));
        ck_assert_int_eq(fixture_gpu()->free_async(ptr, weir_stream_handle(s)), GPU_SUCCESS); /* without Weir */
        ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, MIB(4))), WEIR_OK);            /* at the same address */
    }
    ck_assert_uint_eq(heard.count, 1);
    ck_assert_msg(says(0, "was freed without Weir"), "%s", heard.lines[0]);
    weir_stream_close(s);
    weir_close(w);
    ck_assert_uint_eq(heard.count, 2);
    ck_assert(says(1, " (and 18 more like it before)"));
}
END_TEST

START_TEST(line_of_other_words_is_news)
{
    weir *w = open_logged();
    for (unsigned i = 0; i < 6; i++) {
        const char *text = i % 2 ? "process 2 hangs" : "process 1 hangs";
        weir__log_about(w, weir__log_words(text), WEIR_LOG_WARNING, "%s", text);
    }
    ck_assert_uint_eq(heard.count, 2);
    weir_close(w);
    ck_assert_uint_eq(heard.count, 4);
}
END_TEST

static void tell(weir *w, const void *about, unsigned number)
{
    weir__log_about(w, about, WEIR_LOG_WARNING, "line %u", number);
}

/* Nothing is lost: a kind that has to make place says what it has not said. */
START_TEST(more_kinds_than_there_is_room_for_are_all_heard_of)
{
    static const char many[WEIR__LOG_KINDS + 1];
    weir *w = open_logged();
    for (unsigned i = 0; i < sizeof many; i++) {
        tell(w, &many[i], i);
        if (i == 0)
            tell(w, &many[0], 100);
        fixture_gpu()->pause(1);
    }
    ck_assert_uint_eq(heard.count, sizeof many + 1);
    ck_assert_str_eq(heard.lines[sizeof many - 1], "line 100");
    weir_close(w);
    ck_assert_uint_eq(heard.count, sizeof many + 1);
}
END_TEST

static void *refuse_many(void *data)
{
    refuse(data, "a", 200);
    return NULL;
}

START_TEST(refusals_of_many_threads_are_all_counted)
{
    pthread_t threads[4];
    weir *w = open_logged();
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, refuse_many, w), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    weir_close(w);
    unsigned long long all = heard.count;
    for (unsigned i = 0; i < heard.count; i++) {
        const char *more = strstr(heard.lines[i], " (and ");
        all += more ? strtoull(more + strlen(" (and "), NULL, 10) : 0;
    }
    ck_assert_uint_eq(all, 800);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = suite_case(suite, "log", 0);
    suite_add(tcase, thousand_refusals_in_a_second_are_one_line, next_line_says_how_many_were_not_logged,
              what_was_not_logged_is_said_at_close, one_line_that_was_not_logged_is_said_as_it_was, pools_are_logged_apart,
              refusal_that_is_not_logged_has_its_whole_report_all_the_same, other_kinds_are_bounded_too, line_of_other_words_is_news,
              more_kinds_than_there_is_room_for_are_all_heard_of, refusals_of_many_threads_are_all_counted);
    return suite_run(suite);
}
