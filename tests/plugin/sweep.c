/* SPDX-License-Identifier: MIT */
/*
 * Failure sweeps: one scenario with all that torch calls, again and again, each time with another call of the GPU, or another allocation of
 * host memory, failing. Each run has a process of its own. Whatever failed: afterwards no tensor, no block and no byte is left.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/plugin/plug.h"
#include "tests/plugin/recorded.h"
#include "tests/support/fail_malloc.h"

#define SIZE ((ssize_t)(64 * KIB))
#define LARGE ((ssize_t)(40 * MIB))
#define KEPT_MAX 32
#define RUNS_MAX 3000

/* How a run ended. */
enum { GOOD, WRONG, OVER };

static struct {
    void *ptr;
    ssize_t size;
    int device;
    gpu_stream stream;
} kept[KEPT_MAX];
static size_t kept_count;
static gpu_stream a, b, external;
static size_t nodes;

__attribute__((format(printf, 2, 3))) static void must(bool condition, const char *format, ...)
{
    if (condition)
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "# ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    _exit(WRONG);
}

/* A tensor, if there is one. */
static void *take(ssize_t size, int device, gpu_stream stream)
{
    void *ptr = weir_torch_pool_malloc(size, device, stream);
    weir_error error;
    weir_torch_report(&error);
    must(ptr || error.status != WEIR_OK, "%zd bytes were refused without a report", size);
    if (!ptr)
        return NULL;
    /* As the shim, which throws then. */
    if (!recorded_insert(ptr, (size_t)size, device, stream)) {
        weir_torch_free(ptr, size, device, stream);
        return NULL;
    }
    kept[kept_count].ptr = ptr;
    kept[kept_count].size = size;
    kept[kept_count].device = device;
    kept[kept_count++].stream = stream;
    return ptr;
}

static void drop(void *ptr)
{
    for (size_t i = 0; i < kept_count; i++)
        if (kept[i].ptr == ptr) {
            bool is_told = recorded_take(ptr);
            weir_torch_free(ptr, kept[i].size, kept[i].device, kept[i].stream);
            if (is_told)
                recorded_freed(ptr);
            kept[i] = kept[--kept_count];
            return;
        }
}

static void capture(uint64_t id)
{
    weir_torch_begin_allocate_to_pool(0, plug_id(id));
    bool captures = plug_gpu->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL) == GPU_SUCCESS;
    void *first = take(SIZE, 0, a), *large = take(LARGE, 0, a);
    drop(first);
    take(SIZE / 2, 0, a);
    if (large)
        weir_torch_record_stream(large, b);
    drop(large);
    if (kept_count && captures)
        drop(kept[0].ptr); /* from before */
    take(LARGE, 0, b);
    if (captures && plug_gpu->capture_end(a, &nodes) != GPU_SUCCESS)
        plug_gpu->capture_end(a, &nodes);
    weir_torch_end_allocate_to_pool(0, plug_id(id));
}

/* What is kept of a history adds up, whatever of it could not be kept. Returns the segments. */
static size_t look_at_history(void)
{
    struct recorded *snapshot = recorded_snapshot();
    if (!snapshot)
        return 0;
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct recorded_segment *segment = &snapshot->segments[i];
        uint64_t bytes = 0;
        for (size_t j = 0; j < segment->part_count; j++)
            bytes += snapshot->parts[segment->first_part + j].size;
        must(bytes == segment->size, "parts of %llu bytes in a segment of %llu", (unsigned long long)bytes,
             (unsigned long long)segment->size);
    }
    size_t count = snapshot->segment_count;
    recorded_free(snapshot);
    return count;
}

