/* SPDX-License-Identifier: MIT */
/*
 * neighbours_crowd.c - eight processes on 2 GiB that take and free at random, and now and then one of them is killed. What all of them use
 * and ask for together is never above three quarters of the device, so that no request may fail.
 *
 * $WEIR_TEST_REQUESTS is how many requests there are in each test: 100,000 before a release.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "include/weir.h"
#include "tests/support/suite.h"

#define PROCESSES 8
#define THREADS_MAX 3
#define BLOCKS 6 /* of a thread at a time */
#define STEP (UINT64_C(32) << 20)
#define LARGEST 8 /* steps */
#define BOUND (UINT64_C(1536) << 20)
#define REQUESTS 3000
#define KILL_EVERY 50 /* requests */

static const char policy[] = "weir: 1\ncontrol: true\npools:\n  p: { devices: [0], on_oom: { deadline: 60s } }\n";

/* What the processes have in common. */
static struct board {
    pthread_mutex_t lock; /* of `held`; its owner may be killed */
    uint64_t held[PROCESSES]; /* by each of them, with what it asks for */
    atomic_uint ready, requests, failures;
    unsigned wanted;
    char text[1024]; /* of one failure */
} *board;

static char directory[64], machine[64];

static void nap(long microseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000 * microseconds }, NULL);
}

static void lock_board(void)
{
    if (pthread_mutex_lock(&board->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&board->lock);
}

/* Whether so much more stays within the bound; then it is held. */
static bool claim(unsigned process, uint64_t bytes)
{
    uint64_t sum = bytes;
    lock_board();
    for (unsigned i = 0; i < PROCESSES; i++)
        sum += board->held[i];
    if (sum <= BOUND)
        board->held[process] += bytes;
    pthread_mutex_unlock(&board->lock);
    return sum <= BOUND;
}

static void unclaim(unsigned process, uint64_t bytes)
{
    lock_board();
    board->held[process] -= bytes;
    pthread_mutex_unlock(&board->lock);
}

/* A process ---------------------------------------------------------------------------------------------------------------------------- */

struct block {
    void *ptr;
    uint64_t bytes;
};

struct worker {
    unsigned process, seed;
    weir *w;
    weir_stream *stream;
    unsigned count;
    struct block blocks[BLOCKS];
};

static void give_up(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static void free_one(struct worker *worker)
{
    struct block *block = &worker->blocks[(unsigned)rand_r(&worker->seed) % worker->count];
    if (weir_stream_free(worker->stream, block->ptr) != WEIR_OK || weir_stream_synchronize(worker->stream, NULL) != WEIR_OK)
        give_up("a block cannot be freed");
    unclaim(worker->process, block->bytes);
    *block = worker->blocks[--worker->count];
}

static void take_one(struct worker *worker)
{
    struct block block = { .bytes = (1 + (uint64_t)rand_r(&worker->seed) % LARGEST) * STEP };
    if (!claim(worker->process, block.bytes)) {
        if (worker->count)
            free_one(worker);
        else
            nap(100);
        return;
    }
    uint64_t begun = weir__service_now();
    if (weir_stream_malloc(worker->stream, &block.ptr, block.bytes) == WEIR_OK) {
        worker->blocks[worker->count++] = block;
    } else {
        weir_error error = WEIR_ERROR_INIT;
        weir_last_error(&error);
        unclaim(worker->process, block.bytes);
        if (atomic_fetch_add(&board->failures, 1) == 0)
            snprintf(board->text, sizeof board->text, "after %.3f s: %.900s", (double)(weir__service_now() - begun) / 1e9, error.text);
    }
    atomic_fetch_add(&board->requests, 1);
}

static void *take_and_free(void *data)
{
    struct worker *worker = data;
    if (weir_stream_create(worker->w, 0, NULL, NULL, &worker->stream) != WEIR_OK)
        give_up("a thread cannot have a stream");
    for (atomic_fetch_add(&board->ready, 1); atomic_load(&board->ready) < PROCESSES;)
        nap(1000);
    while (atomic_load(&board->requests) < board->wanted) {
        if (worker->count == BLOCKS || (worker->count && rand_r(&worker->seed) % 3 == 0))
            free_one(worker);
        else
            take_one(worker);
        if (rand_r(&worker->seed) % 4 == 0)
            nap(rand_r(&worker->seed) % 500);
    }
    while (worker->count)
        free_one(worker);
    weir_stream_close(worker->stream);
    return NULL;
}

static void work(unsigned process, unsigned threads, unsigned seed)
{
    struct worker workers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    weir *w;
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = "sim";
    if (weir_open(&options, NULL, &w) != WEIR_OK)
        give_up("a process cannot open its weir");
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .process = process, .seed = THREADS_MAX * seed + i, .w = w };
        if (pthread_create(&ids[i], NULL, take_and_free, &workers[i]) != 0)
            give_up("a process can have no more threads");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    weir_close(w);
}

/* All of them -------------------------------------------------------------------------------------------------------------------------- */

static void open_board(void)
{
    pthread_mutexattr_t attributes;
    const char *wanted = getenv("WEIR_TEST_REQUESTS");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(board, MAP_FAILED);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&board->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    board->wanted = wanted ? (unsigned)strtoul(wanted, NULL, 10) : REQUESTS;
    snprintf(directory, sizeof directory, "/tmp/weir-crowd-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(machine, sizeof machine, "memory=2GiB,name=crowd-%ld", (long)getpid());
    setenv("WEIR_CONTROL_DIR", directory, 1);
    setenv("WEIR_SIM", machine, 1);
}

static void close_board(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' '/dev/shm/weir-sim-%u-crowd-%ld'", directory, (unsigned)geteuid(), (long)getpid());
    ck_assert_int_eq(system(command), 0);
    munmap(board, sizeof *board);
}

static pid_t enter(unsigned process, unsigned threads, unsigned seed)
{
    pid_t pid = fork();
    if (pid == 0) {
        work(process, threads, seed);
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

/* What it held is free again once it is dead. */
static void kill_one(pid_t *pid, unsigned process)
{
    ck_assert_int_eq(kill(*pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(*pid, NULL, 0), *pid);
    lock_board();
    board->held[process] = 0;
    pthread_mutex_unlock(&board->lock);
}

static const struct {
    unsigned threads; /* of each process */
    bool kills;
} crowds[] = { { 1, false }, { 1, true }, { THREADS_MAX, false }, { THREADS_MAX, true } };

START_TEST(no_request_fails_that_fits)
{
    pid_t pids[PROCESSES];
    bool kills = crowds[_i].kills;
    unsigned next = KILL_EVERY, seed = 1, deaths = 0;
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = enter(i, crowds[_i].threads, seed++);
    for (unsigned done; (done = atomic_load(&board->requests)) < board->wanted; nap(1000)) {
        if (!kills || done < next)
            continue;
        unsigned process = deaths++ % PROCESSES;
        kill_one(&pids[process], process);
        pids[process] = enter(process, crowds[_i].threads, seed++);
        next = done + KILL_EVERY;
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    printf("# %u requests, %u kills, %u false refusals\n", atomic_load(&board->requests), deaths, atomic_load(&board->failures));
    ck_assert_msg(atomic_load(&board->failures) == 0, "%u of %u requests failed, one %s", atomic_load(&board->failures),
                  atomic_load(&board->requests), board->text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("neighbours_crowd");
    TCase *tcase = suite_case(suite, "crowd", 3600);
    tcase_add_checked_fixture(tcase, open_board, close_board);
    tcase_add_loop_test(tcase, no_request_fails_that_fits, 0, sizeof crowds / sizeof crowds[0]);
    return suite_run(suite);
}
