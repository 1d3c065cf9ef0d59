/* SPDX-License-Identifier: MIT */
/* Memory of graphs, in the order in which torch calls: begin, the capture, its end, end, and release when the graph is gone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugin/plug.h"

#define SIZE (64 * KIB)
#define CHUNK (2 * MIB) /* of small parts */

static gpu_stream a, b;

static void set_up(void)
{
    plug_set_up("devices=2,memory=1GiB", "weir: 1\npools: { p: { peer_access: all } }\n");
    a = plug_stream(0);
    b = plug_stream(0);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
}

/* Parts of a reserve begin at multiples of the `align` of the pool, too. */
START_TEST(memory_of_a_graph_is_aligned_as_the_pool_is)
{
    static const size_t sizes[] = {1, 70000, 3 * MIB + 1, 512};
    void *parts[4];
    plug_set_up("memory=1GiB", "weir: 1\npools: { p: { align: 64KiB } }\n");
    gpu_stream stream = plug_stream(0);
    weir_torch_free(plug_malloc(SIZE, 0, stream), SIZE, 0, stream);
    plug_capture_begin(0, 1, stream);
    for (size_t i = 0; i < 4; i++) {
        parts[i] = plug_malloc(sizes[i], 0, stream);
        ck_assert_uint_eq((uintptr_t)parts[i] % (64 * KIB), 0);
    }
    ck_assert_uint_eq(plug_capture_end(0, 1, stream), 0);
    for (size_t i = 0; i < 4; i++)
        weir_torch_free(parts[i], sizes[i], 0, stream);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* Within a capture --------------------------------------------------------------------------------------------------------------------- */

START_TEST(memory_of_a_graph_makes_no_node)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a), *large = plug_malloc(40 * MIB, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_free(large, 40 * MIB, 0, a);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(work_of_the_graph_is_all_that_is_captured)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, a), GPU_SUCCESS);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 1);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(memory_is_used_again_by_the_same_stream_of_the_capture)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), ptr);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* To Weir the chunk is a live block at that address. */
START_TEST(free_of_the_first_part_of_a_chunk_is_no_free_of_the_chunk)
{
    plug_capture_begin(0, 1, a);
    char *first = plug_malloc(SIZE, 0, a), *second = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_eq(second, first + SIZE);
    plug_capture_end(0, 1, a);
    weir_torch_free(first, SIZE, 0, a);
    weir_torch_free(first, SIZE, 0, a);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, CHUNK);
    ck_assert_uint_eq(plug_stats(0).graph_live, SIZE);
    weir_torch_free(second, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

static void list_block(const void *ptr, uint64_t size, void *data)
{
    weir_torch_block *block = data;
    *block = (weir_torch_block){ .ptr = ptr, .size = block->size + size };
}

START_TEST(tensor_that_is_all_of_a_chunk_is_listed_once)
{
    weir_torch_block block = { .size = 0 };
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(32 * MIB, 0, a);
    plug_capture_end(0, 1, a);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, 32 * MIB);
    weir_torch_blocks(0, list_block, &block);
    ck_assert_ptr_eq(block.ptr, ptr);
    ck_assert_uint_eq(block.size, 32 * MIB);
    weir_torch_record_stream(ptr, b);
    weir_torch_free(ptr, 32 * MIB, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(memory_is_not_used_again_by_another_stream_of_the_capture)
{
    plug_capture_begin(0, 1, a);
    plug_order(0, a, b);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    void *other = plug_malloc(SIZE, 0, b);
    ck_assert_ptr_ne(other, ptr);
    weir_torch_free(other, SIZE, 0, b);
    plug_order(0, b, a);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(cached_block_does_not_serve_a_capture)
{
    void *cached = plug_malloc(SIZE, 0, a);
    weir_torch_free(cached, SIZE, 0, a);
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(ptr, cached);
    plug_capture_end(0, 1, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), cached);
    weir_torch_free(cached, SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(cache_that_does_not_ask_whether_a_stream_captures_is_left_alone_by_a_capture)
{
    plug_set_up("memory=1GiB", "weir: 1\npools: { p: { cache: { capture_check: false } } }\n");
    a = plug_stream(0);
    void *cached = plug_malloc(SIZE, 0, a), *older = plug_malloc(SIZE, 0, a);
    weir_torch_free(cached, SIZE, 0, a);
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(ptr, cached);
    weir_torch_free(older, SIZE, 0, a);
    ck_assert_uint_eq(plug_stats(0).active, 2 * SIZE);
    plug_capture_end(0, 1, a);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(memory_that_is_handed_out_is_ready)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    plug_capture_end(0, 1, a);
    /* A launch of the graph may come first on any stream, at once. */
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, b), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

static void *allocate_for_backward(void *data)
{
    (void)data;
    return weir_torch_pool_malloc(SIZE, 0, a);
}

START_TEST(another_thread_allocates_on_the_capturing_stream)
{
    pthread_t thread;
    void *ptr = NULL;
    plug_capture_begin(0, 1, a);
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_for_backward, NULL), 0);
    pthread_join(thread, &ptr);
    ck_assert_ptr_nonnull(ptr);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

static void *work_eagerly(void *data)
{
    (void)data;
    for (size_t i = 0; i < 50; i++) {
        size_t size = i % 2 ? SIZE : 8 * MIB;
        void *ptr = weir_torch_pool_malloc((ssize_t)size, 0, b);
        if (!ptr)
            return (void *)"no block";
        if (i % 8 == 0)
            weir_torch_record_stream(ptr, NULL);
        weir_torch_free(ptr, (ssize_t)size, 0, b);
        if (i % 16 == 0)
            weir_torch_reset();
    }
    return NULL;
}

static void *capture_by_others(void *data)
{
    gpu_stream external = *(gpu_stream *)data;
    size_t nodes;
    ck_assert_int_eq(plug_gpu->capture_begin(external, GPU_CAPTURE_MODE_THREAD_LOCAL), GPU_SUCCESS);
    void *ptr = weir_torch_pool_malloc(SIZE, 0, external);
    ck_assert_int_eq(plug_gpu->capture_end(external, &nodes), GPU_SUCCESS);
    return ptr;
}

/* Its graph may outlive the reserve, and torch's own capture would find its begin taken. */
START_TEST(capture_of_others_gets_no_memory_of_a_begin_beside_it)
{
    pthread_t thread;
    void *theirs;
    gpu_stream external = plug_external(0);
    plug_capture_begin(0, 1, a);
    ck_assert_int_eq(pthread_create(&thread, NULL, capture_by_others, &external), 0);
    pthread_join(thread, &theirs);
    ck_assert_ptr_null(theirs);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(other_threads_allocate_eagerly_meanwhile)
{
    pthread_t thread;
    void *wrong = NULL;
    plug_capture_begin(0, 1, a);
    ck_assert_int_eq(pthread_create(&thread, NULL, work_eagerly, NULL), 0);
    pthread_join(thread, &wrong);
    ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

static void *open_other_device(void *data)
{
    (void)data;
    void *ptr = weir_torch_pool_malloc(SIZE, 1, NULL);
    weir_torch_free(ptr, SIZE, 1, NULL);
    return ptr ? NULL : (void *)"no block";
}

START_TEST(another_device_is_first_used_meanwhile)
{
    pthread_t thread;
    void *wrong = NULL;
    plug_capture_begin(0, 1, a);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_other_device, NULL), 0);
    pthread_join(thread, &wrong);
    ck_assert_msg(wrong == NULL, "%s", (const char *)wrong);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
    plug_expect_empty(1);
}
END_TEST

START_TEST(running_out_in_a_capture_leaves_it_whole)
{
    plug_capture_begin(0, 1, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(2 * GIB), 0, a));
    ck_assert_msg(strstr(plug_report(), "no 2 GiB") != NULL, "%s", plug_report());
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(1000 * MIB), 0, a));
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(request_that_fits_only_without_the_usual_chunk_is_served)
{
    void *all = plug_malloc(1024 * MIB - 96 * MIB, 0, a);
    plug_capture_begin(0, 1, a);
    void *parts[4];
    for (int i = 0; i < 4; i++)
        parts[i] = plug_malloc(9 * MIB, 0, a);
    plug_capture_end(0, 1, a);
    for (int i = 0; i < 4; i++)
        weir_torch_free(parts[i], 9 * MIB, 0, a);
    weir_torch_free(all, 928 * MIB, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(capture_that_torch_did_not_begin_is_refused_with_the_reason)
{
    weir_error error;
    ck_assert_int_eq(plug_gpu->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    ck_assert_ptr_null(weir_torch_pool_malloc(SIZE, 0, a));
    weir_torch_report(&error);
    ck_assert_int_eq(error.status, WEIR_CAPTURING);
    ck_assert_ptr_nonnull(strstr(error.text, "torch.cuda.graph"));
    size_t nodes = 1;
    ck_assert_int_eq(plug_gpu->capture_end(a, &nodes), GPU_SUCCESS);
    ck_assert_uint_eq(nodes, 0);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

/* torch calls neither end nor release then. */
static void spoil(uint64_t id)
{
    size_t nodes;
    plug_capture_begin(0, id, a);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
    plug_gpu->stream_synchronize(a);
    ck_assert_int_eq(plug_gpu->capture_end(a, &nodes), GPU_CAPTURE_INVALIDATED);
}

START_TEST(spoilt_capture_keeps_no_memory_from_going_back)
{
    gpu_stream external = plug_external(0);
    void *older = plug_malloc(40 * MIB, 0, a);
    plug_capture_begin(0, 2, b);
    plug_capture_end(0, 2, b);
    weir_torch_begin_allocate_to_pool(0, plug_id(3));
    weir_torch_end_allocate_to_pool(0, plug_id(3));
    spoil(1);
    weir_torch_free(older, 40 * MIB, 0, a);
    weir_torch_free(plug_malloc(40 * MIB, 0, external), 40 * MIB, 0, external);
    weir_torch_reset();
    weir_torch_stats stats = plug_stats(0);
    ck_assert_uint_eq(stats.active, 0);
    ck_assert_uint_le(stats.reserved, 32 * MIB); /* the step of the pool in which the reserve lies */
    ck_assert_uint_eq(stats.graph_reserved, CHUNK);
}
END_TEST

START_TEST(capture_after_a_spoilt_one_is_its_own)
{
    spoil(1);
    plug_capture_begin(0, 2, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    const void *const ptrs[] = { ptr };
    ck_assert(weir_torch_pool_has(0, plug_id(2), ptrs, 1));
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 2, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(2));
    plug_expect_empty(0);
}
END_TEST

/* Blocks from before ------------------------------------------------------------------------------------------------------------------- */

START_TEST(older_block_freed_in_a_capture_waits_for_its_end)
{
    void *small = plug_malloc(SIZE, 0, a), *large = plug_malloc(40 * MIB, 0, a);
    plug_capture_begin(0, 1, a);
    weir_torch_free(small, SIZE, 0, a);
    weir_torch_free(large, 40 * MIB, 0, a);
    ck_assert_uint_eq(plug_stats(0).allocated, 0);
    ck_assert_uint_eq(plug_stats(0).active, SIZE + 40 * MIB);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 0);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(older_block_freed_in_a_capture_of_others_goes_when_something_is_next_allocated)
{
    void *ptr = plug_malloc(SIZE, 0, a);
    size_t nodes;
    ck_assert_int_eq(plug_gpu->capture_begin(a, GPU_CAPTURE_MODE_GLOBAL), GPU_SUCCESS);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    ck_assert_int_eq(plug_gpu->capture_end(a, &nodes), GPU_SUCCESS);
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    weir_torch_free(next, SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_of_another_stream_is_freed_during_a_capture)
{
    void *ptr = plug_malloc(SIZE, 0, b);
    plug_capture_begin(0, 1, a);
    weir_torch_free(ptr, SIZE, 0, b);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(block_recorded_on_a_capturing_stream_waits_for_its_end)
{
    void *ptr = plug_malloc(SIZE, 0, b);
    plug_capture_begin(0, 1, a);
    weir_torch_record_stream(ptr, a);
    weir_torch_free(ptr, SIZE, 0, b);
    ck_assert_uint_eq(plug_stats(0).active, SIZE);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 0);
    ck_assert_uint_eq(plug_stats(0).active, 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* The stream may be another thread's, which may begin a capture between a look and the question, and the question would spoil that. */
START_TEST(recorded_stream_that_was_never_used_is_not_asked_for_its_id)
{
    void *ptr = plug_malloc(SIZE, 0, a);
    gpu_stream unused = plug_stream(0);
    uint64_t before = sim_calls("stream_id");
    weir_torch_record_stream(ptr, unused);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_uint_eq(sim_calls("stream_id"), before);
    plug_expect_empty(0);
}
END_TEST

START_TEST(recorded_part_of_a_reserve_is_out_of_use_until_the_capture_ends)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    plug_order(0, a, b);
    weir_torch_record_stream(ptr, b);
    weir_torch_free(ptr, SIZE, 0, a);
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(next, ptr);
    weir_torch_free(next, SIZE, 0, a);
    plug_order(0, b, a);
    plug_capture_end(0, 1, a);
    ck_assert_uint_eq(plug_stats(0).graph_live, 0);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* Nobody tells Weir of which device a recorded stream is that may be destroyed. */
START_TEST(recorded_part_of_a_reserve_waits_for_a_stream_of_another_device)
{
    gpu_stream far = plug_external(1);
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    plug_capture_end(0, 1, a);
    plug_order(0, a, far);
    ck_assert_int_eq(plug_gpu->delay(far, 10 * MILLISECOND), GPU_SUCCESS);
    weir_torch_record_stream(ptr, far);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_begin(0, 1, a);
    void *next = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(next, ptr);
    plug_capture_end(0, 1, a);
    ck_assert_int_eq(plug_gpu->device_synchronize(1), GPU_SUCCESS);
    weir_torch_reset();
    plug_capture_begin(0, 1, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), ptr);
    plug_capture_end(0, 1, a);
    weir_torch_free(next, SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* Reserves ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(reserve_is_kept_until_the_graph_is_released)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_reset();
    ck_assert_uint_eq(plug_stats(0).graph_reserved, CHUNK);
    ck_assert_uint_eq(plug_stats(0).allocated, 0);
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(plug_stats(0).graph_reserved, 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(reserve_is_kept_until_its_last_tensor_is_freed)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(plug_stats(0).graph_live, SIZE);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, CHUNK);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

/* A graph may have nodes on any device. What stands for its launch here is a slow copy. */
START_TEST(memory_of_a_released_graph_is_not_overwritten_while_another_device_reads_it)
{
    static unsigned char host[SIZE];
    const size_t all = 20 * MIB; /* a chunk's worth */
    gpu_stream far = plug_external(1);
    void *page = plug_malloc(SIZE, 0, b);
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    plug_capture_end(0, 1, a);
    ck_assert_int_eq(plug_gpu->set_async(ptr, 1, SIZE, a), GPU_SUCCESS);
    plug_order(0, a, far);
    ck_assert_int_eq(plug_gpu->delay(far, 10 * MILLISECOND), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->copy_async(page, ptr, SIZE, far), GPU_SUCCESS);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_reset();
    void *next = plug_malloc(all, 0, a);
    ck_assert_int_eq(plug_gpu->set_async(next, 2, all, a), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->device_synchronize(0), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->device_synchronize(1), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->copy_async(host, page, SIZE, b), GPU_SUCCESS);
    ck_assert(plug_all(host, 1, SIZE));
    weir_torch_free(next, all, 0, a);
    weir_torch_free(page, SIZE, 0, b);
    plug_expect_empty(0);
}
END_TEST

START_TEST(graphs_with_one_id_share_the_memory)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    plug_capture_begin(0, 1, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), ptr);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    ck_assert_int_eq(weir_torch_pool_uses(0, plug_id(1)), 2);
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(plug_stats(0).graph_reserved, CHUNK);
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_int_eq(weir_torch_pool_uses(0, plug_id(1)), 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(graphs_with_other_ids_share_nothing)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir_torch_free(ptr, SIZE, 0, a);
    plug_capture_end(0, 1, a);
    plug_capture_begin(0, 2, a);
    void *other = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(other, ptr);
    weir_torch_free(other, SIZE, 0, a);
    plug_capture_end(0, 2, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(2));
    plug_expect_empty(0);
}
END_TEST

START_TEST(pool_has_exactly_its_live_parts)
{
    plug_capture_begin(0, 1, a);
    void *ptrs[2] = { plug_malloc(SIZE, 0, a), plug_malloc(SIZE, 0, a) };
    plug_capture_end(0, 1, a);
    const void *const both[] = { ptrs[1], ptrs[0] }, *const wrong[] = { ptrs[0], &both };
    ck_assert(weir_torch_pool_has(0, plug_id(1), both, 2));
    ck_assert(!weir_torch_pool_has(0, plug_id(1), both, 1));
    ck_assert(!weir_torch_pool_has(0, plug_id(1), wrong, 2));
    ck_assert(!weir_torch_pool_has(0, plug_id(2), both, 2));
    ck_assert(weir_torch_pool_has(0, plug_id(2), both, 0));
    for (int i = 0; i < 2; i++)
        weir_torch_free(ptrs[i], SIZE, 0, a);
    ck_assert(weir_torch_pool_has(0, plug_id(1), NULL, 0));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(calls_that_match_no_begin_do_nothing)
{
    weir_torch_end_allocate_to_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_end_allocate_to_pool(1, plug_id(1));
    weir_torch_release_pool(1, plug_id(1));
    weir_torch_end_allocate_to_pool(-1, plug_id(1));
    ck_assert_int_eq(weir_torch_pool_uses(0, plug_id(1)), 0);
    ck_assert_int_eq(weir_torch_pool_uses(5, plug_id(1)), 0);
    plug_expect_empty(0);
}
END_TEST

/* torch.cuda.use_mem_pool() on the allocator that all uses. */
START_TEST(without_a_capture_begin_changes_nothing)
{
    weir_torch_begin_allocate_to_pool(0, plug_id(7));
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, 0);
    weir_torch_free(ptr, SIZE, 0, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), ptr);
    weir_torch_end_allocate_to_pool(0, plug_id(7));
    weir_torch_release_pool(0, plug_id(7));
    weir_torch_free(ptr, SIZE, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(capture_within_use_mem_pool_has_its_own_reserve)
{
    weir_torch_begin_allocate_to_pool(0, plug_id(7));
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    const void *const ptrs[] = { ptr };
    ck_assert(weir_torch_pool_has(0, plug_id(1), ptrs, 1));
    plug_capture_end(0, 1, a);
    weir_torch_end_allocate_to_pool(0, plug_id(7));
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_release_pool(0, plug_id(7));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* Two threads capture at a time. */
struct capturer {
    gpu_stream stream;
    uint64_t id;
    pthread_barrier_t *barrier;
    const char *wrong;
};

static void *capture(void *data)
{
    struct capturer *capturer = data;
    size_t nodes = 1;
    for (int round = 0; round < 20; round++) {
        weir_torch_begin_allocate_to_pool(0, plug_id(capturer->id));
        if (plug_gpu->capture_begin(capturer->stream, GPU_CAPTURE_MODE_THREAD_LOCAL) != GPU_SUCCESS)
            capturer->wrong = "no capture";
        pthread_barrier_wait(capturer->barrier);
        void *ptr = weir_torch_pool_malloc(SIZE, 0, capturer->stream), *large = weir_torch_pool_malloc(3 * MIB, 0, capturer->stream);
        const void *const ptrs[] = { ptr, large };
        if (!ptr || !large || !weir_torch_pool_has(0, plug_id(capturer->id), ptrs, 2))
            capturer->wrong = "not its own reserve";
        weir_torch_free(ptr, SIZE, 0, capturer->stream);
        weir_torch_free(large, 3 * MIB, 0, capturer->stream);
        pthread_barrier_wait(capturer->barrier);
        if (plug_gpu->capture_end(capturer->stream, &nodes) != GPU_SUCCESS || nodes)
            capturer->wrong = "a spoilt capture";
        weir_torch_end_allocate_to_pool(0, plug_id(capturer->id));
        weir_torch_release_pool(0, plug_id(capturer->id));
    }
    return NULL;
}

START_TEST(two_threads_capture_at_a_time)
{
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    struct capturer capturers[2] = { { a, 1, &barrier, NULL }, { b, 2, &barrier, NULL } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, capture, &capturers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(!capturers[i].wrong, "%s", capturers[i].wrong);
    pthread_barrier_destroy(&barrier);
    plug_expect_empty(0);
}
END_TEST

static void look_at(const void *ptr, uint64_t size, void *data)
{
    *(bool *)data = ptr && size;
}

/* What programs do beside captures: streams that come and go, blocks that other streams use, empty_cache(), figures. */
static void *do_all_else(void *data)
{
    struct capturer *self = data;
    for (int round = 0; round < 60 && !self->wrong; round++) {
        weir_torch_stats stats = { .size = sizeof stats };
        gpu_stream external;
        bool looked = true;
        if (plug_gpu->stream_create(0, &external) != GPU_SUCCESS)
            self->wrong = "no stream";
        void *own = weir_torch_pool_malloc(SIZE, 0, self->stream), *other = weir_torch_pool_malloc(3 * MIB, 0, external);
        weir_torch_record_stream(own, NULL);
        weir_torch_record_stream(own, round % 2 ? a : b);
        weir_torch_free(own, SIZE, 0, self->stream);
        if (round % 3 == 0)
            weir_torch_record_stream(other, self->stream);
        plug_gpu->stream_destroy(external);
        weir_torch_free(other, 3 * MIB, 0, external);
        if (!own || !other || weir_torch_stats_take(0, NULL, &stats) != WEIR_OK)
            self->wrong = "no block, or no figures";
        weir_torch_blocks(0, look_at, &looked);
        if (round % 8 == 0)
            weir_torch_reset();
        if (!looked || stats.allocated > stats.active)
            self->wrong = "wrong figures";
    }
    return NULL;
}

/* As something captures all the time, no orphan is freed until the end. */
START_TEST(captures_go_on_beside_all_else)
{
    plug_set_up("memory=4GiB", NULL);
    a = plug_stream(0);
    b = plug_stream(0);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    struct capturer selves[4] = { { a, 1, &barrier, NULL }, { b, 2, &barrier, NULL }, { plug_stream(0), 0, NULL, NULL },
                                  { plug_stream(0), 0, NULL, NULL } };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, i < 2 ? capture : do_all_else, &selves[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(!selves[i].wrong, "%d: %s", i, selves[i].wrong);
    pthread_barrier_destroy(&barrier);
    plug_expect_empty(0);
}
END_TEST

/* Each empty_cache() synchronises the device, for the block of a stream that is gone. */
static void *empty_caches(void *data)
{
    while (!atomic_load((atomic_bool *)data)) {
        gpu_stream external = plug_external(0);
        void *ptr = weir_torch_pool_malloc(SIZE, 0, external);
        plug_gpu->stream_destroy(external);
        weir_torch_free(ptr, SIZE, 0, external);
        weir_torch_reset();
    }
    return NULL;
}

START_TEST(capture_begins_before_the_device_is_synchronised_or_behind_it)
{
    atomic_bool is_over = false;
    pthread_t threads[2];
    bool is_slow = getenv("WEIR_TEST_SLOW"); /* valgrind has few addresses */
    plug_set_up(is_slow ? "memory=2GiB" : "memory=16GiB", NULL);
    a = plug_stream(0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, empty_caches, &is_over), 0);
    for (uint64_t id = 1; id <= (is_slow ? 100 : 2000); id++) {
        plug_capture_begin(0, id, a);
        weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
        plug_capture_end(0, id, a);
        weir_torch_release_pool(0, plug_id(id));
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    plug_expect_empty(0);
}
END_TEST

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

static void count(const void *ptr, uint64_t size, void *data)
{
    uint64_t *sum = data;
    ck_assert_ptr_nonnull(ptr);
    sum[0]++;
    sum[1] += size;
}

START_TEST(figures_have_parts_and_not_chunks)
{
    uint64_t sum[2] = { 0, 0 };
    void *eager = plug_malloc(10000, 0, a);
    weir_torch_reset_peaks(0);
    weir_torch_reset_totals(0);
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_stats stats = plug_stats(0);
    ck_assert_uint_eq(stats.allocated, SIZE + 10000);
    ck_assert_uint_eq(stats.graph_live, SIZE);
    ck_assert_uint_eq(stats.graph_reserved, CHUNK);
    ck_assert_uint_eq(stats.blocks, 2);
    ck_assert_uint_eq(stats.mallocs, 1);
    weir_torch_blocks(0, count, sum);
    ck_assert_uint_eq(sum[0], 2);
    ck_assert_uint_eq(sum[1], SIZE + 10000);
    weir_torch_reset_peaks(0);
    ck_assert_uint_eq(plug_stats(0).allocated_high, SIZE + 10000);
    weir_torch_free(ptr, SIZE, 0, a);
    weir_torch_free(eager, 10000, 0, a);
    ck_assert_uint_eq(plug_stats(0).allocated_high, SIZE + 10000);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("graphs");
    TCase *tcase = suite_case(suite, "graphs", 60);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, memory_of_a_graph_makes_no_node, work_of_the_graph_is_all_that_is_captured,
              memory_is_used_again_by_the_same_stream_of_the_capture, memory_is_not_used_again_by_another_stream_of_the_capture,
              free_of_the_first_part_of_a_chunk_is_no_free_of_the_chunk, tensor_that_is_all_of_a_chunk_is_listed_once,
              cached_block_does_not_serve_a_capture, memory_that_is_handed_out_is_ready, another_thread_allocates_on_the_capturing_stream,
              capture_of_others_gets_no_memory_of_a_begin_beside_it, other_threads_allocate_eagerly_meanwhile,
              another_device_is_first_used_meanwhile, running_out_in_a_capture_leaves_it_whole,
              request_that_fits_only_without_the_usual_chunk_is_served, capture_that_torch_did_not_begin_is_refused_with_the_reason,
              spoilt_capture_keeps_no_memory_from_going_back, capture_after_a_spoilt_one_is_its_own,
              older_block_freed_in_a_capture_waits_for_its_end,
              older_block_freed_in_a_capture_of_others_goes_when_something_is_next_allocated,
              block_of_another_stream_is_freed_during_a_capture, block_recorded_on_a_capturing_stream_waits_for_its_end,
              recorded_stream_that_was_never_used_is_not_asked_for_its_id,
              recorded_part_of_a_reserve_is_out_of_use_until_the_capture_ends,
              recorded_part_of_a_reserve_waits_for_a_stream_of_another_device, reserve_is_kept_until_the_graph_is_released,
              reserve_is_kept_until_its_last_tensor_is_freed, memory_of_a_released_graph_is_not_overwritten_while_another_device_reads_it,
              graphs_with_one_id_share_the_memory, graphs_with_other_ids_share_nothing, pool_has_exactly_its_live_parts,
              calls_that_match_no_begin_do_nothing, without_a_capture_begin_changes_nothing,
              capture_within_use_mem_pool_has_its_own_reserve, two_threads_capture_at_a_time, figures_have_parts_and_not_chunks);
    tcase = suite_case(suite, "machines", 60);
    suite_add(tcase, captures_go_on_beside_all_else, capture_begins_before_the_device_is_synchronised_or_behind_it,
              cache_that_does_not_ask_whether_a_stream_captures_is_left_alone_by_a_capture, memory_of_a_graph_is_aligned_as_the_pool_is);
    return suite_run(suite);
}
