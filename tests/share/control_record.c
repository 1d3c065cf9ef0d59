/* SPDX-License-Identifier: MIT */
/* control_record.c - what a control socket does for `weir record --pid`, and what it tells of tags. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/open.h"
#include "lib/record/unwind.h"
#include "tests/share/control_scene.h"
#include "tests/support/suite.h"

#define STRANGER 12345 /* a user that nobody is */

static const struct wire_message record = { .type = WIRE_RECORD, .request = 7, .u.record = { WIRE_RECORD_ALL, WIRE_RECORD_STACKS } };
static const struct wire_message stop = { .type = WIRE_STOP, .request = 7 };

/* Files -------------------------------------------------------------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", scene.runtime, name);
    return path;
}

static int make_file(const char *name)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static uint64_t size_of(const char *name)
{
    struct stat found;
    ck_assert_int_eq(stat(path_of(name), &found), 0);
    return (uint64_t)found.st_size;
}

/* Whether its last bytes are a block that ends a trace: kind 3, not coded. */
static bool is_whole(const char *name)
{
    unsigned char bytes[65536];
    int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, bytes, sizeof bytes);
    close(fd);
    ck_assert_int_gt(len, 30);
    ck_assert_int_eq(memcmp(bytes, "WEIR\1", 5), 0);
    for (ssize_t at = len - 21; at > 0; at--)
        if (memcmp(bytes + at, "WBLK", 4) == 0)
            return bytes[at + 4] == 3;
    return false;
}

/* The recording ------------------------------------------------------------------------------------------------------------------------ */

static void say_with(int fd, const struct wire_message *message, int passed)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    size_t len = wire_encode(message, bytes);
    ck_assert_int_eq(send_fds(fd, bytes, len, passed, 1), (int)len);
}

/* A connection on which it has begun. */
static int begin(const char *name)
{
    int file = make_file(name), fd = scene_connect();
    say_with(fd, &record, file);
    close(file);
    ck_assert_uint_eq(hear_a(WIRE_READY, fd).request, record.request);
    return fd;
}

static unsigned level(void)
{
    return atomic_load(&scene.w->recorder.level);
}

static void expect_policy_s_level(void)
{
    while (level() != WEIR__LEVEL_POOL || atomic_load(&scene.w->recorder.has_stacks))
        scene_nap();
}

static void use_memory(void)
{
    ck_assert_int_eq(weir_stream_free(scene.stream, fixture_malloc(scene.stream, MIB(4))), WEIR_OK);
}

START_TEST(process_is_recorded_until_it_is_told_to_stop)
{
    int before = suite_count_fds(), fd = begin("a");
    ck_assert_uint_eq(level(), WEIR__LEVEL_ALL);
    ck_assert(atomic_load(&scene.w->recorder.has_stacks));
    use_memory();
    say(fd, &stop);
    struct wire_message message = hear_a(WIRE_RECORDED, fd);
    ck_assert_uint_eq(message.request, record.request);
    ck_assert_uint_eq(message.u.recorded.error, 0);
    ck_assert_uint_eq(message.u.recorded.lost, 0);
    ck_assert_uint_ge(message.u.recorded.events, 2);
    ck_assert_uint_eq(message.u.recorded.bytes, size_of("a"));
    ck_assert(is_whole("a"));
    expect_policy_s_level();
    close(fd);
    while (suite_count_fds() != before)
        scene_nap();
}
END_TEST

START_TEST(one_connection_can_record_again)
{
    int fd = begin("a"), file = make_file("b");
    say(fd, &stop);
    hear_a(WIRE_RECORDED, fd);
    say(fd, &stop); /* of what has ended: no answer */
    say_with(fd, &record, file);
    close(file);
    hear_a(WIRE_READY, fd);
    say(fd, &stop);
    hear_a(WIRE_RECORDED, fd);
    ck_assert(is_whole("b"));
    close(fd);
}
END_TEST

