/* SPDX-License-Identifier: MIT */
/* Pools of torch's by their ids: who allocates in them, allocators of their own, and their states saved and restored. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/record/interpreter.h"
#include "tests/plugin/plug.h"

#define SIZE (64 * KIB)

static gpu_stream a, b;

static void set_up(void)
{
    plug_set_up("memory=1GiB", NULL);
    a = plug_stream(0);
    b = plug_stream(0);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
}

static void set_up_stacks(void)
{
    plug_set_up("memory=1GiB", "weir: 1\npools: { p: {} }\nrecord: { stacks: true }\n");
    a = plug_stream(0);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
}

static size_t drops;

static int is_stream(void *data, weir_cuda_stream stream)
{
    return data == stream;
}

static void count_drop(void *data)
{
    (void)data;
    drops++;
}

/* What is asked for on that stream is the pool's. */
static void begin(uint64_t id, gpu_stream stream)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_filter filter = { .wants = is_stream, .drop = count_drop, .data = stream };
    ck_assert_msg(weir_torch_begin_route(0, plug_id(id), &filter, &error) == WEIR_OK, "%s", error.text);
}

static void end(uint64_t id)
{
    weir_torch_end_allocate_to_pool(0, plug_id(id));
}

static void give(void *ptr)
{
    weir_torch_free(ptr, SIZE, 0, a);
}

static bool has(uint64_t id, size_t count, const void *first, const void *second)
{
    const void *ptrs[] = { first, second };
    return weir_torch_pool_has(0, plug_id(id), ptrs, count);
}

static weir_torch_state *save(uint64_t id)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_state *state;
    ck_assert_msg(weir_torch_state_save(0, plug_id(id), &error, &state) == WEIR_OK, "%s", error.text);
    return state;
}

/* The numbers of blocks that were freed and made. */
static void restore(const weir_torch_state *state, size_t freed, size_t made)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_delta *delta;
    ck_assert_msg(weir_torch_state_restore(state, &error, &delta) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(delta->freed_count, freed);
    ck_assert_uint_eq(delta->made_count, made);
    for (size_t i = 0; i < made; i++) {
        ck_assert_uint_eq(delta->made[i].size, SIZE);
        ck_assert_ptr_eq(delta->made[i].stream, a);
    }
    weir_torch_delta_free(delta);
    plug_stats(0);
}

static void expect_refusal(const weir_torch_state *state, weir_status expected, const char *text)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_delta *delta = NULL;
    ck_assert_int_eq(weir_torch_state_restore(state, &error, &delta), expected);
    ck_assert_ptr_null(delta);
    ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
}

/* Begins without a capture ------------------------------------------------------------------------------------------------------------- */

