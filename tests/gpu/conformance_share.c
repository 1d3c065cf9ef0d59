/* SPDX-License-Identifier: MIT */
/* conformance_share.c - pools and blocks that two processes share, and what becomes of them when one is killed. */
#include "tests/gpu/conformance_lend.h"

#include <stdio.h>
#include <unistd.h>

/* Blocks ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(block_written_here_is_read_there)
{
    struct lent lent = lend(64 * MIB, 42);
    ck_assert_int_eq(read_at(&first, lent.there + 64 * MIB - 1), 42);
}
END_TEST

START_TEST(block_written_there_is_read_here)
{
    struct lent lent = lend(64 * MIB, 1);
    ck_assert_peer(&first, .what = PEER_FILL, .address = lent.there, .size = 64 * MIB, .value = 43);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_int_eq(read_byte(lent.ptr), 43);
}
END_TEST

START_TEST(two_importers_read_the_same_block)
{
    int fd;
    struct gpu_shared_block shared;
    gpu_pool pool = make_shared_pool(&fd);
    make_shared_block(pool, MIB, 44, &shared);
    give_pool_to(&first, dup(fd));
    give_pool_to(&second, fd);
    ck_assert_int_eq(read_at(&first, give_block_to(&first, &shared)), 44);
    ck_assert_int_eq(read_at(&second, give_block_to(&second, &shared)), 44);
}
END_TEST

START_TEST(small_blocks_beside_each_other_are_imported_each)
{
    int fd;
    struct gpu_shared_block shared[2];
    gpu_pool pool = make_shared_pool(&fd);
    make_shared_block(pool, 512, 1, &shared[0]);
    make_shared_block(pool, 512, 2, &shared[1]);
    give_pool_to(&first, fd);
    ck_assert_int_eq(read_at(&first, give_block_to(&first, &shared[0])), 1);
    ck_assert_int_eq(read_at(&first, give_block_to(&first, &shared[1])), 2);
}
END_TEST

START_TEST(block_is_exported_only_after_its_pool)
{
    int fd;
    struct gpu_shared_block shared;
    gpu_pool pool = make_pool(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true });
    void *ptr = take(pool, MIB, rig.a);
    ck_assert_gpu_code(g->block_export(ptr, &shared), GPU_INVALID_VALUE);
    ck_assert_gpu(g->pool_export(pool, &fd));
    close(fd);
    ck_assert_gpu(g->block_export(ptr, &shared));
}
END_TEST

START_TEST(block_of_an_ordinary_pool_cannot_be_exported)
{
    struct gpu_shared_block shared;
    ck_assert_gpu_code(g->block_export(take(rig.pool, MIB, rig.a), &shared), GPU_INVALID_VALUE);
}
END_TEST

START_TEST(block_imported_twice_has_one_address)
{
    struct lent lent = lend(MIB, 42);
    ck_assert_uint_eq(give_block_to(&first, &lent.shared), lent.there);
}
END_TEST

START_TEST(block_imported_twice_has_one_count)
{
    struct lent lent = lend(MIB, 42);
    give_block_to(&first, &lent.shared);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_peer_code(&first, GPU_INVALID_VALUE, .what = PEER_FREE, .address = lent.there);
}
END_TEST

START_TEST(block_can_be_imported_again_after_its_free_completed)
{
    struct lent lent = lend(MIB, 42);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_int_eq(read_at(&first, give_block_to(&first, &lent.shared)), 42);
}
END_TEST

START_TEST(imported_block_is_freed_in_stream_order)
{
    struct lent lent = lend(MIB, 42);
    ck_assert_peer(&first, .what = PEER_DELAY, .value = KERNEL_NS);
    ck_assert_peer(&first, .what = PEER_FILL, .address = lent.there, .size = MIB, .value = 45);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_int_eq(read_byte(lent.ptr), 45);
}
END_TEST

START_TEST(imported_block_can_be_freed_on_another_stream_than_used_it)
{
    struct lent lent = lend(MIB, 42);
    ck_assert_int_eq(read_at(&first, lent.there), 42);
    ck_assert_peer(&first, .what = PEER_OTHER_STREAM);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_peer_code(&first, GPU_INVALID_VALUE, .what = PEER_FREE, .address = lent.there);
}
END_TEST

START_TEST(freeing_an_import_leaves_the_block_to_its_owner)
{
    struct lent lent = lend(MIB, 42);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_int_eq(read_byte(lent.ptr), 42);
    give(lent.ptr, rig.a);
}
END_TEST

START_TEST(mapping_follows_the_memory_to_its_next_owner)
{
    struct lent lent = lend(LARGE, 42);
    give(lent.ptr, rig.a);
    void *next = take(lent.pool, LARGE, rig.a);
    ck_assert_ptr_eq(next, lent.ptr);
    ck_assert_gpu(g->set_async(next, 77, FILLED, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_int_eq(read_at(&first, lent.there), 77);
}
END_TEST

START_TEST(data_can_be_read_after_the_owner_freed_them)
{
    struct lent lent = lend(LARGE, 42);
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_int_eq(read_at(&first, lent.there), 42);
}
END_TEST

START_TEST(data_can_be_read_after_the_owner_destroyed_the_pool)
{
    struct lent lent = lend(LARGE, 42);
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_destroy(lent.pool));
    forget_pool(lent.pool);
    ck_assert_int_eq(read_at(&first, lent.there), 42);
}
END_TEST

START_TEST(data_can_be_read_after_the_owner_was_killed)
{
    struct lent lent = borrow(64 * MIB, 46);
    peer_kill(&first);
    ck_assert_int_eq(read_byte(lent.ptr), 46);
    give_back(&lent);
}
END_TEST

/* Imported pools ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(imported_pool_cannot_allocate)
{
    lend(MIB, 42);
    ck_assert_peer_code(&first, GPU_INVALID_VALUE, .what = PEER_ALLOCATE, .size = MIB);
}
END_TEST

START_TEST(imported_pool_cannot_be_trimmed)
{
    struct lent lent = borrow(MIB, 42);
    ck_assert_gpu_code(g->pool_trim(lent.pool, 0), GPU_INVALID_VALUE);
    give_back(&lent);
}
END_TEST

START_TEST(imported_pool_cannot_be_asked)
{
    uint64_t value;
    struct lent lent = borrow(MIB, 42);
    ck_assert_gpu_code(g->pool_get(lent.pool, GPU_POOL_RESERVED, &value), GPU_INVALID_VALUE);
    ck_assert_gpu_code(g->pool_get(lent.pool, GPU_POOL_USED, &value), GPU_INVALID_VALUE);
    give_back(&lent);
}
END_TEST

START_TEST(imported_pool_cannot_be_made_current)
{
    struct lent lent = borrow(MIB, 42);
    int code = g->pool_set_current(0, lent.pool);
    ck_assert_int_ne(code, 0);
    give_back(&lent);
}
END_TEST

START_TEST(pool_can_be_imported_twice)
{
    int fd;
    gpu_pool pool = make_shared_pool(&fd);
    struct gpu_shared_block shared;
    make_shared_block(pool, MIB, 47, &shared);
    give_pool_to(&first, dup(fd));
    struct peer_message again = { .what = PEER_IMPORT_POOL, .object = 1 };
    ck_assert_gpu(peer_ask(&first, &again, fd));
    close(fd);
    ck_assert_peer(&first, .what = PEER_DESTROY_POOL, .object = 1);
    ck_assert_int_eq(read_at(&first, give_block_to(&first, &shared)), 47);
}
END_TEST

START_TEST(what_is_no_pool_cannot_be_imported)
{
    int ends[2];
    gpu_pool pool;
    ck_assert_int_eq(pipe(ends), 0);
    int code = g->pool_import(0, ends[0], &pool);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_ne(code, 0);
}
END_TEST

START_TEST(peer_device_gets_access_to_an_imported_pool)
{
    struct peer_message message = { .what = PEER_GET_ACCESS, .size = 1 };
    lend(MIB, 42);
    ck_assert_peer(&first, .what = PEER_SET_ACCESS, .size = 1, .value = GPU_ACCESS_READ_WRITE);
    ck_assert_gpu(peer_ask(&first, &message, -1));
    ck_assert_uint_eq(message.value, GPU_ACCESS_READ_WRITE);
}
END_TEST

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(exported_block_is_missing_from_the_device_while_its_pool_lives)
{
    ck_assert_peer(&first, .what = PEER_TOUCH);
    uint64_t before = device_free();
    struct lent lent = lend(LARGE, 42);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_peer(&first, .what = PEER_DESTROY_POOL);
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_trim(lent.pool, 0));
    ck_assert_uint_eq(figure(lent.pool, GPU_POOL_RESERVED), 0);
    ck_assert_uint_le(device_free(), before - LARGE);
    ck_assert_gpu(g->pool_destroy(lent.pool));
    forget_pool(lent.pool);
    ck_assert_uint_gt(device_free(), before - LARGE);
}
END_TEST

START_TEST(memory_comes_back_when_the_last_importer_has_destroyed_its_pool)
{
    ck_assert_peer(&first, .what = PEER_TOUCH);
    uint64_t before = device_free();
    struct lent lent = lend(LARGE, 42);
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_destroy(lent.pool));
    forget_pool(lent.pool);
    ck_assert_peer(&first, .what = PEER_FREE, .address = lent.there);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_uint_le(device_free(), before - LARGE);
    ck_assert_peer(&first, .what = PEER_DESTROY_POOL);
    ck_assert_uint_gt(device_free(), before - LARGE);
}
END_TEST

START_TEST(memory_comes_back_when_an_importer_was_killed)
{
    ck_assert_peer(&first, .what = PEER_TOUCH);
    uint64_t before = device_free();
    struct lent lent = lend(LARGE, 42);
    peer_kill(&first);
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_destroy(lent.pool));
    forget_pool(lent.pool);
    ck_assert_uint_gt(device_free(), before - LARGE);
}
END_TEST

START_TEST(memory_of_a_killed_owner_comes_back_when_the_importer_lets_go)
{
    ck_assert_peer(&first, .what = PEER_TOUCH);
    uint64_t before = device_free();
    struct lent lent = borrow(LARGE, 42);
    peer_kill(&first);
    /* The device gets back what the context of the dead process took, which is less than the block. */
    ck_assert_uint_lt(device_free(), before);
    give_back(&lent);
    ck_assert_uint_ge(device_free(), before);
}
END_TEST