START_TEST(policy_that_changes_meanwhile_is_in_force_afterwards)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd = begin("a");
    ck_assert_msg(weir__policy_set(scene.w, "record.level=off", &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(level(), WEIR__LEVEL_ALL);
    say(fd, &stop);
    hear_a(WIRE_RECORDED, fd);
    ck_assert_uint_eq(level(), WEIR__LEVEL_OFF);
    close(fd);
}
END_TEST

START_TEST(level_of_the_policy_is_never_lowered)
{
    weir_error error = WEIR_ERROR_INIT;
    struct wire_message little = { .type = WIRE_RECORD, .request = 7, .u.record = { WIRE_RECORD_POOL, 0 } };
    int file = make_file("a"), fd = scene_connect();
    ck_assert_msg(weir__policy_set(scene.w, "record.level=all,record.stacks=true", &error) == WEIR_OK, "%s", error.text);
    say_with(fd, &little, file);
    close(file);
    hear_a(WIRE_READY, fd);
    ck_assert_uint_eq(level(), WEIR__LEVEL_ALL);
    ck_assert(atomic_load(&scene.w->recorder.has_stacks));
    close(fd);
}
END_TEST

START_TEST(second_recording_is_denied_and_the_first_goes_on)
{
    struct wire_message question = scene_offer(GPU_0);
    question.request = 8;
    int first = begin("a"), second = scene_connect(), file = make_file("b");
    say_with(second, &record, file);
    close(file);
    struct wire_message message = hear_a(WIRE_DENIED, second);
    ck_assert_uint_eq(message.u.refused.status, WEIR_BUSY);
    say(second, &stop); /* not its own */
    say(second, &question);
    hear_a(WIRE_OFFERED, second);
    ck_assert_uint_eq(level(), WEIR__LEVEL_ALL);
    ck_assert_uint_eq(size_of("b"), 0);
    say(first, &stop);
    ck_assert_uint_eq(hear_a(WIRE_RECORDED, first).u.recorded.error, 0);
    close(first);
    close(second);
}
END_TEST

START_TEST(recording_ends_with_its_connection)
{
    int before = suite_count_fds(), fd = begin("a");
    use_memory();
    close(fd);
    expect_policy_s_level();
    while (suite_count_fds() != before)
        scene_nap();
    ck_assert(is_whole("a"));
    close(begin("b"));
}
END_TEST

START_TEST(recording_ends_with_the_weir)
{
    int fd = begin("a");
    use_memory();
    weir_stream_close(scene.stream);
    weir_close(scene.w);
    scene.w = NULL;
    ck_assert_uint_eq(hear_a(WIRE_RECORDED, fd).u.recorded.bytes, size_of("a"));
    ck_assert(is_whole("a"));
    close(fd);
}
END_TEST

static bool has_said_something(int fd)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

/* As a disk that is full; the signal that comes with it would end a process that it reached. libcheck's own files are far below the
   limit. The recording ends by itself, and its connection a while later: a program that says STOP then may find nobody. */
START_TEST(file_that_takes_no_more_ends_it_and_harms_nobody)
{
    struct rlimit limit;
    uint64_t random = 1;
    void *ptr;
    int fd = begin("a");
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 32768;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    while (!has_said_something(fd)) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (weir_stream_malloc(scene.stream, &ptr, 1 + (random >> 40)) == WEIR_OK)
            weir_stream_free(scene.stream, ptr);
    }
    struct wire_message message = hear_a(WIRE_RECORDED, fd);
    ck_assert_uint_eq(message.u.recorded.error, EFBIG);
    ck_assert_uint_eq(message.u.recorded.bytes, limit.rlim_cur);
    ck_assert_uint_eq(size_of("a"), limit.rlim_cur);
    ck_assert_uint_gt(message.u.recorded.lost, 0);
    expect_policy_s_level();
    use_memory();
    close(fd);
}
END_TEST

START_TEST(child_of_a_fork_writes_nothing)
{
    int fd = begin("a"), status;
    use_memory();
    pid_t child = fork();
    if (child == 0) {
        void *ptr;
        bool is_refused = weir_stream_malloc(scene.stream, &ptr, MIB(1)) == WEIR_FORKED;
        weir_close(scene.w);
        /* Not _exit(): valgrind would look for leaks then, and find what a thread had in hand that is not there any more. */
        if (is_refused)
            raise(SIGKILL);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    use_memory();
    say(fd, &stop);
    struct wire_message message = hear_a(WIRE_RECORDED, fd);
    ck_assert_uint_eq(message.u.recorded.lost, 0);
    ck_assert_uint_eq(message.u.recorded.bytes, size_of("a"));
    close(fd);
}
END_TEST

/* Descriptors that are none of a new file ---------------------------------------------------------------------------------------------- */

static int pipe_end(void)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    return ends[1];
}

static int full_device(void)
{
    return open("/dev/full", O_WRONLY | O_CLOEXEC);
}

