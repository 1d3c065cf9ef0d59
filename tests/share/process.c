/* SPDX-License-Identifier: MIT */
/* Who is at the other end of a socket, whether it is let in, and how its death is seen. */
#include "config.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/user.h"
#include "share/export/allowed.h"
#include "share/wire/process.h"
#include "share/wire/socket.h"
#include "tests/share/connect.h"
#include "tests/support/suite.h"

#define OTHER_USER 54321
#define OTHER_GROUP 54322
#define THIRD_GROUP 54323

static char directory[64];
static struct share_listener listener;

static void begin(void)
{
    char path[SHARE_PATH_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    snprintf(directory, sizeof directory, "/tmp/weir-process-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/frames", directory);
    ck_assert_msg(share_listen(path, 0666, &error, &listener) == WEIR_OK, "%s", error.text);
}

static void end(void)
{
    share_listener_close(&listener);
    ck_assert_int_eq(rmdir(directory), 0);
}

static int accept_child(void)
{
    struct pollfd arrival = { .fd = listener.fd, .events = POLLIN };
    ck_assert_int_eq(poll(&arrival, 1, 10000), 1);
    int fd = share_accept(&listener);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* A child that connects and stays until it is killed. */
static pid_t connect_child(int *fd)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int connected;
        if (connect_within(listener.path, 5000, NULL, &connected) != WEIR_OK)
            _exit(1);
        pause();
        _exit(0);
    }
    *fd = accept_child();
    return child;
}

static void end_child(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
}

static bool is_dead(const struct share_process *process, int timeout_ms)
{
    struct pollfd death = { .fd = process->pidfd, .events = POLLIN };
    return poll(&death, 1, timeout_ms) == 1;
}