START_TEST(route_has_what_its_filter_wants_without_a_capture)
{
    begin(1, a);
    void *in = plug_malloc(SIZE, 0, a), *out = plug_malloc(SIZE, 0, b);
    ck_assert(has(1, 1, in, NULL));
    ck_assert_int_eq(weir_torch_pool_uses(0, plug_id(1)), 1);
    end(1);
    void *later = plug_malloc(SIZE, 0, a);
    ck_assert(has(1, 1, in, NULL));
    give(in);
    give(later);
    weir_torch_free(out, SIZE, 0, b);
    ck_assert_uint_eq(drops, 1);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* Its handle may be that of another stream, which is not behind the work of the first. */
START_TEST(block_of_a_stream_that_was_destroyed_is_not_used_again_by_another)
{
    gpu_stream former = plug_external(0);
    begin(1, former);
    void *ptr = plug_malloc(SIZE, 0, former);
    ck_assert_int_eq(plug_gpu->delay(former, 1000 * MILLISECOND), GPU_SUCCESS);
    weir_torch_free(ptr, SIZE, 0, former);
    ck_assert_int_eq(plug_gpu->stream_destroy(former), GPU_SUCCESS);
    gpu_stream later = plug_external(0);
    ck_assert_ptr_eq(later, former);
    void *other = plug_malloc(SIZE, 0, later);
    ck_assert_ptr_ne(other, ptr);
    weir_torch_free(other, SIZE, 0, later);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(latest_begin_has_what_several_want)
{
    begin(1, a);
    void *outer = plug_malloc(SIZE, 0, a);
    begin(2, a);
    void *inner = plug_malloc(SIZE, 0, a);
    end(2);
    void *again = plug_malloc(SIZE, 0, a);
    end(1);
    ck_assert(has(1, 2, outer, again));
    ck_assert(has(2, 1, inner, NULL));
    give(outer);
    give(inner);
    give(again);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(2));
    plug_expect_empty(0);
}
END_TEST

START_TEST(capture_and_route_of_one_id_share_the_memory)
{
    plug_capture_begin(0, 1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    give(ptr);
    plug_capture_end(0, 1, a);
    begin(1, a);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), ptr);
    end(1);
    give(ptr);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(route_within_a_capture_has_what_it_wants)
{
    plug_capture_begin(0, 1, a);
    begin(2, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    end(2);
    ck_assert_uint_eq(plug_capture_end(0, 1, a), 0);
    ck_assert(has(2, 1, ptr, NULL));
    give(ptr);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(2));
    plug_expect_empty(0);
}
END_TEST

START_TEST(running_out_in_a_route_leaves_the_pool_whole)
{
    begin(1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(2 * GIB), 0, a));
    ck_assert(has(1, 1, ptr, NULL));
    give(ptr);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* A block that another stream uses is not used again before that has done its work. */
START_TEST(recorded_block_of_a_pool_is_used_again_behind_the_other_stream)
{
    begin(1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_int_eq(plug_gpu->delay(b, 1000 * MILLISECOND), GPU_SUCCESS);
    weir_torch_record_stream(ptr, b);
    give(ptr);
    ck_assert(has(1, 0, NULL, NULL));
    void *other = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(other, ptr);
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    give(other);
    void *again = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_eq(again, ptr);
    give(again);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* States ------------------------------------------------------------------------------------------------------------------------------- */

/* A pool with two live blocks, of which the state knows. */
static struct {
    void *first, *second;
    weir_torch_state *state;
} scene;

static void make_scene(void)
{
    begin(1, a);
    scene.first = plug_malloc(SIZE, 0, a);
    scene.second = plug_malloc(SIZE, 0, a);
    end(1);
    scene.state = save(1);
}

static void end_scene(void)
{
    weir_torch_state_free(scene.state);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}

START_TEST(restored_pool_has_the_blocks_of_the_state_and_no_others)
{
    make_scene();
    give(scene.first);
    begin(1, a);
    void *small = plug_malloc(512, 0, a), *large = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_eq(small, scene.first);
    restore(scene.state, 3, 2);
    ck_assert(has(1, 2, scene.first, scene.second));
    ck_assert_uint_eq(plug_stats(0).allocated, 2 * SIZE);
    ck_assert_ptr_eq(plug_malloc(SIZE, 0, a), large);
    end(1);
    give(scene.first);
    give(scene.second);
    give(large);
    ck_assert(has(1, 0, NULL, NULL));
    weir_torch_release_pool(0, plug_id(1));
    end_scene();
}
END_TEST

START_TEST(state_can_be_restored_again_and_again)
{
    make_scene();
    for (int i = 0; i < 3; i++) {
        give(scene.second);
        give(scene.first);
        restore(scene.state, 0, 2);
    }
    give(scene.first);
    give(scene.second);
    end_scene();
}
END_TEST

START_TEST(empty_cache_keeps_what_a_state_needs_while_the_pool_is_used)
{
    make_scene();
    give(scene.first);
    give(scene.second);
    weir_torch_reset();
    restore(scene.state, 0, 2);
    give(scene.first);
    give(scene.second);
    end_scene();
}
END_TEST

START_TEST(state_of_a_pool_that_is_gone_is_refused)
{
    make_scene();
    give(scene.first);
    give(scene.second);
    weir_torch_release_pool(0, plug_id(1));
    expect_refusal(scene.state, WEIR_NOT_FOUND, "there is no pool (1, 1)");
    weir_torch_state_free(scene.state);
    plug_expect_empty(0);
}
END_TEST

START_TEST(released_pool_with_live_blocks_can_be_restored)
{
    make_scene();
    give(scene.first);
    weir_torch_release_pool(0, plug_id(1));
    restore(scene.state, 1, 2);
    give(scene.first);
    give(scene.second);
    weir_torch_state_free(scene.state);
    plug_expect_empty(0);
}
END_TEST

START_TEST(state_whose_memory_went_back_is_refused_and_nothing_changes)
{
    make_scene();
    give(scene.first);
    give(scene.second);
    weir_torch_trim_pool(0, plug_id(1));
    begin(1, a);
    void *large = plug_malloc(20 * MIB, 0, a);
    end(1);
    expect_refusal(scene.state, WEIR_NOT_FOUND, "given back");
    ck_assert(has(1, 1, large, NULL));
    weir_torch_free(large, 20 * MIB, 0, a);
    weir_torch_release_pool(0, plug_id(1)); /* of the second begin */
    end_scene();
}
END_TEST

START_TEST(pool_with_a_block_that_waits_for_another_stream_has_no_state)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_state *state;
    make_scene();
    ck_assert_int_eq(plug_gpu->delay(b, 1000 * MILLISECOND), GPU_SUCCESS);
    weir_torch_record_stream(scene.first, b);
    give(scene.first);
    ck_assert_int_eq(weir_torch_state_save(0, plug_id(1), &error, &state), WEIR_BUSY);
    ck_assert_msg(strstr(error.text, "synchronize") != NULL, "%s", error.text);
    expect_refusal(scene.state, WEIR_BUSY, "synchronize");
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    restore(scene.state, 1, 2);
    give(scene.first);
    give(scene.second);
    end_scene();
}
END_TEST

START_TEST(restoring_waits_for_streams_that_use_what_goes)
{
    uint64_t before = plug_gpu->now();
    make_scene();
    begin(1, a);
    void *more = plug_malloc(SIZE, 0, a);
    end(1);
    ck_assert_int_eq(plug_gpu->delay(b, 50 * MILLISECOND), GPU_SUCCESS);
    weir_torch_record_stream(more, b);
    restore(scene.state, 3, 2);
    ck_assert_uint_ge(plug_gpu->now() - before, 50 * MILLISECOND);
    give(scene.first);
    give(scene.second);
    weir_torch_release_pool(0, plug_id(1));
    end_scene();
}
END_TEST

/* As it was before: the block is behind the other stream when it is freed. */
START_TEST(refused_restore_forgets_no_stream)
{
    size_t nodes;
    make_scene();
    weir_torch_record_stream(scene.first, b);
    ck_assert_int_eq(plug_gpu->capture_begin(b, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    expect_refusal(scene.state, WEIR_BUSY, "cannot be waited for");
    ck_assert_int_eq(plug_gpu->capture_end(b, &nodes), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->delay(b, 1000 * MILLISECOND), GPU_SUCCESS);
    give(scene.first);
    begin(1, a);
    void *other = plug_malloc(SIZE, 0, a);
    ck_assert_ptr_ne(other, scene.first);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    give(other);
    give(scene.second);
    end_scene();
}
END_TEST

START_TEST(restore_of_what_went_back_forgets_no_stream)
{
    make_scene();
    give(scene.first);
    give(scene.second);
    weir_torch_trim_pool(0, plug_id(1));
    begin(1, a);
    void *large = plug_malloc(20 * MIB, 0, a);
    weir_torch_record_stream(large, b);
    expect_refusal(scene.state, WEIR_NOT_FOUND, "given back");
    ck_assert_int_eq(plug_gpu->delay(b, 1000 * MILLISECOND), GPU_SUCCESS);
    weir_torch_free(large, 20 * MIB, 0, a);
    void *other = plug_malloc(20 * MIB, 0, a);
    ck_assert_ptr_ne(other, large);
    end(1);
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    weir_torch_free(other, 20 * MIB, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    end_scene();
}
END_TEST

START_TEST(block_that_waits_is_not_live)
{
    make_scene();
    ck_assert_int_eq(plug_gpu->delay(b, 1000 * MILLISECOND), GPU_SUCCESS);
    weir_torch_record_stream(scene.first, b);
    give(scene.first);
    ck_assert(!has(1, 1, scene.first, NULL));
    ck_assert(has(1, 1, scene.second, NULL));
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    give(scene.second);
    end_scene();
}
END_TEST

START_TEST(unknown_pool_has_no_state)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_state *state;
    ck_assert_int_eq(weir_torch_state_save(0, plug_id(7), &error, &state), WEIR_NOT_FOUND);
    ck_assert_msg(strstr(error.text, "there is no pool (7, 1) on device 0") != NULL, "%s", error.text);
}
END_TEST

START_TEST(child_of_a_fork_restores_nothing)
{
    int status;
    make_scene();
    pid_t child = fork();
    if (child == 0) {
        weir_error error = WEIR_ERROR_INIT;
        weir_torch_delta *delta;
        weir_torch_release_pool(0, plug_id(1));
        _exit(weir_torch_state_restore(scene.state, &error, &delta) == WEIR_FORKED ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    give(scene.first);
    give(scene.second);
    end_scene();
}
END_TEST

/* What a compiled function allocates: tensors that each need the one before, the largest four times its input. Frees the input. */
static void *run_function(void *input, size_t size)
{
    void *last = input;
    for (int layer = 0; layer < 3; layer++) {
        void *normal = plug_malloc(size, 0, a), *wide = plug_malloc(4 * size, 0, a);
        weir_torch_free(normal, (ssize_t)size, 0, a);
        void *output = plug_malloc(size, 0, a);
        weir_torch_free(wide, (ssize_t)(4 * size), 0, a);
        weir_torch_free(last, (ssize_t)size, 0, a);
        last = output;
    }
    return last;
}

/* The first run of a graph tree's function: not captured. */
static void warm_up(size_t size)
{
    begin(1, a);
    void *output = run_function(NULL, size);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_free(output, (ssize_t)size, 0, a);
}

/* The second: its input is copied into the pool. The state is taken while the output lives. */
static weir_torch_state *record(size_t size)
{
    begin(1, a);
    void *input = plug_malloc(size, 0, a);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_reset();
    plug_capture_begin(0, 1, a);
    void *output = run_function(input, size);
    plug_capture_end(0, 1, a);
    weir_torch_state *state = save(1);
    weir_torch_free(output, (ssize_t)size, 0, a);
    return state;
}

/* Goes back to where the function's graph has run, and frees its output. */
static void go_back(const weir_torch_state *state)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_delta *delta;
    ck_assert_msg(weir_torch_state_restore(state, &error, &delta) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(delta->made_count, 1);
    weir_torch_free(delta->made[0].ptr, (ssize_t)delta->made[0].size, 0, a);
    weir_torch_delta_free(delta);
}

/* As torch.compile(mode="reduce-overhead") does it. */
START_TEST(graph_trees_over_several_shapes_take_no_more_from_round_to_round)
{
    const size_t shapes[] = { 8 * MIB, 16 * MIB, 4 * MIB };
    weir_torch_state *states[3];
    plug_capture_begin(0, 1, a);
    plug_capture_end(0, 1, a);
    for (size_t i = 0; i < 3; i++)
        warm_up(shapes[i]);
    uint64_t warm = plug_stats(0).graph_reserved;
    for (size_t i = 0; i < 3; i++)
        states[i] = record(shapes[i]);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, warm);
    for (size_t round = 0; round < 12; round++) {
        go_back(states[round % 3]);
        warm_up(shapes[round % 2] / 2);
    }
    ck_assert_uint_eq(plug_stats(0).graph_reserved, warm);
    for (size_t i = 0; i < 3; i++) {
        weir_torch_state_free(states[i]);
        ck_assert_uint_eq(plug_stats(0).graph_reserved, warm);
        weir_torch_release_pool(0, plug_id(1));
    }
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(plug_stats(0).graph_reserved, 0);
    plug_expect_empty(0);
}
END_TEST

/* MemPools ----------------------------------------------------------------------------------------------------------------------------- */

/* An allocator of the program's. */
static struct {
    size_t blocks, bytes, drops, asked; /* asked: bytes of the last request */
    size_t most;                        /* bytes of the largest request that it serves; 0: there is no bound */
    bool is_empty;
} own;

static void *own_malloc(void *data, size_t size, int device, weir_cuda_stream stream)
{
    void *ptr = NULL;
    (void)data, (void)device, (void)stream;
    own.asked = size;
    if (own.is_empty || (own.most && size > own.most) || posix_memalign(&ptr, 512, size) != 0)
        return NULL;
    own.blocks++;
    own.bytes += size;
    return ptr;
}

static void own_free(void *data, void *ptr, size_t size, int device)
{
    (void)data, (void)device;
    own.blocks--;
    own.bytes -= size;
    free(ptr);
}

static void own_drop(void *data)
{
    (void)data;
    own.drops++;
}

static void hold(uint64_t id, bool is_own)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_source source = { .malloc = own_malloc, .free = own_free, .drop = own_drop };
    ck_assert_msg(weir_torch_hold_pool(0, plug_id(id), is_own ? &source : NULL, &error) == WEIR_OK, "%s", error.text);
}

START_TEST(pool_without_a_begin_is_held_and_released)
{
    hold(1, false);
    ck_assert_int_eq(weir_torch_pool_uses(0, plug_id(1)), 1);
    ck_assert(has(1, 0, NULL, NULL));
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_int_eq(weir_torch_pool_uses(0, plug_id(1)), 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(allocator_of_a_pools_own_serves_it_and_gets_everything_back)
{
    hold(1, true);
    begin(1, a);
    void *first = plug_malloc(MIB, 0, a), *second = plug_malloc(MIB, 0, a), *third = plug_malloc(MIB, 0, a);
    end(1);
    ck_assert_uint_eq(own.blocks, 2); /* two share a chunk of 2 MiB */
    ck_assert_uint_eq(plug_stats(0).allocated, 3 * MIB);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, own.bytes);
    void *plain = plug_malloc(SIZE, 0, a);
    ck_assert_uint_eq(own.blocks, 2);
    weir_torch_free(first, MIB, 0, a);
    weir_torch_free(third, MIB, 0, a);
    give(plain);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(own.blocks, 1); /* a block of it is live */
    ck_assert_uint_eq(own.drops, 0);
    weir_torch_free(second, MIB, 0, a);
    ck_assert_uint_eq(own.blocks, 0);
    ck_assert_uint_eq(own.drops, 1);
    plug_expect_empty(0);
}
END_TEST

START_TEST(allocator_of_a_pools_own_is_asked_for_what_torch_would_ask)
{
    const size_t asked[][2] = { { 1000, 2 * MIB }, { 3 * MIB, 20 * MIB }, { 32 * MIB, 32 * MIB }, { 33 * MIB, 34 * MIB } };
    void *ptrs[4];
    hold(1, true);
    begin(1, a);
    for (size_t i = 0; i < 4; i++) {
        ptrs[i] = plug_malloc(asked[i][0], 0, a);
        ck_assert_uint_eq(own.asked, asked[i][1]);
    }
    end(1);
    for (size_t i = 0; i < 4; i++)
        weir_torch_free(ptrs[i], (ssize_t)asked[i][0], 0, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(own.blocks, 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(allocator_of_a_pools_own_that_refuses_the_usual_size_is_asked_for_the_least)
{
    hold(1, true);
    own.most = 8 * MIB;
    begin(1, a);
    void *ptr = plug_malloc(3 * MIB, 0, a);
    ck_assert_uint_eq(own.asked, 4 * MIB);
    ck_assert_uint_eq(plug_stats(0).graph_reserved, 4 * MIB);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(9 * MIB), 0, a));
    ck_assert_uint_eq(own.asked, 10 * MIB);
    ck_assert_msg(strstr(plug_report(), "10 MiB on device 0: the pool's own allocator has no more") != NULL, "%s", plug_report());
    end(1);
    weir_torch_free(ptr, 3 * MIB, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(own.blocks, 0);
    plug_expect_empty(0);
}
END_TEST

START_TEST(allocator_of_a_pools_own_that_has_no_more_is_out_of_memory)
{
    hold(1, true);
    own.is_empty = true;
    begin(1, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)SIZE, 0, a));
    ck_assert_msg(strstr(plug_report(), "own allocator") != NULL, "%s", plug_report());
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(own.drops, 1);
    plug_expect_empty(0);
}
END_TEST

static bool is_held;

/* The pool asks Weir for its first memory, and another thread may come in between. */
static unsigned hold_meanwhile(struct weir__place *places, unsigned max)
{
    (void)places, (void)max;
    if (!is_held)
        hold(1, true);
    is_held = true;
    return 0;
}

static bool name_nothing(const struct weir__place *place, bool keeps, struct weir__place_name *name)
{
    (void)place, (void)keeps, (void)name;
    return false;
}

START_TEST(allocator_of_its_own_comes_too_late_for_a_pool_that_is_getting_memory)
{
    static const struct weir__interpreter interpreter = { .find = hold_meanwhile, .name = name_nothing };
    begin(1, a);
    weir__interpreter_set(&interpreter);
    void *ptr = plug_malloc(SIZE, 0, a);
    weir__interpreter_set(NULL);
    ck_assert(is_held);
    ck_assert_uint_eq(own.drops, 1);
    weir_torch_free(plug_malloc(40 * MIB, 0, a), 40 * MIB, 0, a);
    ck_assert_uint_eq(own.blocks, 0);
    give(ptr);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(own_memory_that_goes_during_a_capture_goes_at_its_end)
{
    hold(1, true);
    begin(1, a);
    void *ptr = plug_malloc(SIZE, 0, a);
    end(1);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_capture_begin(0, 2, b);
    give(ptr);
    ck_assert_uint_eq(own.blocks, 1);
    ck_assert_uint_eq(plug_capture_end(0, 2, b), 0);
    ck_assert_uint_eq(own.blocks, 0);
    weir_torch_release_pool(0, plug_id(2));
    plug_expect_empty(0);
}
END_TEST

START_TEST(trimmed_pool_keeps_what_is_live_and_gives_back_the_rest)
{
    hold(1, false);
    begin(1, a);
    void *small = plug_malloc(SIZE, 0, a), *large = plug_malloc(40 * MIB, 0, a);
    end(1);
    weir_torch_free(large, 40 * MIB, 0, a);
    ck_assert_uint_gt(plug_stats(0).graph_reserved, 40 * MIB);
    weir_torch_reset();
    ck_assert_uint_gt(plug_stats(0).graph_reserved, 40 * MIB); /* the pool is used */
    weir_torch_trim_pool(0, plug_id(1));
    ck_assert_uint_lt(plug_stats(0).graph_reserved, 40 * MIB);
    give(small);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(memory_of_a_graph_is_not_trimmed)
{
    plug_capture_begin(0, 1, a);
    give(plug_malloc(SIZE, 0, a));
    plug_capture_end(0, 1, a);
    uint64_t before = plug_stats(0).graph_reserved;
    weir_torch_trim_pool(0, plug_id(1));
    ck_assert_uint_eq(plug_stats(0).graph_reserved, before);
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(free_memory_of_a_pool_serves_where_there_is_no_other)
{
    hold(1, false);
    begin(1, a);
    void *ptr = plug_malloc(800 * MIB, 0, a);
    end(1);
    weir_torch_free(ptr, 800 * MIB, 0, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(600 * MIB), 0, a));
    weir_torch_set_pool(0, plug_id(1), WEIR_TORCH_USE_ON_OOM, 1);
    ck_assert_ptr_eq(plug_malloc(600 * MIB, 0, a), ptr);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(600 * MIB), 0, a));
    weir_torch_free(ptr, 600 * MIB, 0, a);
    weir_torch_set_pool(0, plug_id(1), WEIR_TORCH_USE_ON_OOM, 0);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(600 * MIB), 0, a));
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

/* The graph uses it each time it runs. */
START_TEST(memory_of_a_graph_serves_nobody_else)
{
    plug_capture_begin(0, 1, a);
    weir_torch_free(plug_malloc(600 * MIB, 0, a), 600 * MIB, 0, a);
    plug_capture_end(0, 1, a);
    weir_torch_set_pool(0, plug_id(1), WEIR_TORCH_USE_ON_OOM, 1);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(600 * MIB), 0, a));
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_free(plug_malloc(600 * MIB, 0, a), 600 * MIB, 0, a);
    plug_expect_empty(0);
}
END_TEST

/* The pool does not know of a graph that uses its memory. */
START_TEST(graph_has_no_memory_of_a_pool_that_serves_where_there_is_no_other)
{
    hold(1, false);
    begin(1, a);
    weir_torch_free(plug_malloc(800 * MIB, 0, a), 800 * MIB, 0, a);
    end(1);
    weir_torch_set_pool(0, plug_id(1), WEIR_TORCH_USE_ON_OOM, 1);
    plug_capture_begin(0, 2, a);
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(600 * MIB), 0, a));
    plug_capture_end(0, 2, a);
    weir_torch_release_pool(0, plug_id(2));
    weir_torch_free(plug_malloc(600 * MIB, 0, a), 600 * MIB, 0, a);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    plug_expect_empty(0);
}
END_TEST

