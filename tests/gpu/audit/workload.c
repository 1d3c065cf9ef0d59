/* SPDX-License-Identifier: MIT */
/*
 * workload.c - a program that uses CUDA and knows nothing of Weir, for `weir record --any` on a GPU: workload WAY MODE [NUMBER].
 *
 * WAY: `static` calls the runtime that is linked in, `driver` the driver alone, and a path the libcudart.so there. MODE: `counts` takes and
 * gives memory, and prints how many blocks and bytes; `waits` frees behind kernels of 20 ms, and prints how long the calls took; `costs` prints
 * nanoseconds of a pair of cudaMallocAsync, of a pair of cudaMalloc, and of a launch, each the median of several rounds.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define ROUNDS 7
#define KERNEL_NS UINT64_C(20000000)

/* A kernel that lasts as long as it is told: the driver makes it for the device that there is. */
static const char spin_text[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                                ".visible .entry spin(.param .u64 ns)\n{\n"
                                ".reg .u64 %wanted, %began, %now;\n.reg .pred %more;\n"
                                "ld.param.u64 %wanted, [ns];\nmov.u64 %began, %globaltimer;\n"
                                "again:\nmov.u64 %now, %globaltimer;\nsub.u64 %now, %now, %began;\nsetp.lt.u64 %more, %now, %wanted;\n"
                                "@%more bra again;\nret;\n}\n";

/* The calls that are made, by whichever way. All return 0 where they succeed. */
static struct {
    int (*take)(void **, size_t), (*give)(void *);
    int (*take_async)(void **, size_t, void *), (*give_async)(void *, void *);
    int (*take_host)(void **, size_t, unsigned), (*give_host)(void *);
    int (*wait)(void);
} calls;
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *spin;

static void must(int code, const char *what)
{
    if (code == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, code);
    exit(2);
}
#define MUST(call) must((int)(call), #call)

static void *symbol(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    must(!found, name);
    return found;
}

static void use(void *library, const char *const names[7])
{
    *(void **)&calls.take = symbol(library, names[0]);
    *(void **)&calls.give = symbol(library, names[1]);
    *(void **)&calls.take_async = symbol(library, names[2]);
    *(void **)&calls.give_async = symbol(library, names[3]);
    *(void **)&calls.take_host = symbol(library, names[4]);
    *(void **)&calls.give_host = symbol(library, names[5]);
    *(void **)&calls.wait = symbol(library, names[6]);
}

/* With a context: the primary one, as of the runtime. */
static void begin(const char *way)
{
    static const char *const of_driver[] = {"cuMemAlloc_v2",  "cuMemFree_v2",  "cuMemAllocAsync", "cuMemFreeAsync",
                                            "cuMemHostAlloc", "cuMemFreeHost", "cuCtxSynchronize"};
    static const char *const of_runtime[] = {"cudaMalloc",    "cudaFree",     "cudaMallocAsync",      "cudaFreeAsync",
                                             "cudaHostAlloc", "cudaFreeHost", "cudaDeviceSynchronize"};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
    MUST(((int (*)(unsigned))symbol(driver, "cuInit"))(0));
    MUST(((int (*)(void **, int))symbol(driver, "cuDevicePrimaryCtxRetain"))(&context, 0));
    MUST(((int (*)(void *))symbol(driver, "cuCtxSetCurrent"))(context));
    MUST(((int (*)(void **, const void *))symbol(driver, "cuModuleLoadData"))(&module, spin_text));
    MUST(((int (*)(void **, void *, const char *))symbol(driver, "cuModuleGetFunction"))(&spin, module, "spin"));
    *(void **)&launch = symbol(driver, "cuLaunchKernel");
    if (strcmp(way, "driver") == 0) {
        use(driver, of_driver);
    } else if (strcmp(way, "static") != 0) {
        use(dlopen(way, RTLD_NOW), of_runtime);
    } else {
        calls.take = (int (*)(void **, size_t))cudaMalloc;
        calls.give = (int (*)(void *))cudaFree;
        calls.take_async = (int (*)(void **, size_t, void *))cudaMallocAsync;
        calls.give_async = (int (*)(void *, void *))cudaFreeAsync;
        calls.take_host = (int (*)(void **, size_t, unsigned))cudaHostAlloc;
        calls.give_host = (int (*)(void *))cudaFreeHost;
        calls.wait = (int (*)(void))cudaDeviceSynchronize;
    }
}

static void run(uint64_t ns)
{
    MUST(launch(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&ns}, NULL));
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void count(unsigned number)
{
    uint64_t bytes = 0;
    void *blocks[3];
    for (unsigned i = 0; i < number; i++) {
        size_t size = MIB + i * 512;
        MUST(calls.take(&blocks[0], size));
        MUST(calls.take_async(&blocks[1], size, NULL));
        MUST(calls.take_host(&blocks[2], size, 0));
        bytes += 3 * size;
        MUST(calls.give_async(blocks[1], NULL));
        MUST(calls.give_host(blocks[2]));
        MUST(calls.give(blocks[0]));
    }
    printf("%u %u %llu\n", 3 * number, 3 * number, (unsigned long long)bytes);
}

static void wait_behind_kernels(unsigned number)
{
    uint64_t all = 0;
    void *block;
    for (unsigned i = 0; i < number; i++) {
        MUST(calls.take(&block, MIB));
        run(KERNEL_NS);
        uint64_t began = now();
        MUST(calls.give(block));
        all += now() - began;
    }
    printf("%llu\n", (unsigned long long)all);
}

static int compare(const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static uint64_t median(void (*once)(void), unsigned times)
{
    uint64_t rounds[ROUNDS];
    for (unsigned i = 0; i < ROUNDS; i++) {
        MUST(calls.wait());
        uint64_t began = now();
        for (unsigned j = 0; j < times; j++)
            once();
        rounds[i] = (now() - began) / times;
    }
    qsort(rounds, ROUNDS, sizeof *rounds, compare);
    return rounds[ROUNDS / 2];
}

static void pair_async(void)
{
    void *block;
    MUST(calls.take_async(&block, 65536, NULL));
    MUST(calls.give_async(block, NULL));
}

static void pair(void)
{
    void *block;
    MUST(calls.take(&block, MIB));
    MUST(calls.give(block));
}

static void launch_once(void)
{
    run(0);
}

int main(int argument_count, char **arguments)
{
    const char *way = argument_count > 2 ? arguments[1] : "", *mode = argument_count > 2 ? arguments[2] : "";
    const unsigned number = argument_count > 3 ? (unsigned)strtoul(arguments[3], NULL, 10) : 1;
    begin(way);
    if (strcmp(mode, "counts") == 0)
        count(number);
    else if (strcmp(mode, "waits") == 0)
        wait_behind_kernels(number);
    else if (strcmp(mode, "costs") == 0)
        printf("%llu %llu %llu\n", (unsigned long long)median(pair_async, 20000), (unsigned long long)median(pair, 500),
               (unsigned long long)median(launch_once, 500));
    else
        return 3;
    MUST(calls.wait());
    return 0;
}
