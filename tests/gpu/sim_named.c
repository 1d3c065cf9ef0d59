/* SPDX-License-Identifier: MIT */
/*
 * sim_named.c - the simulated machine with a name, which several processes share: its memory and its file, and what is left when a process
 * is killed at a bad moment.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/gpu/sim_machine.h"
#include "tests/gpu/sim_named.h"

#define CROWD 6

struct peer peers[2];
static char name[48], file[96];

/* Settings of the test's own machine, with more of them behind the name. */
static const char *named(const char *more)
{
    static char settings[128];
    snprintf(settings, sizeof(settings), "name=%s%s%s", name, *more ? "," : "", more);
    return settings;
}

static void start_named(void)
{
    g = gpu_find("sim", &(const char *){ NULL });
    snprintf(name, sizeof(name), "sim-test-%d", (int)getpid());
    snprintf(file, sizeof(file), "/dev/shm/weir-sim-%d-%s", (int)geteuid(), name);
    unlink(file); /* of a run that was killed, and had the same number */
    setenv("WEIR_SIM", named(""), 1);
    configure(named(""));
    peer_start(&peers[0]);
    peer_start(&peers[1]);
}

static void end_named(void)
{
    char why[256];
    peer_stop(&peers[0]);
    peer_stop(&peers[1]);
    ck_assert_int_eq(sim_configure(NULL, why, sizeof(why)), 0);
    unsetenv("WEIR_SIM");
    unlink(file); /* a peer that was the last to go does not leave, it just ends */
}

uint64_t free_bytes(void)
{
    uint64_t bytes, total;
    ck_assert_int_eq(g->device_memory(0, &bytes, &total), 0);
    return bytes;
}

void await_free_bytes(uint64_t bytes)
{
    while (free_bytes() != bytes)
        sched_yield();
}

gpu_event open_event_of(struct peer *peer, int object)
{
    gpu_event event;
    struct peer_message message = { .what = PEER_MAKE_EVENT, .object = object };
    ck_assert_int_eq(peer_ask(peer, &message, -1), 0);
    ck_assert_int_eq(g->event_open_shared(0, &message.event, &event), 0);
    return event;
}

void record_behind(struct peer *peer, uint64_t nanoseconds)
{
    ask(peer, .what = PEER_DELAY, .value = nanoseconds);
    ask(peer, .what = PEER_RECORD);
}

/* Processes that are no peers: this program with a role ------------------------------------------------------------------------------ */

struct actor {
    pid_t pid;
    int socket;
};

