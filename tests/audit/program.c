/* SPDX-License-Identifier: MIT */
/*
 * program.c - a program that uses CUDA's driver and knows nothing of Weir: program SHAPE SCENARIO [NUMBER].
 *
 * SHAPE is how it comes to the driver's functions: `lookup` as CUDA's runtime does (cuGetProcAddress looked up through itself), `old` the same
 * as of CUDA 11.3, `own` the same with per-thread default streams, `names` by dlsym(). Built with LINKED it calls them by name, and has no
 * other shape. Some scenarios print what they did themselves.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/audit/standin.h"

#define MIB (UINT64_C(1) << 20)
#define OWN_STREAM ((void *)2)

/* Name, what its exported name ends in, the version of CUDA asked for, whether there is one for per-thread default streams, parameters. */
#define FUNCTIONS(X)                                                                                                                       \
    X(cuInit, , 2000, , (unsigned flags))                                                                                                  \
    X(cuMemAlloc, _v2, 12000, , (uint64_t * address, size_t size))                                                                         \
    X(cuMemAllocPitch, _v2, 12000, , (uint64_t * address, size_t *pitch, size_t width, size_t height, unsigned element))                   \
    X(cuMemAllocManaged, , 12000, , (uint64_t * address, size_t size, unsigned flags))                                                     \
    X(cuMemAllocHost, _v2, 12000, , (uint64_t * address, size_t size))                                                                     \
    X(cuMemHostAlloc, , 12000, , (uint64_t * address, size_t size, unsigned flags))                                                        \
    X(cuMemFree, _v2, 12000, , (uint64_t address))                                                                                         \
    X(cuMemFreeHost, , 12000, , (uint64_t address))                                                                                        \
    X(cuMemAllocAsync, , 11020, _ptsz, (uint64_t * address, size_t size, void *stream))                                                    \
    X(cuMemAllocFromPoolAsync, , 11020, _ptsz, (uint64_t * address, size_t size, void *pool, void *stream))                                \
    X(cuMemFreeAsync, , 12000, _ptsz, (uint64_t address, void *stream))                                                                    \
    X(cuMemPoolCreate, , 12000, , (void **pool, const uint64_t *props))                                                                    \
    X(cuMemPoolDestroy, , 12000, , (void *pool))                                                                                           \
    X(cuMemPoolSetAttribute, , 12000, , (void *pool, int attribute, void *value))                                                          \
    X(cuMemPoolTrimTo, , 12000, , (void *pool, size_t kept))                                                                               \
    X(cuMemPoolExportToShareableHandle, , 12000, , (void *handle, void *pool, int type, uint64_t flags))                                   \
    X(cuMemPoolImportFromShareableHandle, , 12000, , (void **pool, void *handle, int type, uint64_t flags))                                \
    X(cuDeviceSetMemPool, , 12000, , (int device, void *pool))                                                                             \
    X(cuMemSetMemPool, , 13000, , (const int *location, int type, void *pool))                                                             \
    X(cuMemCreate, , 12000, , (uint64_t * handle, size_t size, const void *props, uint64_t flags))                                         \
    X(cuMemRelease, , 12000, , (uint64_t handle))                                                                                          \
    X(cuMemRetainAllocationHandle, , 12000, , (uint64_t * handle, uint64_t address))                                                       \
    X(cuMemMap, , 12000, , (uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags))                                \
    X(cuMemUnmap, , 12000, , (uint64_t address, size_t size))                                                                              \
    X(cuMemAddressReserve, , 12000, , (uint64_t * address, size_t size, size_t alignment, uint64_t wanted, uint64_t flags))                \
    X(cuStreamCreate, , 12000, , (void **stream, unsigned flags))                                                                          \
    X(cuStreamCreateWithPriority, , 12000, , (void **stream, unsigned flags, int priority))                                                \
    X(cuGreenCtxStreamCreate, , 12050, , (void **stream, void *context, unsigned flags, int priority))                                     \
    X(cuStreamDestroy, _v2, 12000, , (void *stream))                                                                                       \
    X(cuStreamSynchronize, , 12000, _ptsz, (void *stream))                                                                                 \
    X(cuEventSynchronize, , 12000, , (void *event))                                                                                        \
    X(cuCtxSynchronize, , 12000, , (void))                                                                                                 \
    X(cuStreamBeginCapture, _v2, 12000, _ptsz, (void *stream, int mode))                                                                   \
    X(cuStreamBeginCaptureToGraph, , 12030, _ptsz, (void *stream, void *graph, const void *nodes, const void *edges, size_t count, int mode)) \
    X(cuStreamEndCapture, , 12000, _ptsz, (void *stream, void **graph))                                                                    \
    X(cuCtxCreate, _v4, 12050, , (void **context, void *asked, unsigned flags, int device))                                                \
    X(cuCtxDestroy, _v2, 12000, , (void *context))                                                                                         \
    X(cuDevicePrimaryCtxRetain, , 12000, , (void **context, int device))                                                                   \
    X(cuDevicePrimaryCtxRelease, _v2, 12000, , (int device))                                                                               \
    X(cuDevicePrimaryCtxReset, _v2, 12000, , (int device))                                                                                 \
    X(cuDeviceGetDefaultMemPool, , 11020, , (void **pool, int device))

