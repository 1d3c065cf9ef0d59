/* SPDX-License-Identifier: MIT */
/* What torch calls for each tensor, and what is asked of the plug-in beside that. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/plugin/plug.h"

static gpu_stream a, b;

static void set_up(void)
{
    plug_set_up("devices=2,memory=1GiB", NULL);
    a = plug_stream(0);
    b = plug_stream(0);
}

/* Sizes and streams -------------------------------------------------------------------------------------------------------------------- */

START_TEST(nothing_is_null_and_can_be_freed)
{
    ck_assert_ptr_null(weir_torch_pool_malloc(0, 0, a));
    weir_torch_free(NULL, 0, 0, a);
    ck_assert_uint_eq(plug_stats(0).mallocs, 0);
}
END_TEST

START_TEST(freed_block_serves_its_stream_again_without_cuda)
{
    void *ptr = plug_malloc(4096, 0, a);
    weir_torch_free(ptr, 4096, 0, a);
    uint64_t calls = sim_calls("malloc_async");
    ck_assert_ptr_eq(plug_malloc(4096, 0, a), ptr);
    ck_assert_uint_eq(sim_calls("malloc_async"), calls);
    ck_assert_uint_eq(plug_stats(0).cache_hits, 1);
    weir_torch_free(ptr, 4096, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(freed_block_does_not_serve_another_stream)
{
    void *ptr = plug_malloc(4096, 0, a);
    weir_torch_free(ptr, 4096, 0, a);
    void *other = plug_malloc(4096, 0, b);
    ck_assert_ptr_ne(other, ptr);
    weir_torch_free(other, 4096, 0, b);
    plug_expect_empty(0);
}
END_TEST

START_TEST(default_stream_is_cached_on_each_device)
{
    for (int device = 0; device < 2; device++) {
        void *ptr = plug_malloc(4096, device, NULL);
        weir_torch_free(ptr, 4096, device, NULL);
        ck_assert_ptr_eq(plug_malloc(4096, device, NULL), ptr);
        weir_torch_free(ptr, 4096, device, NULL);
        ck_assert_uint_eq(plug_stats(device).cache_hits, 1);
        plug_expect_empty(device);
    }
}
END_TEST

static int asked;

static int every_stream_lives(int device, weir_cuda_stream stream)
{
    (void)stream;
    asked++;
    return device == 0;
}

START_TEST(tensor_on_another_device_than_the_current_one_is_served_there)
{
    gpu_stream far = plug_stream(1);
    int device;
    void *ptr = plug_malloc(4 * MIB, 1, far), *legacy = plug_malloc(4 * MIB, 1, NULL);
    ck_assert_uint_eq(plug_stats(1).allocated, 8 * MIB);
    ck_assert_uint_eq(plug_stats(0).reserved, 0);
    weir_torch_free(ptr, 4 * MIB, 1, far);
    weir_torch_free(legacy, 4 * MIB, 1, NULL);
    ck_assert_int_eq(plug_gpu->get_current_device(&device), GPU_SUCCESS);
    ck_assert_int_eq(device, 0);
    plug_expect_empty(1);
}
END_TEST

START_TEST(only_devices_that_are_used_are_touched)
{
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_torch_free(plug_malloc(4096, 0, a), 4096, 0, a);
    ck_assert_uint_eq(plug_stats(1).memory, 0);
    ck_assert_int_eq(weir_torch_get(0, &error, &w), WEIR_OK);
    weir_pool *pool;
    ck_assert_int_eq(weir_pool_get(w, NULL, 1, &error, &pool), WEIR_NOT_FOUND);
}
END_TEST

/* Failing ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(out_of_memory_is_null_with_a_report)
{
    weir_error error;
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(2 * GIB), 0, a));
    weir_torch_report(&error);
    ck_assert_int_eq(error.status, WEIR_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.text, "2 GiB"));
    ck_assert_uint_eq(plug_stats(0).failures, 1);
}
END_TEST

START_TEST(report_outlives_frees_that_fail)
{
    weir_error error;
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(2 * GIB), 0, a));
    weir_torch_free(&error, 1, 0, a);
    weir_torch_report(&error);
    ck_assert_int_eq(error.status, WEIR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(allocations_go_on_after_one_that_failed)
{
    void *all = plug_malloc(900 * MIB, 0, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(200 * MIB), 0, a));
    weir_torch_free(all, 900 * MIB, 0, a);
    void *ptr = plug_malloc(200 * MIB, 0, a);
    weir_torch_free(ptr, 200 * MIB, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(device_that_is_not_there_is_reported)
{
    weir_error error;
    ck_assert_ptr_null(weir_torch_pool_malloc(1, 7, NULL));
    weir_torch_report(&error);
    ck_assert_int_eq(error.status, WEIR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "device 7"));
    ck_assert_ptr_null(weir_torch_pool_malloc(1, -1, NULL));
    weir_torch_free(&error, 1, 99, NULL);
}
END_TEST

START_TEST(pointer_that_is_not_ours_is_ignored)
{
    void *ptr = plug_malloc(4096, 0, a);
    weir_torch_free((char *)ptr + 512, 4096, 0, a);
    weir_torch_record_stream((char *)ptr + 512, b);
    weir_torch_record_stream(&ptr, b);
    weir_torch_record_stream(NULL, b);
    ck_assert_uint_eq(plug_stats(0).blocks, 1);
    weir_torch_free(ptr, 4096, 0, a);
    plug_expect_empty(0);
}
END_TEST

/* The policy --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(bad_options_are_refused_before_cuda_is_touched)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    uint64_t calls = sim_calls(NULL);
    options.policy_text = "weir: 1\npools: { p: { max_sice: 1GiB } }\n";
    ck_assert_int_eq(weir_torch_configure(&options, &error), WEIR_BAD_POLICY);
    ck_assert_ptr_nonnull(strstr(error.text, "max_size"));
    options.policy_file = "x";
    ck_assert_int_eq(weir_torch_configure(&options, NULL), WEIR_INVALID);
    options.policy_text = NULL;
    options.policy_file = "/nonexistent/policy.yaml";
    ck_assert_int_eq(weir_torch_configure(&options, NULL), WEIR_UNREADABLE);
    options.policy_file = NULL;
    options.gpu = "cuad";
    error = (weir_error)WEIR_ERROR_INIT;
    ck_assert_int_eq(weir_torch_configure(&options, &error), WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "weir_options.gpu is 'cuad'"));
    ck_assert_uint_eq(sim_calls(NULL), calls);
}
END_TEST

/* Of a program for a real GPU, whose kernels would get host addresses. */
START_TEST(simulator_that_only_the_environment_names_is_refused)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    setenv("WEIR_GPU", "sim", 1);
    options.policy_text = "weir: 1\npools: { p: {} }\n";
    ck_assert_int_eq(weir_torch_configure(&options, &error), WEIR_OK);
    ck_assert_ptr_null(weir_torch_pool_malloc(1, 0, NULL));
    weir_torch_report(&error);
    ck_assert_int_eq(error.status, WEIR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "unset WEIR_GPU"));
}
END_TEST

