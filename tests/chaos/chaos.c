/* SPDX-License-Identifier: MIT */
/*
 * chaos.c - random programs at the bounds of memory, judged without mercy. CONTRIBUTING.md says how to run it.
 *
 * One program after another, each from a seed of its own and in a process of its own, which is a child of one that has done nothing else: so
 * a program is the same whatever ran before it. What is found is printed with the seed that finds it again.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/chaos/chaos.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/chaos/company.h"
#include "tests/support/suite.h"

struct chaos_figures *chaos_figures;
char chaos_plan[1024];

static struct {
    const char *mode; /* its name */
    uint64_t seed, seconds, programs;
    bool sharing, plain;
} options = { .mode = "virtual", .seconds = 10 };

static uint64_t running; /* the seed of the program that runs in this process */

void chaos_find(const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("# found: mode %s%s, seed %llu: %s\n# its program: %s\n", options.mode, options.plain ? ", plain" : "", (unsigned long long)running, text, chaos_plan);
    fflush(stdout);
    atomic_fetch_add(&chaos_figures->findings, 1);
    _exit(1);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_program(uint64_t seed)
{
    if (strcmp(options.mode, "virtual") == 0)
        chaos_memory(seed, true, options.plain);
    else if (!options.sharing)
        chaos_memory(seed, false, options.plain);
    else if (seed % 2)
        chaos_rings(seed);
    else
        chaos_neighbours(seed);
}

/* Whether nothing was found. */
static bool run_child(uint64_t seed)
{
    int status;
    running = seed;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_program(seed);
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    atomic_fetch_add(&chaos_figures->programs, 1);
    company_forget(child);
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 1)
        printf("# found: mode %s, seed %llu: expected the program to end, seen %s %d\n", options.mode, (unsigned long long)seed,
               WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

static unsigned long long figure(atomic_uint_fast64_t *of)
{
    return atomic_load(of);
}

static void tell(void)
{
    struct chaos_figures *f = chaos_figures;
    printf("# %s: %llu programs, %llu requests, refused rightly %llu, not judged %llu, recoveries %llu, rescued by", options.mode,
           figure(&f->programs), figure(&f->requests), figure(&f->right), figure(&f->doubtful), figure(&f->recoveries));
    for (int rung = 0; rung < WEIR_RUNG_COUNT; rung++)
        printf(" %s %llu", weir_rung_name((weir_rung)rung), figure(&f->rescues[rung]));
    printf(", faults %llu, reloads %llu, frames %llu, lost by late readers %llu, stops %llu, kills %llu, steps %llu, trace %016llx\n", figure(&f->faults),
           figure(&f->reloads), figure(&f->frames), figure(&f->late_frames), figure(&f->stops), figure(&f->kills), figure(&f->steps), figure(&f->trace));
}

/* Programs with seed, seed + 1, ... until the time or their number is up. Whether nothing was found. */
static bool run_programs(void)
{
    double end = seconds_now() + (double)options.seconds;
    bool good = true;
    printf("# seed %llu, mode %s%s%s\n", (unsigned long long)options.seed, options.mode, options.sharing ? ", sharing" : "", options.plain ? ", plain" : "");
    for (uint64_t i = 0; good && (options.programs ? i < options.programs : seconds_now() < end); i++)
        good = run_child(options.seed + i);
    tell();
    return good;
}

/* As a test ------------------------------------------------------------------------------------------------------------------------------ */

static void forget_figures(void)
{
    memset((void *)chaos_figures, 0, sizeof *chaos_figures);
}

static void say(int number, bool good, const char *fact)
{
    printf("%sok %d - %s\n", good ? "" : "not ", number, fact);
}

/* Programs on the virtual clock that once found something. */
static const uint64_t found_plain[] = { 717, 925, 1103, 10353, 20078, 500162, 20000234, 30000228, 30000934, 30001195, 70000591, 140003170, 210001262, 280000194, 130, 1882591589302822 };

/* With what came later. The last two find something where Weir leaves with the pool what a refused attempt took, and where it does not look at
   frees on the legacy stream. */
static const uint64_t found[] = { 3036, 7000104, 120000001, 7000076, 7000134 };

static bool run_each(const uint64_t *seeds, size_t count, bool is_plain)
{
    bool good = true;
    options.programs = 1;
    options.plain = is_plain;
    for (size_t i = 0; i < count && good; i += suite_lone_stride()) {
        options.seed = seeds[i];
        good = run_programs();
    }
    options.plain = false;
    return good;
}

static bool run_found_ones(void)
{
    return run_each(found_plain, sizeof found_plain / sizeof found_plain[0], true) && run_each(found, sizeof found / sizeof found[0], false);
}

static int run_as_test(void)
{
    printf("1..4\n");
    options.seed = 1;
    options.programs = (getenv("WEIR_TEST_NIGHTLY") ? 40 : 20) / suite_lone_stride();
    bool good = run_programs();
    uint64_t trace = atomic_load(&chaos_figures->trace);
    say(1, good, "random programs on the virtual clock find nothing");
    forget_figures();
    good = run_programs();
    say(2, good && atomic_load(&chaos_figures->trace) == trace, "the same seeds are the same schedules");
    forget_figures();
    say(3, run_found_ones(), "programs that once found something find nothing");
    forget_figures();
    options.mode = "real";
    options.seed = 1;
    options.programs = 5;
    say(4, run_programs(), "random programs of real threads find nothing");
    return 0;
}

/* Options --------------------------------------------------------------------------------------------------------------------------------- */

static const char help[] = "Usage: chaos [--mode virtual|real] [--seed N] [--seconds N | --programs N] [--sharing | --plain]\n"
                           "Runs random programs with the seeds N, N + 1, ... and judges them. Without options: as a test, in TAP.\n"
                           "  --mode virtual   one thread at a time, on the virtual clock: a seed repeats exactly\n"
                           "  --mode real      threads as they come\n"
                           "  --sharing        with --mode real: processes that are neighbours or share rings, stopped and killed\n"
                           "  --plain          without a second weir, exceptions, requests in vain, and frees on streams that nobody opened\n"
                           "Example: chaos --mode virtual --seed 7 --programs 1\n";

static bool parse(int argc, char **argv)
{
    static const struct option longs[] = { { "mode", required_argument, NULL, 'm' },    { "seed", required_argument, NULL, 's' },
                                           { "seconds", required_argument, NULL, 't' }, { "programs", required_argument, NULL, 'n' },
                                           { "sharing", no_argument, NULL, 'x' },       { "plain", no_argument, NULL, 'p' },
                                           { "help", no_argument, NULL, 'h' },
                                           { 0 } };
    options.seed = (uint64_t)time(NULL) << 20;
    for (int option; (option = getopt_long(argc, argv, "", longs, NULL)) >= 0;)
        switch (option) {
        case 'm':
            options.mode = optarg;
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            options.programs = strtoull(optarg, NULL, 10);
            break;
        case 'x':
            options.sharing = true;
            break;
        case 'p':
            options.plain = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            return false;
        }
    return strcmp(options.mode, "virtual") == 0 || strcmp(options.mode, "real") == 0;
}

/*
 * The same addresses in every run: locks and tables are found by them, and where the heap begins to be used depends on what is in the
 * environment. Where that is not allowed a seed repeats within one run only.
 */
static void fix_addresses(char **argv)
{
    static char mark[] = "WEIR_CHAOS=1", control[] = "WEIR_CONTROL_DIR=/nonexistent";
    static const char *const kept[] = { "LD_LIBRARY_PATH=", "TSAN_OPTIONS=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "WEIR_TEST_NIGHTLY=" };
    char *environment[sizeof kept / sizeof *kept + 3] = { mark, control };
    size_t count = 2;
    int now = personality(0xffffffff);
    if (getenv("WEIR_CHAOS") || now < 0 || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
        return;
    for (char **variable = environ; *variable; variable++)
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (strncmp(*variable, kept[i], strlen(kept[i])) == 0)
                environment[count++] = *variable;
    execve("/proc/self/exe", argv, environment);
}

int main(int argc, char **argv)
{
    fix_addresses(argv);
    setenv("WEIR_CONTROL_DIR", "/nonexistent", 1);
    chaos_figures = mmap(NULL, sizeof *chaos_figures, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (chaos_figures == MAP_FAILED)
        return 2;
    if (argc == 1)
        return run_as_test();
    if (!parse(argc, argv)) {
        fputs(help, stderr);
        return 2;
    }
    return run_programs() ? 0 : 1;
}
