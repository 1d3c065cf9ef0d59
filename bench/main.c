/* SPDX-License-Identifier: MIT */
/*
 * weir-bench: what Weir costs, saves and rescues on a GPU, beside the raw calls. Needs a CUDA device that nothing else uses meanwhile.
 *
 *   weir-bench [--quick] [--repetitions N] [--row-seconds N] [--rounds N] [--trace FILE] [--rmm FILE] [--only TEXT]
 *              [--json FILE] [SECTION...]
 *
 * Exit status: 0 if every figure keeps its bound, 1 if one misses it, 2 if a measurement could not be made.
 */
#include "bench/section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/rival.h"
#include "bench/worker.h"

/* In the order in which they run: the quick ones first, then the one that waits for kernels, then those that start processes, and
   last the one whose weir stays open. */
static const struct section {
    const char *name;
    void (*run)(struct bench *bench);
    const char *help;
    bool calls_cuda; /* itself; the others run on the simulator too */
} sections[] = {
    {"pairs", section_pairs, "an allocation and its free, 512 B to 1 GiB: raw, passed through, cached", true},
    {"threads", section_threads, "1 to 16 threads, on streams of their own and on one", true},
    {"live", section_live, "1,000 live blocks of mixed sizes, freed in three orders", true},
    {"handover", section_handover, "allocated on one stream, freed on another behind an event", true},
    {"multi", section_multi, "RMM's MULTI_STREAM_ALLOCATIONS: does the allocator serialise streams?", true},
    {"open", section_open, "loading a policy, opening and closing", true},
    {"handles", section_handles, "a pair by the raw handle of a stream, with 10 and with 4,000 streams open", false},
    {"claims", section_claims, "claims of memory: their cost, and room after a kill; starts a process at a time", false},
    {"loop", section_loop, "1 GiB allocated, freed and synchronised, by release threshold", true},
    {"keeper", section_keeper, "what caches and pools still hold in an idle process with a keeper", true},
    {"auto", section_auto, "release_threshold: auto: phases, steps that come again, what the keeper costs others", false},
    {"arena", section_arena, "an arena's own code, which needs no GPU: memory and time of --trace FILE, random blocks", false},
    {"random", section_random, "RMM's RANDOM_ALLOCATIONS, one recorded sequence for every allocator", true},
    {"rmm-random", section_rmm_random, "the same on pools and on arenas that begin with nothing, beside RMM's (--rmm)", false},
    {"rmm-pairs", section_rmm_pairs, "hot pairs of large blocks, with config/inference.yaml, of the same allocators", false},
    {"rmm-threads", section_rmm_threads, "1 to 16 threads with 16 MiB on streams of their own, of the same allocators", false},
    {"grow", section_grow, "a request that grows an empty pool by 1 GiB: idle, beside a kernel, with a peer", false},
    {"pages", section_pages, "what creating, mapping and unmapping pages costs, beside 0 and 120 GiB", false},
    {"full", section_full, "mixed sizes until 32 GiB are out: how much is live", false},
    {"comb", section_comb, "a large request after every second block was freed: how much is stranded", false},
    {"pinned", section_pinned, "what a trim leaves mapped between live blocks", false},
    {"sleep", section_sleep, "an arena that sleeps and wakes, beside the bare calls and a copy to page-locked memory", false},
    {"small", section_small, "small blocks that pin large memory", true},
    {"pending", section_pending, "a request behind a pending free", true},
    {"aside", section_aside, "blocks that a second stream uses and frees, the host ahead: reserved, time of the GPU", false},
    {"record", section_record, "what the recorder costs a pair at each level, and a trace an event", false},
    {"stacks", section_stacks, "a stack of 20 frames, as the recorder takes it with stacks: true", false},
    {"share", section_share, "blocks from process to process: one way, first imports, rings; starts four processes", false},
    {"neighbours", section_neighbours, "memory from process to process: a rescue, two workers, weir ps; starts 20 processes", false},
    {"torch", section_torch, "a tensor's allocation and free through libweir-torch, 1 to 16 threads", false},
};
#define SECTION_COUNT COUNT_OF(sections)
_Static_assert(SECTION_COUNT <= ARGUMENTS_SECTIONS_MAX, "struct arguments has room for every section");

static void list(FILE *file, const char *indent)
{
    for (size_t i = 0; i < SECTION_COUNT; i++)
        fprintf(file, "%s%-10s %s\n", indent, sections[i].name, sections[i].help);
}

static void usage(void)
{
    printf("usage: weir-bench [--quick] [--repetitions N] [--row-seconds N] [--rounds N] [--trace FILE]\n"
           "                  [--rmm FILE] [--only TEXT] [--json FILE] [SECTION...]\n"
           "Measures Weir beside the raw calls of CUDA on device 0. Example: weir-bench --json bench.json pairs threads\n"
           "  -q, --quick           fewer rows, shorter samples, %d repetitions\n"
           "  -r, --repetitions N   interleaved repetitions, %d to %d (%d); a row that takes long has fewer, but %d\n"
           "  -s, --row-seconds N   leave out rows of random that would take longer, as far as shorter ones tell\n"
           "  -n, --rounds N        rounds of the two workers of neighbours (%d)\n"
           "  -t, --trace FILE      a sequence of requests for arena, op,id,bytes, plain or .zst; may be given again\n"
           "  -m, --rmm FILE        RMM's resources, as bench/rmm/build.sh builds them\n"
           "  -o, --only TEXT       of rmm-random and rmm-pairs the rows alone whose names begin so: \"1000 of up to 64 MiB,\"\n"
           "  -j, --json FILE       write every sample to FILE as well\n"
           "  -l, --list            list the sections\n"
           "sections (all):\n",
           ARGUMENTS_REPETITIONS_QUICK, ARGUMENTS_REPETITIONS_MIN, BENCH_SAMPLES_MAX, ARGUMENTS_REPETITIONS, ARGUMENTS_REPETITIONS_MIN,
           ARGUMENTS_ROUNDS);
    list(stdout, "  ");
}