#define EXPORTED_2(name, end, own) name##end##own
#define EXPORTED(name, end, own) EXPORTED_2(name, end, own)

static standin_fail_fn *fail;
static standin_run_fn *run;
static standin_waited_fn *waited;
static standin_calls_fn *calls;

#ifdef LINKED
#define X(name, end, version, own, parameters) int EXPORTED(name, end, ) parameters;
FUNCTIONS(X)
#undef X
extern standin_fail_fn standin_fail;
extern standin_run_fn standin_run;
extern standin_waited_fn standin_waited;
extern standin_calls_fn standin_calls;
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocPitch cuMemAllocPitch_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemFree cuMemFree_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuCtxCreate cuCtxCreate_v4
#define cuCtxDestroy cuCtxDestroy_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2

static void *come(const char *shape)
{
    (void)shape;
    fail = standin_fail;
    run = standin_run;
    waited = standin_waited;
    calls = standin_calls;
    return NULL;
}
#else
#define X(name, end, version, own, parameters) static int(*name) parameters;
FUNCTIONS(X)
#undef X
typedef int get_fn(const char *name, void **found, int version, uint64_t flags);
typedef int get_v2_fn(const char *name, void **found, int version, uint64_t flags, int *status);

static void *look_up(const char *name, const char *exported, int version, const char *shape, get_fn *get, get_v2_fn *get_v2, void *driver)
{
    void *found = NULL;
    if (strcmp(shape, "names") == 0)
        return dlsym(driver, exported);
    if (get)
        get(name, &found, version, 0);
    else
        get_v2(name, &found, version, strcmp(shape, "own") == 0 ? 2 : 0, NULL);
    return found ? found : dlsym(driver, exported);
}

static void *come(const char *shape)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *again = NULL;
    get_fn *get = NULL;
    get_v2_fn *get_v2 = NULL;
    if (!driver)
        exit(9);
    if (strcmp(shape, "old") == 0) {
        *(void **)&get = dlsym(driver, "cuGetProcAddress");
        get("cuGetProcAddress", &again, 11030, 0);
        *(void **)&get = again;
    } else {
        *(void **)&get_v2 = dlsym(driver, "cuGetProcAddress_v2");
        get_v2("cuGetProcAddress", &again, 12000, 0, NULL);
        *(void **)&get_v2 = again;
    }
#define TEXT_2(name) #name
#define TEXT(name) TEXT_2(name)
#define X(name, end, version, own, parameters)                                                                                             \
    *(void **)&name = look_up(#name, TEXT(EXPORTED(name, end, )), version, shape, get, get_v2, driver);
    FUNCTIONS(X)
#undef X
    *(void **)&fail = dlsym(driver, "standin_fail");
    *(void **)&run = dlsym(driver, "standin_run");
    *(void **)&waited = dlsym(driver, "standin_waited");
    *(void **)&calls = dlsym(driver, "standin_calls");
    return driver;
}
#endif

static void must(int code, int line)
{
    if (code == 0)
        return;
    printf("line %d: code %d\n", line, code);
    exit(8);
}
#define MUST(call) must(call, __LINE__)

static void retain(void)
{
    void *context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
}