START_TEST(policy_cannot_change_once_a_device_is_open)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_free(plug_malloc(1, 0, a), 1, 0, a);
    ck_assert_int_eq(weir_torch_configure(NULL, &error), WEIR_BUSY);
}
END_TEST

START_TEST(pool_that_is_not_on_the_device_is_reported)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir_error error = WEIR_ERROR_INIT;
    options.gpu = "sim";
    options.policy_text = "weir: 1\npools: { p: { devices: [0] } }\n";
    ck_assert_int_eq(weir_torch_configure(&options, &error), WEIR_OK);
    ck_assert_ptr_null(weir_torch_pool_malloc(1, 1, NULL));
    weir_torch_report(&error);
    ck_assert_int_eq(error.status, WEIR_NOT_FOUND);
    weir *w;
    ck_assert_int_eq(weir_torch_get(1, NULL, &w), WEIR_NOT_FOUND);
}
END_TEST

/* Figures and limits ------------------------------------------------------------------------------------------------------------------- */

START_TEST(memory_fraction_is_a_cap_also_when_set_before_the_first_allocation)
{
    weir_torch_memory_fraction(0.25, 0);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(257 * MIB), 0, a));
    ck_assert_uint_eq(plug_stats(0).max_size, 256 * MIB);
    weir_torch_memory_fraction(0.5, 0);
    void *ptr = plug_malloc(257 * MIB, 0, a);
    ck_assert_uint_eq(plug_stats(0).max_size, 512 * MIB);
    weir_torch_memory_fraction(1.0, 0);
    ck_assert_uint_eq(plug_stats(0).max_size, 0);
    weir_torch_memory_fraction(0.5, 99);
    weir_torch_free(ptr, 257 * MIB, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(memory_fraction_of_nothing_allows_nothing)
{
    weir_torch_memory_fraction(0, 0);
    ck_assert_ptr_null(weir_torch_pool_malloc(512, 0, a));
    weir_torch_memory_fraction(1, 0);
    weir_torch_free(plug_malloc(512, 0, a), 512, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(figures_tell_what_is_in_tensors_and_what_is_kept)
{
    void *large = plug_malloc(100 * MIB, 0, a), *small = plug_malloc(1000, 0, a);
    weir_torch_stats stats = plug_stats(0);
    ck_assert_uint_eq(stats.memory, GIB);
    ck_assert_uint_eq(stats.allocated, 100 * MIB + 1000);
    ck_assert_uint_eq(stats.active, stats.allocated);
    ck_assert_uint_eq(stats.blocks, 2);
    ck_assert_uint_eq(stats.mallocs, 2);
    ck_assert_uint_eq(stats.frees, 0);
    weir_torch_free(large, 100 * MIB, 0, a);
    weir_torch_free(small, 1000, 0, a);
    stats = plug_stats(0);
    ck_assert_uint_eq(stats.allocated, 0);
    ck_assert_uint_ge(stats.allocated_high, 100 * MIB);
    ck_assert_uint_eq(stats.cached, 1024);
    ck_assert_uint_eq(stats.frees, 2);
    plug_expect_empty(0);
}
END_TEST

START_TEST(peaks_and_totals_start_anew)
{
    weir_torch_free(plug_malloc(100 * MIB, 0, a), 100 * MIB, 0, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(2 * GIB), 0, a));
    weir_torch_reset_totals(0);
    weir_torch_reset_peaks(0);
    weir_torch_stats stats = plug_stats(0);
    ck_assert_uint_eq(stats.mallocs + stats.frees + stats.failures + stats.cache_hits + stats.recoveries, 0);
    ck_assert_uint_eq(stats.allocated_high, 0);
    ck_assert_uint_eq(stats.reserved_high, stats.reserved);
    weir_torch_free(plug_malloc(100 * MIB, 0, a), 100 * MIB, 0, a);
    stats = plug_stats(0);
    ck_assert_uint_eq(stats.mallocs, 1);
    ck_assert_uint_eq(stats.frees, 1);
}
END_TEST

START_TEST(figures_of_an_unused_device_are_zero)
{
    weir_torch_stats stats = { .size = sizeof stats, .memory = 1 }, zero = { .size = sizeof zero };
    ck_assert_int_eq(weir_torch_stats_take(1, NULL, &stats), WEIR_OK);
    ck_assert_mem_eq(&stats, &zero, sizeof zero);
    weir_torch_reset_peaks(1);
    weir_torch_reset_totals(1);
    ck_assert_int_eq(weir_torch_stats_take(2, NULL, &stats), WEIR_NOT_FOUND);
    stats.size = 1;
    ck_assert_int_eq(weir_torch_stats_take(0, NULL, &stats), WEIR_INVALID);
}
END_TEST

static void sum_up(const void *ptr, uint64_t size, void *data)
{
    uint64_t *sum = data;
    sum[0]++;
    sum[1] += size;
    ck_assert_ptr_nonnull(ptr);
}

START_TEST(blocks_are_those_in_tensors)
{
    uint64_t sum[2] = { 0, 0 };
    gpu_stream external = plug_external(0);
    void *large = plug_malloc(100 * MIB, 0, a), *small = plug_malloc(1000, 0, a), *waits = plug_malloc(3 * MIB, 0, external);
    weir_torch_free(plug_malloc(5000, 0, a), 5000, 0, a);
    weir_torch_free(waits, 3 * MIB, 0, external);
    weir_torch_blocks(0, sum_up, sum);
    ck_assert_uint_eq(sum[0], 2);
    ck_assert_uint_eq(sum[1], 100 * MIB + 1000);
    weir_torch_blocks(1, sum_up, sum);
    ck_assert_uint_eq(sum[0], 2);
    weir_torch_free(large, 100 * MIB, 0, a);
    weir_torch_free(small, 1000, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(empty_cache_waits_for_what_was_freed_and_gives_it_back)
{
    void *ptr = plug_malloc(100 * MIB, 0, a);
    ck_assert_int_eq(plug_gpu->delay(a, 5 * MILLISECOND), GPU_SUCCESS);
    weir_torch_free(ptr, 100 * MIB, 0, a);
    weir_torch_reset();
    ck_assert_uint_eq(plug_stats(0).reserved, 0);
}
END_TEST

/* Threads ------------------------------------------------------------------------------------------------------------------------------ */

#define THREADS 8
#define ROUNDS 2000

/* Tensors come from this thread's own stream and from one of all threads; half of them are freed by the next thread. */
static void *_Atomic handed[THREADS];

static void *use_tensors(void *data)
{
    size_t self = (size_t)(uintptr_t)data;
    gpu_stream own;
    if (plug_gpu->stream_create(0, &own) != GPU_SUCCESS)
        return (void *)"no stream";
    weir_torch_stream_lives(0, own);
    for (size_t i = 0; i < ROUNDS; i++) {
        ssize_t size = (ssize_t)(1 + i * 97 % 20000);
        void *mine = weir_torch_pool_malloc(size, 0, own), *shared = weir_torch_pool_malloc(4096, 0, a);
        if (!mine || !shared)
            return (void *)"no block";
        weir_torch_free(mine, size, 0, own);
        if (i % 16 == 0)
            weir_torch_record_stream(shared, own);
        shared = atomic_exchange(&handed[(self + 1) % THREADS], shared);
        weir_torch_free(shared, 4096, 0, a);
        if (i % 512 == 0)
            weir_torch_reset();
    }
    return NULL;
}

START_TEST(threads_allocate_and_free_for_each_other)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_tensors, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
    }
    for (size_t i = 0; i < THREADS; i++)
        weir_torch_free(atomic_load(&handed[i]), 4096, 0, a);
    weir_torch_stats stats = plug_stats(0);
    ck_assert_uint_eq(stats.mallocs, 2 * THREADS * ROUNDS);
    ck_assert_uint_eq(stats.frees, stats.mallocs);
    plug_expect_empty(0);
}
END_TEST

static void *open_device(void *data)
{
    pthread_barrier_wait(data);
    void *ptr = weir_torch_pool_malloc(4096, 0, a);
    weir_torch_free(ptr, 4096, 0, a);
    return ptr;
}

START_TEST(device_is_opened_once_by_many_threads)
{
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_device, &barrier), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *ptr;
        pthread_join(threads[i], &ptr);
        ck_assert_ptr_nonnull(ptr);
    }
    pthread_barrier_destroy(&barrier);
    ck_assert_uint_eq(plug_stats(0).mallocs, THREADS);
    plug_expect_empty(0);
}
END_TEST

