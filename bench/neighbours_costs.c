/* SPDX-License-Identifier: MIT */
/*
 * What it costs to be a neighbour: an allocation and its free that a cache serves, with `control: true` and without, in turns; wake-ups
 * while nobody asks; and how long `weir ps` takes over a crowd of processes.
 */
#include "config.h"

#include "bench/crowd.h"
#include "bench/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/service.h"

#define PAIRS 200000
#define SIZE (64 * KIB)
#define CROWD 20
#define QUIET 1000 /* ms */

extern char **environ;

static const char *const policies[2] = {
    "weir: 1\npools: { p: { devices: [0] } }\n",
    "weir: 1\ncontrol: true\npools: { p: { devices: [0] } }\n",
};

/* The fast path ------------------------------------------------------------------------------------------------------------------------ */

static double time_pairs(weir_stream *stream, size_t count)
{
    uint64_t start = bench_now();
    const char *wrong = crowd_stream_pairs(stream, SIZE, count);
    if (wrong)
        bench_die(__FILE__, __LINE__, "a cached pair", wrong);
    return (double)(bench_now() - start) / (double)count;
}

static void show_wakeups(struct bench *bench, weir_stream *stream)
{
    struct bench_series wakeups = {.name = "wake-ups"};
    time_pairs(stream, PAIRS / 10);
    /* What was begun before, the service thread may come to late. */
    uint64_t before;
    do {
        before = weir__service_wakeups();
        shared_sleep(QUIET);
    } while (weir__service_wakeups() != before);
    time_pairs(stream, PAIRS / 10);
    shared_sleep(QUIET);
    bench_add(&wakeups, (double)(weir__service_wakeups() - before));
    neighbours_show(bench, "control: true, a second in which nobody asks", &wakeups, 1, bench_median(&wakeups), "wake-ups",
                    BENCH_AT_MOST, 0);
}

void neighbours_fast_path(struct bench *bench)
{
    weir *weirs[2];
    weir_stream *streams[2];
    struct bench_series series[2] = {{.name = "control: false"}, {.name = "control: true"}};
    size_t pairs = bench->quick ? PAIRS / 10 : PAIRS;
    for (size_t i = 0; i < 2; i++) {
        weirs[i] = shared_weir_for(bench, "neighbours", policies[i]);
        BENCH_WEIR(weir_stream_create(weirs[i], 0, NULL, &error, &streams[i]));
        time_pairs(streams[i], pairs);
    }
    /* Whichever comes first in a repetition, the other does in the next. */
    for (size_t i = 0; i < 2 * bench->repetitions && i < BENCH_SAMPLES_MAX; i++)
        for (size_t j = 0; j < 2; j++)
            bench_add(&series[(i + j) % 2], time_pairs(streams[(i + j) % 2], pairs));
    /* What the same loop differs from itself is the noise. */
    double noise = bench_max(&series[0]) - bench_min(&series[0]);
    neighbours_show(bench, "control: true, a cached pair, within the noise of one without", series, 2,
                    bench_median(&series[1]) - bench_median(&series[0]), "ns more", BENCH_AT_MOST, noise);
    show_wakeups(bench, streams[1]);
    for (size_t i = 0; i < 2; i++) {
        weir_stream_close(streams[i]);
        weir_close(weirs[i]);
    }
}

/* weir ps ------------------------------------------------------------------------------------------------------------------------------ */

/* tools/weir beside the folder of this program. */
static void find_weir(char path[PATH_MAX])
{
    char folder[PATH_MAX - 32];
    ssize_t len = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    folder[len > 0 ? len : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        if (slash)
            *slash = '\0';
    }
    snprintf(path, PATH_MAX, "%s/tools/weir", folder);
    if (access(path, X_OK) != 0)
        bench_die(__FILE__, __LINE__, path, strerror(errno));
}

/* Counts the lines that come, to the end. */
static size_t count_lines(int fd)
{
    char text[4096];
    size_t lines = 0;
    for (ssize_t len; (len = read(fd, text, sizeof(text))) > 0;)
        for (ssize_t i = 0; i < len; i++)
            lines += text[i] == '\n';
    return lines;
}

static double run_ps(char *path)
{
    static char name[] = "weir", subcommand[] = "ps", patience[] = "--timeout=60";
    char *const argv[] = {name, subcommand, patience, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], pid, status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        bench_die(__FILE__, __LINE__, "pipe2", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    uint64_t start = bench_now();
    int code = posix_spawn(&pid, path, &actions, NULL, argv, environ);
    if (code != 0)
        bench_die(__FILE__, __LINE__, path, strerror(code));
    close(ends[1]);
    size_t lines = count_lines(ends[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0 || lines < CROWD)
        bench_die(__FILE__, __LINE__, path, "does not show all processes");
    double took = (double)(bench_now() - start);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    return took;
}

void neighbours_ps(struct bench *bench)
{
    struct worker crowd[CROWD];
    struct bench_series time = {.name = "weir ps"};
    char path[PATH_MAX], title[96];
    find_weir(path);
    for (size_t i = 0; i < CROWD; i++)
        worker_start(&crowd[i], WORKER_NEIGHBOUR);
    for (size_t i = 0; i < CROWD; i++)
        worker_ask(&crowd[i], &(struct worker_order){.task = NEIGHBOUR_DROP}, -1);
    run_ps(path);
    for (size_t i = 0; i < bench->repetitions; i++)
        bench_add(&time, run_ps(path));
    worker_end(crowd, CROWD);
    snprintf(title, sizeof(title), "weir ps with %d live processes", CROWD);
    neighbours_show(bench, title, &time, 1, bench_median(&time) / 1e6, "ms", BENCH_AT_MOST, 50);
}