/* Each function once or more, in an order that the test knows. */
static int all(void)
{
    uint64_t address[8], handle, again, threshold = 4096, pool_props[12] = {1, (UINT64_C(0) << 32) | 1, 0, 64 * MIB};
    const int at_device[12] = {1, 0, 1, 0};
    size_t pitch;
    void *stream, *other, *pool, *imported, *graph, *context;
    retain();
    MUST(cuMemAlloc(&address[0], 3 * MIB));
    MUST(cuMemAllocPitch(&address[1], &pitch, 1000, 10, 4));
    MUST(cuMemAllocManaged(&address[2], 5 * MIB, 1));
    MUST(cuMemAllocHost(&address[3], 6 * MIB));
    MUST(cuMemHostAlloc(&address[4], 7 * MIB, 0));
    MUST(cuStreamCreate(&stream, 0));
    MUST(cuStreamCreateWithPriority(&other, 0, -1));
    MUST(cuMemAllocAsync(&address[5], MIB, stream));
    MUST(cuMemFreeAsync(address[5], other));
    MUST(cuMemAllocAsync(&address[5], 2 * MIB, NULL));
    MUST(cuMemFreeAsync(address[5], NULL));
    pool_props[1] = (uint64_t)1; /* location: type 1, id 0 */
    MUST(cuMemPoolCreate(&pool, pool_props));
    MUST(cuMemPoolSetAttribute(pool, 4, &threshold));
    MUST(cuMemAllocFromPoolAsync(&address[6], 9 * MIB, pool, stream));
    MUST(cuMemFreeAsync(address[6], stream));
    MUST(cuDeviceSetMemPool(0, pool));
    MUST(cuMemAllocAsync(&address[6], 10 * MIB, stream));
    MUST(cuMemFreeAsync(address[6], stream));
#ifndef LINKED
    if (cuMemSetMemPool)
#endif
        MUST(cuMemSetMemPool(at_device, 1, pool));
    MUST(cuMemPoolTrimTo(pool, 0));
    MUST(cuMemPoolExportToShareableHandle(&(int){0}, pool, 1, 0));
    MUST(cuMemPoolImportFromShareableHandle(&imported, NULL, 1, 0));
    MUST(cuMemCreate(&handle, 4 * MIB, at_device, 0));
    MUST(cuMemAddressReserve(&address[7], 64 * MIB, 0, 0, 0));
    MUST(cuMemMap(address[7], 4 * MIB, 0, handle, 0));
    MUST(cuMemRetainAllocationHandle(&again, address[7]));
    MUST(cuMemRelease(again));
    MUST(cuMemRelease(handle));
    MUST(cuMemUnmap(address[7], 4 * MIB));
    MUST(cuStreamBeginCapture(stream, 2));
    MUST(cuMemAllocAsync(&address[6], 11 * MIB, stream));
    MUST(cuMemFreeAsync(address[6], stream));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, 2));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuStreamSynchronize(stream));
    MUST(cuStreamSynchronize(NULL));
    MUST(cuEventSynchronize(NULL));
    MUST(cuCtxSynchronize());
    MUST(cuMemFreeHost(address[4]));
    MUST(cuMemFreeHost(address[3]));
    MUST(cuMemFree(address[2]));
    MUST(cuMemFree(address[1]));
    MUST(cuMemFree(address[0]));
    MUST(cuMemPoolDestroy(pool));
    MUST(cuStreamDestroy(other));
    MUST(cuStreamDestroy(stream));
    MUST(cuGreenCtxStreamCreate(&stream, NULL, 0, 0));
    MUST(cuStreamDestroy(stream));
    MUST(cuCtxCreate(&context, NULL, 0, 0));
    MUST(cuMemAlloc(&address[0], 12 * MIB));
    MUST(cuCtxDestroy(context));
    retain();
    MUST(cuMemAlloc(&address[0], 13 * MIB));
    MUST(cuDevicePrimaryCtxRelease(0));
    MUST(cuDevicePrimaryCtxReset(0));
    return 0;
}