/* Other ends --------------------------------------------------------------------------------------------------------------------------- */

static int exit_status(pid_t child)
{
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(in_a_forked_child_allocations_fail_and_frees_do_nothing)
{
    void *ptr = plug_malloc(4096, 0, a), *noted = plug_malloc(4096, 0, a);
    weir_torch_record_stream(noted, b);
    pid_t child = fork();
    if (child == 0) {
        uint64_t calls = sim_calls(NULL);
        weir_torch_stats stats = { .size = sizeof stats };
        weir_error error = WEIR_ERROR_INIT;
        bool refused = !weir_torch_pool_malloc(4096, 0, a) && !weir_torch_pool_malloc(4096, 0, NULL);
        weir_torch_report(&error);
        weir_torch_free(ptr, 4096, 0, a);
        weir_torch_free(noted, 4096, 0, a);
        weir_torch_record_stream(ptr, b);
        weir_torch_begin_allocate_to_pool(0, plug_id(1));
        weir_torch_end_allocate_to_pool(0, plug_id(1));
        weir_torch_release_pool(0, plug_id(1));
        weir_torch_memory_fraction(0.5, 0);
        weir_torch_reset();
        bool told = error.status == WEIR_FORKED && weir_torch_stats_take(0, NULL, &stats) == WEIR_FORKED;
        _exit(refused && told && sim_calls(NULL) == calls ? 0 : 1);
    }
    ck_assert_int_eq(exit_status(child), 0);
    weir_torch_free(ptr, 4096, 0, a);
    weir_torch_free(noted, 4096, 0, a);
    plug_expect_empty(0);
}
END_TEST

/* As DataLoader's workers are forked. What only configures touches no GPU. */
START_TEST(child_of_a_process_that_used_no_gpu_is_served)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.gpu = "sim";
    ck_assert_int_eq(weir_torch_configure(&options, NULL), WEIR_OK);
    pid_t child = fork();
    if (child == 0)
        _exit(weir_torch_pool_malloc(4096, 0, NULL) ? 0 : 1);
    ck_assert_int_eq(exit_status(child), 0);
}
END_TEST

