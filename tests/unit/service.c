/* SPDX-License-Identifier: MIT */
/* The service thread: jobs run when they are due, there is a thread only while there are jobs, and exit() and fork() end well. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"

#define MS UINT64_C(1000000)
#define HOUR (UINT64_C(3600000) * MS)

/* A job that says when it has run, and can be held up in its run. */
struct probe {
    struct weir__job job;
    sem_t ran;
    uint64_t ran_at;         /* of the last run */
    uint64_t again_after;    /* the next run is due that long after this one, */
    unsigned agains;         /* so many times */
    struct weir__job *wakes; /* woken, or added, from within the run, once */
    sigset_t signals;        /* blocked during the run */
    sem_t gate;              /* a gated run waits for it */
    bool gated;
    atomic_bool finished;
};

static uint64_t run(struct weir__job *job)
{
    struct probe *probe = (struct probe *)job;
    probe->ran_at = weir__service_now();
    pthread_sigmask(SIG_SETMASK, NULL, &probe->signals);
    if (probe->wakes)
        weir__service_wake(probe->wakes, 0);
    probe->wakes = NULL;
    uint64_t due = probe->agains ? probe->ran_at + probe->again_after : WEIR__SERVICE_NEVER;
    probe->agains -= probe->agains > 0;
    sem_post(&probe->ran);
    while (probe->gated && sem_wait(&probe->gate) != 0)
        ;
    atomic_store(&probe->finished, true);
    return due;
}

static void probe_add(struct probe *probe)
{
    weir_error error = WEIR_ERROR_INIT;
    probe->job.run = run;
    sem_init(&probe->ran, 0, 0);
    sem_init(&probe->gate, 0, 0);
    ck_assert_msg(weir__service_add(&probe->job, &error) == WEIR_OK, "%s", error.text);
}

/* Waits for a run; one that never comes is for the suite's time limit. */
static void await(struct probe *probe)
{
    while (sem_wait(&probe->ran) != 0)
        ck_assert_int_eq(errno, EINTR);
}

static bool has_run(struct probe *probe)
{
    return sem_trywait(&probe->ran) == 0;
}

static void pass_time(uint64_t nanoseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)nanoseconds }, NULL);
}

/* Threads of this process that have the service thread's name. */
static int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(dir);
    int count = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        count += fgets(name, sizeof name, file) && strcmp(name, "weir\n") == 0;
        fclose(file);
    }
    closedir(dir);
    return count;
}

/* A thread that was joined may be listed a moment longer. */
static void await_no_thread(void)
{
    while (count_threads() > 0)
        pass_time(MS);
}

/* When they run ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(job_runs_when_woken)
{
    struct probe probe = { 0 };
    probe_add(&probe);
    weir__service_wake(&probe.job, 0);
    await(&probe);
    weir__service_remove(&probe.job);
}
END_TEST

START_TEST(job_that_nobody_wakes_does_not_run)
{
    struct probe idle = { 0 }, other = { 0 };
    probe_add(&idle);
    probe_add(&other);
    weir__service_wake(&other.job, 0);
    await(&other);
    weir__service_remove(&other.job);
    weir__service_remove(&idle.job);
    ck_assert(!has_run(&idle));
}
END_TEST

START_TEST(job_due_in_the_future_is_not_run_before)
{
    struct probe probe = { 0 };
    probe_add(&probe);
    uint64_t when = weir__service_now() + 20 * MS;
    weir__service_wake(&probe.job, when);
    await(&probe);
    weir__service_remove(&probe.job);
    ck_assert_uint_ge(probe.ran_at, when);
}
END_TEST

START_TEST(earlier_wake_wins)
{
    struct probe probe = { 0 };
    probe_add(&probe);
    weir__service_wake(&probe.job, weir__service_now() + HOUR);
    weir__service_wake(&probe.job, weir__service_now() + 5 * MS);
    await(&probe);
    weir__service_remove(&probe.job);
}
END_TEST

START_TEST(later_wake_puts_nothing_off)
{
    struct probe probe = { 0 };
    probe_add(&probe);
    weir__service_wake(&probe.job, weir__service_now() + 5 * MS);
    weir__service_wake(&probe.job, weir__service_now() + HOUR);
    await(&probe);
    weir__service_remove(&probe.job);
}
END_TEST

START_TEST(job_runs_again_at_the_time_that_it_returned)
{
    struct probe probe = { .again_after = 10 * MS, .agains = 1 };
    probe_add(&probe);
    uint64_t start = weir__service_now();
    weir__service_wake(&probe.job, 0);
    await(&probe);
    await(&probe);
    weir__service_remove(&probe.job);
    ck_assert(!has_run(&probe));
    ck_assert_uint_ge(probe.ran_at, start + 10 * MS);
}
END_TEST

START_TEST(wake_from_within_its_own_run_runs_again)
{
    struct probe probe = { 0 };
    probe.wakes = &probe.job;
    probe_add(&probe);
    weir__service_wake(&probe.job, 0);
    await(&probe);
    await(&probe);
    weir__service_remove(&probe.job);
    ck_assert(!has_run(&probe));
}
END_TEST

/* As a log function may. */
static uint64_t end_thread(struct weir__job *job)
{
    job->run = run;
    pthread_exit(NULL);
}