START_TEST(process_is_the_one_that_connected)
{
    struct share_process process;
    weir_error error = WEIR_ERROR_INIT;
    int fd;
    pid_t child = connect_child(&fd);
    ck_assert_msg(share_process_of(fd, &error, &process) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(process.pid, child);
    ck_assert_uint_eq(process.uid, geteuid());
    ck_assert_uint_eq(process.gid, getegid());
    share_process_close(&process);
    end_child(child);
    close(fd);
}
END_TEST

START_TEST(death_makes_the_pidfd_readable)
{
    struct share_process process;
    int fd;
    pid_t child = connect_child(&fd);
    ck_assert_int_eq(share_process_of(fd, NULL, &process), WEIR_OK);
    ck_assert(!is_dead(&process, 0));
    kill(child, SIGKILL);
    ck_assert(is_dead(&process, 10000));
    share_process_close(&process);
    end_child(child);
    close(fd);
}
END_TEST

static void close_sockets(void)
{
    for (int fd = 3; fd < 64; fd++)
        close(fd);
}

START_TEST(closed_socket_is_no_death)
{
    struct share_process process;
    int fd, go[2];
    char byte = 'x';
    ck_assert_int_eq(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        int connected;
        if (connect_within(listener.path, 5000, NULL, &connected) != WEIR_OK || read(go[0], &byte, 1) != 1)
            _exit(1);
        close_sockets();
        pause();
    }
    fd = accept_child();
    ck_assert_int_eq(share_process_of(fd, NULL, &process), WEIR_OK);
    ck_assert_int_eq(write(go[1], &byte, 1), 1);
    struct pollfd hangup = { .fd = fd, .events = POLLIN };
    ck_assert_int_eq(poll(&hangup, 1, 10000), 1);
    ck_assert(hangup.revents & POLLHUP);
    ck_assert(!is_dead(&process, 0));
    share_process_close(&process);
    end_child(child);
    close(fd);
    close(go[0]);
    close(go[1]);
}
END_TEST

START_TEST(pidfd_is_closed_by_exec_and_closed_at_last)
{
    struct share_process process;
    int fd;
    pid_t child = connect_child(&fd);
    int fds = suite_count_fds();
    ck_assert_int_eq(share_process_of(fd, NULL, &process), WEIR_OK);
    ck_assert_int_eq(fcntl(process.pidfd, F_GETFD), FD_CLOEXEC);
    share_process_close(&process);
    share_process_close(&process);
    ck_assert_int_eq(suite_count_fds(), fds);
    end_child(child);
    close(fd);
}
END_TEST

START_TEST(process_that_died_before_it_was_looked_at_is_gone_or_seen_dead)
{
    struct share_process process;
    weir_error error = WEIR_ERROR_INIT;
    int fd;
    pid_t child = connect_child(&fd);
    end_child(child);
    int fds = suite_count_fds();
    weir_status status = share_process_of(fd, &error, &process);
    if (status == WEIR_OK) { /* newer kernels give a pidfd of a process that is gone */
        ck_assert(is_dead(&process, 0));
        share_process_close(&process);
    } else {
        ck_assert_int_eq(status, WEIR_GONE);
        ck_assert_msg(strstr(error.text, "dead"), "%s", error.text);
    }
    ck_assert_int_eq(suite_count_fds(), fds);
    close(fd);
}
END_TEST

START_TEST(zombie_is_gone_or_seen_dead)
{
    struct share_process process;
    int fd;
    siginfo_t info;
    pid_t child = connect_child(&fd);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    weir_status status = share_process_of(fd, NULL, &process);
    if (status == WEIR_OK) {
        ck_assert(is_dead(&process, 0));
        share_process_close(&process);
    } else {
        ck_assert_int_eq(status, WEIR_GONE);
    }
    end_child(child);
    close(fd);
}
END_TEST

/* A process with that pid, which nobody has. -1: this user may not choose, or somebody was faster. */
static pid_t fork_as(pid_t pid)
{
    struct clone_args arguments = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
    pid_t made = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (made == 0) {
        close_sockets();
        pause();
        _exit(0);
    }
    return made;
}

/* It connects, and leaves its socket to a child of its own. Returns that one's pid. */
static pid_t connect_and_die(pid_t *pid)
{
    pid_t heir;
    int tell[2];
    ck_assert_int_eq(pipe(tell), 0);
    *pid = fork();
    if (*pid == 0) {
        int connected;
        if (connect_within(listener.path, 5000, NULL, &connected) != WEIR_OK)
            _exit(1);
        if ((heir = fork()) == 0) {
            pause();
            _exit(0);
        }
        _exit(write(tell[1], &heir, sizeof heir) == sizeof heir ? 0 : 1);
    }
    ck_assert_int_eq(read(tell[0], &heir, sizeof heir), sizeof heir);
    ck_assert_int_eq(waitpid(*pid, NULL, 0), *pid);
    close(tell[0]);
    close(tell[1]);
    return heir;
}

START_TEST(process_that_got_the_pid_of_a_dead_one_is_not_taken_for_it)
{
    struct share_process process;
    pid_t pid, heir = connect_and_die(&pid), made = fork_as(pid);
    int fd = accept_child();
    if (made > 0) {
        weir_status status = share_process_of(fd, NULL, &process);
        ck_assert(status == WEIR_GONE || (status == WEIR_OK && is_dead(&process, 0)));
        if (status == WEIR_OK)
            share_process_close(&process);
        end_child(made);
    }
    kill(heir, SIGKILL);
    close(fd);
}
END_TEST

/* A child that connects in PID namespaces of its own sees its parent's listener, which cannot see it. */
START_TEST(process_of_a_namespace_that_cannot_be_seen_is_refused)
{
    int fd, status;
    pid_t parent = fork();
    if (parent == 0) {
        /* The one who accepts goes into a namespace of its own, in which who connects from outside has no pid. */
        if (unshare(CLONE_NEWPID) != 0)
            _exit(77);
        pid_t inner = fork();
        if (inner == 0) {
            struct pollfd arrival = { .fd = listener.fd, .events = POLLIN };
            struct share_process process;
            weir_error error = WEIR_ERROR_INIT;
            poll(&arrival, 1, 10000);
            fd = share_accept(&listener);
            _exit(share_process_of(fd, &error, &process) == WEIR_REFUSED && strstr(error.text, "namespace") ? 0 : 1);
        }
        if (connect_within(listener.path, 5000, NULL, &fd) != WEIR_OK)
            _exit(2);
        _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    ck_assert_int_eq(waitpid(parent, &status, 0), parent);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) != 77) /* only root may make one */
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(what_is_no_unix_socket_is_refused)
{
    struct share_process process;
    int tube[2];
    ck_assert_int_eq(pipe(tube), 0);
    ck_assert_int_eq(share_process_of(tube[0], NULL, &process), WEIR_REFUSED);
    close(tube[0]);
    close(tube[1]);
}
END_TEST

/* What it has mapped ------------------------------------------------------------------------------------------------------------------ */

/* Closes its sockets, or starts another program. */
static const bool execs[] = { false, true };

START_TEST(memory_is_lost_by_exec_and_not_by_a_closed_socket)
{
    struct share_process process;
    int fd, go[2];
    char byte = 'x';
    ck_assert_int_eq(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        int connected;
        if (connect_within(listener.path, 5000, NULL, &connected) != WEIR_OK || read(go[0], &byte, 1) != 1)
            _exit(1);
        if (execs[_i])
            execlp("sleep", "sleep", "1000", (char *)NULL);
        close_sockets();
        pause();
    }
    fd = accept_child();
    ck_assert_int_eq(share_process_of(fd, NULL, &process), WEIR_OK);
    ck_assert(!share_process_lost_memory(&process));
    share_process_watch_memory(&process);
    if (process.memory_fd >= 0) { /* where the kernel lets this process look */
        ck_assert(!share_process_lost_memory(&process));
        ck_assert_int_eq(write(go[1], &byte, 1), 1);
        struct pollfd hangup = { .fd = fd };
        ck_assert_int_eq(poll(&hangup, 1, 10000), 1);
        ck_assert_int_eq(share_process_lost_memory(&process), execs[_i]);
        ck_assert(!is_dead(&process, 0));
    }
    share_process_close(&process);
    end_child(child);
    close(fd);
    close(go[0]);
    close(go[1]);
}
END_TEST

/* Hidden /proc ---------------------------------------------------------------------------------------------------------------------- */

static const char *judge_hidden(int fd)
{
    struct share_process process;
    weir_error error = WEIR_ERROR_INIT;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("tmpfs", "/proc", "tmpfs", 0, NULL) != 0)
        return NULL; /* only root can */
    if (share_process_of(fd, &error, &process) != WEIR_OK)
        return "a process that /proc does not show is refused";
    share_process_watch_memory(&process);
    return share_process_lost_memory(&process) ? "what cannot be seen counts as lost" : NULL;
}

