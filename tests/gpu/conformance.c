/* SPDX-License-Identifier: MIT */
/* conformance.c - main() of the conformance suite, and its rig. */
#include "config.h"

#include "tests/gpu/conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/gpu/sim.h"
#include "tests/gpu/peer.h"

const struct gpu *g;
struct rig rig;

/* What the running test has made. */
static struct {
    void *blocks[512];
    size_t block_count;
    gpu_pool pools[8];
    size_t pool_count;
    gpu_stream streams[32];
    size_t stream_count;
    gpu_event events[8];
    size_t event_count;
} made;

#define REMEMBER(array, count, thing) \
    do { \
        ck_assert_uint_lt(count, sizeof(array) / sizeof(*(array))); \
        (array)[(count)++] = (thing); \
    } while (0)

uint64_t percent_of_device(unsigned percent)
{
    return rig.free_bytes / 100 * percent / STEP * STEP;
}

gpu_pool make_pool(const struct gpu_pool_spec *spec)
{
    gpu_pool pool;
    ck_assert_gpu(g->pool_create(spec, &pool));
    REMEMBER(made.pools, made.pool_count, pool);
    return pool;
}

gpu_stream make_stream(int device)
{
    gpu_stream stream;
    ck_assert_gpu(g->stream_create(device, &stream));
    REMEMBER(made.streams, made.stream_count, stream);
    return stream;
}

gpu_event make_event(int device)
{
    gpu_event event;
    ck_assert_gpu(g->event_create(device, &event));
    REMEMBER(made.events, made.event_count, event);
    return event;
}

int try_take(gpu_pool pool, uint64_t size, gpu_stream stream)
{
    void *ptr;
    int code = g->malloc_async(&ptr, size, pool, stream);
    if (!code)
        REMEMBER(made.blocks, made.block_count, ptr);
    return code;
}

void *take(gpu_pool pool, uint64_t size, gpu_stream stream)
{
    ck_assert_gpu(try_take(pool, size, stream));
    return made.blocks[made.block_count - 1];
}

void forget_block(void *ptr)
{
    size_t i = 0;
    while (i < made.block_count && made.blocks[i] != ptr)
        i++;
    ck_assert_uint_lt(i, made.block_count);
    made.blocks[i] = made.blocks[--made.block_count];
}

void forget_pool(gpu_pool pool)
{
    size_t i = 0;
    while (i < made.pool_count && made.pools[i] != pool)
        i++;
    ck_assert_uint_lt(i, made.pool_count);
    made.pools[i] = made.pools[--made.pool_count];
}

void give(void *ptr, gpu_stream stream)
{
    ck_assert_gpu(g->free_async(ptr, stream));
    forget_block(ptr);
}

void *free_behind_kernel(uint64_t size)
{
    void *ptr = take(rig.pool, size, rig.a);
    /* A request that fails at most of the device's size costs the driver 50 ms, and at times more than twice that. */
    ck_assert_gpu(g->delay(rig.a, 5 * KERNEL_NS));
    give(ptr, rig.a);
    ck_assert_gpu(g->event_record(rig.event, rig.a));
    return ptr;
}

uint64_t figure(gpu_pool pool, enum gpu_pool_attribute attribute)
{
    uint64_t value;
    ck_assert_gpu(g->pool_get(pool, attribute, &value));
    return value;
}

void set_figure(gpu_pool pool, enum gpu_pool_attribute attribute, uint64_t value)
{
    ck_assert_gpu(g->pool_set(pool, attribute, value));
}

uint64_t device_free(void)
{
    uint64_t free_bytes, total_bytes;
    ck_assert_gpu(g->device_memory(0, &free_bytes, &total_bytes));
    return free_bytes;
}

void poll_until_done(gpu_event event)
{
    int code = g->event_query(event);
    while (code == GPU_NOT_READY) {
        g->pause(100000);
        code = g->event_query(event);
    }
    ck_assert_gpu(code);
}

/* Other threads ------------------------------------------------------------------------------------------------------------------------ */

struct other {
    enum gpu_capture_mode mode;
    int (*act)(void *data);
    void *data;
    int code;
};

static void *run_other(void *data)
{
    struct other *other = data;
    other->code = g->set_current_device(0);
    if (!other->code)
        other->code = g->exchange_capture_mode(&other->mode);
    if (!other->code)
        other->code = other->act(other->data);
    return NULL;
}

int in_other_thread(enum gpu_capture_mode mode, int (*act)(void *data), void *data)
{
    struct other other = { .mode = mode, .act = act, .data = data };
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_other, &other), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return other.code;
}

/* The rig ------------------------------------------------------------------------------------------------------------------------------ */