START_TEST(run_that_ends_the_thread_is_followed_by_another)
{
    struct probe probe = { 0 }, other = { 0 };
    probe_add(&probe);
    probe_add(&other);
    probe.job.run = end_thread;
    weir__service_wake(&probe.job, 0);
    await(&probe);
    weir__service_wake(&other.job, 0);
    await(&other);
    weir__service_remove(&probe.job);
    weir__service_remove(&other.job);
    await_no_thread();
}
END_TEST

START_TEST(wake_during_a_run_beats_a_later_time_that_the_run_returns)
{
    struct probe probe = { .again_after = HOUR, .agains = 2, .gated = true };
    probe_add(&probe);
    weir__service_wake(&probe.job, 0);
    await(&probe);
    weir__service_wake(&probe.job, 0);
    sem_post(&probe.gate);
    await(&probe);
    sem_post(&probe.gate);
    weir__service_remove(&probe.job);
}
END_TEST

START_TEST(job_that_always_wants_to_run_leaves_others_their_turn)
{
    struct probe greedy = { .agains = UINT32_MAX }, other = { 0 }, third = { 0 };
    probe_add(&third);
    probe_add(&greedy);
    probe_add(&other);
    weir__service_wake(&greedy.job, 0);
    await(&greedy);
    weir__service_wake(&other.job, 0);
    weir__service_wake(&third.job, 0);
    await(&other);
    await(&third);
    weir__service_remove(&greedy.job);
    weir__service_remove(&other.job);
    weir__service_remove(&third.job);
}
END_TEST

static uint64_t run_and_add(struct weir__job *job)
{
    struct probe *probe = (struct probe *)job;
    struct probe *added = (struct probe *)probe->wakes;
    probe->wakes = NULL;
    if (added && weir__service_add(&added->job, NULL) == WEIR_OK)
        weir__service_wake(&added->job, 0);
    return WEIR__SERVICE_NEVER;
}

START_TEST(job_can_be_added_by_a_job)
{
    struct probe first = { 0 }, second = { .job.run = run };
    sem_init(&second.ran, 0, 0);
    first.wakes = &second.job;
    probe_add(&first);
    first.job.run = run_and_add;
    weir__service_wake(&first.job, 0);
    await(&second);
    weir__service_remove(&first.job);
    weir__service_remove(&second.job);
}
END_TEST

/* Removing ----------------------------------------------------------------------------------------------------------------------------- */

static atomic_bool removed;

/* Long enough for a removal that does not wait to come back first. */
static uint64_t run_slowly(struct weir__job *job)
{
    struct probe *probe = (struct probe *)job;
    sem_post(&probe->ran);
    pass_time(30 * MS);
    atomic_store(&probe->finished, !atomic_load(&removed));
    return 0;
}

START_TEST(remove_waits_for_a_run_in_progress)
{
    struct probe slow = { 0 }, other = { 0 };
    probe_add(&slow);
    probe_add(&other); /* keeps the thread, so that it is not waited for instead */
    slow.job.run = run_slowly;
    weir__service_wake(&slow.job, 0);
    await(&slow);
    weir__service_remove(&slow.job);
    atomic_store(&removed, true);
    while (has_run(&slow)) /* again, before it was removed */
        continue;
    weir__service_wake(&other.job, 0);
    await(&other);
    weir__service_remove(&other.job);
    ck_assert(atomic_load(&slow.finished));
    ck_assert_msg(!has_run(&slow), "the job ran again although it was being removed");
}
END_TEST