START_TEST(pool_that_does_not_split_has_a_chunk_for_each_request)
{
    hold(1, true);
    weir_torch_set_pool(0, plug_id(1), WEIR_TORCH_NO_SPLIT, 1);
    begin(1, a);
    void *first = plug_malloc(SIZE, 0, a), *second = plug_malloc(SIZE, 0, a);
    ck_assert_uint_eq(own.blocks, 2);
    give(first);
    ck_assert_ptr_eq(plug_malloc(SIZE / 2, 0, a), first);
    end(1);
    give(first);
    give(second);
    weir_torch_release_pool(0, plug_id(1));
    weir_torch_release_pool(0, plug_id(1));
    ck_assert_uint_eq(own.blocks, 0);
    plug_expect_empty(0);
}
END_TEST

/* Pools of the policy ------------------------------------------------------------------------------------------------------------------ */

static void set_up_regions(void)
{
    plug_set_up("memory=1GiB", "weir: 1\npools: { p: {}, q: {}, r: { max_size: 64MiB } }\ndefaults: { pool: p }\n");
    a = plug_stream(0);
    b = plug_external(0);
    weir_torch_free(plug_malloc(SIZE, 0, a), SIZE, 0, a);
}

static void choose(const char *name)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(weir_torch_region_begin(name, 0, &error) == WEIR_OK, "%s", error.text);
}

