/* SPDX-License-Identifier: MIT */
/*
 * What a claim costs with its end, alone and beside seven others, in a directory of its own; and how soon one that waits has the room of a
 * process that is killed. Needs no GPU.
 */
#include "bench/section.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/weir_reserve.h"
#include "share/control/ledger.h"

#define OTHERS 7
#define CLAIMS 200 /* for one sample */
#define SMALL (UINT64_C(1) << 20)

static double time_claims(weir *w)
{
    uint64_t start = bench_now();
    for (size_t i = 0; i < CLAIMS; i++) {
        weir_reservation *r;
        BENCH_WEIR(weir_reserve(w, 0, SMALL, 0, &error, &r));
        weir_reservation_end(r);
    }
    return (double)(bench_now() - start) / CLAIMS;
}

/* Nanoseconds from the kill of a process that has the whole device to the claim of this one, which was waiting. */
static double time_room(weir *w, const char *uuid, uint64_t memory)
{
    uint64_t *killed = mmap(NULL, sizeof *killed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    char word;
    if (killed == MAP_FAILED || pipe(ends))
        bench_die(__FILE__, __LINE__, "claims", "no memory or pipe");
    pid_t child = fork();
    if (child == 0) {
        struct share_claims claims;
        struct share_claim all = { .bytes = memory, .mark = 1 };
        int fd;
        if (share_ledger_open(uuid, NULL, &fd) != WEIR_OK || share_ledger_claim(fd, &all, memory, memory, 0, &claims) || write(ends[1], "x", 1) != 1)
            _exit(1);
        usleep(20000); /* until the other one waits */
        *killed = bench_now();
        raise(SIGKILL);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &word, 1) != 1)
        bench_die(__FILE__, __LINE__, "claims", "the process that was to claim did not");
    weir_reservation *r;
    BENCH_WEIR(weir_reserve(w, 0, SMALL, 10000, &error, &r));
    double took = (double)(bench_now() - *killed);
    weir_reservation_end(r);
    waitpid(child, NULL, 0);
    close(ends[0]);
    munmap(killed, sizeof *killed);
    return took;
}

void section_claims(struct bench *bench)
{
    static const char policy[] = "weir: 1\npools: { p: { devices: [0] } }\n";
    weir_reservation *others[OTHERS];
    char place[] = "/tmp/weir-bench-XXXXXX", path[128];
    struct bench_figure *figure = bench_figure_new(&bench->report, "claims", "weir_reserve and weir_reservation_end, beside 7 other claims");
    struct bench_series *alone = bench_series_new(figure, "alone"), *beside = bench_series_new(figure, "beside 7");
    struct bench_figure *kill = bench_figure_new(&bench->report, "claims", "room for a claim that waits, after a kill");
    struct bench_series *room = bench_series_new(kill, "weir");
    struct gpu_device_info info;
    const char *former = getenv("WEIR_CONTROL_DIR");
    if (!mkdtemp(place) || setenv("WEIR_CONTROL_DIR", place, 1))
        bench_die(__FILE__, __LINE__, "claims", "no directory in /tmp");
    weir *w = shared_weir_for(bench, "claims", policy);
    if (bench->gpu->device_info(0, &info))
        bench_die(__FILE__, __LINE__, "claims", "device 0 does not tell of itself");
    for (size_t i = 0; i < bench->repetitions; i++) {
        bench_add(alone, time_claims(w));
        for (size_t j = 0; j < OTHERS; j++)
            BENCH_WEIR(weir_reserve(w, 0, SMALL, 0, &error, &others[j]));
        bench_add(beside, time_claims(w));
        for (size_t j = 0; j < OTHERS; j++)
            weir_reservation_end(others[j]);
        bench_add(room, time_room(w, info.uuid, info.memory));
    }
    bench_show(figure, bench_median(beside) / 1e3, "us", BENCH_AT_MOST, 100);
    bench_show(kill, bench_median(room) / 1e6, "ms", BENCH_AT_MOST, 10);
    weir_close(w);
    /* The file, control, weir, and the directory. */
    int len = snprintf(path, sizeof path, "%s/weir/control/%s.claims", place, info.uuid);
    for (unlink(path); len > (int)sizeof place; rmdir(path)) {
        *strrchr(path, '/') = '\0';
        len = (int)strlen(path);
    }
    if (former ? setenv("WEIR_CONTROL_DIR", former, 1) : unsetenv("WEIR_CONTROL_DIR"))
        bench_die(__FILE__, __LINE__, "claims", "no memory");
}