START_TEST(remove_does_not_wait_for_another_job)
{
    struct probe held = { .gated = true }, other = { 0 };
    probe_add(&held);
    probe_add(&other);
    weir__service_wake(&held.job, 0);
    await(&held);
    weir__service_remove(&other.job);
    ck_assert(!atomic_load(&held.finished));
    sem_post(&held.gate);
    weir__service_remove(&held.job);
}
END_TEST

/* The thread --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(no_job_no_thread)
{
    struct probe probe = { 0 };
    ck_assert_int_eq(count_threads(), 0);
    for (int i = 0; i < 2; i++) {
        probe_add(&probe);
        weir__service_wake(&probe.job, 0);
        await(&probe);
        ck_assert_int_eq(count_threads(), 1);
        weir__service_remove(&probe.job);
        await_no_thread();
    }
}
END_TEST

START_TEST(two_jobs_share_one_thread)
{
    struct probe probes[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        probe_add(&probes[i]);
        weir__service_wake(&probes[i].job, 0);
    }
    for (int i = 0; i < 2; i++)
        await(&probes[i]);
    ck_assert_int_eq(count_threads(), 1);
    for (int i = 0; i < 2; i++)
        weir__service_remove(&probes[i].job);
}
END_TEST

START_TEST(idle_service_makes_no_wakeups)
{
    struct probe probe = { 0 };
    probe_add(&probe);
    /* Until it was woken from its sleep, which must leave no trace. */
    while (weir__service_wakeups() == 0) {
        pass_time(MS);
        weir__service_wake(&probe.job, 0);
        await(&probe);
    }
    uint64_t before = weir__service_wakeups();
    pass_time(30 * MS);
    ck_assert_uint_eq(weir__service_wakeups(), before);
    weir__service_remove(&probe.job);
}
END_TEST

START_TEST(waiting_for_a_time_takes_one_wakeup)
{
    struct probe probe = { .again_after = 3 * MS / 2, .agains = 20 };
    probe_add(&probe);
    weir__service_wake(&probe.job, 0);
    await(&probe);
    uint64_t before = weir__service_wakeups();
    for (int i = 0; i < 20; i++)
        await(&probe);
    uint64_t wakeups = weir__service_wakeups() - before;
    weir__service_remove(&probe.job);
    ck_assert_uint_le(wakeups, 20);
}
END_TEST

START_TEST(signals_are_not_delivered_to_it)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGPROF };
    struct probe probe = { 0 };
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    probe_add(&probe);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    weir__service_wake(&probe.job, 0);
    await(&probe);
    weir__service_remove(&probe.job);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        ck_assert_msg(sigismember(&probe.signals, signals[i]) == 1, "signal %d", signals[i]);
        ck_assert_int_eq(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
}
END_TEST

START_TEST(descriptor_is_closed_by_exec_and_by_the_last_removal)
{
    struct probe probe = { 0 };
    int next = dup(STDOUT_FILENO);
    close(next);
    probe_add(&probe);
    ck_assert_int_eq(fcntl(next, F_GETFD), FD_CLOEXEC);
    weir__service_remove(&probe.job);
    ck_assert_int_eq(fcntl(next, F_GETFD), -1);
}
END_TEST

/* Two threads take turns: while one removes the last job, and so stops the thread, the other adds one. */
#define ROUNDS 1000
static pthread_barrier_t round_begins;

static void *add_or_remove(void *is_second)
{
    struct probe probe = { 0 };
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&round_begins);
        if (i % 2 == (is_second != NULL)) {
            probe_add(&probe);
            weir__service_wake(&probe.job, 0);
            await(&probe);
        } else if (i > 0) {
            weir__service_remove(&probe.job);
        }
    }
    if (is_second)
        weir__service_remove(&probe.job);
    return NULL;
}