static void scenario(void)
{
    weir_torch_stats stats = { .size = sizeof stats };
    recorded_begin(50, RECORDED_ALL_STACKS, false, NULL);
    take(SIZE, 0, a);
    drop(take(SIZE, 0, a));
    drop(take(LARGE, 0, a));
    take(LARGE, 1, NULL);
    void *used = take(SIZE, 0, a), *by_external = take(SIZE, 0, b);
    weir_torch_record_stream(used, b);
    weir_torch_record_stream(used, NULL);
    weir_torch_record_stream(by_external, external);
    drop(used);
    drop(by_external);
    drop(take(SIZE, 0, external));
    take(SIZE, 0, external);
    drop(take(LARGE, 0, external));
    weir_torch_memory_fraction(0.9, 0);
    capture(1);
    capture(1);
    weir_torch_release_pool(0, plug_id(1));
    take((ssize_t)(600 * MIB), 0, a);
    drop(take((ssize_t)(300 * MIB), 0, external));
    void *alive = weir_torch_pool_malloc(SIZE, 0, external);
    weir_torch_free_alive(alive, SIZE, 0, external);
    take((ssize_t)(400 * MIB), 0, a);
    look_at_history();
    weir_torch_reset();
    if (weir_torch_stats_take(0, NULL, &stats) == WEIR_OK)
        must(stats.allocated <= stats.active && stats.active <= stats.reserved, "figures that do not add up");
    weir_torch_release_pool(0, plug_id(1));
}

/* Nothing fails any more. */
static void check(void)
{
    struct sim_census census;
    plug_gpu->capture_end(a, &nodes);
    weir_torch_end_allocate_to_pool(0, plug_id(1));
    weir_torch_end_allocate_to_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    while (kept_count)
        drop(kept[0].ptr);
    weir_torch_reset();
    plug_gpu->device_synchronize(0); /* small frees on the program's own stream are its own to wait for */
    weir_torch_reset();
    for (int device = 0; device < 2; device++) {
        weir_error error = WEIR_ERROR_INIT;
        weir_torch_stats stats = { .size = sizeof stats };
        must(weir_torch_stats_take(device, &error, &stats) == WEIR_OK, "%s", error.text);
        must(!stats.active && !stats.blocks, "%llu bytes in %llu blocks of device %d", (unsigned long long)stats.active,
             (unsigned long long)stats.blocks, device);
        must(!stats.graph_reserved, "%llu bytes of graphs", (unsigned long long)stats.graph_reserved);
        must(!stats.reserved, "%llu bytes reserved of device %d", (unsigned long long)stats.reserved, device);
    }
    must(!look_at_history(), "segments of memory that is gone");
    recorded_end();
    sim_census(&census);
    must(!census.blocks, "%zu blocks", census.blocks);
    must(census.events <= 3, "%zu events", census.events);
}

/* In a process of its own. code: of the nth call of the GPU; 0: the nth allocation of host memory fails. */
static int run(unsigned nth, int code)
{
    plug_set_up("devices=2,memory=1GiB", NULL);
    a = plug_stream(0);
    b = plug_stream(0);
    external = plug_external(0);
    uint64_t calls = sim_calls(NULL);
    if (code)
        sim_fail(NULL, nth, code);
    else
        fail_malloc_at(nth);
    scenario();
    bool happened = code ? sim_calls(NULL) - calls >= nth : fail_malloc_happened();
    sim_fail(NULL, 0, 0);
    fail_malloc_at(0);
    check();
    return happened ? GOOD : OVER;
}

static void sweep(int code)
{
    int status = 0;
    unsigned nth = 1;
    fflush(NULL);
    for (;; nth += suite_lone_stride()) {
        pid_t child = fork();
        if (child == 0)
            exit(run(nth, code));
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) != WRONG && WEXITSTATUS(status) <= OVER, "failure %u, code %d: status %x",
                      nth, code, (unsigned)status);
        if (WEXITSTATUS(status) == OVER || nth >= RUNS_MAX)
            break;
    }
    ck_assert_int_eq(WEXITSTATUS(status), OVER);
    ck_assert_uint_gt(nth, 50);
}

START_TEST(any_call_of_the_gpu_may_fail)
{
    sweep(GPU_UNKNOWN);
}
END_TEST

START_TEST(any_call_of_the_gpu_may_run_out_of_memory)
{
    sweep(GPU_OUT_OF_MEMORY);
}
END_TEST

START_TEST(any_allocation_of_host_memory_may_fail)
{
    if (fail_malloc_works())
        sweep(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep");
    TCase *tcase = suite_case(suite, "sweep", 120);
    suite_add(tcase, any_call_of_the_gpu_may_fail, any_call_of_the_gpu_may_run_out_of_memory, any_allocation_of_host_memory_may_fail);
    return suite_run(suite);
}
