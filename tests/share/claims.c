/* SPDX-License-Identifier: MIT */
/* claims.c - what processes claim of a device: what fits, whose it is, how it ends, and what becomes of a ledger that somebody has spoilt. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/weir_reserve.h"
#include "include/weir_sleep.h"
#include "lib/gpu/sim.h"
#include "lib/gpu/slots.h"
#include "share/control/ledger.h"
#include "share/control/reserve.h"
#include "share/open.h"
#include "share/wire/directory.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define GPU_0 "GPU-00000000-0000-0000-0000-000000000000"
#define POLICY "weir: 1\npools:\n  main: { devices: [0], cache: off, small_below: 0 }\n"
#define STRANGER 12345 /* a user that nobody is */
#define LONG_MS 60000
#define SUMS SHARE_CLAIMS_MAX /* the slot that orders sums */

static char base[64], ledger[128];
static weir *w;

static __attribute__((format(printf, 1, 2))) void run(const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void begin(void)
{
    snprintf(base, sizeof base, "/tmp/weir-claims-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    snprintf(ledger, sizeof ledger, "%s/weir/control/" GPU_0 ".claims", base);
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", base, 1), 0);
    fixture_machine("devices=2");
    w = fixture_open(POLICY);
}

static void end(void)
{
    weir_close(w);
    fixture_expect_empty();
    run("rm -rf %s", base);
}

/* Opens another weir instead, under a policy in which pool `main` has these keys. */
static void reopen(const char *keys)
{
    char policy[256];
    weir_close(w);
    snprintf(policy, sizeof policy, "weir: 1\ndefaults: { pool: main }\npools:\n  main: { devices: [0], cache: off, small_below: 0%s }\n  rest: { devices: [0] }\n", keys);
    w = fixture_open(policy);
}

static weir_reservation *claim_within(uint64_t bytes, unsigned timeout_ms)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_reservation *r = NULL;
    weir_status status = weir_reserve(w, 0, bytes, timeout_ms, &error, &r);
    ck_assert_msg(status == WEIR_OK && r, "%s: %s", weir_status_name(status), error.text);
    return r;
}

static weir_reservation *claim(uint64_t bytes)
{
    return claim_within(bytes, 0);
}

/* The error is good until the next call. */
static const char *refuses(uint64_t bytes, weir_status wanted)
{
    static weir_error error;
    weir_reservation *r = NULL;
    weir_error_clear(&error);
    weir_status status = weir_reserve(w, 0, bytes, 0, &error, &r);
    ck_assert_msg(status == wanted && !r, "%s: %s", weir_status_name(status), error.text);
    return error.text;
}

static void says(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part), "'%s' is not in: %s", part, text);
}

static uint64_t all_claims(void)
{
    struct share_claims claims;
    int fd;
    ck_assert_int_eq(share_ledger_open(GPU_0, NULL, &fd), WEIR_OK);
    ck_assert_int_eq(share_ledger_read(fd, GIB(1), 0, &claims), 0);
    close(fd);
    return claims.bytes;
}