/* Frees a block that was exported, lets the driver see that, and takes as much again: whether the device lacks the bytes of both. */
static bool loses_exported_memory(uint64_t threshold)
{
    struct lent lent = lend(LARGE, 42);
    ck_assert_gpu(g->pool_set(lent.pool, GPU_POOL_RELEASE_THRESHOLD, threshold));
    uint64_t with_block = device_free();
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    take(lent.pool, LARGE, rig.a);
    ck_assert_uint_eq(figure(lent.pool, GPU_POOL_USED), LARGE);
    return device_free() + STEP < with_block;
}

START_TEST(exported_memory_that_the_pool_lets_go_serves_nothing_again)
{
    ck_assert(loses_exported_memory(0));
}
END_TEST

START_TEST(exported_memory_that_the_pool_keeps_serves_it_again)
{
    ck_assert(!loses_exported_memory(UINT64_MAX));
}
END_TEST

START_TEST(exported_memory_that_is_trimmed_serves_nothing_again)
{
    struct lent lent = lend(LARGE, 42);
    ck_assert_gpu(g->pool_set(lent.pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX));
    uint64_t with_block = device_free();
    give(lent.ptr, rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_trim(lent.pool, 0));
    take(lent.pool, LARGE, rig.a);
    ck_assert_uint_lt(device_free() + STEP, with_block);
}
END_TEST