START_TEST(process_that_proc_does_not_show_is_not_taken_for_dead)
{
    int fd;
    pid_t child = connect_child(&fd), judge = fork();
    if (judge == 0) {
        const char *wrong = judge_hidden(fd);
        if (wrong)
            fprintf(stderr, "%s\n", wrong);
        _exit(wrong ? 1 : 0);
    }
    ck_assert_int_eq(wait_for(judge), 0);
    end_child(child);
    close(fd);
}
END_TEST

/* Who is allowed ----------------------------------------------------------------------------------------------------------------------- */

static const struct policy_names nobody = { 0 };

static bool is_allowed(const struct share_process *process, const struct policy_names *users, const struct policy_names *groups)
{
    struct share_allowed allowed;
    ck_assert(share_allowed_copy(users, groups, &allowed));
    share_allowed_find(&allowed, NULL);
    bool has = share_allowed_has(&allowed, process);
    share_allowed_free(&allowed);
    return has;
}

/* Whether the policy that names that user, or that group, lets the process in. Policies own their names, so those of the struct are not
   constant. */
static bool allows(const char *user, const char *group, const struct share_process *process)
{
    char copy[64], *item = copy;
    const struct policy_names one = { 1, &item };
    snprintf(copy, sizeof copy, "%s", user ? user : group ? group : "");
    return is_allowed(process, user ? &one : &nobody, group ? &one : &nobody);
}

static const struct {
    const char *who;
    uid_t uid;
    gid_t gid;
    const char *user, *group; /* what the policy names */
    bool is_in;
} visitors[] = {
    { "root", 0, 0, NULL, NULL, true },
    { "another user where nobody is named", OTHER_USER, OTHER_GROUP, NULL, NULL, false },
    { "another user than is named", OTHER_USER, OTHER_GROUP, "54320", NULL, false },
    { "another group than is named", OTHER_USER, OTHER_GROUP, NULL, "54320", false },
    { "a user that is named by its number", OTHER_USER, OTHER_GROUP, "54321", NULL, true },
    { "a user whose number is named as a group's", OTHER_USER, OTHER_GROUP, NULL, "54321", false },
    { "a user that is named", 1, OTHER_GROUP, "daemon", NULL, true },
    { "a user where another is named", 1, OTHER_GROUP, "bin", NULL, false },
    { "a user where a name is that nobody has", OTHER_USER, OTHER_GROUP, "no-such-user", NULL, false },
    { "a group where a name is that none has", OTHER_USER, OTHER_GROUP, NULL, "no-such-group", false },
    { "a user where a number is that nobody can have", OTHER_USER, OTHER_GROUP, "99999999999999999999999", NULL, false },
    { "a group that is named by its number", OTHER_USER, 1, NULL, "1", true },
    { "a group that is named", OTHER_USER, 1, NULL, "daemon", true },
    { "a group where another is named", OTHER_USER, 1, NULL, "2", false },
};