static uint64_t live_of(const char *name)
{
    weir_error error = WEIR_ERROR_INIT;
    weir *w;
    weir_stats *stats;
    uint64_t live = 0;
    ck_assert_int_eq(weir_torch_get(0, &error, &w), WEIR_OK);
    ck_assert_int_eq(weir_stats_take(w, &error, &stats), WEIR_OK);
    for (size_t i = 0; i < weir_stats_pool_count(stats); i++)
        if (strcmp(weir_stats_pool(stats, i)->name, name) == 0)
            live += weir_stats_pool(stats, i)->live;
    weir_stats_free(stats);
    return live;
}

START_TEST(region_takes_what_it_allocates_from_its_pool)
{
    void *first = plug_malloc(SIZE, 0, a);
    choose("q");
    void *second = plug_malloc(SIZE, 0, a), *third = plug_malloc(SIZE, 0, b);
    choose("p");
    void *inner = plug_malloc(SIZE, 0, a);
    weir_torch_region_end();
    weir_torch_free(second, SIZE, 0, a);
    second = plug_malloc(SIZE, 0, a);
    weir_torch_region_end();
    void *last = plug_malloc(SIZE, 0, a);
    ck_assert_uint_eq(live_of("q"), 2 * SIZE);
    ck_assert_uint_eq(live_of("p"), 3 * SIZE);
    give(first);
    give(second);
    give(inner);
    give(last);
    weir_torch_free_alive(third, SIZE, 0, b);
    ck_assert_uint_eq(live_of("q"), 0);
    ck_assert_int_eq(plug_gpu->stream_synchronize(b), GPU_SUCCESS);
    plug_expect_empty(0);
}
END_TEST

