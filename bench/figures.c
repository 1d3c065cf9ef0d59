/* SPDX-License-Identifier: MIT */
/*
 * weir-figures: what Weir costs and rescues on a GPU, beside the raw calls. Needs a CUDA device that nothing else uses meanwhile.
 *
 *   weir-figures [--repetitions N] [--json FILE] [SECTION...]
 *
 * Exit status: 0 if every figure keeps its bound, 1 if one misses it, 2 if a measurement could not be made.
 */
#include "bench/figures.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the order in which they run: the quick ones first, and last the one that waits for kernels. */
static const struct section {
    const char *name;
    void (*run)(struct figures *figures);
    const char *help;
} sections[] = {
    { "pairs", figures_pairs, "an allocation and its free, 512 B to 1 GiB" },
    { "open", figures_open, "loading a policy, opening and closing" },
    { "loop", figures_loop, "1 GiB allocated, freed and synchronised, by release threshold" },
    { "small", figures_small, "small blocks that pin large memory" },
    { "pending", figures_pending, "a request behind a pending free" },
};
#define SECTION_COUNT (sizeof(sections) / sizeof(sections[0]))

/* Shared ------------------------------------------------------------------------------------------------------------------------------- */

weir *figures_weir(const char *policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = "cuda";
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    if (weir_open(&options, &error, &w) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "weir_open", error.text);
    return w;
}

cudaMemPool_t figures_raw_pool(uint64_t release_threshold)
{
    struct cudaMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = cudaMemAllocationTypePinned;
    props.handleTypes = cudaMemHandleTypeNone;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = 0;
    cudaMemPool_t pool;
    BENCH_CUDA(cudaMemPoolCreate(&pool, &props));
    BENCH_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &release_threshold));
    return pool;
}

cudaStream_t figures_stream(void)
{
    cudaStream_t stream;
    BENCH_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

weir_stream *figures_open_stream(weir *w, cudaStream_t stream)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *s;
    if (weir_stream_open(w, 0, stream, NULL, &error, &s) != WEIR_OK)
        bench_die(__FILE__, __LINE__, "weir_stream_open", error.text);
    return s;
}

void figures_check(weir_status status, const char *what)
{
    if (status == WEIR_OK)
        return;
    weir_error error = WEIR_ERROR_INIT;
    weir_last_error(&error);
    bench_die(__FILE__, __LINE__, what, error.status == status ? error.text : weir_status_text(status));
}

/* The program -------------------------------------------------------------------------------------------------------------------------- */

static void usage(FILE *file)
{
    fputs("usage: weir-figures [--repetitions N] [--json FILE] [SECTION...]\n"
          "Measures Weir beside the raw calls of CUDA on device 0. Example: weir-figures --json figures.json pairs loop\n"
          "  -r, --repetitions N   interleaved repetitions, 7 to 64 (9)\n"
          "  -j, --json FILE       write every sample to FILE as well\n"
          "sections (all):\n",
          file);
    for (size_t i = 0; i < SECTION_COUNT; i++)
        fprintf(file, "  %-8s %s\n", sections[i].name, sections[i].help);
}

static const struct section *find_section(const char *name)
{
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        if (strcmp(sections[i].name, name) == 0)
            return &sections[i];
    }
    fprintf(stderr, "weir-figures: there is no section '%s'; weir-figures --help lists them\n", name);
    exit(2);
}

struct arguments {
    size_t repetitions;
    const char *json;
    bool wanted[SECTION_COUNT];
};

static void read_arguments(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        { "repetitions", required_argument, NULL, 'r' },
        { "json", required_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    memset(arguments, 0, sizeof(*arguments));
    arguments->repetitions = 9;
    for (int option; (option = getopt_long(argc, argv, "r:j:h", options, NULL)) != -1;) {
        char *end;
        switch (option) {
        case 'r':
            arguments->repetitions = strtoul(optarg, &end, 10);
            if (*end || arguments->repetitions < 7 || arguments->repetitions > BENCH_SAMPLES_MAX) {
                fprintf(stderr, "weir-figures: --repetitions %s: write a number from 7 to %d\n", optarg, BENCH_SAMPLES_MAX);
                exit(2);
            }
            break;
        case 'j':
            arguments->json = optarg;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    for (int i = optind; i < argc; i++)
        arguments->wanted[find_section(argv[i]) - sections] = true;
    for (size_t i = 0; optind == argc && i < SECTION_COUNT; i++)
        arguments->wanted[i] = true;
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
    const char *const filled[] = { "device", info.name, "memory", memory, "driver CUDA", driver, "toolkit CUDA", toolkit, "cores", cores,
                                   "weir", weir_version(), NULL };
    memcpy(pairs, filled, sizeof(filled));
    return pairs;
}

static void write_json(const char *path, const char *const *machine, const struct bench_report *report)
{
    FILE *file = fopen(path, "w");
    if (!file)
        bench_die(__FILE__, __LINE__, path, strerror(errno));
    bench_write_json(file, machine, report);
    if (ferror(file) | fclose(file))
        bench_die(__FILE__, __LINE__, path, "cannot be written");
}

int main(int argc, char **argv)
{
    static struct figures figures;
    struct arguments arguments;
    read_arguments(argc, argv, &arguments);
    /* Each section brings its own policy, and what the shell exports must not change it. */
    unsetenv("WEIR_POLICY");
    unsetenv("WEIR_CONF");
    const char *why = NULL;
    figures.gpu = gpu_find("cuda", &why);
    if (!figures.gpu)
        bench_die(__FILE__, __LINE__, "no CUDA", why ? why : "not in this build");
    figures.repetitions = arguments.repetitions;
    BENCH_CUDA(cudaSetDevice(0));
    size_t free_bytes, total_bytes;
    BENCH_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    figures.memory = free_bytes;

    const char *const *machine = describe_machine(figures.gpu);
    for (size_t i = 0; machine[i]; i += 2)
        printf("%s%s %s", i ? ", " : "", machine[i], machine[i + 1]);
    printf("; medians of %zu (least .. most)\n", figures.repetitions);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        if (arguments.wanted[i])
            sections[i].run(&figures);
    }
    if (arguments.json)
        write_json(arguments.json, machine, &figures.report);
    size_t missed = 0;
    for (size_t i = 0; i < figures.report.count; i++)
        missed += !bench_reached(&figures.report.figures[i]);
    printf("%zu of %zu figures reached\n", figures.report.count - missed, figures.report.count);
    return missed ? 1 : 0;
}