START_TEST(who_is_named_is_allowed_and_nobody_else_but_root)
{
    const struct share_process process = { .uid = visitors[_i].uid, .gid = visitors[_i].gid };
    ck_assert_msg(allows(visitors[_i].user, visitors[_i].group, &process) == visitors[_i].is_in, "%s", visitors[_i].who);
}
END_TEST

START_TEST(own_user_is_allowed)
{
    struct share_process process = { .uid = geteuid(), .gid = OTHER_GROUP };
    ck_assert(is_allowed(&process, &nobody, &nobody));
}
END_TEST

START_TEST(name_that_is_known_is_not_looked_up_again)
{
    char daemon[] = "daemon", *item = daemon, invented[] = "no-such-user";
    struct share_process process = { .uid = OTHER_USER, .gid = OTHER_GROUP };
    struct share_allowed_name known_user = { .name = daemon, .is_found = true, .id = OTHER_USER }, unknown_user = { .name = invented };
    const struct share_allowed known = { 1, &known_user }, unknown = { 1, &unknown_user };
    struct share_allowed allowed;
    ck_assert(share_allowed_copy(&(struct policy_names){ 1, &item }, &nobody, &allowed));
    share_allowed_find(&allowed, &known);
    ck_assert(share_allowed_has(&allowed, &process));
    share_allowed_free(&allowed);
    item = invented;
    ck_assert(share_allowed_copy(&(struct policy_names){ 1, &item }, &nobody, &allowed));
    share_allowed_find(&allowed, &unknown);
    ck_assert_str_eq(share_allowed_unknown(&allowed), "no-such-user");
    share_allowed_free(&allowed);
}
END_TEST

START_TEST(supplementary_group_is_allowed)
{
    gid_t groups[] = { OTHER_GROUP, THIRD_GROUP };
    struct share_process process = { .uid = OTHER_USER, .gid = 1, .groups = groups, .group_count = 2 };
    ck_assert(allows(NULL, "54323", &process));
    ck_assert(!allows(NULL, "54324", &process));
}
END_TEST

START_TEST(any_name_of_a_list_allows)
{
    char copies[][16] = { "no-such-user", "54320", "54321" }, *names[] = { copies[0], copies[1], copies[2] };
    struct share_process process = { .uid = OTHER_USER, .gid = OTHER_GROUP };
    ck_assert(is_allowed(&process, &(struct policy_names){ 3, names }, &nobody));
}
END_TEST

/* Only root can become another user. */
START_TEST(groups_are_those_that_the_process_had_when_it_connected)
{
    static const gid_t groups[] = { OTHER_GROUP, THIRD_GROUP };
    struct share_process process;
    int fd;
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chmod(directory, 0711), 0);
    pid_t child = fork();
    if (child == 0) {
        int connected;
        if (setgroups(2, groups) != 0 || setgid(OTHER_GROUP) != 0 || setuid(OTHER_USER) != 0 ||
            connect_within(listener.path, 5000, NULL, &connected) != WEIR_OK)
            _exit(1);
        pause();
    }
    fd = accept_child();
    ck_assert_int_eq(share_process_of(fd, NULL, &process), WEIR_OK);
    ck_assert_uint_eq(process.uid, OTHER_USER);
    ck_assert_uint_eq(process.gid, OTHER_GROUP);
    ck_assert_uint_eq(process.group_count, 2);
    ck_assert(allows(NULL, "54323", &process));
    ck_assert(!is_allowed(&process, &nobody, &nobody));
    share_process_close(&process);
    end_child(child);
    close(fd);
}
END_TEST

/* In a user namespace ------------------------------------------------------------------------------------------------------------------- */

#define OVERFLOW_ID 65534

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_written;
}

/* Enters one in which this process runs as the overflow id, for want of a mapping or by one. false: this system allows none. */
static bool become_anybody(bool is_mapped)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "%d %u 1", OVERFLOW_ID, (unsigned)geteuid());
    snprintf(groups, sizeof groups, "%d %u 1", OVERFLOW_ID, (unsigned)getegid());
    return unshare(CLONE_NEWUSER) == 0 && (!is_mapped || (write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", users) &&
                                                          write_text("/proc/self/gid_map", groups)));
}

