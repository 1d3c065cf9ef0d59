/* SPDX-License-Identifier: MIT */
/* conformance_pool.c - pools: defaults, caps, destruction, access by peers, host memory and export. */
#include "tests/gpu/conformance.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

START_TEST(new_pool_has_release_threshold_0)
{
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD), 0);
}
END_TEST

START_TEST(new_pool_allows_all_reuse)
{
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_REUSE_EVENT_DEPENDENCIES), 1);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_REUSE_OPPORTUNISTIC), 1);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES), 1);
}
END_TEST

START_TEST(attributes_read_back_as_they_were_set)
{
    set_figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD, 123 * MIB);
    set_figure(rig.pool, GPU_POOL_REUSE_OPPORTUNISTIC, 0);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_RELEASE_THRESHOLD), 123 * MIB);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_REUSE_OPPORTUNISTIC), 0);
    ck_assert_uint_eq(figure(rig.pool, GPU_POOL_REUSE_EVENT_DEPENDENCIES), 1);
}
END_TEST

START_TEST(default_pool_is_current_at_first)
{
    gpu_pool standard, current;
    ck_assert_gpu(g->pool_get_default(0, &standard));
    ck_assert_gpu(g->pool_get_current(0, &current));
    ck_assert_ptr_eq(standard, current);
}
END_TEST

START_TEST(current_pool_can_be_set_and_restored)
{
    gpu_pool before, current, after;
    ck_assert_gpu(g->pool_get_current(0, &before));
    ck_assert_gpu(g->pool_set_current(0, rig.pool));
    ck_assert_gpu(g->pool_get_current(0, &current));
    ck_assert_gpu(g->pool_set_current(0, before));
    ck_assert_gpu(g->pool_get_current(0, &after));
    ck_assert_ptr_eq(current, rig.pool);
    ck_assert_ptr_eq(after, before);
}
END_TEST

START_TEST(max_size_is_a_hard_cap)
{
    gpu_pool capped = make_pool(&(struct gpu_pool_spec){ .device = 0, .max_size = 256 * MIB });
    take(capped, 192 * MIB, rig.a);
    ck_assert_gpu_code(try_take(capped, 128 * MIB, rig.a), GPU_OUT_OF_MEMORY);
    ck_assert_uint_le(figure(capped, GPU_POOL_RESERVED), 256 * MIB);
}
END_TEST

/* Of a capped pool with nothing left: a block freed on stream a behind a running kernel. */
static void free_at_the_cap(gpu_pool capped)
{
    void *ptr = take(capped, 256 * MIB, rig.a);
    ck_assert_gpu(g->delay(rig.a, KERNEL_NS));
    give(ptr, rig.a);
    ck_assert_gpu(g->event_record(rig.event, rig.a));
}