/* Work goes on while the process that queued it does nothing. */
START_TEST(work_runs_while_its_process_waits_elsewhere)
{
    struct lent lent = borrow(MIB, 1);
    ck_assert_peer(&first, .what = PEER_DELAY, .value = KERNEL_NS);
    ck_assert_peer(&first, .what = PEER_FILL, .address = lent.there, .size = MIB, .value = 50);
    uint64_t end = g->now() + 100 * KERNEL_NS;
    while (read_byte(lent.ptr) != 50 && g->now() < end)
        g->pause(1000000);
    ck_assert_int_eq(read_byte(lent.ptr), 50);
    give_back(&lent);
}
END_TEST

/* -------------------------------------------------------------------------------------------------------------------------------------- */

static void add_block_tests(Suite *suite)
{
    TCase *tcase = share_case(suite, "shared blocks");
    suite_add(tcase, block_written_here_is_read_there, block_written_there_is_read_here, two_importers_read_the_same_block,
              small_blocks_beside_each_other_are_imported_each, block_is_exported_only_after_its_pool,
              block_of_an_ordinary_pool_cannot_be_exported, block_imported_twice_has_one_address, block_imported_twice_has_one_count,
              block_can_be_imported_again_after_its_free_completed, imported_block_is_freed_in_stream_order,
              imported_block_can_be_freed_on_another_stream_than_used_it, freeing_an_import_leaves_the_block_to_its_owner,
              mapping_follows_the_memory_to_its_next_owner, data_can_be_read_after_the_owner_freed_them,
              data_can_be_read_after_the_owner_destroyed_the_pool, data_can_be_read_after_the_owner_was_killed,
              work_runs_while_its_process_waits_elsewhere);
}

static void add_imported_pool_tests(Suite *suite)
{
    TCase *tcase = share_case(suite, "imported pools");
    suite_add(tcase, imported_pool_cannot_allocate, imported_pool_cannot_be_trimmed, imported_pool_cannot_be_asked,
              imported_pool_cannot_be_made_current, pool_can_be_imported_twice, what_is_no_pool_cannot_be_imported);
}

static void add_shared_memory_tests(Suite *suite)
{
    TCase *tcase = share_case(suite, "shared memory");
    suite_add(tcase, exported_block_is_missing_from_the_device_while_its_pool_lives,
              memory_comes_back_when_the_last_importer_has_destroyed_its_pool, memory_comes_back_when_an_importer_was_killed,
              memory_of_a_killed_owner_comes_back_when_the_importer_lets_go, exported_memory_that_the_pool_lets_go_serves_nothing_again,
              exported_memory_that_the_pool_keeps_serves_it_again, exported_memory_that_is_trimmed_serves_nothing_again);
}

void add_share_tests(Suite *suite, const struct probe *probe)
{
    if (!probe->supports[GPU_FEATURE_POOL_POSIX_FD]) {
        printf("# left out: tests of sharing between processes: %s\n", probe->why[GPU_FEATURE_POOL_POSIX_FD]);
        return;
    }
    add_block_tests(suite);
    add_imported_pool_tests(suite);
    add_shared_memory_tests(suite);
    add_shared_event_tests(suite);
    if (probe->peers)
        tcase_add_test(share_case(suite, "peers"), peer_device_gets_access_to_an_imported_pool);
}
