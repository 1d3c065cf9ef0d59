/* SPDX-License-Identifier: MIT */
/* hold.c - what is shared: the streams behind which it ends, and that it ends once. Leases are the matter of tests/python/share_test.py. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/plugin/plug.h"

#define DEPTH 64
#define SLOT_SIZE 4096

static const char *const policy = "weir: 1\npools: { frames: { devices: [0], ipc: posix_fd, share: { socket: frames } } }\n";
static char directory[64];
static weir *w;
static weir_pool *pool;
static gpu_stream home, other;
static weir_torch_hold *export, *ring, *slot;
static weir_ring *plain_ring;
static void *ptr;

static void set_up(void)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_export *e;
    weir_options of_weir = { .size = sizeof of_weir, .policy_text = policy };
    weir_ring_options options = { .size = sizeof options, .slot_size = SLOT_SIZE, .depth = DEPTH };
    strcpy(directory, "/tmp/weir-hold-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    setenv("XDG_RUNTIME_DIR", directory, 1);
    plug_set_up(NULL, NULL);
    home = plug_stream(0);
    other = plug_stream(0);
    ck_assert_msg(weir_open(&of_weir, &error, &w) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(weir_pool_get(w, "frames", 0, NULL, &pool), WEIR_OK);
    ck_assert_msg(weir_export_open(pool, &error, &e) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(weir_ring_open(e, "camera", &options, home, NULL, &plain_ring), WEIR_OK);
    export = weir_torch_hold_new(WEIR_TORCH_EXPORT, e, w, 0, NULL, 0, NULL);
    ring = weir_torch_hold_new(WEIR_TORCH_RING, plain_ring, w, 0, NULL, 0, export);
    ck_assert(export && ring);
    ck_assert_int_eq(weir_torch_slot_take(ring, 0, home, NULL, &slot, &ptr), WEIR_OK);
}

static void drop(weir_torch_hold **hold)
{
    weir_torch_hold_drop(*hold);
    *hold = NULL;
}

static void tear_down(void)
{
    char command[128];
    drop(&slot);
    drop(&ring);
    drop(&export);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static bool is_behind_work(gpu_stream stream)
{
    gpu_event event;
    ck_assert_int_eq(plug_gpu->event_create(0, &event), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->event_record(event, stream), GPU_SUCCESS);
    int code = plug_gpu->event_query(event);
    plug_gpu->event_destroy(event);
    return code == GPU_NOT_READY;
}

static void work_on(gpu_stream stream)
{
    ck_assert_int_eq(plug_gpu->delay(stream, 1000 * MILLISECOND), GPU_SUCCESS);
}

static weir_ring_info info_of_ring(void)
{
    weir_ring_info info = { .size = sizeof info };
    ck_assert_int_eq(weir_ring_get_info(plain_ring, &info), WEIR_OK);
    return info;
}

START_TEST(stream_that_uses_it_waits_for_its_home)
{
    work_on(home);
    ck_assert_int_eq(weir_torch_hold_use(slot, other, 1, NULL), WEIR_OK);
    ck_assert(is_behind_work(other));
}
END_TEST

/* A tensor was used on its own stream, and is given back on another one. */
START_TEST(stream_that_gives_it_back_waits_for_a_home_that_used_it)
{
    ck_assert_int_eq(weir_torch_hold_use(slot, home, 1, NULL), WEIR_OK);
    work_on(home);
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, NULL, 0, other, NULL), WEIR_OK);
    ck_assert(is_behind_work(other));
}
END_TEST

START_TEST(home_that_did_not_use_it_is_not_waited_for)
{
    work_on(home);
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, NULL, 0, other, NULL), WEIR_OK);
    ck_assert(!is_behind_work(other));
}
END_TEST

START_TEST(home_waits_for_all_that_used_it)
{
    ck_assert_int_eq(weir_torch_hold_use(slot, home, 1, NULL), WEIR_OK);
    ck_assert_int_eq(weir_torch_hold_use(slot, other, 1, NULL), WEIR_OK);
    work_on(other);
    ck_assert_int_eq(weir_torch_hold_discard(slot, home, NULL), WEIR_OK);
    ck_assert(is_behind_work(home));
}
END_TEST

static void *push_on_its_own_stream(void *unused)
{
    (void)unused;
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, NULL, 0, GPU_STREAM_PER_THREAD, NULL), WEIR_OK);
    ck_assert(is_behind_work(GPU_STREAM_PER_THREAD));
    return NULL;
}