START_TEST(job_added_while_the_thread_stops_runs)
{
    pthread_t threads[2];
    pthread_barrier_init(&round_begins, NULL, 2);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_or_remove, i ? &round_begins : NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&round_begins);
    await_no_thread();
}
END_TEST

/* Failures ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(failed_eventfd_leaves_nothing)
{
    struct probe probe = { .job.run = run };
    weir_error error = WEIR_ERROR_INIT;
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    weir_status status = weir__service_add(&probe.job, &error);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_int_eq(status, WEIR_NO_HOST_MEMORY);
    ck_assert_msg(strstr(error.text, "eventfd") && strstr(error.text, "ulimit -n"), "%s", error.text);
    ck_assert_int_eq(count_threads(), 0);
    probe_add(&probe);
    weir__service_remove(&probe.job);
}
END_TEST

START_TEST(failed_thread_leaves_nothing)
{
    if (!fail_malloc_works())
        return;
    struct probe probe = { .job.run = run };
    int fds = suite_count_fds();
    unsigned failures = 0;
    for (unsigned nth = 1;; nth++) {
        weir_error error = WEIR_ERROR_INIT;
        fail_malloc_at(nth);
        weir_status status = weir__service_add(&probe.job, &error);
        fail_malloc_at(0);
        if (status == WEIR_OK)
            break;
        ck_assert_int_eq(status, WEIR_NO_HOST_MEMORY);
        ck_assert_int_eq(error.status, WEIR_NO_HOST_MEMORY);
        ck_assert_int_eq(suite_count_fds(), fds);
        ck_assert_int_eq(count_threads(), 0);
        failures++;
    }
    ck_assert_uint_gt(failures, 0);
    weir__service_remove(&probe.job);
}
END_TEST

/* Watching ----------------------------------------------------------------------------------------------------------------------------- */

/* A job that reads one byte of what it watches. */
struct reader {
    struct weir__job job;
    int fds[2]; /* what is watched, and the other end */
    atomic_int reads;
    sem_t ran;
};

static uint64_t read_one(struct weir__job *job)
{
    struct reader *reader = (struct reader *)job;
    char byte;
    if (read(reader->fds[0], &byte, 1) == 1)
        atomic_fetch_add(&reader->reads, 1);
    sem_post(&reader->ran);
    return WEIR__SERVICE_NEVER;
}

static void reader_add(struct reader *reader)
{
    weir_error error = WEIR_ERROR_INIT;
    reader->job.run = read_one;
    sem_init(&reader->ran, 0, 0);
    ck_assert_int_eq(pipe(reader->fds), 0);
    ck_assert_msg(weir__service_add(&reader->job, &error) == WEIR_OK, "%s", error.text);
}

static void reader_write(struct reader *reader)
{
    ck_assert_int_eq(write(reader->fds[1], "x", 1), 1);
}

static void reader_await(struct reader *reader)
{
    while (sem_wait(&reader->ran) != 0)
        ck_assert_int_eq(errno, EINTR);
}

static void reader_remove(struct reader *reader)
{
    weir__service_remove(&reader->job);
    close(reader->fds[0]);
    close(reader->fds[1]);
}

/* Returns once the thread sleeps: a wake-up ends a sleep, and the next begins when the job of it has run and no other is due. */
static void await_sleep(void)
{
    struct probe probe = { 0 };
    probe_add(&probe);
    for (uint64_t before = weir__service_wakeups(); weir__service_wakeups() == before;) {
        pass_time(MS);
        weir__service_wake(&probe.job, 0);
        await(&probe);
    }
    weir__service_remove(&probe.job);
    pass_time(MS);
}

START_TEST(watched_descriptor_makes_its_job_run)
{
    struct reader reader = { 0 };
    reader_add(&reader);
    weir__service_watch(&reader.job, reader.fds[0]);
    reader_write(&reader);
    reader_await(&reader);
    reader_remove(&reader);
    ck_assert_int_eq(reader.reads, 1);
}
END_TEST

START_TEST(watch_begun_while_the_thread_sleeps_takes_effect)
{
    struct reader reader = { 0 };
    reader_add(&reader);
    reader_write(&reader);
    await_sleep();
    weir__service_watch(&reader.job, reader.fds[0]);
    reader_await(&reader);
    reader_remove(&reader);
    ck_assert_int_eq(reader.reads, 1);
}
END_TEST