/* What fits ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(claims_of_one_process_add_up_to_the_device_and_no_further)
{
    weir_reservation *first = claim(MIB(600)), *second = claim(MIB(424));
    ck_assert_uint_eq(all_claims(), GIB(1));
    refuses(1, WEIR_TIMEOUT);
    weir_reservation_end(first);
    ck_assert_uint_eq(all_claims(), MIB(424));
    refuses(MIB(600) + 1, WEIR_TIMEOUT);
    weir_reservation_end(claim(MIB(600)));
    weir_reservation_end(second);
    weir_reservation_end(NULL);
}
END_TEST

START_TEST(refusal_names_who_claims_and_what_is_left)
{
    char number[32];
    weir_reservation *r = claim(MIB(600));
    snprintf(number, sizeof number, "process %d (", (int)getpid());
    const char *text = refuses(MIB(500), WEIR_TIMEOUT);
    says(text, number);
    says(text, program_invocation_short_name);
    says(text, ") claims 600");
    says(text, "at most 424");
    weir_reservation_end(r);
}
END_TEST

START_TEST(devices_have_claims_of_their_own)
{
    weir_reservation *first = claim(GIB(1)), *other = NULL;
    ck_assert_int_eq(weir_reserve(w, 1, GIB(1), 0, NULL, &other), WEIR_OK);
    weir_reservation_end(first);
    weir_reservation_end(other);
}
END_TEST

START_TEST(what_can_never_be_is_refused_at_once)
{
    weir_reservation *r = NULL;
    says(refuses(GIB(1) + 1, WEIR_INVALID), "device 0, which has 1");
    refuses(UINT64_MAX, WEIR_INVALID);
    refuses(0, WEIR_INVALID);
    ck_assert_int_eq(weir_reserve(w, 2, 1, 0, NULL, &r), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_reserve(w, -1, 1, 0, NULL, &r), WEIR_NOT_FOUND);
    ck_assert_int_eq(weir_reserve(NULL, 0, 1, 0, NULL, &r), WEIR_INVALID);
    ck_assert_int_eq(weir_reserve(w, 0, 1, 0, NULL, NULL), WEIR_INVALID);
    ck_assert_ptr_null(r);
}
END_TEST

START_TEST(largest_leave_free_stays_beside_all_claims)
{
    reopen(", leave_free: 128MiB");
    says(refuses(MIB(897), WEIR_INVALID), "leave_free: claim from 1 B to 896");
    weir_reservation *r = claim(MIB(800));
    says(refuses(MIB(97), WEIR_TIMEOUT), "beside leave_free, 128");
    weir_reservation_end(claim(MIB(96)));
    weir_reservation_end(r);
}
END_TEST

START_TEST(leave_free_is_the_claimants_own)
{
    weir *other = fixture_open("weir: 1\npools:\n  main: { devices: [0], leave_free: 128MiB }\n");
    weir_reservation *r = NULL, *second = NULL;
    ck_assert_int_eq(weir_reserve(other, 0, MIB(896), 0, NULL, &r), WEIR_OK);
    weir_reservation_end(claim(MIB(128)));
    refuses(MIB(129), WEIR_TIMEOUT);
    ck_assert_int_eq(weir_reserve(other, 0, 1, 0, NULL, &second), WEIR_TIMEOUT);
    weir_close(other);
}
END_TEST

START_TEST(closing_the_weir_ends_its_claims)
{
    claim(MIB(600));
    claim(MIB(100));
    weir_close(w);
    w = fixture_open(POLICY);
    ck_assert_uint_eq(all_claims(), 0);
    weir_reservation_end(claim(GIB(1)));
}
END_TEST

/* Memory --------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(own_memory_counts_as_part_of_the_claim)
{
    weir_stream *stream = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(stream, MIB(704));
    uint64_t left = 1;
    weir_reservation *r = claim(MIB(992));
    ck_assert_uint_eq(weir__claimed(&w->devices[0], &left), MIB(992));
    ck_assert_uint_eq(left, MIB(288));
    weir_reservation_end(r);
    ck_assert_uint_eq(weir__claimed(&w->devices[0], &left), 0);
    ck_assert_uint_eq(left, 0);
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
}
END_TEST

START_TEST(memory_of_others_is_waited_for_and_missed_in_words)
{
    weir *other = fixture_open(POLICY);
    weir_stream *stream = fixture_stream(other, 0, NULL);
    void *ptr = fixture_malloc(stream, MIB(704));
    const char *text = refuses(MIB(500), WEIR_TIMEOUT);
    says(text, "only 320");
    says(text, "500 MiB are still to come");
    ck_assert_uint_eq(all_claims(), 0);
    weir_reservation_end(claim(MIB(320)));
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    fixture_synchronize(stream);
    weir_close(other);
}
END_TEST

START_TEST(free_memory_is_not_waited_for_where_the_system_may_have_more)
{
    weir_close(w);
    fixture_machine("devices=2,os_managed=yes");
    w = fixture_open(POLICY);
    weir_stream *stream = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(stream, MIB(704));
    weir *other = fixture_open(POLICY);
    weir_reservation *r = NULL;
    ck_assert_int_eq(weir_reserve(other, 0, MIB(500), 0, NULL, &r), WEIR_OK);
    ck_assert_uint_eq(all_claims(), MIB(500));
    weir_close(other);
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    fixture_synchronize(stream);
}
END_TEST

START_TEST(driver_that_does_not_answer_is_told_of_and_leaves_no_claim)
{
    sim_fail("device_memory", 1, GPU_UNKNOWN);
    says(refuses(MIB(500), WEIR_CUDA_ERROR), "the free memory of device 0");
    sim_fail("device_memory", 0, 0);
    ck_assert_uint_eq(all_claims(), 0);
    weir_reservation_end(claim(MIB(500)));
}
END_TEST

/* How a claim ends ----------------------------------------------------------------------------------------------------------------------- */