START_TEST(stream_of_a_thread_waits_for_that_of_another)
{
    pthread_t thread;
    ck_assert_int_eq(weir_torch_hold_use(slot, GPU_STREAM_PER_THREAD, 1, NULL), WEIR_OK);
    work_on(GPU_STREAM_PER_THREAD);
    ck_assert_int_eq(pthread_create(&thread, NULL, push_on_its_own_stream, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(last_holder_ends_it)
{
    weir_torch_hold_keep(slot);
    ck_assert_uint_eq(weir_torch_hold_holders(slot), 2);
    weir_torch_hold_drop(slot);
    ck_assert_uint_eq(weir_torch_hold_holders(slot), 1);
    ck_assert_uint_eq(info_of_ring().taken, 1);
    drop(&slot);
    ck_assert_uint_eq(info_of_ring().taken, 0);
    weir_torch_hold_drop(NULL);
}
END_TEST

START_TEST(slot_ends_once)
{
    weir_error error = WEIR_ERROR_INIT;
    char too_much[WEIR_METADATA_MAX + 1] = "";
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, too_much, sizeof too_much, home, NULL), WEIR_INVALID);
    ck_assert_uint_eq(info_of_ring().taken, 1);
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, "m", 1, home, NULL), WEIR_OK);
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, "m", 1, home, &error), WEIR_INVALID);
    ck_assert_str_eq(error.text, "the slot was pushed or dropped already: take another one");
    ck_assert_int_eq(weir_torch_hold_discard(slot, home, NULL), WEIR_INVALID);
    drop(&slot);
    ck_assert_uint_eq(info_of_ring().pushed, 1);
    ck_assert_int_eq(weir_torch_hold_discard(ring, home, NULL), WEIR_INVALID);
}
END_TEST

/* So many that trying all of them again for each of them would never end. */
START_TEST(slots_whose_stream_captures_end_along_with_a_later_one)
{
    size_t nodes;
    weir_torch_hold *slots[DEPTH - 1];
    for (int s = 0; s < DEPTH - 1; s++) {
        ck_assert_int_eq(weir_torch_slot_take(ring, 0, home, NULL, &slots[s], &ptr), WEIR_OK);
        ck_assert_int_eq(weir_torch_hold_use(slots[s], other, 0, NULL), WEIR_OK);
    }
    ck_assert_int_eq(plug_gpu->capture_begin(other, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    for (int s = 0; s < DEPTH - 1; s++)
        weir_torch_hold_drop(slots[s]);
    ck_assert_uint_eq(info_of_ring().taken, DEPTH);
    ck_assert_int_eq(plug_gpu->capture_end(other, &nodes), GPU_SUCCESS);
    drop(&slot);
    ck_assert_uint_eq(info_of_ring().taken, 0);
}
END_TEST

/* No slot is left that could be dropped later. */
START_TEST(slot_is_taken_where_all_wait_for_a_capture_that_is_over)
{
    size_t nodes;
    weir_torch_hold *slots[DEPTH];
    slots[0] = slot;
    for (int s = 1; s < DEPTH; s++)
        ck_assert_int_eq(weir_torch_slot_take(ring, 0, home, NULL, &slots[s], &ptr), WEIR_OK);
    ck_assert_int_eq(plug_gpu->capture_begin(home, GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    for (int s = 0; s < DEPTH; s++)
        weir_torch_hold_drop(slots[s]);
    slot = NULL;
    ck_assert_int_eq(weir_torch_slot_take(ring, 0, other, NULL, &slot, &ptr), WEIR_BUSY);
    ck_assert_int_eq(plug_gpu->capture_end(home, &nodes), GPU_SUCCESS);
    ck_assert_int_eq(weir_torch_slot_take(ring, 0, other, NULL, &slot, &ptr), WEIR_OK);
    ck_assert_uint_eq(info_of_ring().taken, 1);
}
END_TEST

START_TEST(ring_and_export_stay_while_a_slot_is_held)
{
    drop(&ring);
    drop(&export);
    ck_assert_int_eq(weir_torch_slot_push(slot, 0, NULL, 0, home, NULL), WEIR_OK);
    ck_assert_uint_eq(info_of_ring().pushed, 1);
}
END_TEST

static weir_torch_hold *block_of(size_t size)
{
    ck_assert_int_eq(weir_pool_malloc(pool, &ptr, size, home), WEIR_OK);
    weir_torch_hold *block = weir_torch_hold_new(WEIR_TORCH_BLOCK, ptr, w, 0, home, 0, export);
    ck_assert_ptr_nonnull(block);
    return block;
}

START_TEST(block_that_nobody_published_is_freed_with_its_last_holder)
{
    weir_torch_hold_drop(block_of(MIB));
    ck_assert_int_eq(weir_free(w, ptr, home), WEIR_NOT_A_BLOCK);
}
END_TEST

START_TEST(block_that_was_published_is_the_exporters)
{
    weir_torch_hold *block = block_of(MIB);
    ck_assert_int_eq(weir_torch_block_publish(block, "no name!", 0, NULL, 0, NULL), WEIR_INVALID);
    ck_assert_int_eq(weir_torch_block_publish(block, "weights", 0, NULL, 0, NULL), WEIR_OK);
    ck_assert_int_eq(weir_torch_block_publish(block, "again", 0, NULL, 0, NULL), WEIR_INVALID);
    weir_torch_hold_drop(block);
    ck_assert_int_eq(weir_free(w, ptr, home), WEIR_BUSY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hold");
    TCase *tcase = suite_case(suite, "hold", 0);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, stream_that_uses_it_waits_for_its_home, stream_that_gives_it_back_waits_for_a_home_that_used_it,
              home_that_did_not_use_it_is_not_waited_for, home_waits_for_all_that_used_it, stream_of_a_thread_waits_for_that_of_another,
              last_holder_ends_it, slot_ends_once, slots_whose_stream_captures_end_along_with_a_later_one,
              slot_is_taken_where_all_wait_for_a_capture_that_is_over, ring_and_export_stay_while_a_slot_is_held,
              block_that_nobody_published_is_freed_with_its_last_holder, block_that_was_published_is_the_exporters);
    return suite_run(suite);
}
