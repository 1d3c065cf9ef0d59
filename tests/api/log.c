/* SPDX-License-Identifier: MIT */
/* What the application's log function gets: news once, and not the same over and over. On the simulator's virtual clock. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

START_TEST(what_is_said_at_close_ends_with_a_sentence)
{
    weir *w = open_logged();
    refuse(w, "a", 3);
    weir_close(w);
    ck_assert_uint_eq(heard.count, 2);
    char *more = strstr(heard.lines[1], " (and 1 more like it before)");
    ck_assert_ptr_nonnull(more);
    *more = '\0';
    size_t len = strlen(heard.lines[1]);
    ck_assert_uint_lt(len, strlen(heard.lines[0]));
    ck_assert_msg(strncmp(heard.lines[0], heard.lines[1], len) == 0 && heard.lines[0][len] == ';', "%s", heard.lines[1]);
}
END_TEST

/* $WEIR_LOG ------------------------------------------------------------------------------------------------------------------------------ */

static char folder[] = "/tmp/weir-log-XXXXXX", path[64], written[65536];

static void set_log(const char *level)
{
    char value[128];
    snprintf(value, sizeof value, "%s:%s", level, path);
    ck_assert_int_eq(setenv("WEIR_LOG", value, 1), 0);
}

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
}

static void remove_folder(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* How many lines were written, which are in `written`. */
static unsigned read_written(void)
{
    unsigned lines = 0;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t len = fread(written, 1, sizeof written - 1, file);
    fclose(file);
    written[len] = '\0';
    for (const char *at = written; *at; at++)
        lines += *at == '\n';
    return lines;
}

/* A weir that has no log function, and is refused twice: a line at once, and one at its close. */
static weir_status open_unlogged(weir_error *error)
{
    weir *w;
    weir_options options = { .size = sizeof options, .policy_text = policy, .gpu = "sim" };
    *error = (weir_error)WEIR_ERROR_INIT;
    fixture_machine(NULL);
    weir_status status = weir_open(&options, error, &w);
    if (status != WEIR_OK)
        return status;
    refuse(w, "a", 2);
    weir_close(w);
    return status;
}

START_TEST(variable_has_lines_written_that_nobody_else_hears)
{
    char head[64];
    struct stat info;
    weir_error error;
    int fds = suite_count_fds();
    set_log("warning");
    ck_assert_int_eq(open_unlogged(&error), WEIR_OK);
    ck_assert_uint_eq(read_written(), 2);
    snprintf(head, sizeof head, "weir[%d]: warning: no 96 MiB for pool 'a'", (int)getpid());
    ck_assert_msg(strncmp(written, head, strlen(head)) == 0, "%s", written);
    ck_assert(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    ck_assert_int_eq(open_unlogged(&error), WEIR_OK);
    ck_assert_uint_eq(read_written(), 4);
    ck_assert_int_eq(suite_count_fds(), fds);
}
END_TEST

START_TEST(lines_below_the_level_are_not_written)
{
    weir_error error;
    set_log("error");
    ck_assert_int_eq(open_unlogged(&error), WEIR_OK);
    ck_assert_uint_eq(read_written(), 0);
}
END_TEST

START_TEST(log_function_hears_what_is_written_too)
{
    set_log("info");
    weir *w = open_logged();
    refuse(w, "a", 1);
    ck_assert_uint_eq(heard.count, 1);
    ck_assert_uint_eq(read_written(), 1);
    ck_assert_ptr_nonnull(strstr(written, heard.lines[0]));
    weir_close(w);
}
END_TEST

START_TEST(without_a_file_it_is_standard_error)
{
    weir_error error;
    int former = dup(STDERR_FILENO), file = open(path, O_WRONLY | O_CREAT, 0600);
    dup2(file, STDERR_FILENO);
    setenv("WEIR_LOG", "warning", 1);
    weir_status status = open_unlogged(&error);
    dup2(former, STDERR_FILENO);
    close(former);
    close(file);
    ck_assert_int_eq(status, WEIR_OK);
    ck_assert_uint_eq(read_written(), 2);
}
END_TEST

START_TEST(variable_that_says_nothing_is_refused)
{
    static const char *const values[] = { "debug", "warnin", "warnings", ":", "info:", "1", ":/tmp/x", " info", "info:/nonexistent/log", "info:/" };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        weir_error error;
        int fds = suite_count_fds();
        setenv("WEIR_LOG", values[i], 1);
        ck_assert_msg(open_unlogged(&error) == WEIR_INVALID && strstr(error.text, values[i]), "%s: %s", values[i], error.text);
        ck_assert_int_eq(suite_count_fds(), fds);
    }
    setenv("WEIR_LOG", "", 1);
    weir_error error;
    ck_assert_int_eq(open_unlogged(&error), WEIR_OK);
}
END_TEST

START_TEST(reader_that_has_gone_ends_nobody)
{
    weir_error error;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    set_log("info");
    ck_assert_int_eq(open_unlogged(&error), WEIR_INVALID); /* it waits for no reader */
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    weir *w = open_logged();
    close(reader);
    refuse(w, "a", 1);
    weir_close(w);
    sigset_t pending;
    ck_assert(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
}
END_TEST

/* The file is begun with spaces, since the limit holds for libcheck's own file too, which grows by the path of this source per assertion. */
START_TEST(full_file_ends_nobody)
{
    weir_error error;
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fprintf(file, "%32768s", ""), 32768);
    ck_assert_int_eq(fclose(file), 0);
    set_log("info");
    ck_assert_int_eq(open_unlogged(&error), WEIR_OK);
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    weir *w = open_logged();
    struct rlimit former, limit;
    getrlimit(RLIMIT_FSIZE, &former);
    limit = former;
    limit.rlim_cur = (rlim_t)info.st_size;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    refuse(w, "a", 1);
    weir_close(w);
    setrlimit(RLIMIT_FSIZE, &former);
    ck_assert_uint_eq(read_written(), 2);
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
              more_kinds_than_there_is_room_for_are_all_heard_of, refusals_of_many_threads_are_all_counted,
              what_is_said_at_close_ends_with_a_sentence);
    TCase *variable = suite_case(suite, "variable", 0);
    tcase_add_checked_fixture(variable, make_folder, remove_folder);
    suite_add(variable, variable_has_lines_written_that_nobody_else_hears, lines_below_the_level_are_not_written,
              log_function_hears_what_is_written_too, without_a_file_it_is_standard_error, variable_that_says_nothing_is_refused,
              reader_that_has_gone_ends_nobody, full_file_ends_nobody);
    return suite_run(suite);
}