static void open_rig(void)
{
    memset(&made, 0, sizeof(made));
    ck_assert_gpu(g->set_current_device(0));
    rig.free_bytes = device_free();
    rig.pool = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    rig.a = make_stream(0);
    rig.b = make_stream(0);
    rig.event = make_event(0);
}

static void end_captures(void)
{
    for (size_t i = 0; i < made.stream_count; i++) {
        enum gpu_capture_status status;
        size_t nodes;
        if (!g->stream_capture_status(made.streams[i], &status) && status != GPU_CAPTURE_STATUS_NONE)
            g->capture_end(made.streams[i], &nodes);
    }
}

/* The simulator knows what is left over; of a real device one could only guess. */
static void check_census(void)
{
    struct sim_census census;
    if (strcmp(g->name, "sim") != 0)
        return;
    sim_census(&census);
    ck_assert_uint_eq(census.blocks + census.pools + census.streams + census.events + census.ranges + census.pages, 0);
    ck_assert_uint_eq(census.reserved, 0);
}

/* Whatever was refused, as some call was in many tests. */
#ifdef HAVE_CUDA
int cudaPeekAtLastError(void); /* of the runtime that libgpu is linked with */
static void check_last_error(void)
{
    if (strcmp(g->name, "cuda") == 0)
        ck_assert_int_eq(cudaPeekAtLastError(), 0);
}
#else
static void check_last_error(void)
{
}
#endif

static void close_rig(void)
{
    end_captures();
    while (made.block_count)
        ck_assert_gpu(g->free_async(made.blocks[--made.block_count], rig.a));
    ck_assert_gpu(g->device_synchronize(0));
    while (made.event_count)
        ck_assert_gpu(g->event_destroy(made.events[--made.event_count]));
    while (made.stream_count)
        ck_assert_gpu(g->stream_destroy(made.streams[--made.stream_count]));
    while (made.pool_count)
        ck_assert_gpu(g->pool_destroy(made.pools[--made.pool_count]));
    check_last_error();
    check_census();
}

TCase *rig_case_within(Suite *suite, const char *name, void (*before)(void), void (*after)(void))
{
    TCase *tcase = suite_case(suite, name, 60);
    if (before)
        tcase_add_checked_fixture(tcase, before, after);
    tcase_add_checked_fixture(tcase, open_rig, close_rig);
    return tcase;
}

TCase *rig_case(Suite *suite, const char *name)
{
    return rig_case_within(suite, name, NULL, NULL);
}

void add_if(TCase *tcase, const struct probe *probe, enum gpu_feature feature, const TTest *test)
{
    if (probe->supports[feature])
        suite_add(tcase, test);
    else
        printf("# left out: %s: %s\n", test->name, probe->why[feature]);
}

/* Main --------------------------------------------------------------------------------------------------------------------------------- */

static void look(struct probe *probe)
{
    probe->code = g->device_count(&probe->devices);
    if (probe->code)
        return;
    for (int feature = 0; feature < GPU_FEATURE_COUNT; feature++)
        probe->supports[feature] = g->supports(0, feature, probe->why[feature], sizeof(probe->why[feature]));
    bool can;
    probe->peers = probe->devices > 1 && !g->can_access_peer(0, 1, &can) && can;
}

/* A driver that was used before a fork is of no use after it, so another process looks. */
static struct probe probe_devices(void)
{
    struct probe *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct probe probe = { .code = GPU_UNKNOWN };
    if (shared == MAP_FAILED)
        return probe;
    *shared = probe;
    pid_t child = fork();
    if (!child) {
        look(shared);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    probe = *shared;
    munmap(shared, sizeof(*shared));
    return probe;
}

int main(int argc, char **argv)
{
    const char *why;
    char reason[256];
    setenv("WEIR_SIM", "devices=2", 0); /* so that the tests of peers run; real devices do not care */
    g = gpu_find(getenv("WEIR_GPU"), &why);
    if (!g)
        return suite_skip(why);
    if (peer_main(g, argc, argv))
        return 0;
    struct probe probe = probe_devices();
    if (probe.code) {
        snprintf(reason, sizeof(reason), "%s has no device: %s", g->name, g->code_text(probe.code));
        return suite_skip(reason);
    }
    if (!probe.supports[GPU_FEATURE_POOLS])
        return suite_skip(probe.why[GPU_FEATURE_POOLS]);

    Suite *suite = suite_create("conformance");
    add_memory_tests(suite);
    add_map_tests(suite, &probe);
    add_pool_tests(suite, &probe);
    add_stream_tests(suite, &probe);
    add_context_tests(suite, &probe);
    add_capture_tests(suite, &probe);
    add_share_tests(suite, &probe);
    return suite_run(suite);
}