/* Ends the program unless there is something to measure. */
static void read_arguments(int argc, char **argv, struct arguments *arguments)
{
    const char *names[SECTION_COUNT];
    char why[256];
    for (size_t i = 0; i < SECTION_COUNT; i++)
        names[i] = sections[i].name;
    if (!arguments_read(argc, argv, names, SECTION_COUNT, arguments, why, sizeof(why))) {
        fprintf(stderr, "weir-bench: %s\n", why);
        exit(2);
    }
    if (arguments->help)
        usage();
    else if (arguments->list)
        list(stdout, "");
    else
        return;
    exit(0);
}

/* What the figures were measured on, for both outputs; static storage. */
static const char *const *describe_machine(const struct gpu *gpu)
{
    static struct gpu_device_info info;
    static char memory[32], driver[16], toolkit[16], cores[16];
    static const char *pairs[13];
    int driver_version = 0, toolkit_version = 0;
    int code = gpu->device_info(0, &info);
    if (!code)
        code = gpu->versions(&driver_version, &toolkit_version);
    if (code)
        bench_die(__FILE__, __LINE__, "device 0", gpu->code_text(code));
    snprintf(memory, sizeof(memory), "%llu MiB", (unsigned long long)(info.memory / MIB));
    snprintf(driver, sizeof(driver), "%d.%d", driver_version / 1000, driver_version % 1000 / 10);
    snprintf(toolkit, sizeof(toolkit), "%d.%d", toolkit_version / 1000, toolkit_version % 1000 / 10);
    snprintf(cores, sizeof(cores), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    const char *const filled[] = {"device", info.name, "memory", memory, "driver CUDA",  driver, "toolkit CUDA",
                                  toolkit,  "cores",   cores,    "weir", weir_version(), NULL};
    memcpy(pairs, filled, sizeof(filled));
    return pairs;
}

static FILE *open_json(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        bench_die(__FILE__, __LINE__, path, strerror(errno));
    return file;
}

static void open_device(struct bench *bench)
{
    uint64_t total_bytes;
    bench->gpu = shared_gpu();
    BENCH_GPU(bench->gpu, set_current_device(0));
    BENCH_GPU(bench->gpu, device_memory(0, &bench->memory, &total_bytes));
}

/* On the simulator, which is for trying out the measurements, only some can run. */
static void check_sections(const struct bench *bench, const struct arguments *arguments)
{
    if (bench->rmm && strcmp(bench->gpu->name, "cuda") != 0)
        bench_die(__FILE__, __LINE__, "--rmm", "RMM calls CUDA itself: unset WEIR_GPU");
    for (size_t i = 0; i < SECTION_COUNT; i++)
        if (arguments->wanted[i] && sections[i].calls_cuda && strcmp(bench->gpu->name, "cuda") != 0)
            bench_die(__FILE__, __LINE__, sections[i].name,
                      "calls CUDA itself: unset WEIR_GPU, or name sections that do not, such as grow, share and torch");
}

static void run_sections(struct bench *bench, const struct arguments *arguments)
{
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        if (!arguments->wanted[i])
            continue;
        uint64_t start = bench_now();
        sections[i].run(bench);
        printf("%-8s took %.1f s\n", sections[i].name, (double)(bench_now() - start) / 1e9);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct arguments arguments;
    /* Each section brings its own policy, and what the shell exports must not change it. */
    unsetenv("WEIR_POLICY");
    unsetenv("WEIR_CONF");
    if (argc == 2 && strcmp(argv[1], WORKER_CONSUMER) == 0)
        return consumer_main();
    if (argc == 2 && strcmp(argv[1], WORKER_NEIGHBOUR) == 0)
        return neighbour_main();
    read_arguments(argc, argv, &arguments);
    bench.repetitions = arguments.repetitions;
    bench.quick = arguments.quick;
    bench.row_seconds = arguments.row_seconds;
    bench.rounds = arguments.rounds;
    bench.only = arguments.only;
    bench.traces = arguments.traces;
    bench.trace_count = arguments.trace_count;
    uint64_t start = bench_now();
    bench.rmm = rival_load(arguments.rmm);
    open_device(&bench);
    check_sections(&bench, &arguments);
    /* A file that cannot be written is better known before minutes of measuring than after them. */
    FILE *json = arguments.json ? open_json(arguments.json) : NULL;

    const char *const *machine = describe_machine(bench.gpu);
    for (size_t i = 0; machine[i]; i += 2)
        printf("%s%s %s", i ? ", " : "", machine[i], machine[i + 1]);
    printf("; medians (least .. most of so many interleaved repetitions)\n");
    run_sections(&bench, &arguments);
    if (bench.only && !bench.report.count)
        bench_die(__FILE__, __LINE__, bench.only, "no row begins so: run the sections without --only to see their names");
    if (json) {
        bench_write_json(json, machine, &bench.report);
        if (ferror(json) | fclose(json))
            bench_die(__FILE__, __LINE__, arguments.json, "cannot be written");
    }
    size_t asked = bench_asked(&bench.report), missed = bench_missed(&bench.report);
    printf("%zu of %zu figures reached, %zu more shown, in %.1f s\n", asked - missed, asked, bench.report.count - asked,
           (double)(bench_now() - start) / 1e9);
    bench_report_clear(&bench.report);
    return missed ? 1 : 0;
}