static struct actor start_actor(const char *role)
{
    int ends[2];
    char number[16];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    pid_t pid = fork();
    if (!pid) {
        char path[4096];
        ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
        path[len < 0 ? 0 : len] = '\0';
        close(ends[0]);
        snprintf(number, sizeof(number), "%d", ends[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(path, path, role, number, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    return (struct actor){ pid, ends[0] };
}

/* Waits for a message of the actor. False once it is dead. */
static bool hear(const struct actor *actor)
{
    char byte;
    struct pollfd message = { .fd = actor->socket, .events = POLLIN };
    ck_assert_int_eq(poll(&message, 1, 30000), 1);
    return recv(actor->socket, &byte, 1, 0) == 1;
}

static void kill_actor(const struct actor *actor)
{
    kill(actor->pid, SIGKILL);
    waitpid(actor->pid, NULL, 0);
}

static int say(int socket)
{
    return send(socket, "x", 1, MSG_NOSIGNAL) == 1 ? 0 : 1;
}

static int take_gib(gpu_pool *made, gpu_stream *stream)
{
    void *ptr;
    int code = g->pool_create(&(struct gpu_pool_spec){ .device = 0 }, made);
    if (!code)
        code = g->stream_create(0, stream);
    return code ? code : g->malloc_async(&ptr, GIB, *made, *stream);
}

/* Takes the machine's lock and keeps it. */
static int act_holder(int socket)
{
    uint64_t bytes, total;
    if (g->device_memory(0, &bytes, &total))
        return 1;
    pthread_mutex_lock(&sim.lock);
    sim_machine_lock();
    say(socket);
    for (;;)
        pause();
}

/* Has a child that lives on: it knows nothing of the machine, and must not keep what its parent had. */
static int act_parent(int socket)
{
    gpu_pool made;
    gpu_stream stream;
    char byte;
    if (take_gib(&made, &stream))
        return 1;
    if (!fork()) {
        int count;
        if (g->device_count(&count) == SIM_INITIALIZATION_ERROR)
            say(socket);
        return recv(socket, &byte, 1, 0) == 1; /* until the test hangs up */
    }
    for (;;)
        pause();
}

/* Does all that writes to the tables, over and over. */
static int act_churn(int socket)
{
    gpu_stream stream;
    int code = g->stream_create(0, &stream);
    while (!code) {
        gpu_pool made;
        gpu_event event;
        struct gpu_shared_event shared_event;
        struct gpu_shared_block shared;
        void *ptr;
        int fd;
        code = g->pool_create(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true }, &made) ||
               g->pool_export(made, &fd) || g->malloc_async(&ptr, 64 * MIB, made, stream) || g->block_export(ptr, &shared) ||
               g->event_create_shared(0, &event, &shared_event) || g->delay(stream, 1000) || g->event_record(event, stream) ||
               g->stream_wait_event(stream, event) || g->event_record(event, stream) || close(fd) || say(socket) ||
               g->free_async(ptr, stream) || g->event_destroy(event) || g->stream_synchronize(stream) || g->pool_destroy(made);
    }
    return code;
}

int act_named(const char *role, int socket)
{
    g = gpu_find("sim", &(const char *){ NULL });
    if (!g)
        return 1;
    return !strcmp(role, "--holder") ? act_holder(socket) : !strcmp(role, "--parent") ? act_parent(socket) : act_churn(socket);
}

/* Memory ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(what_one_process_takes_the_other_lacks)
{
    ask(&peers[0], .what = PEER_MAKE_OWN_POOL);
    ask(&peers[0], .what = PEER_ALLOCATE, .size = GIB);
    ck_assert_uint_eq(free_bytes(), 7 * GIB);
}
END_TEST

START_TEST(processes_that_use_a_device_are_told_with_what_they_took)
{
    struct gpu_process found[4];
    size_t count;
    ask(&peers[0], .what = PEER_MAKE_OWN_POOL);
    ask(&peers[0], .what = PEER_ALLOCATE, .size = GIB);
    ck_assert_int_eq(g->device_processes(0, found, 4, &count), 0);
    ck_assert_uint_eq(count, 2);
    size_t other = found[0].pid == (int)getpid();
    ck_assert_int_eq(found[!other].pid, (int)getpid());
    ck_assert_int_eq(found[other].pid, (int)peers[0].pid);
    ck_assert_uint_eq(found[other].bytes, GIB);
    peer_kill(&peers[0]);
    await_free_bytes(8 * GIB);
    ck_assert_int_eq(g->device_processes(0, found, 0, &count), 0);
    ck_assert_uint_eq(count, 1);
}
END_TEST

START_TEST(memory_of_a_killed_process_comes_back)
{
    ask(&peers[0], .what = PEER_MAKE_OWN_POOL);
    ask(&peers[0], .what = PEER_ALLOCATE, .size = GIB);
    peer_kill(&peers[0]);
    await_free_bytes(8 * GIB);
}
END_TEST

START_TEST(device_that_another_process_filled_has_no_memory)
{
    void *ptr;
    ask(&peers[0], .what = PEER_MAKE_OWN_POOL);
    ask(&peers[0], .what = PEER_ALLOCATE, .size = 7 * GIB);
    ck_assert_int_eq(g->malloc_async(&ptr, 2 * GIB, pool, a), GPU_OUT_OF_MEMORY);
    peer_kill(&peers[0]);
    ck_assert_int_eq(g->malloc_async(&ptr, 2 * GIB, pool, a), 0);
}
END_TEST

START_TEST(each_device_is_counted_by_itself)
{
    uint64_t bytes, total;
    ck_assert_int_eq(sim_configure(NULL, (char[256]){ "" }, 256), 0);
    configure(named("devices=2"));
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 1 }, &pool), 0);
    ck_assert_int_eq(g->stream_create(1, &a), 0);
    take(GIB, a);
    ck_assert_int_eq(g->device_memory(1, &bytes, &total), 0);
    ck_assert_uint_eq(bytes, 7 * GIB);
    ck_assert_uint_eq(free_bytes(), 8 * GIB);
}
END_TEST

START_TEST(child_of_a_fork_is_refused_and_keeps_nothing_of_its_parent)
{
    struct actor parent = start_actor("--parent");
    ck_assert(hear(&parent));
    ck_assert_uint_eq(free_bytes(), 7 * GIB);
    kill_actor(&parent);
    await_free_bytes(8 * GIB);
    close(parent.socket);
}
END_TEST

START_TEST(destroyed_pool_goes_when_its_last_free_has_ended_without_further_calls)
{
    ask(&peers[0], .what = PEER_MAKE_OWN_POOL);
    struct peer_message message = { .what = PEER_ALLOCATE, .size = GIB };
    ck_assert_int_eq(peer_ask(&peers[0], &message, -1), 0);
    ask(&peers[0], .what = PEER_DELAY, .value = 20 * MILLISECOND);
    ask(&peers[0], .what = PEER_FREE, .address = message.address);
    ask(&peers[0], .what = PEER_DESTROY_POOL);
    while (free_bytes() < 8 * GIB)
        g->pause(MILLISECOND);
}
END_TEST

START_TEST(block_that_would_crash_cuda_is_refused)
{
    int fd;
    gpu_pool large;
    void *ptr;
    struct peer_message message = { .what = PEER_IMPORT_BLOCK };
    ck_assert_int_eq(g->pool_create(&(struct gpu_pool_spec){ .device = 0, .posix_fd = true }, &large), 0);
    ck_assert_int_eq(g->pool_export(large, &fd), 0);
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(peer_ask(&peers[0], &(struct peer_message){ .what = PEER_IMPORT_POOL }, fd), 0);
    close(fd);
    ck_assert_int_eq(g->malloc_async(&ptr, 5249 * MIB, large, a), 0);
    ck_assert_int_eq(g->block_export(ptr, &message.block), 0);
    ck_assert_int_eq(peer_ask(&peers[0], &message, -1), GPU_UNKNOWN);
}
END_TEST

START_TEST(pool_of_another_machine_cannot_be_imported)
{
    char why[256];
    int fd;
    gpu_pool imported;
    ck_assert_int_eq(peer_ask_fd(&peers[0], &(struct peer_message){ .what = PEER_MAKE_POOL }, &fd), 0);
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    ck_assert_int_eq(g->pool_import(0, fd, &imported), GPU_INVALID_VALUE);
    close(fd);
}
END_TEST

START_TEST(handle_of_nothing_is_refused)
{
    int fd;
    gpu_pool imported;
    void *ptr;
    gpu_event event;
    ck_assert_int_eq(peer_ask_fd(&peers[0], &(struct peer_message){ .what = PEER_MAKE_POOL }, &fd), 0);
    ck_assert_int_eq(g->pool_import(0, fd, &imported), 0);
    close(fd);
    ck_assert_int_eq(g->block_import(imported, &(struct gpu_shared_block){ { 0 } }, &ptr), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->block_import(pool, &(struct gpu_shared_block){ { 0 } }, &ptr), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->event_open_shared(0, &(struct gpu_shared_event){ { 0 } }, &event), GPU_INVALID_HANDLE);
    ck_assert_int_eq(g->pool_import(0, -1, &imported), GPU_INVALID_VALUE);
    ck_assert_int_eq(g->pool_import(1, 0, &imported), GPU_INVALID_DEVICE);
}
END_TEST

START_TEST(census_counts_imports_and_opened_events)
{
    struct sim_census before, census;
    struct peer_message message = { .what = PEER_TAKE, .size = 32 * MIB };
    int fd;
    gpu_pool imported;
    void *ptr;
    sim_census(&before);
    ck_assert_int_eq(peer_ask_fd(&peers[0], &(struct peer_message){ .what = PEER_MAKE_POOL }, &fd), 0);
    ck_assert_int_eq(peer_ask(&peers[0], &message, -1), 0);
    ck_assert_int_eq(g->pool_import(0, fd, &imported), 0);
    close(fd);
    ck_assert_int_eq(g->block_import(imported, &message.block, &ptr), 0);
    open_event_of(&peers[0], 0);
    sim_census(&census);
    ck_assert_uint_eq(census.pools, before.pools + 1);
    ck_assert_uint_eq(census.blocks, before.blocks + 1);
    ck_assert_uint_eq(census.events, before.events + 1);
    ck_assert_uint_eq(census.reserved, before.reserved + 32 * MIB);
}
END_TEST

static const char *const new_operations[] = { "pool_import", "block_export", "block_import", "event_create_shared", "event_open_shared" };

START_TEST(operation_on_what_is_shared_can_be_made_to_fail)
{
    gpu_pool imported;
    gpu_event event;
    void *ptr = NULL;
    struct gpu_shared_block shared = { { 0 } };
    struct gpu_shared_event shared_event = { { 0 } };
    sim_fail(new_operations[_i], 1, GPU_NOT_PERMITTED);
    int codes[] = { g->pool_import(0, -1, &imported), g->block_export(&shared, &shared), g->block_import(pool, &shared, &ptr),
                    g->event_create_shared(0, &event, &shared_event), g->event_open_shared(0, &shared_event, &event) };
    ck_assert_int_eq(codes[_i], GPU_NOT_PERMITTED);
    ck_assert_uint_eq(sim_calls(new_operations[_i]), 1);
}
END_TEST

/* Settings and the file ---------------------------------------------------------------------------------------------------------------- */

START_TEST(other_settings_under_the_same_name_are_refused)
{
    char why[256] = "";
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    ck_assert_int_eq(sim_configure(named("memory=1GiB"), why, sizeof(why)), -1);
    ck_assert_msg(strstr(why, "memory=") && strstr(why, name), "%s", why);
    ck_assert_int_eq(sim_configure(named("devices=2"), why, sizeof(why)), -1);
    ck_assert_msg(strstr(why, "devices=") != NULL, "%s", why);
    ck_assert_int_eq(sim_configure(named("fail=malloc_async:1:2"), why, sizeof(why)), 0);
}
END_TEST

START_TEST(gpu_is_another_on_a_machine_of_another_name)
{
    struct gpu_device_info first, again, other;
    ck_assert_int_eq(g->device_info(0, &first), 0);
    char settings[64];
    snprintf(settings, sizeof settings, "name=sim-test-other-%ld", (long)getpid());
    configure(settings);
    ck_assert_int_eq(g->device_info(0, &other), 0);
    configure(named(""));
    ck_assert_int_eq(g->device_info(0, &again), 0);
    ck_assert_str_ne(first.uuid, other.uuid);
    ck_assert_str_eq(first.uuid, again.uuid);
    ck_assert_uint_eq(strlen(first.uuid), strlen("GPU-00000000-0000-0000-0000-000000000000"));
}
END_TEST

START_TEST(other_settings_in_the_environment_are_told_by_gpu_find)
{
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(ask_fresh_process("differs", named("peers=none")), 1);
    ck_assert_int_eq(ask_fresh_process("differs", named("")), 0);
}
END_TEST

START_TEST(other_settings_in_the_environment_fail_the_first_contact)
{
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(ask_fresh_process("contact", named("memory=1GiB")), GPU_INVALID_VALUE);
    ck_assert_int_eq(ask_fresh_process("contact", named("")), 0);
}
END_TEST

START_TEST(machine_starts_anew_when_all_its_processes_are_dead)
{
    char why[256];
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    peer_kill(&peers[0]);
    ck_assert_int_eq(access(file, F_OK), 0);
    configure(named("memory=1GiB"));
    ck_assert_uint_eq(free_bytes(), GIB);
}
END_TEST

START_TEST(last_process_to_leave_removes_the_file)
{
    char why[256];
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    ck_assert_int_eq(access(file, F_OK), 0);
    peer_kill(&peers[0]);
    configure(named(""));
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    ck_assert_int_eq(access(file, F_OK), -1);
}
END_TEST

static int lock_slots(int first_slot, int count)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first_slot, .l_len = count };
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

START_TEST(process_that_finds_no_slot_is_refused)
{
    char why[256];
    ask(&peers[0], .what = PEER_TOUCH);
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    ck_assert_int_eq(peer_ask(&peers[1], &(struct peer_message){ .what = PEER_TOUCH }, -1), 0);
    int others = lock_slots(2, SIM_PROCESSES_MAX - 2);
    ck_assert_int_eq(sim_configure(named(""), why, sizeof(why)), -1);
    ck_assert_msg(strstr(why, "64 processes") != NULL, "%s", why);
    close(others);
    ck_assert_int_eq(sim_configure(named(""), why, sizeof(why)), 0);
}
END_TEST

START_TEST(machine_of_another_build_is_refused)
{
    char why[256];
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    int other = lock_slots(0, 1);
    ck_assert_int_eq(ftruncate(other, 4096), 0);
    ck_assert_int_eq(sim_configure(named(""), why, sizeof(why)), -1);
    ck_assert_msg(strstr(why, "another build") != NULL, "%s", why);
    close(other);
}
END_TEST

START_TEST(file_that_cannot_be_opened_is_named)
{
    char why[256];
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    ck_assert_int_eq(mkdir(file, 0700), 0);
    int code = sim_configure(named(""), why, sizeof(why));
    rmdir(file);
    ck_assert_int_eq(code, -1);
    ck_assert_msg(strstr(why, file) != NULL, "%s", why);
}
END_TEST

/* Somebody was first to make the file, lets all open it, and holds its lock. As root, a process of another user does. */
START_TEST(file_that_a_stranger_made_and_locked_keeps_nobody_waiting)
{
    char why[256];
    int ready[2];
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    unlink(file);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid_t stranger = fork();
    if (stranger == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = geteuid() != 0 || setuid(65534) == 0 ? open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
        bool has = fd >= 0 && fchmod(fd, 0666) == 0 && flock(fd, LOCK_EX) == 0;
        (void)!write(ready[1], has ? "1" : "0", 1);
        pause();
        _exit(0);
    }
    char has = '0';
    ck_assert_int_eq(read(ready[0], &has, 1), 1);
    ck_assert_int_eq(has, '1');
    int code = sim_configure(named(""), why, sizeof(why));
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    unlink(file);
    close(ready[0]);
    close(ready[1]);
    ck_assert_int_eq(code, -1);
    ck_assert_msg(strstr(why, file) != NULL, "%s", why);
}
END_TEST

/* As on a full /dev/shm: a file cannot grow. */
START_TEST(want_of_room_for_the_file_is_told_as_that)
{
    char why[256];
    struct rlimit before, little = { .rlim_cur = 32768 };
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    unlink(file);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    little.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
    int code = sim_configure(named(""), why, sizeof(why));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    unlink(file);
    ck_assert_int_eq(code, -1);
    ck_assert_msg(strstr(why, "of /dev/shm") && strstr(why, strerror(EFBIG)) && strstr(why, "make room there"), "%s", why);
}
END_TEST

START_TEST(link_in_place_of_the_file_is_not_followed)
{
    char why[256], target[128];
    ck_assert_int_eq(sim_configure("", why, sizeof(why)), 0);
    snprintf(target, sizeof(target), "%s-target", file);
    ck_assert_int_eq(symlink(target, file), 0);
    int code = sim_configure(named(""), why, sizeof(why));
    unlink(file);
    ck_assert_int_eq(code, -1);
    ck_assert_int_eq(access(target, F_OK), -1);
}
END_TEST

START_TEST(events_run_out_and_come_back)
{
    gpu_event event, last = NULL;
    struct gpu_shared_event shared;
    size_t count = 0;
    while (!g->event_create_shared(0, &event, &shared)) {
        last = event;
        count++;
    }
    ck_assert_uint_eq(count, SIM_SHARED_EVENTS_MAX);
    ck_assert_int_eq(g->event_destroy(last), 0);
    ck_assert_int_eq(g->event_create_shared(0, &event, &shared), 0);
}
END_TEST

/* Killed at a bad moment --------------------------------------------------------------------------------------------------------------- */

START_TEST(process_killed_with_the_lock_wedges_nobody)
{
    struct actor holder = start_actor("--holder");
    ck_assert(hear(&holder));
    kill_actor(&holder);
    close(holder.socket);
    ck_assert_uint_eq(free_bytes(), 8 * GIB);
    ask(&peers[0], .what = PEER_MAKE_OWN_POOL);
    ask(&peers[0], .what = PEER_ALLOCATE, .size = GIB);
    gpu_event event = open_event_of(&peers[0], 0);
    record_behind(&peers[0], MILLISECOND);
    ck_assert_int_eq(g->event_synchronize(event), 0);
    ck_assert_uint_eq(free_bytes(), 7 * GIB);
}
END_TEST

static size_t fences_in_use(void)
{
    size_t used = 0;
    pthread_mutex_lock(&sim.lock);
    struct sim_machine *machine = sim_machine_lock();
    sim_machine_reap(machine);
    for (int i = 0; i < SIM_FENCES_MAX; i++)
        used += machine->fences[i].holders || machine->fences[i].current;
    sim_machine_unlock();
    pthread_mutex_unlock(&sim.lock);
    return used;
}

/* Each is killed after another number of rounds, while all write to the same tables. */
START_TEST(crowd_killed_one_after_the_other_leaves_nothing)
{
    struct actor crowd[CROWD];
    for (int i = 0; i < CROWD; i++)
        crowd[i] = start_actor("--churn");
    for (int i = 0; i < CROWD; i++) {
        for (int round = 0; round < 20 + 7 * i; round++)
            ck_assert(hear(&crowd[i]));
        kill_actor(&crowd[i]);
        close(crowd[i].socket);
    }
    await_free_bytes(8 * GIB);
    ck_assert_uint_eq(fences_in_use(), 0);
    take(GIB, a);
    ck_assert_int_eq(g->stream_synchronize(a), 0);
}
END_TEST

TCase *named_case(Suite *suite, const char *title)
{
    TCase *tcase = suite_case(suite, title, 60);
    tcase_add_checked_fixture(tcase, start_named, end_named);
    return tcase;
}

void add_named_tests(Suite *suite)
{
    TCase *tcase = named_case(suite, "memory of processes");
    suite_add(tcase, what_one_process_takes_the_other_lacks, processes_that_use_a_device_are_told_with_what_they_took, memory_of_a_killed_process_comes_back,
              device_that_another_process_filled_has_no_memory, each_device_is_counted_by_itself,
              child_of_a_fork_is_refused_and_keeps_nothing_of_its_parent,
              destroyed_pool_goes_when_its_last_free_has_ended_without_further_calls, block_that_would_crash_cuda_is_refused,
              pool_of_another_machine_cannot_be_imported, handle_of_nothing_is_refused, census_counts_imports_and_opened_events);
    tcase_add_loop_test(tcase, operation_on_what_is_shared_can_be_made_to_fail, 0, sizeof(new_operations) / sizeof(*new_operations));

    tcase = named_case(suite, "named machines");
    suite_add(tcase, other_settings_under_the_same_name_are_refused, gpu_is_another_on_a_machine_of_another_name,
              other_settings_in_the_environment_are_told_by_gpu_find, other_settings_in_the_environment_fail_the_first_contact,
              machine_starts_anew_when_all_its_processes_are_dead, last_process_to_leave_removes_the_file,
              process_that_finds_no_slot_is_refused, machine_of_another_build_is_refused, file_that_cannot_be_opened_is_named,
              file_that_a_stranger_made_and_locked_keeps_nobody_waiting, want_of_room_for_the_file_is_told_as_that,
              link_in_place_of_the_file_is_not_followed, events_run_out_and_come_back, process_killed_with_the_lock_wedges_nobody,
              crowd_killed_one_after_the_other_leaves_nothing);
}