/* Calls that fail change nothing: in the end 3 MiB are live. */
static int failing(void)
{
    uint64_t address, other, handle;
    void *stream, *pool;
    retain();
    MUST(cuMemAlloc(&address, 3 * MIB));
    MUST(cuMemAllocAsync(&other, MIB, NULL));
    MUST(cuMemCreate(&handle, 4 * MIB, (const int[12]){1, 0, 1, 0}, 0));
    MUST(cuStreamCreate(&stream, 0));
    fail(1), cuMemFree(address);
    fail(700), cuMemFreeAsync(other, NULL);
    fail(1), cuMemRelease(handle);
    fail(1), cuStreamDestroy(stream);
    fail(2), cuMemAlloc(&(uint64_t){0}, 5 * MIB);
    fail(2), cuMemAllocAsync(&(uint64_t){0}, 6 * MIB, stream);
    fail(2), cuMemCreate(&(uint64_t){0}, 7 * MIB, (const int[12]){1, 0, 1, 0}, 0);
    fail(2), cuMemHostAlloc(&(uint64_t){0}, 8 * MIB, 0);
    fail(801), cuMemAllocManaged(&(uint64_t){0}, 9 * MIB, 1);
    fail(801), cuMemPoolCreate(&pool, (const uint64_t[12]){0});
    fail(801), cuStreamCreate(&(void *){0}, 0);
    cuMemFree(UINT64_C(0x1234500));
    cuMemFree(0);
    cuMemUnmap(UINT64_C(0x1234500), MIB);
    MUST(cuMemFreeAsync(other, NULL));
    MUST(cuMemRelease(handle));
    return 0;
}

/* Threads ------------------------------------------------------------------------------------------------------------------------------- */

struct work {
    unsigned number, rounds;
    uint64_t mallocs, frees, bytes;
};

static void *work(void *data)
{
    struct work *work = data;
    uint64_t addresses[16] = {0}, random = work->number * 7919 + 1;
    void *context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    for (unsigned i = 0; i < work->rounds; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        uint64_t *address = &addresses[random >> 60], size = (random >> 40 & 0xffff) + 1;
        if (*address) {
            MUST(random & 0x10000 ? cuMemFree(*address) : cuMemFreeAsync(*address, NULL) ? cuMemFree(*address) : 0);
            *address = 0;
            work->frees++;
        } else {
            MUST(random & 0x20000 ? cuMemAlloc(address, size) : cuMemAllocAsync(address, size, NULL));
            work->mallocs++;
            work->bytes += size;
        }
    }
    return NULL;
}

static int threads(unsigned count, unsigned rounds, int at_once)
{
    struct work *all_work = calloc(count, sizeof *all_work);
    pthread_t *ids = calloc(count, sizeof *ids);
    uint64_t mallocs = 0, frees = 0, bytes = 0;
    retain();
    for (unsigned i = 0; i < count; i++) {
        all_work[i] = (struct work){.number = i, .rounds = rounds};
        MUST(pthread_create(&ids[i], NULL, work, &all_work[i]));
        if (!at_once)
            MUST(pthread_join(ids[i], NULL));
    }
    for (unsigned i = 0; i < count; i++) {
        if (at_once)
            MUST(pthread_join(ids[i], NULL));
        mallocs += all_work[i].mallocs;
        frees += all_work[i].frees;
        bytes += all_work[i].bytes;
    }
    printf("%llu %llu %llu %llu\n", (unsigned long long)mallocs, (unsigned long long)frees, (unsigned long long)bytes,
           (unsigned long long)calls());
    free(all_work);
    free(ids);
    return 0;
}

/* Values of the program's own keys stay what they are, and their destructors run, whatever threads do beside. */
static pthread_key_t keys[8];
static unsigned destroyed;

static void count_end(void *value)
{
    destroyed += value == &destroyed;
}

static void *keep_keys(void *unused)
{
    uint64_t address;
    for (unsigned i = 0; i < 8; i++)
        pthread_setspecific(keys[i], &destroyed);
    retain();
    MUST(cuMemAlloc(&address, MIB));
    for (unsigned i = 0; i < 8; i++)
        if (pthread_getspecific(keys[i]) != &destroyed)
            exit(7);
    return unused;
}

static int own_keys(void)
{
    pthread_t thread;
    for (unsigned i = 0; i < 8; i++)
        pthread_key_create(&keys[i], count_end);
    keep_keys(NULL);
    pthread_create(&thread, NULL, keep_keys, NULL);
    pthread_join(thread, NULL);
    return destroyed == 8 ? 0 : 7;
}