START_TEST(what_a_run_leaves_unread_makes_it_run_again)
{
    struct reader reader = { 0 };
    reader_add(&reader);
    for (int i = 0; i < 3; i++)
        reader_write(&reader);
    weir__service_watch(&reader.job, reader.fds[0]);
    for (int i = 0; i < 3; i++)
        reader_await(&reader);
    reader_remove(&reader);
    ck_assert_int_eq(reader.reads, 3);
}
END_TEST

START_TEST(hang_up_of_the_other_side_makes_its_job_run)
{
    struct reader reader = { 0 };
    reader_add(&reader);
    weir__service_watch(&reader.job, reader.fds[0]);
    await_sleep();
    close(reader.fds[1]);
    reader_await(&reader);
    weir__service_watch(&reader.job, -1);
    reader.fds[1] = dup(reader.fds[0]);
    reader_remove(&reader);
    ck_assert_int_eq(reader.reads, 0);
}
END_TEST

START_TEST(ended_watch_makes_no_job_run)
{
    struct reader reader = { 0 }, other = { 0 };
    reader_add(&reader);
    reader_add(&other);
    weir__service_watch(&reader.job, reader.fds[0]);
    weir__service_watch(&other.job, other.fds[0]);
    await_sleep();
    weir__service_watch(&reader.job, -1);
    reader_write(&reader);
    reader_write(&other);
    reader_await(&other);
    await_sleep();
    int reads = reader.reads;
    reader_remove(&reader);
    reader_remove(&other);
    ck_assert_int_eq(reads, 0);
}
END_TEST

/* To a reader at the other end a closed descriptor is open for as long as somebody polls it. */
START_TEST(descriptor_is_let_go_of_while_the_thread_sleeps)
{
    struct reader reader = { 0 };
    struct probe other = { 0 };
    signal(SIGPIPE, SIG_IGN);
    reader_add(&reader);
    probe_add(&other);
    weir__service_watch(&reader.job, reader.fds[0]);
    await_sleep();
    weir__service_watch(&reader.job, -1);
    close(reader.fds[0]);
    while (write(reader.fds[1], "x", 1) == 1)
        pass_time(MS);
    ck_assert_int_eq(errno, EPIPE);
    reader.fds[0] = dup(reader.fds[1]);
    reader_remove(&reader);
    weir__service_remove(&other.job);
}
END_TEST

#define MANY 200

START_TEST(each_of_many_jobs_runs_for_its_own_descriptor)
{
    static struct reader readers[MANY];
    for (int i = 0; i < MANY; i++) {
        reader_add(&readers[i]);
        weir__service_watch(&readers[i].job, readers[i].fds[0]);
    }
    for (int i = 0; i < MANY; i += 3)
        reader_write(&readers[i]);
    for (int i = 0; i < MANY; i += 3)
        reader_await(&readers[i]);
    await_sleep();
    int runs = 0;
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(readers[i].reads, i % 3 == 0);
        runs += sem_trywait(&readers[i].ran) == 0;
        reader_remove(&readers[i]);
    }
    ck_assert_int_eq(runs, 0);
}
END_TEST

START_TEST(job_that_always_wants_to_run_leaves_watchers_their_turn)
{
    struct probe greedy = { .agains = UINT32_MAX };
    struct reader reader = { 0 };
    probe_add(&greedy);
    reader_add(&reader);
    weir__service_watch(&reader.job, reader.fds[0]);
    weir__service_wake(&greedy.job, 0);
    await(&greedy);
    reader_write(&reader);
    reader_await(&reader);
    weir__service_remove(&greedy.job);
    reader_remove(&reader);
    ck_assert_int_eq(reader.reads, 1);
}
END_TEST

START_TEST(watcher_that_is_never_done_leaves_other_jobs_their_turn)
{
    struct reader reader = { 0 };
    struct probe other = { 0 };
    probe_add(&other);
    reader_add(&reader);
    close(reader.fds[1]);
    weir__service_watch(&reader.job, reader.fds[0]);
    reader_await(&reader);
    weir__service_wake(&other.job, 0);
    await(&other);
    reader.fds[1] = dup(reader.fds[0]);
    reader_remove(&reader);
    weir__service_remove(&other.job);
}
END_TEST