static void *claim_and_end(void *bytes)
{
    weir_reservation *r = claim_within(*(uint64_t *)bytes, LONG_MS);
    weir_reservation_end(r);
    return r;
}

START_TEST(claim_waits_for_room_and_gets_it)
{
    pthread_t thread;
    uint64_t bytes = MIB(600);
    void *got = NULL;
    weir_reservation *r = claim(MIB(600));
    ck_assert_int_eq(pthread_create(&thread, NULL, claim_and_end, &bytes), 0);
    weir_reservation_end(r);
    ck_assert_int_eq(pthread_join(thread, &got), 0);
    ck_assert_ptr_nonnull(got);
}
END_TEST

/* A process that has a claim until it is killed. */
static pid_t claimant(uint64_t bytes)
{
    int ends[2];
    char word;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct share_claims others;
        struct share_claim mine = { .bytes = bytes, .mark = 1, .pid = (uint32_t)getpid(), .program = "child" };
        int fd;
        if (share_ledger_open(GPU_0, NULL, &fd) == WEIR_OK && share_ledger_claim(fd, &mine, GIB(1), GIB(1), 0, &others) == 0 &&
            write(ends[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &word, 1), 1);
    close(ends[0]);
    return child;
}

static void kill_child(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(kill_makes_room_at_once)
{
    pid_t child = claimant(MIB(600));
    says(refuses(MIB(500), WEIR_TIMEOUT), "(child) claims 600");
    kill_child(child);
    weir_reservation_end(claim(GIB(1)));
}
END_TEST

START_TEST(child_of_a_fork_has_no_part_in_the_claim)
{
    int ends[2], status;
    weir_reservation *r = claim(MIB(600)), *none = NULL;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char word;
        bool is_right = weir_reserve(w, 0, 1, 0, NULL, &none) == WEIR_FORKED && !none;
        weir_reservation_end(r);
        close(ends[1]);
        _exit(is_right && read(ends[0], &word, 1) == 0 ? 0 : 1); /* until the parent is done */
    }
    close(ends[0]);
    ck_assert_uint_eq(all_claims(), MIB(600)); /* the child's end changes nothing either */
    weir_reservation_end(r);
    weir_reservation_end(claim(GIB(1)));
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

START_TEST(program_that_is_started_has_no_part_in_the_claim)
{
    int ends[2];
    pid_t child;
    char cat[] = "cat", *const words[] = { cat, NULL };
    posix_spawn_file_actions_t actions;
    weir_reservation *r = claim(MIB(600));
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, ends[0], 0), 0);
    ck_assert_int_eq(posix_spawn(&child, "/bin/cat", &actions, NULL, words, (char *const[]){ NULL }), 0);
    posix_spawn_file_actions_destroy(&actions);
    weir_reservation_end(r);
    weir_reservation_end(claim(GIB(1)));
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

static void *claim_again_and_again(void *counted)
{
    _Atomic uint64_t *sum = counted;
    for (unsigned i = 0; i < suite_rounds(40, 1000); i++) {
        uint64_t bytes = MIB(100 + 50 * (i % 5));
        weir_reservation *r = claim_within(bytes, LONG_MS);
        ck_assert_uint_le(atomic_fetch_add(sum, bytes) + bytes, GIB(1));
        atomic_fetch_sub(sum, bytes);
        weir_reservation_end(r);
    }
    return NULL;
}

START_TEST(threads_that_claim_at_once_never_have_more_than_the_device)
{
    pthread_t threads[8];
    _Atomic uint64_t sum = 0;
    for (size_t i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, claim_again_and_again, &sum), 0);
    for (size_t i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(all_claims(), 0);
}
END_TEST

/* Spoilt ledgers ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(place_that_others_can_write_to_is_refused)
{
    weir_reservation_end(claim(1));
    run("chmod 0777 %s/weir/control", base);
    says(refuses(1, WEIR_REFUSED), "claims cannot lie in");
    run("chmod 0700 %s/weir/control && chmod 0770 %s/weir", base, base);
    says(refuses(1, WEIR_REFUSED), "may be written to by others (mode 0770)");
    run("chmod 0700 %s/weir && rm -r %s/weir/control && touch %s/weir/control", base, base, base);
    says(refuses(1, WEIR_REFUSED), "is not a directory");
}
END_TEST

START_TEST(place_and_file_of_another_user_are_refused)
{
    weir_reservation_end(claim(1));
    run("chown %d %s", STRANGER, ledger);
    says(refuses(1, WEIR_REFUSED), "this user's alone");
    run("chown %d %s/weir/control", STRANGER, base);
    says(refuses(1, WEIR_REFUSED), "belongs to user");
}
END_TEST

START_TEST(other_user_neither_claims_here_nor_is_told)
{
    int status;
    weir_reservation *r = claim(MIB(600));
    pid_t child = fork();
    if (child == 0) {
        int fd = -1;
        bool is_refused = setuid(STRANGER) == 0 && share_ledger_open(GPU_0, NULL, &fd) != WEIR_OK && fd == -1;
        _exit(is_refused && gpu_slots_open(ledger, 0, geteuid()) < 0 && errno == EACCES ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    weir_reservation_end(r);
}
END_TEST

/* What may lie where the file belongs. */
static const char *const instead[] = { "ln -s /dev/null", "ln -s nothing", "mkfifo", "mkdir" };

START_TEST(what_is_no_file_is_refused_and_stays)
{
    struct stat info;
    run("mkdir -p -m 0700 %s/weir/control", base);
    run("%s %s", instead[_i], ledger);
    says(refuses(1, instead[_i][0] == 'm' && instead[_i][2] == 'd' ? WEIR_INVALID : WEIR_REFUSED), ledger);
    ck_assert_int_eq(lstat(ledger, &info), 0);
    ck_assert(!S_ISREG(info.st_mode));
}
END_TEST

START_TEST(garbage_counts_nothing_and_is_overwritten)
{
    weir_reservation_end(claim(1));
    run("head -c 100000 /dev/urandom >%s", ledger);
    ck_assert_uint_eq(all_claims(), 0);
    weir_reservation *r = claim(GIB(1));
    ck_assert_uint_eq(all_claims(), GIB(1));
    weir_reservation_end(r);
}
END_TEST

/* Figures that cannot be true, in a slot that is locked. */
static const uint64_t untrue[] = { 0, GIB(1) + 1, UINT64_MAX };

START_TEST(untrue_figures_count_nothing_though_the_slot_is_locked)
{
    struct share_claim lie = { .bytes = untrue[_i], .program = { 'a', '\x1b', '\xff', 'b' } };
    weir_reservation *r = claim(MIB(600));
    int fd = gpu_slots_open(ledger, 0, geteuid());
    ck_assert(gpu_slots_take(fd, 7));
    ck_assert_int_eq(pwrite(fd, &lie, sizeof lie, 7 * (off_t)sizeof lie), sizeof lie);
    ck_assert_uint_eq(all_claims(), MIB(600));
    lie.bytes = MIB(424);
    memset(lie.program + 4, 'x', sizeof lie.program - 4);
    ck_assert_int_eq(pwrite(fd, &lie, sizeof lie, 7 * (off_t)sizeof lie), sizeof lie);
    says(refuses(1, WEIR_TIMEOUT), "(a__bxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx) claims 424");
    close(fd);
    weir_reservation_end(r);
}
END_TEST

START_TEST(file_that_was_cut_loses_what_is_cut_and_no_more)
{
    weir_reservation *first = claim(MIB(100)), *second = claim(MIB(200));
    ck_assert_int_eq(truncate(ledger, sizeof(struct share_claim) + 2), 0);
    ck_assert_uint_eq(all_claims(), MIB(100));
    weir_reservation *third = claim(MIB(300));
    ck_assert_uint_eq(all_claims(), MIB(400));
    weir_reservation_end(second);
    weir_reservation_end(first);
    weir_reservation_end(third);
    ck_assert_uint_eq(all_claims(), 0);
}
END_TEST

START_TEST(file_that_was_removed_is_made_anew)
{
    weir_reservation *lost = claim(MIB(600));
    ck_assert_int_eq(unlink(ledger), 0);
    weir_reservation *r = claim(MIB(900));
    ck_assert_uint_eq(all_claims(), MIB(900));
    weir_reservation_end(lost);
    ck_assert_uint_eq(all_claims(), MIB(900));
    weir_reservation_end(r);
}
END_TEST

START_TEST(mode_of_the_file_is_this_users_alone_whatever_the_umask)
{
    struct stat info;
    umask(0);
    weir_reservation_end(claim(1));
    ck_assert_int_eq(stat(ledger, &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0600);
    umask(0777);
    unlink(ledger);
    weir_reservation_end(claim(1));
    ck_assert_int_eq(stat(ledger, &info), 0);
    ck_assert_uint_eq(info.st_mode & 07777, 0600);
    umask(0077);
}
END_TEST

START_TEST(process_that_stopped_while_it_claimed_is_told_of)
{
    weir_reservation_end(claim(1));
    int fd = gpu_slots_open(ledger, 0, geteuid());
    ck_assert(gpu_slots_take(fd, SUMS));
    says(refuses(1, WEIR_TIMEOUT), "a process is stopped that was about to claim");
    close(fd);
    weir_reservation_end(claim(1));
}
END_TEST

START_TEST(claims_are_known_while_a_process_is_stopped_that_claims)
{
    uint64_t left = 0;
    weir_reservation *r = claim(MIB(600));
    int fd = gpu_slots_open(ledger, 0, geteuid());
    ck_assert(gpu_slots_take(fd, SUMS));
    ck_assert_uint_eq(weir__claimed(&w->devices[0], &left), MIB(600)); /* else an engine would take all of the device */
    ck_assert_uint_eq(left, MIB(600));
    ck_assert_uint_eq(all_claims(), MIB(600));
    says(refuses(1, WEIR_TIMEOUT), "a process is stopped that was about to claim");
    close(fd);
    weir_reservation_end(r);
}
END_TEST

/* How many descriptors of the ledger this process has. */
static unsigned openings(void)
{
    char path[64], target[256];
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        count += strcmp(target, ledger) == 0;
    }
    return count;
}

static void *look_at_claims(void *claimed)
{
    uint64_t left;
    *(uint64_t *)claimed = weir__claimed(&w->devices[0], &left);
    return NULL;
}

START_TEST(child_of_a_fork_has_no_part_in_a_look_at_the_claims)
{
    pthread_t thread;
    uint64_t claimed = 0;
    int status;
    weir_reservation *r = claim(MIB(600));
    int fd = gpu_slots_open(ledger, 0, geteuid());
    ck_assert(gpu_slots_take(fd, SUMS)); /* so that the look takes a moment */
    unsigned before = openings();
    ck_assert_int_eq(pthread_create(&thread, NULL, look_at_claims, &claimed), 0);
    while (openings() == before)
        sched_yield();
    pid_t child = fork();
    if (child == 0)
        _exit((int)openings()); /* that of this test alone */
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    ck_assert_uint_eq(claimed, MIB(600));
    close(fd);
    weir_reservation_end(r);
}
END_TEST

START_TEST(slots_that_are_all_taken_are_told_of)
{
    weir_reservation_end(claim(1));
    int fd = gpu_slots_open(ledger, 0, geteuid());
    for (int slot = 0; slot < SHARE_CLAIMS_MAX; slot++)
        ck_assert(gpu_slots_take(fd, slot));
    says(refuses(1, WEIR_BUSY), "256 claims already");
    gpu_slots_release(fd, 255, 1);
    weir_reservation_end(claim(1));
    close(fd);
}
END_TEST

START_TEST(claim_beyond_the_limit_of_files_is_refused_without_a_signal)
{
    struct rlimit former, none = { 0 };
    weir_reservation_end(claim(1));
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &former), 0);
    none.rlim_max = former.rlim_max;
    weir_error error = WEIR_ERROR_INIT;
    weir_reservation *r = NULL;
    int set = setrlimit(RLIMIT_FSIZE, &none); /* no assertion is made under it, as libcheck writes into a file */
    weir_status status = weir_reserve(w, 0, 1, 0, &error, &r);
    int reset = setrlimit(RLIMIT_FSIZE, &former);
    ck_assert(set == 0 && reset == 0);
    ck_assert_int_eq(status, WEIR_INVALID);
    says(error.text, "cannot be written: ");
    weir_reservation_end(claim(1));
}
END_TEST