START_TEST(bounds_of_a_regions_pool_hold_and_another_pool_is_not_tried)
{
    choose("r");
    ck_assert_ptr_null(weir_torch_pool_malloc((ssize_t)(65 * MIB), 0, a));
    ck_assert_msg(strstr(plug_report(), "pool 'r'") != NULL, "%s", plug_report());
    weir_torch_region_end();
    weir_torch_free(plug_malloc(65 * MIB, 0, a), 65 * MIB, 0, a);
    plug_expect_empty(0);
}
END_TEST

START_TEST(unknown_pool_is_refused_and_those_that_exist_are_named)
{
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_int_eq(weir_torch_region_begin("s", 0, &error), WEIR_NOT_FOUND);
    ck_assert_msg(strstr(error.text, "no pool 's' on device 0: it has 'p', 'q', 'r'") != NULL, "%s", error.text);
    give(plug_malloc(SIZE, 0, a));
    plug_expect_empty(0);
}
END_TEST

START_TEST(regions_are_not_deeper_than_is_said)
{
    weir_error error = WEIR_ERROR_INIT;
    for (int i = 0; i < 16; i++)
        choose("q");
    ck_assert_int_eq(weir_torch_region_begin("q", 0, &error), WEIR_INVALID);
    for (int i = 0; i < 17; i++)
        weir_torch_region_end();
    void *ptr = plug_malloc(SIZE, 0, a);
    ck_assert_uint_eq(live_of("p"), SIZE);
    give(ptr);
    plug_expect_empty(0);
}
END_TEST