START_TEST(silent_descriptor_makes_no_wakeups)
{
    struct reader reader = { 0 };
    reader_add(&reader);
    weir__service_watch(&reader.job, reader.fds[0]);
    await_sleep();
    uint64_t before = weir__service_wakeups();
    pass_time(30 * MS);
    ck_assert_uint_eq(weir__service_wakeups(), before);
    reader_remove(&reader);
}
END_TEST

/* While the thread sleeps and wakes, others add and remove jobs and what they watch: no job may see another's descriptor. */
static void *watch_and_unwatch(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct reader reader = { 0 };
        reader_add(&reader);
        weir__service_watch(&reader.job, reader.fds[0]);
        reader_write(&reader);
        reader_await(&reader);
        reader_remove(&reader);
        ck_assert_int_eq(reader.reads, 1);
    }
    return unused;
}

START_TEST(watches_that_come_and_go_reach_their_own_jobs)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, watch_and_unwatch, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    await_no_thread();
}
END_TEST

/* Exit --------------------------------------------------------------------------------------------------------------------------------- */

static struct probe last; /* the job of a child that exits */
static int (*verdict)(void);

/* Registered before the service's own handler, so called after it. It ends the child before libcheck's handlers see that. */
static void judge(void)
{
    if (verdict)
        _exit(verdict());
}

static void open_gate(void)
{
    sem_post(&last.gate);
}

/* Runs the function in a child, which has 10 seconds, and returns its exit status, or -1 if a signal ended it. */
static int in_child(void (*fn)(void))
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        alarm(60);
        fn();
        _exit(100);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_has_ended(void)
{
    return !atomic_load(&last.finished);
}

/* The gate is opened by a handler that runs before the service's: without it exit() would have nothing to wait for. */
static void exit_while_running(void)
{
    atexit(judge);
    last.gated = true;
    probe_add(&last);
    atexit(open_gate);
    weir__service_wake(&last.job, 0);
    await(&last);
    exit(0);
}

START_TEST(exit_with_a_running_job_ends)
{
    verdict = run_has_ended;
    ck_assert_int_eq(in_child(exit_while_running), 0);
}
END_TEST

static int adding_is_refused(void)
{
    static struct probe more = { .job.run = run };
    weir_error error = WEIR_ERROR_INIT;
    return weir__service_add(&more.job, &error) != WEIR_BUSY || !strstr(error.text, "exiting");
}

START_TEST(adding_is_refused_once_exit_began)
{
    verdict = adding_is_refused;
    ck_assert_int_eq(in_child(exit_while_running), 0);
}
END_TEST

static uint64_t run_and_add_late(struct weir__job *job)
{
    struct probe *probe = (struct probe *)job;
    sem_post(&probe->ran);
    weir_status status;
    struct weir__job more = { .run = run };
    while ((status = weir__service_add(&more, NULL)) == WEIR_OK)
        weir__service_remove(&more);
    atomic_store(&probe->finished, status == WEIR_BUSY);
    return WEIR__SERVICE_NEVER;
}

static void exit_while_a_job_adds(void)
{
    atexit(judge);
    probe_add(&last);
    last.job.run = run_and_add_late;
    weir__service_wake(&last.job, 0);
    await(&last);
    exit(0);
}

START_TEST(adding_from_a_job_is_refused_once_exit_waits_for_it)
{
    verdict = run_has_ended;
    ck_assert_int_eq(in_child(exit_while_a_job_adds), 0);
}
END_TEST

static int removing_and_waking_work(void)
{
    weir__service_wake(&last.job, 0);
    weir__service_remove(&last.job);
    return has_run(&last);
}

START_TEST(removing_and_waking_do_no_harm_once_exit_began)
{
    verdict = removing_and_waking_work;
    ck_assert_int_eq(in_child(exit_while_running), 0);
}
END_TEST

static uint64_t run_and_exit(struct weir__job *job)
{
    sem_post(&((struct probe *)job)->ran);
    exit(0);
}

static void exit_from_job(void)
{
    atexit(judge);
    probe_add(&last);
    last.job.run = run_and_exit;
    weir__service_wake(&last.job, 0);
    for (;;)
        pause();
}