static int folder(void)
{
    return open(scene.runtime, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int reopened(int flags)
{
    close(make_file("x"));
    return open(path_of("x"), flags | O_CLOEXEC);
}

static int read_only(void)
{
    return reopened(O_RDONLY);
}

static int path_only(void)
{
    return reopened(O_PATH);
}

static int used(void)
{
    int fd = make_file("x");
    ck_assert_int_eq(write(fd, "kept", 4), 4);
    return fd;
}

static int of_another_user(void)
{
    int fd = make_file("x");
    ck_assert_int_eq(fchown(fd, STRANGER, (gid_t)-1), 0);
    return fd;
}

static const struct wrong {
    const char *name;
    int (*make)(void); /* NULL: none comes */
    weir_status status;
    const char *text;
} wrongs[] = {
    { "none", NULL, WEIR_INVALID, "no descriptor" },
    { "pipe", pipe_end, WEIR_INVALID, "no regular file" },
    { "device", full_device, WEIR_INVALID, "no regular file" },
    { "folder", folder, WEIR_INVALID, "not open for writing" },
    { "file to be read", read_only, WEIR_INVALID, "not open for writing" },
    { "path", path_only, WEIR_INVALID, "not open for writing" },
    { "file that is used", used, WEIR_INVALID, "has 4 bytes" },
    { "file of another user", of_another_user, WEIR_REFUSED, "belongs to user 12345" },
};

START_TEST(other_descriptors_are_denied_and_closed)
{
    const struct wrong *wrong = &wrongs[_i];
    if (wrong->make == of_another_user && geteuid() != 0)
        return; /* only root may give files away */
    struct wire_message question = scene_offer(GPU_0);
    question.request = 8;
    int fd = scene_connect();
    int before = suite_count_fds(), passed = wrong->make ? wrong->make() : -1;
    if (passed >= 0)
        say_with(fd, &record, passed);
    else
        say(fd, &record);
    struct wire_message message = hear_a(WIRE_DENIED, fd);
    ck_assert_msg(message.u.refused.status == (uint32_t)wrong->status, "%s: %s", wrong->name, message.u.refused.text);
    ck_assert_msg(strstr(message.u.refused.text, wrong->text), "%s: %s", wrong->name, message.u.refused.text);
    ck_assert_uint_eq(level(), WEIR__LEVEL_POOL);
    if (passed >= 0)
        close(passed);
    /* The connection stays, with nothing of what came, which another thread closes. */
    say(fd, &question);
    hear_a(WIRE_OFFERED, fd);
    ck_assert_int_le(suite_await_fds(before), before); /* fewer: what the scene had opened for a moment has gone meanwhile */
    if (wrong->make == used)
        ck_assert_uint_eq(size_of("x"), 4);
    close(fd);
}
END_TEST

/* Tags --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(tags_are_told_with_their_figures)
{
    ck_assert_int_eq(weir_tag_push(scene.w, "kv-cache"), WEIR_OK);
    void *kept = fixture_malloc(scene.stream, MIB(3));
    use_memory();
    ck_assert_int_eq(weir_tag_push(scene.w, "a\x1b b"), WEIR_OK);
    ck_assert_int_eq(weir_tag_push(scene.w, "\n"), WEIR_OK);
    ck_assert_ptr_nonnull(strstr(scene_figures(),
                                 "\"tags\": [{\"name\": \"kv-cache\", \"live\": 3145728, \"live_high\": 7340032, \"live_blocks\": 1}, "
                                 "{\"name\": \"a\\u001b b\", \"live\": 0, \"live_high\": 0, \"live_blocks\": 0}, "
                                 "{\"name\": \"\\n\", "));
    ck_assert_int_eq(weir_stream_free(scene.stream, kept), WEIR_OK);
}
END_TEST

int main(void)
{
    weir__unwind_prepare(); /* it keeps descriptors of its own */
    Suite *suite = suite_create("control_record");
    TCase *recordings = suite_case(suite, "recordings", 60);
    tcase_add_checked_fixture(recordings, scene_open, scene_close);
    suite_add(recordings, process_is_recorded_until_it_is_told_to_stop, one_connection_can_record_again,
              policy_that_changes_meanwhile_is_in_force_afterwards, level_of_the_policy_is_never_lowered,
              second_recording_is_denied_and_the_first_goes_on, recording_ends_with_its_connection, recording_ends_with_the_weir,
              file_that_takes_no_more_ends_it_and_harms_nobody, child_of_a_fork_writes_nothing, tags_are_told_with_their_figures);
    tcase_add_loop_test(recordings, other_descriptors_are_denied_and_closed, 0, sizeof wrongs / sizeof wrongs[0]);
    return suite_run(suite);
}