static void *set_fractions(void *is_over)
{
    while (!atomic_load((atomic_bool *)is_over))
        weir_torch_memory_fraction(0.5, 1);
    return NULL;
}

/* Any of these forks may come while the other thread, which the child has not, is within a call. */
START_TEST(child_that_is_forked_within_a_call_of_another_thread_goes_on)
{
    atomic_bool is_over = false;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, set_fractions, &is_over), 0);
    for (unsigned i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            weir_torch_memory_fraction(0.25, 1);
            _exit(weir_torch_get_memory_fraction(1) == 0.25 ? 0 : 1);
        }
        ck_assert_int_eq(exit_status(child), 0);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
}
END_TEST

static void *late_block;

/* Registered before the first allocation, it runs after Weir's own exit handler, as CUDA's does. */
static void free_at_exit(void)
{
    uint64_t calls = sim_calls(NULL);
    weir_torch_free(late_block, 4096, 0, a);
    void *refused = weir_torch_pool_malloc(4096, 0, a);
    weir_torch_reset();
    if (refused || sim_calls(NULL) != calls)
        _exit(1);
}

START_TEST(nothing_calls_cuda_once_the_process_ends)
{
    pid_t child = fork();
    if (child == 0) {
        set_up();
        atexit(free_at_exit);
        late_block = weir_torch_pool_malloc(4096, 0, a);
        exit(late_block ? 0 : 2);
    }
    ck_assert_int_eq(exit_status(child), 0);
}
END_TEST