START_TEST(full_disk_is_told_of_and_leaves_no_claim)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", base, "tmpfs", 0, "size=16k,mode=0700") != 0)
        return; /* that is for root alone */
    run("mkdir -p -m 0700 %s/weir/control; head -c 100000 /dev/zero >%s/weir/full 2>/dev/null; test -s %s/weir/full", base, base, base);
    says(refuses(1, WEIR_NO_HOST_MEMORY), "No space left");
    ck_assert_uint_eq(all_claims(), 0);
    run("rm %s/weir/full", base);
    weir_reservation_end(claim(GIB(1)));
    ck_assert_int_eq(umount(base), 0);
}
END_TEST

START_TEST(place_that_is_too_long_is_named)
{
    char longer[SHARE_PATH_SIZE];
    snprintf(longer, sizeof longer, "%s/%0*d", base, 70 - (int)strlen(base), 0);
    run("mkdir -p %s", longer);
    setenv("WEIR_CONTROL_DIR", longer, 1);
    weir_close(w);
    w = fixture_open(POLICY);
    says(refuses(1, WEIR_INVALID), "WEIR_CONTROL_DIR is too long for claims");
}
END_TEST

/* Inherited claims ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(claim_is_known_by_its_mark_as_long_as_somebody_has_it)
{
    static const struct {
        const char *variable;
        uint64_t bytes;
    } cases[] = {
        { "0123456789abcdef", MIB(100) },  { "0123456789abcdef,0000000000000002", MIB(300) }, { "", 0 }, { "0123456789abcde", 0 },
        { "0123456789abcdef0123456789abcdef", MIB(100) }, { "nothing", 0 },
    };
    struct share_claims others;
    struct share_claim mine = { .bytes = MIB(100), .mark = UINT64_C(0x0123456789abcdef) }, other = { .bytes = MIB(200), .mark = 2 };
    uint64_t left;
    int fds[2];
    ck_assert_int_eq(share_ledger_open(GPU_0, NULL, &fds[0]), WEIR_OK);
    ck_assert_int_eq(share_ledger_open(GPU_0, NULL, &fds[1]), WEIR_OK);
    ck_assert_int_eq(share_ledger_claim(fds[0], &mine, GIB(1), GIB(1), 0, &others), 0);
    ck_assert_int_eq(share_ledger_claim(fds[1], &other, GIB(1), GIB(1), 0, &others), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("WEIR_RESERVATION", cases[i].variable, 1);
        weir_close(w);
        w = fixture_open(POLICY);
        ck_assert_msg(weir__claimed(&w->devices[0], &left) == cases[i].bytes && left == cases[i].bytes, "%s", cases[i].variable);
        ck_assert_uint_eq(weir__claimed(&w->devices[1], &left), 0);
    }
    setenv("WEIR_RESERVATION", "0123456789abcdef", 1);
    close(fds[0]);
    ck_assert_uint_eq(weir__claimed(&w->devices[0], &left), 0);
    close(fds[1]);
}
END_TEST

START_TEST(claim_within_an_inherited_one_waits_for_its_own_memory_alone)
{
    weir *other = fixture_open(POLICY);
    weir_stream *stream = fixture_stream(other, 0, NULL);
    void *ptr = fixture_malloc(stream, MIB(600)); /* another process under the same claim would have it */
    struct share_claims others;
    struct share_claim outer = { .bytes = MIB(600), .mark = 2 };
    int fd;
    ck_assert_int_eq(share_ledger_open(GPU_0, NULL, &fd), WEIR_OK);
    ck_assert_int_eq(share_ledger_claim(fd, &outer, GIB(1), GIB(1), 0, &others), 0);
    setenv("WEIR_RESERVATION", "0000000000000002", 1);
    weir_close(w);
    w = fixture_open(POLICY);
    weir_reservation_end(claim(MIB(400)));
    says(refuses(MIB(425), WEIR_TIMEOUT), "at most 424");
    share_ledger_close(fd);
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    fixture_synchronize(stream);
    weir_close(other);
}
END_TEST