static void *use(void *unused)
{
    uint64_t address;
    retain();
    MUST(cuMemAlloc(&address, 2 * MIB));
    MUST(cuMemFree(address));
    return unused;
}

/* A thread with the smallest stack is the first that uses memory. */
static int small(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384) != 0)
        MUST(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
    MUST(pthread_create(&thread, &attributes, use, NULL));
    MUST(pthread_join(thread, NULL));
    return 0;
}

#ifndef LINKED
static _Atomic int beginner;
static pthread_t begins;

static void *begin(void *unused)
{
    beginner = (int)syscall(SYS_gettid);
    return use(unused);
}

/* For the constructor of a library (room.c): another thread begins to use memory, and gets as far as it can while the loader is busy. */
__attribute__((visibility("default"))) void while_loading(void);
void while_loading(void)
{
    char name[64], line[256] = "";
    uint64_t address;
    if (!cuMemAlloc)
        return;
    MUST(pthread_create(&begins, NULL, begin, NULL));
    while (!beginner)
        sched_yield();
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", beginner);
    for (FILE *file = fopen(name, "r"); file; file = strstr(line, ") S") ? NULL : fopen(name, "r")) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    retain();
    MUST(cuMemAlloc(&address, 3 * MIB));
}

static int constructs(const char *library)
{
    if (!dlopen(library, RTLD_NOW))
        return 7;
    MUST(pthread_join(begins, NULL));
    return 0;
}
#endif

/* Processes ------------------------------------------------------------------------------------------------------------------------------ */

static int forks(void)
{
    uint64_t address, other;
    int how;
    retain();
    MUST(cuMemAlloc(&address, MIB));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* On a real device these fail; here they come, and must not reach the parent's trace. */
        cuMemAlloc(&other, 64 * MIB);
        cuMemFree(address);
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library)
            dlclose(library);
        exit(5);
    }
    waitpid(child, &how, 0);
    MUST(cuMemAlloc(&other, 2 * MIB));
    return WIFEXITED(how) && WEXITSTATUS(how) == 5 ? 0 : 7;
}

/* The child, and not the parent, is the first to use the driver. */
static int forks_first(const char *shape)
{
    int how;
    uint64_t address;
    pid_t child = fork();
    if (child == 0) {
        come(shape);
        retain();
        MUST(cuMemAlloc(&address, 5 * MIB));
        exit(0);
    }
    waitpid(child, &how, 0);
    return how ? 7 : 0;
}

static int starts_others(void)
{
    uint64_t address;
    int how;
    retain();
    MUST(cuMemAlloc(&address, MIB));
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(6);
    }
    waitpid(child, &how, 0);
    MUST(cuMemFree(address));
    return how ? 7 : 0;
}

static int executes(char *const *arguments)
{
    uint64_t address;
    retain();
    MUST(cuMemAlloc(&address, 3 * MIB));
    execv(arguments[0], (char *const[]){arguments[0], arguments[1], (char *)"one", NULL});
    return 6;
}

static int one(void)
{
    uint64_t address;
    retain();
    MUST(cuMemAlloc(&address, 2 * MIB));
    return 0;
}

/* Frees ---------------------------------------------------------------------------------------------------------------------------------- */

static int waits(unsigned count)
{
    uint64_t address, host;
    retain();
    for (unsigned i = 0; i < count; i++) {
        MUST(cuMemAlloc(&address, MIB));
        run(100);
        MUST(cuMemFree(address));
        MUST(cuMemAllocAsync(&address, MIB, NULL));
        run(100);
        MUST(cuMemFreeAsync(address, NULL));
        MUST(cuMemHostAlloc(&host, MIB, 0));
        run(100);
        MUST(cuMemFreeHost(host));
    }
    printf("%llu\n", (unsigned long long)waited());
    return 0;
}

/* Until the memory is gone. */
static int exhausts(void)
{
    uint64_t address;
    retain();
    while (cuMemAlloc(&address, 100 * MIB) == 0)
        ;
    return 0;
}

/* Waits to be killed, with two blocks. */
static int lasts(void)
{
    uint64_t address;
    retain();
    MUST(cuMemAlloc(&address, 3 * MIB));
    MUST(cuMemAlloc(&address, 4 * MIB));
    puts("ready");
    fflush(stdout);
    while (pause())
        ;
    return 0;
}

