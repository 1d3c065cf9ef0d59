/* SPDX-License-Identifier: MIT */
/* Peer access through a policy: another device really writes and reads the memory of a pool and of its twin. On two GPUs as on the simulator. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/scene.h"

#define POLICY(access) "weir: 1\npools: { shared: { devices: [0], small_below: 1MiB, peer_access: " access " } }\n"
#define LARGE (4 * MIB)
#define SMALL ((uint64_t)64 << 10)

/* Device 1 writes a block of device 0, and what it wrote is read back on device 0. */
static void write_from_peer(uint64_t size)
{
    gpu_stream owner = scene_stream(0), peer = scene_stream(1);
    unsigned char *seen = calloc(1, size);
    ck_assert_ptr_nonnull(seen);
    void *block = scene_pool_malloc(scene.pool, size, owner);
    scene_sync(owner);
    ck_assert_int_eq(scene.gpu->set_async(block, 0x5a, size, peer), GPU_SUCCESS);
    scene_sync(peer);
    ck_assert_int_eq(scene.gpu->copy_async(seen, block, size, owner), GPU_SUCCESS);
    scene_sync(owner);
    for (uint64_t i = 0; i < size; i++)
        ck_assert_uint_eq(seen[i], 0x5a);
    scene_free_on(owner, block);
    scene_sync(owner);
    free(seen);
}

static enum gpu_access access_of(gpu_pool pool)
{
    enum gpu_access access;
    ck_assert_int_eq(scene.gpu->pool_get_access(pool, 1, &access), GPU_SUCCESS);
    return access;
}

START_TEST(peer_writes_a_block_of_the_pool)
{
    scene_open(POLICY("[1]"));
    write_from_peer(LARGE);
}
END_TEST

START_TEST(peer_writes_a_block_of_the_small_twin)
{
    scene_open(POLICY("[1]"));
    write_from_peer(SMALL);
}
END_TEST

START_TEST(all_grants_the_other_device)
{
    scene_open(POLICY("all"));
    ck_assert_int_eq(access_of(weir_pool_handle(scene.pool)), GPU_ACCESS_READ_WRITE);
    ck_assert_int_eq(access_of(weir_pool_small_handle(scene.pool)), GPU_ACCESS_READ_WRITE);
    write_from_peer(LARGE);
}
END_TEST

START_TEST(none_grants_nothing)
{
    scene_open(POLICY("none"));
    ck_assert_int_eq(access_of(weir_pool_handle(scene.pool)), GPU_ACCESS_NONE);
    ck_assert_int_eq(access_of(weir_pool_small_handle(scene.pool)), GPU_ACCESS_NONE);
}
END_TEST

START_TEST(pool_with_a_peer_recovers_and_gives_back)
{
    scene_open(POLICY("[1]"));
    write_from_peer(LARGE);
    uint64_t released = 0;
    scene_ok(weir_pool_trim(scene.pool, 0, NULL, &released), "weir_pool_trim");
    ck_assert_uint_ge(released, LARGE);
    write_from_peer(LARGE);
}
END_TEST

/* Asked in a child, as CUDA must not have been used before libcheck forks. */
static bool has_peer(void)
{
    pid_t child = fork();
    if (child == 0) {
        const char *why;
        const struct gpu *gpu = gpu_find(getenv("WEIR_GPU"), &why);
        int count = 0;
        bool can = false;
        _exit(!(gpu && gpu->device_count(&count) == GPU_SUCCESS && count > 1 && gpu->can_access_peer(0, 1, &can) == GPU_SUCCESS && can));
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void two_devices(void)
{
    scene_simulate("devices=2,memory=8GiB");
}

int main(void)
{
    if (!scene_is_sim() && !has_peer())
        return suite_skip("there are no two devices of which one can reach the memory of the other");
    Suite *suite = suite_create("peers");
    TCase *tcase = suite_case(suite, "peers", 60);
    tcase_add_checked_fixture(tcase, scene_begin, scene_end);
    if (scene_is_sim())
        tcase_add_checked_fixture(tcase, two_devices, NULL);
    suite_add(tcase, peer_writes_a_block_of_the_pool, peer_writes_a_block_of_the_small_twin, all_grants_the_other_device,
              none_grants_nothing, pool_with_a_peer_recovers_and_gives_back);
    return suite_run(suite);
}