/* _i: whether somebody else claims the room meanwhile. */
START_TEST(inherited_claim_is_whole_again_once_the_weir_whose_pool_slept_is_closed_if_there_is_room)
{
    struct share_claims others;
    struct share_claim outer = { .bytes = MIB(600), .mark = 2 }, another = { .bytes = MIB(700), .mark = 3 };
    weir_pool *pool;
    void *ptr;
    int fds[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(share_ledger_open(GPU_0, NULL, &fds[i]), WEIR_OK);
    ck_assert_int_eq(share_ledger_claim(fds[0], &outer, GIB(1), GIB(1), 0, &others), 0);
    setenv("WEIR_RESERVATION", "0000000000000002", 1);
    reopen(", backing: arena");
    ck_assert_int_eq(weir_pool_get(w, "main", 0, NULL, &pool), WEIR_OK);
    weir_stream *stream = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(weir_pool_malloc(pool, &ptr, MIB(300), weir_stream_handle(stream)), WEIR_OK);
    ck_assert_int_eq(weir_pool_sleep(pool, WEIR_SLEEP_DISCARD, LONG_MS, NULL, NULL), WEIR_OK);
    ck_assert_uint_eq(all_claims(), MIB(300));
    if (_i)
        ck_assert_int_eq(share_ledger_claim(fds[1], &another, GIB(1), GIB(1), 0, &others), 0);
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    fixture_synchronize(stream);
    weir_close(w);
    w = fixture_open(POLICY);
    ck_assert_uint_eq(all_claims(), _i ? MIB(1000) : MIB(600));
    for (int i = 0; i < 2; i++)
        share_ledger_close(fds[i]);
}
END_TEST

/* Makes a claim of 300 MiB, and puts an arena with a block of as much to sleep. */
static weir_reservation *claim_and_sleep(weir_pool **pool, weir_stream **stream, void **ptr)
{
    reopen(", backing: arena");
    ck_assert_int_eq(weir_pool_get(w, "main", 0, NULL, pool), WEIR_OK);
    *stream = fixture_stream(w, 0, NULL);
    weir_reservation *r = claim(MIB(300));
    ck_assert_int_eq(weir_pool_malloc(*pool, ptr, MIB(300), weir_stream_handle(*stream)), WEIR_OK);
    ck_assert_int_eq(weir_pool_sleep(*pool, WEIR_SLEEP_DISCARD, LONG_MS, NULL, NULL), WEIR_OK);
    return r;
}

/* The pool gave up a claim that has ended since, and a call of its wake fails: the claim that was made meanwhile is another one. */
START_TEST(wake_that_fails_gives_up_no_more_than_it_claimed)
{
    weir_pool *pool;
    weir_stream *stream;
    void *ptr;
    weir_reservation *r = claim_and_sleep(&pool, &stream, &ptr);
    ck_assert_uint_eq(all_claims(), 0);
    weir_reservation_end(r);
    r = claim(MIB(300));
    sim_fail("page_map", 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_pool_wake(pool, LONG_MS, NULL, NULL), WEIR_CUDA_ERROR);
    sim_fail("page_map", 0, 0);
    ck_assert_uint_eq(all_claims(), MIB(300));
    ck_assert_int_eq(weir_pool_wake(pool, LONG_MS, NULL, NULL), WEIR_OK);
    ck_assert_uint_eq(all_claims(), MIB(300));
    ck_assert_int_eq(weir_pool_sleep(pool, WEIR_SLEEP_DISCARD, LONG_MS, NULL, NULL), WEIR_OK);
    ck_assert_uint_eq(all_claims(), 0);
    ck_assert_int_eq(weir_pool_wake(pool, LONG_MS, NULL, NULL), WEIR_OK);
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    weir_reservation_end(r);
}
END_TEST

START_TEST(wake_that_a_reload_leaves_no_room_for_names_leave_free)
{
    char path[128];
    weir_error error = WEIR_ERROR_INIT;
    weir_pool *pool;
    weir_stream *stream;
    void *ptr;
    weir_reservation *r = claim_and_sleep(&pool, &stream, &ptr);
    snprintf(path, sizeof path, "%s/policy", base);
    run("echo '{ weir: 1, defaults: { pool: main }, pools: { main: { devices: [0], backing: arena, cache: off, small_below: 0, "
        "leave_free: 800MiB }, rest: { devices: [0] } } }' > %s", path);
    ck_assert_int_eq(weir_reload(w, path, NULL), WEIR_OK);
    ck_assert_int_eq(weir_pool_wake(pool, 1, &error, NULL), WEIR_OUT_OF_MEMORY);
    says(error.text, "0 B are claimed now, beside leave_free, 800 MiB");
    says(error.text, "lower leave_free");
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    weir_reservation_end(r);
}
END_TEST

START_TEST(what_another_pool_of_the_process_takes_stays_claimed)
{
    weir_pool *pool, *rest;
    void *ptr, *other;
    reopen(", backing: arena");
    ck_assert_int_eq(weir_pool_get(w, "main", 0, NULL, &pool), WEIR_OK);
    ck_assert_int_eq(weir_pool_get(w, "rest", 0, NULL, &rest), WEIR_OK);
    weir_stream *stream = fixture_stream(w, 0, NULL);
    weir_reservation *r = claim(MIB(700));
    ck_assert_int_eq(weir_pool_malloc(pool, &ptr, MIB(600), weir_stream_handle(stream)), WEIR_OK);
    ck_assert_int_eq(weir_pool_yield(pool, WEIR_SLEEP_DISCARD, NULL), WEIR_OK);
    ck_assert_int_eq(weir_pool_malloc(rest, &other, MIB(600), weir_stream_handle(stream)), WEIR_OK);
    ck_assert_uint_eq(fixture_figures(w, "main", 0).reserved, 0);
    ck_assert_uint_eq(all_claims(), MIB(700));
    ck_assert_int_eq(weir_free(w, other, weir_stream_handle(stream)), WEIR_OK);
    fixture_synchronize(stream);
    ck_assert_int_eq(weir_pool_wake(pool, LONG_MS, NULL, NULL), WEIR_OK);
    ck_assert_uint_eq(all_claims(), MIB(700));
    ck_assert_int_eq(weir_stream_free(stream, ptr), WEIR_OK);
    weir_reservation_end(r);
}
END_TEST

START_TEST(place_of_claims_is_the_same_with_and_without_a_runtime_directory)
{
    char expected[SHARE_PATH_SIZE], path[SHARE_PATH_SIZE];
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0)
        return; /* that is for root alone */
    weir_close(w);
    ck_assert_int_eq(mount("none", "/tmp", "tmpfs", 0, "mode=01777"), 0);
    ck_assert_int_eq(mkdir(base, 0700), 0);
    unsetenv("WEIR_CONTROL_DIR");
    snprintf(expected, sizeof expected, "/tmp/weir-%u/control/" GPU_0 ".claims", (unsigned)geteuid());
    for (int i = 0; i < 2; i++) {
        setenv("XDG_RUNTIME_DIR", base, 1);
        if (i)
            unsetenv("XDG_RUNTIME_DIR");
        w = fixture_open(POLICY);
        ck_assert_int_eq(share_claims_path(GPU_0, NULL, path), WEIR_OK);
        ck_assert_str_eq(path, expected);
        weir_reservation_end(claim(GIB(1)));
        share_claims_files(UINT64_MAX, &paths, &count);
        ck_assert_uint_eq(count, 1);
        ck_assert_str_eq(paths[0], expected);
        free(paths);
        weir_close(w);
    }
    ck_assert_int_eq(umount("/tmp"), 0);
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", base, 1), 0);
    w = fixture_open(POLICY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("claims");
    TCase *tcase = suite_case(suite, "claims", 0);
    tcase_add_checked_fixture(tcase, begin, end);
    suite_add(tcase, claims_of_one_process_add_up_to_the_device_and_no_further, refusal_names_who_claims_and_what_is_left,
              devices_have_claims_of_their_own, what_can_never_be_is_refused_at_once, leave_free_is_the_claimants_own,
              largest_leave_free_stays_beside_all_claims,
              closing_the_weir_ends_its_claims, own_memory_counts_as_part_of_the_claim, memory_of_others_is_waited_for_and_missed_in_words,
              free_memory_is_not_waited_for_where_the_system_may_have_more, driver_that_does_not_answer_is_told_of_and_leaves_no_claim,
              claim_waits_for_room_and_gets_it, kill_makes_room_at_once, child_of_a_fork_has_no_part_in_the_claim,
              program_that_is_started_has_no_part_in_the_claim, threads_that_claim_at_once_never_have_more_than_the_device,
              place_that_others_can_write_to_is_refused, garbage_counts_nothing_and_is_overwritten, file_that_was_cut_loses_what_is_cut_and_no_more,
              file_that_was_removed_is_made_anew, mode_of_the_file_is_this_users_alone_whatever_the_umask,
              process_that_stopped_while_it_claimed_is_told_of, claims_are_known_while_a_process_is_stopped_that_claims,
              child_of_a_fork_has_no_part_in_a_look_at_the_claims, slots_that_are_all_taken_are_told_of,
              claim_beyond_the_limit_of_files_is_refused_without_a_signal, full_disk_is_told_of_and_leaves_no_claim,
              place_that_is_too_long_is_named, claim_within_an_inherited_one_waits_for_its_own_memory_alone,
              place_of_claims_is_the_same_with_and_without_a_runtime_directory, claim_is_known_by_its_mark_as_long_as_somebody_has_it,
              wake_that_fails_gives_up_no_more_than_it_claimed, wake_that_a_reload_leaves_no_room_for_names_leave_free,
              what_another_pool_of_the_process_takes_stays_claimed);
    tcase_add_loop_test(tcase, inherited_claim_is_whole_again_once_the_weir_whose_pool_slept_is_closed_if_there_is_room, 0, 2);
    tcase_add_loop_test(tcase, what_is_no_file_is_refused_and_stays, 0, sizeof instead / sizeof instead[0]);
    tcase_add_loop_test(tcase, untrue_figures_count_nothing_though_the_slot_is_locked, 0, sizeof untrue / sizeof untrue[0]);
    if (geteuid() == 0)
        suite_add(tcase, place_and_file_of_another_user_are_refused, other_user_neither_claims_here_nor_is_told);
    return suite_run(suite);
}