START_TEST(exit_from_a_job_ends)
{
    verdict = adding_is_refused;
    ck_assert_int_eq(in_child(exit_from_job), 0);
}
END_TEST

static int running_job_is_removed(void)
{
    weir__service_remove(&last.job);
    return 0;
}

START_TEST(exit_from_a_job_can_remove_it)
{
    verdict = running_job_is_removed;
    ck_assert_int_eq(in_child(exit_from_job), 0);
}
END_TEST

/* Fork --------------------------------------------------------------------------------------------------------------------------------- */

static int all_went_well(void)
{
    return 0;
}

static void remove_and_exit(void)
{
    weir__service_wake(&last.job, 0);
    if (weir__service_add(&(struct weir__job){ .run = run }, NULL) != WEIR_FORKED)
        _exit(1);
    weir__service_remove(&last.job);
    verdict = all_went_well;
    exit(1);
}

/* Keeps the lock busy: a child may find it held by a thread that it does not have. */
static atomic_bool is_over;

static void *wake_all_the_time(void *job)
{
    while (!atomic_load(&is_over))
        weir__service_wake(job, 0);
    return NULL;
}

START_TEST(forked_child_can_remove_and_exit)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    options.gpu = "sim";
    options.policy_text = "weir: 1\npools: { a: { devices: all } }\n";
    ck_assert_msg(weir_open(&options, &error, &w) == WEIR_OK, "%s", error.text);
    atexit(judge);
    pthread_t waker;
    probe_add(&last);
    ck_assert_int_eq(pthread_create(&waker, NULL, wake_all_the_time, &last.job), 0);
    await(&last);
    int status = 0;
    for (int i = 0; i < 20 && status == 0; i++)
        status = in_child(remove_and_exit);
    atomic_store(&is_over, true);
    pthread_join(waker, NULL);
    weir__service_remove(&last.job);
    weir_close(w);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("service");
    TCase *due = suite_case(suite, "when they run", 0);
    suite_add(due, job_runs_when_woken, job_that_nobody_wakes_does_not_run, job_due_in_the_future_is_not_run_before, earlier_wake_wins,
              later_wake_puts_nothing_off, job_runs_again_at_the_time_that_it_returned, wake_from_within_its_own_run_runs_again,
              run_that_ends_the_thread_is_followed_by_another, wake_during_a_run_beats_a_later_time_that_the_run_returns, job_that_always_wants_to_run_leaves_others_their_turn,
              job_can_be_added_by_a_job, remove_waits_for_a_run_in_progress, remove_does_not_wait_for_another_job);
    TCase *thread = suite_case(suite, "the thread", 0);
    suite_add(thread, no_job_no_thread, two_jobs_share_one_thread, idle_service_makes_no_wakeups, waiting_for_a_time_takes_one_wakeup,
              signals_are_not_delivered_to_it, descriptor_is_closed_by_exec_and_by_the_last_removal, job_added_while_the_thread_stops_runs,
              failed_eventfd_leaves_nothing, failed_thread_leaves_nothing);
    TCase *watching = suite_case(suite, "watching", 0);
    suite_add(watching, watched_descriptor_makes_its_job_run, watch_begun_while_the_thread_sleeps_takes_effect,
              what_a_run_leaves_unread_makes_it_run_again, hang_up_of_the_other_side_makes_its_job_run, ended_watch_makes_no_job_run,
              descriptor_is_let_go_of_while_the_thread_sleeps, each_of_many_jobs_runs_for_its_own_descriptor,
              job_that_always_wants_to_run_leaves_watchers_their_turn, watcher_that_is_never_done_leaves_other_jobs_their_turn,
              silent_descriptor_makes_no_wakeups, watches_that_come_and_go_reach_their_own_jobs);
    TCase *end = suite_case(suite, "exit and fork", 0);
    suite_add(end, exit_with_a_running_job_ends, adding_is_refused_once_exit_began, adding_from_a_job_is_refused_once_exit_waits_for_it,
              removing_and_waking_do_no_harm_once_exit_began, exit_from_a_job_ends, exit_from_a_job_can_remove_it,
              forked_child_can_remove_and_exit);
    return suite_run(suite);
}