int main(void)
{
    weir__unwind_prepare(); /* its descriptors stay open */
    Suite *suite = suite_create("pools");
    TCase *tcase = suite_case(suite, "routes", 0);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, route_has_what_its_filter_wants_without_a_capture, latest_begin_has_what_several_want,
              block_of_a_stream_that_was_destroyed_is_not_used_again_by_another,
              capture_and_route_of_one_id_share_the_memory, route_within_a_capture_has_what_it_wants,
              running_out_in_a_route_leaves_the_pool_whole, recorded_block_of_a_pool_is_used_again_behind_the_other_stream);
    tcase = suite_case(suite, "states", 0);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, restored_pool_has_the_blocks_of_the_state_and_no_others, state_can_be_restored_again_and_again,
              empty_cache_keeps_what_a_state_needs_while_the_pool_is_used, state_of_a_pool_that_is_gone_is_refused,
              released_pool_with_live_blocks_can_be_restored, state_whose_memory_went_back_is_refused_and_nothing_changes,
              pool_with_a_block_that_waits_for_another_stream_has_no_state, restoring_waits_for_streams_that_use_what_goes,
              refused_restore_forgets_no_stream, restore_of_what_went_back_forgets_no_stream,
              graph_trees_over_several_shapes_take_no_more_from_round_to_round, block_that_waits_is_not_live, unknown_pool_has_no_state,
              child_of_a_fork_restores_nothing);
    tcase = suite_case(suite, "mem_pools", 0);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, pool_without_a_begin_is_held_and_released, allocator_of_a_pools_own_serves_it_and_gets_everything_back,
              allocator_of_a_pools_own_is_asked_for_what_torch_would_ask,
              allocator_of_a_pools_own_that_refuses_the_usual_size_is_asked_for_the_least,
              allocator_of_a_pools_own_that_has_no_more_is_out_of_memory, own_memory_that_goes_during_a_capture_goes_at_its_end,
              trimmed_pool_keeps_what_is_live_and_gives_back_the_rest, memory_of_a_graph_is_not_trimmed,
              memory_of_a_graph_serves_nobody_else, graph_has_no_memory_of_a_pool_that_serves_where_there_is_no_other,
              free_memory_of_a_pool_serves_where_there_is_no_other, pool_that_does_not_split_has_a_chunk_for_each_request);
    tcase = suite_case(suite, "stacks", 0);
    tcase_add_checked_fixture(tcase, set_up_stacks, NULL);
    suite_add(tcase, allocator_of_its_own_comes_too_late_for_a_pool_that_is_getting_memory);
    tcase = suite_case(suite, "regions", 0);
    tcase_add_checked_fixture(tcase, set_up_regions, NULL);
    suite_add(tcase, region_takes_what_it_allocates_from_its_pool, bounds_of_a_regions_pool_hold_and_another_pool_is_not_tried,
              unknown_pool_is_refused_and_those_that_exist_are_named, regions_are_not_deeper_than_is_said);
    return suite_run(suite);
}
