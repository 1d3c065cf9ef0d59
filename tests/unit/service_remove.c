/* SPDX-License-Identifier: MIT */
/* Jobs of the service thread that remove other jobs. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "tests/support/suite.h"

/* A job that says when it has run, and removes another one if it is to. */
struct probe {
    struct weir__job job;
    sem_t began, ran;
    sem_t gate; /* a run waits for it */
    struct probe *removes;
};

static uint64_t run(struct weir__job *job)
{
    struct probe *probe = (struct probe *)job;
    sem_post(&probe->began);
    while (sem_wait(&probe->gate) != 0)
        ck_assert_int_eq(errno, EINTR);
    if (probe->removes) {
        weir__service_remove(&probe->removes->job);
        /* Whoever used it from here on would fall over that. */
        memset(probe->removes, 0xff, sizeof *probe->removes);
    }
    probe->removes = NULL;
    sem_post(&probe->ran);
    return WEIR__SERVICE_NEVER;
}

static void probe_add(struct probe *probe)
{
    weir_error error = WEIR_ERROR_INIT;
    probe->job.run = run;
    sem_init(&probe->began, 0, 0);
    sem_init(&probe->ran, 0, 0);
    sem_init(&probe->gate, 0, 0);
    ck_assert_msg(weir__service_add(&probe->job, &error) == WEIR_OK, "%s", error.text);
}

/* Lets the run that it was woken for go on; one that never ends is for the suite's time limit. */
static void await(struct probe *probe)
{
    sem_post(&probe->gate);
    while (sem_wait(&probe->ran) != 0)
        ck_assert_int_eq(errno, EINTR);
}

static void run_once(struct probe *probe)
{
    weir__service_wake(&probe->job, 0);
    await(probe);
}

START_TEST(job_can_be_removed_by_a_job)
{
    struct probe removed = { 0 }, remover = { .removes = &removed };
    probe_add(&removed);
    probe_add(&remover);
    run_once(&remover);
    weir__service_remove(&remover.job);
}
END_TEST

START_TEST(others_run_after_a_job_was_removed_by_a_job)
{
    struct probe first = { 0 }, removed = { 0 }, last = { 0 }, remover = { .removes = &removed };
    probe_add(&first);
    probe_add(&removed);
    probe_add(&last);
    probe_add(&remover);
    run_once(&remover);
    run_once(&first);
    run_once(&last);
    run_once(&remover);
    weir__service_remove(&first.job);
    weir__service_remove(&last.job);
    weir__service_remove(&remover.job);
}
END_TEST

START_TEST(job_that_is_due_does_not_run_once_a_job_removed_it)
{
    struct probe removed = { 0 }, remover = { .removes = &removed };
    probe_add(&removed);
    probe_add(&remover);
    weir__service_wake(&remover.job, 0);
    weir__service_wake(&removed.job, 0);
    await(&remover);
    run_once(&remover);
    weir__service_remove(&remover.job);
}
END_TEST

START_TEST(job_that_watches_can_be_removed_by_a_job)
{
    int ends[2];
    struct probe removed = { 0 }, remover = { .removes = &removed };
    ck_assert_int_eq(pipe(ends), 0);
    probe_add(&removed);
    weir__service_watch(&removed.job, ends[0]);
    probe_add(&remover);
    run_once(&remover);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    run_once(&remover);
    weir__service_remove(&remover.job);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(thread_ends_after_a_job_removed_all_others)
{
    struct probe removed = { 0 }, remover = { .removes = &removed }, next = { 0 };
    probe_add(&removed);
    probe_add(&remover);
    run_once(&remover);
    weir__service_remove(&remover.job);
    probe_add(&next);
    run_once(&next);
    weir__service_remove(&next.job);
}
END_TEST

static void *remove_it(void *data)
{
    weir__service_remove(data);
    return NULL;
}

/* Who removes that other job may have a lock that the run wants: here, the gate. */
START_TEST(removing_another_job_waits_for_no_run)
{
    struct probe running = { 0 }, last = { 0 };
    pthread_t remover;
    probe_add(&running);
    probe_add(&last);
    weir__service_wake(&running.job, 0);
    while (sem_wait(&running.began) != 0)
        ck_assert_int_eq(errno, EINTR);
    ck_assert_int_eq(pthread_create(&remover, NULL, remove_it, &running.job), 0);
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); /* most likely it waits for the end of the run by now */
    weir__service_remove(&last.job);
    sem_post(&running.gate);
    pthread_join(remover, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("service remove");
    TCase *removing = suite_case(suite, "removing", 0);
    suite_add(removing, job_can_be_removed_by_a_job, others_run_after_a_job_was_removed_by_a_job,
              job_that_is_due_does_not_run_once_a_job_removed_it, job_that_watches_can_be_removed_by_a_job,
              thread_ends_after_a_job_removed_all_others, removing_another_job_waits_for_no_run);
    return suite_run(suite);
}