START_TEST(pending_free_serves_another_stream_at_the_cap)
{
    gpu_pool capped = make_pool(&(struct gpu_pool_spec){ .device = 0, .max_size = 256 * MIB });
    free_at_the_cap(capped);
    ck_assert_gpu(try_take(capped, 256 * MIB, rig.b));
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(pending_free_serves_no_other_stream_at_the_cap_without_internal_dependencies)
{
    gpu_pool capped = make_pool(&(struct gpu_pool_spec){ .device = 0, .max_size = 256 * MIB });
    set_figure(capped, GPU_POOL_REUSE_INTERNAL_DEPENDENCIES, 0);
    free_at_the_cap(capped);
    ck_assert_gpu_code(try_take(capped, 256 * MIB, rig.b), GPU_OUT_OF_MEMORY);
    ck_assert_gpu_code(g->event_query(rig.event), GPU_NOT_READY);
}
END_TEST

START_TEST(destroyed_pool_keeps_its_live_blocks)
{
    unsigned char byte = 0;
    gpu_pool pool = make_pool(&(struct gpu_pool_spec){ .device = 0 });
    void *ptr = take(pool, MIB, rig.a);
    ck_assert_gpu(g->set_async(ptr, 42, MIB, rig.a));
    ck_assert_gpu(g->pool_destroy(pool));
    forget_pool(pool);
    ck_assert_gpu(g->copy_async(&byte, ptr, 1, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(byte, 42);
    give(ptr, rig.a);
}
END_TEST

/* Access ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(owner_has_access)
{
    enum gpu_access access = GPU_ACCESS_NONE;
    ck_assert_gpu(g->pool_get_access(rig.pool, 0, &access));
    ck_assert_int_eq(access, GPU_ACCESS_READ_WRITE);
}
END_TEST

START_TEST(owner_cannot_lose_access)
{
    ck_assert_gpu_code(g->pool_set_access(rig.pool, 0, GPU_ACCESS_NONE), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(peer_has_no_access_at_first)
{
    enum gpu_access access = GPU_ACCESS_READ_WRITE;
    ck_assert_gpu(g->pool_get_access(rig.pool, 1, &access));
    ck_assert_int_eq(access, GPU_ACCESS_NONE);
}
END_TEST

START_TEST(peer_access_can_be_granted_and_withdrawn)
{
    enum gpu_access granted = GPU_ACCESS_NONE, withdrawn = GPU_ACCESS_READ_WRITE;
    ck_assert_gpu(g->pool_set_access(rig.pool, 1, GPU_ACCESS_READ_WRITE));
    ck_assert_gpu(g->pool_get_access(rig.pool, 1, &granted));
    ck_assert_gpu(g->pool_set_access(rig.pool, 1, GPU_ACCESS_NONE));
    ck_assert_gpu(g->pool_get_access(rig.pool, 1, &withdrawn));
    ck_assert_int_eq(granted, GPU_ACCESS_READ_WRITE);
    ck_assert_int_eq(withdrawn, GPU_ACCESS_NONE);
}
END_TEST

START_TEST(peer_with_access_writes_the_memory)
{
    unsigned char byte = 0;
    gpu_stream peer = make_stream(1);
    void *ptr = take(rig.pool, MIB, rig.a);
    ck_assert_gpu(g->pool_set_access(rig.pool, 1, GPU_ACCESS_READ_WRITE));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->set_current_device(1));
    ck_assert_gpu(g->set_async(ptr, 7, MIB, peer));
    ck_assert_gpu(g->stream_synchronize(peer));
    ck_assert_gpu(g->set_current_device(0));
    ck_assert_gpu(g->copy_async(&byte, ptr, 1, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(byte, 7);
}
END_TEST

/* Host memory and export --------------------------------------------------------------------------------------------------------------- */

static void check_that_data_moves(gpu_pool pool)
{
    unsigned char byte = 0;
    void *ptr = take(pool, MIB, rig.a);
    ck_assert_gpu(g->set_async(ptr, 9, MIB, rig.a));
    ck_assert_gpu(g->copy_async(&byte, (char *)ptr + MIB - 1, 1, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(byte, 9);
}

START_TEST(host_pool_serves_the_device)
{
    check_that_data_moves(make_pool(&(struct gpu_pool_spec){ .device = 0, .location = GPU_LOCATION_HOST }));
}
END_TEST

START_TEST(host_numa_pool_serves_the_device)
{
    check_that_data_moves(make_pool(&(struct gpu_pool_spec){ .device = 0, .location = GPU_LOCATION_HOST_NUMA, .numa_node = 0 }));
}
END_TEST

START_TEST(export_gives_a_descriptor_that_closes_on_exec)
{
    int fd = -1;
    gpu_pool pool = make_pool(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true });
    ck_assert_gpu(g->pool_export(pool, &fd));
    int flags = fcntl(fd, F_GETFD);
    close(fd);
    ck_assert_int_ne(flags, -1);
    ck_assert_int_ne(flags & FD_CLOEXEC, 0);
}
END_TEST

START_TEST(pool_that_was_not_made_for_it_cannot_be_exported)
{
    int fd = -1;
    int code = g->pool_export(rig.pool, &fd);
    ck_assert_int_ne(code, 0);
    ck_assert_int_eq(fd, -1);
}
END_TEST

/* A pool whose descriptor somebody has. Only a block that was exported by itself would never be given back; gpu.h exports none. */
static gpu_pool make_exported_pool(void)
{
    int fd;
    gpu_pool pool = make_pool(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true });
    ck_assert_gpu(g->pool_export(pool, &fd));
    close(fd);
    return pool;
}

START_TEST(exportable_pool_gives_back_what_was_not_exported_at_synchronise)
{
    gpu_pool pool = make_exported_pool();
    give(take(pool, 1024 * MIB, rig.a), rig.a);
    ck_assert_uint_le(device_free(), rig.free_bytes - 1024 * MIB);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(figure(pool, GPU_POOL_RESERVED), 0);
    ck_assert_uint_gt(device_free(), rig.free_bytes - 1024 * MIB);
}
END_TEST

START_TEST(exportable_pool_gives_back_what_was_not_exported_at_trim)
{
    gpu_pool pool = make_exported_pool();
    set_figure(pool, GPU_POOL_RELEASE_THRESHOLD, UINT64_MAX);
    give(take(pool, 1024 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_uint_eq(figure(pool, GPU_POOL_RESERVED), 1024 * MIB);
    ck_assert_gpu(g->pool_trim(pool, 0));
    ck_assert_uint_eq(figure(pool, GPU_POOL_RESERVED), 0);
    ck_assert_uint_gt(device_free(), rig.free_bytes - 1024 * MIB);
}
END_TEST

START_TEST(destroyed_exportable_pool_gives_all_back)
{
    gpu_pool pool = make_pool(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true });
    give(take(pool, 1024 * MIB, rig.a), rig.a);
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_destroy(pool));
    forget_pool(pool);
    ck_assert_uint_gt(device_free(), rig.free_bytes - 1024 * MIB);
}
END_TEST

static void add_peer_tests(Suite *suite, const struct probe *probe)
{
    if (!probe->peers) {
        printf("# left out: tests of peer access: %s\n",
               probe->devices < 2 ? "there is one device only" : "device 1 cannot reach the memory of device 0");
        return;
    }
    TCase *tcase = rig_case(suite, "peers");
    suite_add(tcase, peer_has_no_access_at_first, peer_access_can_be_granted_and_withdrawn, peer_with_access_writes_the_memory);
}

void add_pool_tests(Suite *suite, const struct probe *probe)
{
    TCase *tcase = rig_case(suite, "pools");
    suite_add(tcase, new_pool_has_release_threshold_0, new_pool_allows_all_reuse, attributes_read_back_as_they_were_set,
              default_pool_is_current_at_first, current_pool_can_be_set_and_restored);
    add_if(tcase, probe, GPU_FEATURE_POOL_MAX_SIZE, max_size_is_a_hard_cap);
    add_if(tcase, probe, GPU_FEATURE_POOL_MAX_SIZE, pending_free_serves_another_stream_at_the_cap);
    add_if(tcase, probe, GPU_FEATURE_POOL_MAX_SIZE, pending_free_serves_no_other_stream_at_the_cap_without_internal_dependencies);
    suite_add(tcase, destroyed_pool_keeps_its_live_blocks, owner_has_access, owner_cannot_lose_access);
    add_if(tcase, probe, GPU_FEATURE_POOL_HOST, host_pool_serves_the_device);
    add_if(tcase, probe, GPU_FEATURE_POOL_HOST_NUMA, host_numa_pool_serves_the_device);
    add_if(tcase, probe, GPU_FEATURE_POOL_POSIX_FD, export_gives_a_descriptor_that_closes_on_exec);
    add_if(tcase, probe, GPU_FEATURE_POOL_POSIX_FD, exportable_pool_gives_back_what_was_not_exported_at_synchronise);
    add_if(tcase, probe, GPU_FEATURE_POOL_POSIX_FD, exportable_pool_gives_back_what_was_not_exported_at_trim);
    add_if(tcase, probe, GPU_FEATURE_POOL_POSIX_FD, destroyed_exportable_pool_gives_all_back);
    suite_add(tcase, pool_that_was_not_made_for_it_cannot_be_exported);
    add_peer_tests(suite, probe);
}
