/* SPDX-License-Identifier: MIT */
/*
 * claims_die.c - processes that claim and end their claims as fast as they can, and are killed at random: whoever sums what is locked, under
 * the lock that orders sums, never finds more than the device, and after the last kill all of the device can be claimed.
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "share/control/ledger.h"
#include "tests/support/suite.h"

#define GPU "GPU-00000000-0000-0000-0000-000000000000"
#define CLAIMANTS 8
#define MIB UINT64_C(1048576)
#define MEMORY (1024 * MIB)
#define LEAVE (64 * MIB)
#define SECOND UINT64_C(1000000000)

static char base[64];
static struct {
    _Atomic unsigned long claims, refusals, faults;
} *shared;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* Until it is killed. Each claim is by an opening of its own, and some processes have several. */
static void live(unsigned seed)
{
    int fds[3] = { -1, -1, -1 };
    for (;;) {
        unsigned which = (unsigned)rand_r(&seed) % 3;
        struct share_claim claim = { .bytes = MIB * (1 + (unsigned)rand_r(&seed) % 500), .mark = seed, .pid = (uint32_t)getpid() };
        struct share_claims others;
        if (fds[which] >= 0) {
            close(fds[which]);
            fds[which] = -1;
            continue;
        }
        int fd, code = -1;
        if (share_ledger_open(GPU, NULL, &fd) == WEIR_OK)
            code = share_ledger_claim(fd, &claim, MEMORY, MEMORY - LEAVE, now() + 60 * SECOND, &others);
        if (code == 0)
            fds[which] = fd;
        else
            close(fd);
        atomic_fetch_add(code == 0 ? &shared->claims : code == EAGAIN ? &shared->refusals : &shared->faults, 1);
    }
}

static pid_t start(unsigned seed)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        live(seed);
    return child;
}

static uint64_t audit(void)
{
    struct share_claims claims;
    int fd;
    ck_assert_int_eq(share_ledger_open(GPU, NULL, &fd), WEIR_OK);
    ck_assert_int_eq(share_ledger_read(fd, MEMORY, now() + 60 * SECOND, &claims), 0);
    close(fd);
    uint64_t sum = 0;
    for (size_t i = 0; i < claims.count; i++)
        sum += claims.items[i].bytes;
    ck_assert_uint_eq(sum, claims.bytes);
    return sum;
}

static void kill_one(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(nobody_has_more_than_the_device_whoever_is_killed)
{
    pid_t children[CLAIMANTS];
    unsigned seed = (unsigned)now(), kills = suite_rounds(400, 10000);
    uint64_t most = 0;
    snprintf(base, sizeof base, "/tmp/weir-claims-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", base, 1), 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < CLAIMANTS; i++)
        children[i] = start(seed + (unsigned)i);
    for (unsigned i = 0; i < kills; i++) {
        unsigned long done = atomic_load(&shared->claims) + (unsigned)rand_r(&seed) % 4;
        while (atomic_load(&shared->claims) < done) /* so that the victims claim, however slow the machine is */
            sched_yield();
        int victim = (int)((unsigned)rand_r(&seed) % CLAIMANTS);
        kill_one(children[victim]);
        uint64_t sum = audit();
        ck_assert_msg(sum <= MEMORY - LEAVE, "kill %u of seed %u: %llu bytes are claimed", i, seed, (unsigned long long)sum);
        most = sum > most ? sum : most;
        children[victim] = start(seed + i);
    }
    for (int i = 0; i < CLAIMANTS; i++)
        kill_one(children[i]);
    ck_assert_uint_eq(audit(), 0);
    ck_assert_uint_gt(most, MEMORY / 2);
    ck_assert_uint_gt(atomic_load(&shared->refusals), 0);
    ck_assert_uint_eq(atomic_load(&shared->faults), 0);
    printf("# %lu claims, %lu refusals, %u kills\n", atomic_load(&shared->claims), atomic_load(&shared->refusals), kills);
    munmap(shared, sizeof *shared);
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", base);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("claims of processes that are killed");
    suite_add(suite_case(suite, "kills", 600), nobody_has_more_than_the_device_whoever_is_killed);
    return suite_run(suite);
}