static const char *judge_anybody(void)
{
    gid_t group = OVERFLOW_ID;
    struct share_process process = { .uid = OVERFLOW_ID, .gid = OTHER_GROUP };
    if (geteuid() != OVERFLOW_ID || getegid() != OVERFLOW_ID)
        return "the process has another id than was expected";
    if (is_allowed(&process, &nobody, &nobody))
        return "who has the overflow id is taken for this user";
    if (allows("65534", NULL, &process))
        return "who has the overflow id is taken for a user that is named";
    process = (struct share_process){ .uid = OTHER_USER, .gid = OVERFLOW_ID, .groups = &group, .group_count = 1 };
    if (allows(NULL, "65534", &process))
        return "who has the overflow id as group is taken for a member of one that is named";
    process.uid = 0;
    return is_allowed(&process, &nobody, &nobody) ? NULL : "root is not let in";
}

/* The file at the listener's path is this user's; `other` is another's, where there is one. */
static const char *judge_files(const char *other)
{
    struct stat own, others;
    if (lstat(directory, &own) != 0 || !weir__is_directory_of(directory, &own, geteuid()))
        return "an own directory is taken for another's";
    if (other && (stat(other, &others) != 0 || others.st_uid != OVERFLOW_ID || weir__is_directory_of(other, &others, geteuid())))
        return "another's directory is taken for this user's";
    return NULL;
}

START_TEST(overflow_id_is_nobodys_in_a_user_namespace)
{
    char other[96];
    const char *wrong;
    snprintf(other, sizeof other, "%s/other", directory);
    ck_assert_int_eq(mkdir(other, 0777), 0);
    bool has_other = chown(other, OTHER_USER, OTHER_GROUP) == 0; /* root alone can */
    pid_t child = fork();
    if (child == 0) {
        if (!become_anybody(_i))
            _exit(0);
        if ((wrong = judge_anybody()) || (wrong = judge_files(has_other ? other : NULL)))
            fprintf(stderr, "%s\n", wrong);
        _exit(wrong ? 1 : 0);
    }
    ck_assert_int_eq(wait_for(child), 0);
    ck_assert_int_eq(rmdir(other), 0);
}
END_TEST

START_TEST(same_id_is_a_user_where_all_are_mapped)
{
    char map[64] = "";
    int fd = open("/proc/self/uid_map", O_RDONLY);
    if (fd < 0 || read(fd, map, sizeof map - 1) <= 0 || !strstr(map, "4294967295")) {
        close(fd);
        return;
    }
    close(fd);
    ck_assert(weir__is_user(OVERFLOW_ID, OVERFLOW_ID));
    ck_assert(weir__is_group(OVERFLOW_ID, OVERFLOW_ID));
    ck_assert(!weir__is_user(OVERFLOW_ID, OVERFLOW_ID - 1));
    ck_assert_str_eq(weir__user_note(OVERFLOW_ID), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process");
    TCase *process = suite_case(suite, "who it is", 0);
    tcase_add_checked_fixture(process, begin, end);
    suite_add(process, process_is_the_one_that_connected, death_makes_the_pidfd_readable, closed_socket_is_no_death,
              pidfd_is_closed_by_exec_and_closed_at_last, process_that_died_before_it_was_looked_at_is_gone_or_seen_dead,
              zombie_is_gone_or_seen_dead, process_that_got_the_pid_of_a_dead_one_is_not_taken_for_it,
              process_of_a_namespace_that_cannot_be_seen_is_refused, what_is_no_unix_socket_is_refused,
              process_that_proc_does_not_show_is_not_taken_for_dead, groups_are_those_that_the_process_had_when_it_connected);
    tcase_add_loop_test(process, memory_is_lost_by_exec_and_not_by_a_closed_socket, 0, sizeof execs / sizeof execs[0]);
    TCase *allowed = suite_case(suite, "who is allowed", 0);
    tcase_add_loop_test(allowed, who_is_named_is_allowed_and_nobody_else_but_root, 0, sizeof visitors / sizeof visitors[0]);
    suite_add(allowed, own_user_is_allowed, name_that_is_known_is_not_looked_up_again, supplementary_group_is_allowed,
              any_name_of_a_list_allows);
    TCase *anybody = suite_case(suite, "in a user namespace", 0);
    tcase_add_checked_fixture(anybody, begin, end);
    tcase_add_loop_test(anybody, overflow_id_is_nobodys_in_a_user_namespace, 0, 2);
    suite_add(anybody, same_id_is_a_user_where_all_are_mapped);
    return suite_run(suite);
}