/* Many short calls, for what they cost. */
static int pairs(unsigned count)
{
    uint64_t address;
    retain();
    for (unsigned i = 0; i < count; i++) {
        MUST(cuMemAllocAsync(&address, 4096, NULL));
        MUST(cuMemFreeAsync(address, NULL));
    }
    return 0;
}

/* Uses memory, loads the library of that name, and uses memory again. */
static int joins(const char *library)
{
    one();
    if (!dlopen(library, RTLD_NOW))
        return 7;
    return one();
}

/* Closes all descriptors, and writes into a file of its own, which may get the number of one of them. */
static int closes(const char *path)
{
    one();
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    FILE *mine = fopen(path, "w");
    one();
    return mine && fputs("mine\n", mine) > 0 && fclose(mine) == 0 ? 0 : 7;
}

/* Ends without its destructors. */
static int leaves(void)
{
    one();
    _exit(4);
}

static int leaves_quickly(void)
{
    one();
    quick_exit(4);
}

static int aborts(void)
{
    one();
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    abort();
}

/* Looks for another program where there is none, and goes on; by its name alone, where the C library looks for it. */
static int tries(int is_path)
{
    char *const arguments[] = {(char *)"nonexistent", NULL};
    one();
    return (is_path ? execv("/nonexistent/program", arguments) : execvp("nonexistent-program", arguments)) == -1 && errno == ENOENT ? one() : 7;
}

#ifndef LINKED
/* A form of a function that is too old for the recorder is the driver's own. */
static int asks_for_old(void)
{
    get_v2_fn *get;
    int (*form)(unsigned *address, unsigned size);
    void *found;
    *(void **)&get = dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2");
    if (!get)
        *(void **)&get = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
    MUST(get("cuMemAlloc", &found, 2000, 0, NULL));
    *(void **)&form = found;
    return form(NULL, 0) == 801 ? one() : 7;
}

/* The driver comes, goes and comes again. */
static int reloads(const char *shape)
{
    uint64_t address;
    for (unsigned i = 0; i < 3; i++) {
        void *driver = come(shape), *other = dlopen("libcuda.so.1", RTLD_NOW);
        retain();
        MUST(cuMemAlloc(&address, MIB));
        MUST(cuMemFree(address));
        dlclose(other);
        dlclose(driver);
    }
    return 0;
}
#endif

int main(int count, char **arguments)
{
    const char *shape = count > 1 ? arguments[1] : "", *scenario = count > 2 ? arguments[2] : "";
    const unsigned number = count > 3 ? (unsigned)atoi(arguments[3]) : 1;
#define IS(name) (strcmp(scenario, name) == 0)
    if (IS("nothing"))
        return 0;
    if (IS("forks_first"))
        return forks_first(shape);
#ifndef LINKED
    if (IS("reloads"))
        return reloads(shape);
    if (IS("loads"))
        return dlopen(arguments[3], RTLD_NOW) ? 0 : 7;
#endif
    come(shape);
    MUST(cuInit(0));
#ifndef LINKED
    if (IS("asks_for_old"))
        return asks_for_old();
    if (IS("constructs"))
        return constructs(arguments[3]);
#endif
    return IS("idle")       ? 0
           : IS("all")      ? all()
           : IS("failing")  ? failing()
           : IS("threads")  ? threads(number, 2000, 1)
           : IS("small")    ? small()
           : IS("in_turn")  ? threads(number, 20, 0)
           : IS("own_keys") ? own_keys()
           : IS("forks")    ? forks()
           : IS("starts")   ? starts_others()
           : IS("executes") ? executes(arguments)
           : IS("one")      ? one()
           : IS("waits")    ? waits(number)
           : IS("exhausts") ? exhausts()
           : IS("joins")    ? joins(arguments[3])
           : IS("closes")   ? closes(arguments[3])
           : IS("leaves")   ? leaves()
           : IS("leaves_quickly")  ? leaves_quickly()
           : IS("aborts")          ? aborts()
           : IS("tries")           ? tries(1)
           : IS("fails_to_become") ? tries(0)
           : IS("lasts")    ? lasts()
           : IS("pairs")    ? pairs(number)
                            : 3;
}