START_TEST(function_that_tells_living_streams_is_asked_once)
{
    gpu_stream stream = plug_external(0);
    weir_torch_set_stream_fn(every_stream_lives);
    for (int i = 0; i < 3; i++)
        weir_torch_free(plug_malloc(4096, 0, stream), 4096, 0, stream);
    weir_torch_free(plug_malloc(4096, 0, NULL), 4096, 0, NULL);
    ck_assert_int_eq(asked, 1);
    ck_assert_uint_eq(plug_stats(0).cache_hits, 2);
    plug_expect_empty(0);
}
END_TEST

/* Marks and tags ----------------------------------------------------------------------------------------------------------------------- */

static uint64_t tagged(int device, const char *name)
{
    weir *w;
    weir_stats *stats;
    uint64_t live = 0;
    ck_assert_int_eq(weir_torch_get(device, NULL, &w), WEIR_OK);
    ck_assert_int_eq(weir_stats_take(w, NULL, &stats), WEIR_OK);
    for (size_t i = 0; i < weir_stats_tag_count(stats); i++)
        if (strcmp(weir_stats_tag(stats, i)->name, name) == 0)
            live = weir_stats_tag(stats, i)->live;
    weir_stats_free(stats);
    return live;
}

START_TEST(tags_are_of_the_devices_that_were_in_use)
{
    ck_assert_int_eq(weir_torch_tag_push("early"), WEIR_OK);
    weir_torch_tag_pop("early");
    void *first = plug_malloc(4096, 0, a);
    ck_assert_int_eq(weir_torch_tag_push("kv"), WEIR_OK);
    void *second = plug_malloc(8192, 0, a), *other = plug_malloc(100, 1, NULL);
    ck_assert_int_eq(weir_torch_mark("here"), WEIR_OK);
    weir_torch_tag_pop("kv");
    void *third = plug_malloc(512, 0, a);
    ck_assert_uint_eq(tagged(0, "kv"), 8192);
    ck_assert_uint_eq(tagged(1, "kv"), 0);
    ck_assert_int_eq(weir_torch_tag_push(""), WEIR_INVALID);
    ck_assert_int_eq(weir_torch_mark(NULL), WEIR_INVALID);
    weir_torch_free(second, 8192, 0, a);
    ck_assert_uint_eq(tagged(0, "kv"), 0);
    weir_torch_free(first, 4096, 0, a);
    weir_torch_free(third, 512, 0, a);
    weir_torch_free(other, 100, 1, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("entry");
    TCase *tcase = suite_case(suite, "entry", 60);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, tags_are_of_the_devices_that_were_in_use, nothing_is_null_and_can_be_freed, freed_block_serves_its_stream_again_without_cuda,
              freed_block_does_not_serve_another_stream, default_stream_is_cached_on_each_device,
              function_that_tells_living_streams_is_asked_once, tensor_on_another_device_than_the_current_one_is_served_there,
              only_devices_that_are_used_are_touched, out_of_memory_is_null_with_a_report, report_outlives_frees_that_fail,
              allocations_go_on_after_one_that_failed, device_that_is_not_there_is_reported, pointer_that_is_not_ours_is_ignored,
              bad_options_are_refused_before_cuda_is_touched, simulator_that_only_the_environment_names_is_refused,
              policy_cannot_change_once_a_device_is_open,
              pool_that_is_not_on_the_device_is_reported, memory_fraction_is_a_cap_also_when_set_before_the_first_allocation,
              memory_fraction_of_nothing_allows_nothing, figures_tell_what_is_in_tensors_and_what_is_kept, peaks_and_totals_start_anew,
              figures_of_an_unused_device_are_zero, blocks_are_those_in_tensors, empty_cache_waits_for_what_was_freed_and_gives_it_back,
              threads_allocate_and_free_for_each_other, device_is_opened_once_by_many_threads,
              in_a_forked_child_allocations_fail_and_frees_do_nothing);
    tcase = suite_case(suite, "processes", 0);
    suite_add(tcase, child_of_a_process_that_used_no_gpu_is_served, child_that_is_forked_within_a_call_of_another_thread_goes_on,
              nothing_calls_cuda_once_the_process_ends);
    return suite_run(suite);
}
