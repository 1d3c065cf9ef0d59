/* SPDX-License-Identifier: MIT */
/* conformance_lend.c - the peers of the tests of sharing, and lending and borrowing blocks. */
#include "tests/gpu/conformance_lend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/gpu/sim.h"

struct peer first, second;
static char settings_before[256];

/* Peers and their GPU ------------------------------------------------------------------------------------------------------------------ */

/* On the simulator the processes have to name the machine that they are on. */
static void name_machine(const char *settings)
{
    char why[256];
    setenv("WEIR_SIM", settings, 1);
    if (!strcmp(g->name, "sim"))
        ck_assert_msg(!sim_configure(settings, why, sizeof(why)), "%s", why);
}

static void start_peers(void)
{
    char settings[300];
    snprintf(settings_before, sizeof(settings_before), "%s", getenv("WEIR_SIM"));
    snprintf(settings, sizeof(settings), "%s,name=conformance-%d", settings_before, (int)getpid());
    name_machine(settings);
    peer_start(&first);
    peer_start(&second);
}

static void stop_peers(void)
{
    peer_stop(&first);
    peer_stop(&second);
    name_machine(settings_before);
}

gpu_pool make_shared_pool(int *fd)
{
    gpu_pool pool = make_pool(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true });
    ck_assert_gpu(g->pool_export(pool, fd));
    return pool;
}

static uint64_t filled(uint64_t size)
{
    return size < FILLED ? size : FILLED;
}

void *make_shared_block(gpu_pool pool, uint64_t size, int byte, struct gpu_shared_block *shared)
{
    void *ptr = take(pool, size, rig.a);
    ck_assert_gpu(g->set_async(ptr, byte, filled(size), rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->block_export(ptr, shared));
    return ptr;
}

int read_byte(const void *ptr)
{
    unsigned char byte = 0;
    ck_assert_gpu(g->copy_async(&byte, ptr, 1, rig.b));
    ck_assert_gpu(g->stream_synchronize(rig.b));
    return byte;
}

void give_pool_to(struct peer *peer, int fd)
{
    ck_assert_gpu(peer_ask(peer, &(struct peer_message){ .what = PEER_IMPORT_POOL }, fd));
    close(fd);
}

uint64_t give_block_to(struct peer *peer, const struct gpu_shared_block *shared)
{
    struct peer_message message = { .what = PEER_IMPORT_BLOCK, .block = *shared };
    ck_assert_gpu(peer_ask(peer, &message, -1));
    return message.address;
}

int read_at(struct peer *peer, uint64_t address)
{
    struct peer_message message = { .what = PEER_READ, .address = address };
    ck_assert_gpu(peer_ask(peer, &message, -1));
    return (int)message.value;
}

struct lent lend(uint64_t size, int byte)
{
    struct lent lent;
    int fd;
    ck_assert_peer(&first, .what = PEER_TOUCH);
    lent.pool = make_shared_pool(&fd);
    lent.ptr = make_shared_block(lent.pool, size, byte, &lent.shared);
    give_pool_to(&first, fd);
    lent.there = give_block_to(&first, &lent.shared);
    return lent;
}

struct lent borrow(uint64_t size, int byte)
{
    struct lent lent;
    int fd;
    struct peer_message message = { .what = PEER_TAKE, .size = size };
    ck_assert_gpu(peer_ask_fd(&first, &(struct peer_message){ .what = PEER_MAKE_POOL }, &fd));
    ck_assert_gpu(peer_ask(&first, &message, -1));
    lent.there = message.address;
    lent.shared = message.block;
    ck_assert_peer(&first, .what = PEER_FILL, .address = lent.there, .size = filled(size), .value = (uint64_t)byte);
    ck_assert_peer(&first, .what = PEER_SYNCHRONIZE);
    ck_assert_gpu(g->pool_import(0, fd, &lent.pool));
    close(fd);
    ck_assert_gpu(g->block_import(lent.pool, &lent.shared, &lent.ptr));
    return lent;
}

void give_back(const struct lent *lent)
{
    ck_assert_gpu(g->free_async(lent->ptr, rig.a));
    ck_assert_gpu(g->stream_synchronize(rig.a));
    ck_assert_gpu(g->pool_destroy(lent->pool));
}

TCase *share_case(Suite *suite, const char *name)
{
    return rig_case_within(suite, name, start_peers, stop_peers);
}
